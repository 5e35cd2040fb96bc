"""What control asks of a GPU: quick products and room."""

import sys

import torch


def prepare(device: torch.device) -> None:
    """Products with ten bits of mantissa (TF32), several times as fast, are enough for values."""
    if device.type == "cuda":
        torch.cuda.set_device(device.index or 0)
        torch.set_float32_matmul_precision("high")


def room(device: torch.device, spare: int) -> int:
    """Bytes that are free on a GPU, `spare` left to the learners; what a CPU has is not asked."""
    return max(0, torch.cuda.mem_get_info(device)[0] - spare) if device.type == "cuda" else sys.maxsize
