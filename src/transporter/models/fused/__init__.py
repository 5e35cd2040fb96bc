"""What a GPU does in one sweep instead of many: Triton kernels, each beside the autograd function that uses it.

Everything here has a plain twin that runs anywhere; only the modules that choose between the two import this room.
"""

import importlib.util
import os
import shutil
import sysconfig
from pathlib import Path

from torch import Tensor


def _missing() -> str | None:
    """What Triton lacks here, or None: besides itself it needs a C compiler and Python's headers, on first use."""
    found = importlib.util.find_spec("triton")
    if found is None or found.origin is None:  # a folder of that name is not the package
        return "Triton"
    if not (os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")):
        return "a C compiler"
    if not any((Path(sysconfig.get_path("include", s)) / "Python.h").exists() for s in sysconfig.get_scheme_names()):
        return "Python.h"
    return None


MISSING = _missing()
HAS_TRITON = MISSING is None


def fits(values: Tensor, channels: int) -> bool:
    """Whether the kernels can: they take channels in powers of two and count elements in 32 bits."""
    return (
        values.is_cuda and HAS_TRITON and 8 <= channels <= 512 and channels.bit_count() == 1 and values.numel() < 2**31
    )
