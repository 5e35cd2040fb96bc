"""What a GPU does in one sweep instead of many: Triton kernels, each beside the autograd function that uses it.

Everything here has a plain twin that runs anywhere; only the modules that choose between the two import this room.
"""

import importlib.util

from torch import Tensor

HAS_TRITON = importlib.util.find_spec("triton") is not None


def fits(values: Tensor, channels: int) -> bool:
    """Whether the kernels can: they take channels in powers of two and count elements in 32 bits."""
    return (
        values.is_cuda and HAS_TRITON and 8 <= channels <= 512 and channels.bit_count() == 1 and values.numel() < 2**31
    )
