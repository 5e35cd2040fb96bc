"""What control asks of a GPU: quick products, and that it fetches what games show by itself."""

import contextlib
import weakref
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from transporter.envs.film import Film, develop


def prepare(device: torch.device) -> None:
    """Products with ten bits of mantissa (TF32), several times as fast, are enough for values."""
    if device.type == "cuda":
        if device.index is not None:  # else it is the current one, which torchrun has chosen for this process
            torch.cuda.set_device(device)
        torch.set_float32_matmul_precision("high")


class Delivery:
    """Arrays, brought again and again to tensors that stay in place, by way of memory that a GPU can fetch from."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.there: list[Tensor] = []
        self._from: list[Tensor] = []
        self._films: list[Film | None] = []

    def __call__(self, arrays: Sequence[np.ndarray]) -> list[Tensor]:
        """The same tensors every time. It is not waited for, so film must not change before the GPU was heard from."""
        if not self.there:
            self._from = [self._reachable(array) for array in arrays]
            self.there = [torch.zeros_like(source, device=self.device) for source in self._from]
            self._films = [array if isinstance(array, Film) else None for array in arrays]
        for source, there, film, array in zip(self._from, self.there, self._films, arrays, strict=True):
            if film is None or not self._reaches(film):
                source.numpy()[:] = array
            elif array is not film:
                raise ValueError("another film than the one that was brought before")
            there.copy_(source, non_blocking=True)
        return self.there

    def pictures(self) -> list[Tensor]:
        """What was brought last, films developed."""
        both = zip(self.there, self._films, strict=True)
        return [t if film is None else develop(t) for t, film in both]

    def _reachable(self, array: np.ndarray) -> Tensor:
        on_gpu = self.device.type == "cuda"
        if isinstance(array, Film):
            if on_gpu and not array.registered:
                _register(array)
            if self._reaches(array):
                return torch.from_numpy(array)
        kind = torch.uint8 if array.dtype == np.uint8 else torch.float32
        return torch.zeros(array.shape, dtype=kind, pin_memory=on_gpu)

    def _reaches(self, film: Film) -> bool:
        """Whether the film is fetched from where it is; else by way of a copy, like all the rest."""
        return film.registered or self.device.type == "cpu"


def _register(film: Film) -> None:
    """Its memory belongs to processes that play, too: the GPU learns of it where it is, unless the system refuses."""
    runtime, address = torch.cuda.cudart(), film.ctypes.data
    if int(runtime.cudaHostRegister(address, film.nbytes, 0)) == 0:
        film.registered = True
        weakref.finalize(film, runtime.cudaHostUnregister, address).atexit = False
        return
    with contextlib.suppress(RuntimeError):  # an error that nobody asked about is told to the next who launches
        torch.zeros(1, device="cuda").add_(1)
