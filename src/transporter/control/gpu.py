"""What control asks of a GPU: quick products."""

import torch


def prepare(device: torch.device) -> None:
    """Products with ten bits of mantissa (TF32), several times as fast, are enough for values."""
    if device.type == "cuda":
        if device.index is not None:  # else it is the current one, which torchrun has chosen for this process
            torch.cuda.set_device(device)
        torch.set_float32_matmul_precision("high")
