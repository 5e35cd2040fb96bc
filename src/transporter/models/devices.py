"""What a device has: a precision to compute in, and room."""

import sys
from typing import Literal

import torch

# Of layers; coordinates, heatmaps and losses are fp32 whatever it is. fp32: convolutions in TF32 on a GPU, as PyTorch
# has it.
Precision = Literal["auto", "fp32", "bf16"]


def is_half(precision: Precision, device: torch.device) -> bool:
    """Auto: bf16 on a GPU that has it; older ones only act it out, slowly."""
    if precision != "auto":
        return precision == "bf16"
    return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)


def room(device: torch.device, spare: int) -> int:
    """Bytes that are free on a GPU, `spare` left to the learners; what a CPU has is not asked."""
    return max(0, torch.cuda.mem_get_info(device)[0] - spare) if device.type == "cuda" else sys.maxsize
