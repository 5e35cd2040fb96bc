"""What control asks of a GPU: quick products, and that it fetches what games show by itself."""

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
        self._film: list[bool] = []

    def __call__(self, arrays: Sequence[np.ndarray]) -> list[Tensor]:
        """The same tensors every time. It is not waited for, so film must not change before the GPU was heard from."""
        if not self.there:
            self._from = [self._reachable(array) for array in arrays]
            self.there = [torch.zeros_like(source, device=self.device) for source in self._from]
            self._film = [isinstance(array, Film) for array in arrays]
        for source, there, film, array in zip(self._from, self.there, self._film, arrays, strict=True):
            if not film:
                source.numpy()[:] = array
            there.copy_(source, non_blocking=True)
        return self.there

    def pictures(self) -> list[Tensor]:
        """What was brought last, films developed."""
        return [develop(t) if film else t for t, film in zip(self.there, self._film, strict=True)]

    def _reachable(self, array: np.ndarray) -> Tensor:
        on_gpu = self.device.type == "cuda"
        if isinstance(array, Film):
            if on_gpu and not array.registered:
                _register(array)
            return torch.from_numpy(array)
        kind = torch.uint8 if array.dtype == np.uint8 else torch.float32
        return torch.zeros(array.shape, dtype=kind, pin_memory=on_gpu)


def _register(film: Film) -> None:
    """Its memory belongs to processes that play, too: the GPU learns of it where it is."""
    runtime, address = torch.cuda.cudart(), film.ctypes.data
    torch.cuda.check_error(runtime.cudaHostRegister(address, film.nbytes, 0))
    film.registered = True
    weakref.finalize(film, runtime.cudaHostUnregister, address).atexit = False
