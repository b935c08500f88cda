# SPDX-License-Identifier: Apache-2.0
"""Transposed convolution (1-D, 2-D, 3-D) fused with what follows it.

    import upconv
    y = upconv.conv_transpose3d(x, weight, bias, stride=2, epilogue=["relu", ("max_pool", 2)])

x may be a NumPy array, any object on the CPU that speaks DLPack, or a PyTorch tensor. PyTorch is
optional and is not imported before it is needed. docs/PYTHON.md is the manual.
"""

from __future__ import annotations

import importlib
from typing import Any

from . import _library
from ._core import (
    Context,
    DeviceError,
    InvalidArgumentError,
    OutOfMemoryError,
    Plan,
    Problem,
    SizeOverflowError,
    UnsupportedError,
    UpconvError,
    context,
    problem_text,
)

__version__ = _library.VERSION

__all__ = [
    "Context",
    "DeviceError",
    "InvalidArgumentError",
    "OutOfMemoryError",
    "Plan",
    "Problem",
    "SizeOverflowError",
    "UnsupportedError",
    "UpconvError",
    "__version__",
    "context",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "explain",
    "fuse",
    "nn",
    "problem_text",
]

# Attributes that need PyTorch: name -> (module, attribute of it, or None for the module itself).
_LAZY = {
    "nn": ("upconv.nn", None),
    "fuse": ("upconv.fuse", "fuse"),
    "explain": ("upconv.fuse", "explain"),
}


def __getattr__(name: str) -> Any:
    found = _LAZY.get(name)
    if found is None:
        raise AttributeError(f"module 'upconv' has no attribute '{name}'")
    module = importlib.import_module(found[0])
    value = module if found[1] is None else getattr(module, found[1])
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_LAZY))
