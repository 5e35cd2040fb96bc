"""In which type layers compute; coordinates, heatmaps and losses are fp32 whatever it is."""

from typing import Literal

import torch

Precision = Literal["auto", "fp32", "bf16"]  # fp32: convolutions in TF32 on a GPU, as PyTorch has it


def is_half(precision: Precision, device: torch.device) -> bool:
    """Auto: bf16 on a GPU that has it; older ones only act it out, slowly."""
    if precision != "auto":
        return precision == "bf16"
    return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
