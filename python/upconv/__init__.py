# SPDX-License-Identifier: Apache-2.0
"""Transposed convolution (1-D, 2-D, 3-D) fused with what follows it.

    import upconv
    y = upconv.conv_transpose3d(x, weight, bias, stride=2, epilogue=["relu", ("max_pool", 2)])

x may be a NumPy array, any object on the CPU that speaks DLPack, or a PyTorch tensor. PyTorch is
optional and is not imported before it is needed. docs/PYTHON.md is the manual.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
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
from ._tuning import tune

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
    "frozen",
    "fuse",
    "nn",
    "problem_text",
    "tune",
]

Size = int | Sequence[int]
Operators = str | Sequence[Any] | None


def _conv_transpose(
    spatial_dims: int,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Size,
    padding: Size,
    output_padding: Size,
    groups: int,
    dilation: Size,
    epilogue: Operators,
    out: Any,
) -> Any:
    functional = sys.modules.get("upconv._torch.functional")
    if functional is None and isinstance(x, getattr(sys.modules.get("torch"), "Tensor", ())):
        functional = importlib.import_module("upconv._torch.functional")
    if functional is not None and isinstance(x, functional.Tensor):
        return functional.conv_transpose(
            spatial_dims,
            x,
            weight,
            bias,
            stride,
            padding,
            output_padding,
            groups,
            dilation,
            epilogue,
            out,
        )
    from . import _numpy

    return _numpy.conv_transpose(
        spatial_dims,
        x,
        weight,
        bias,
        stride,
        padding,
        output_padding,
        groups,
        dilation,
        epilogue,
        out=out,
    )


def conv_transpose1d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
    epilogue: Operators = (),
    *,
    out: Any = None,
) -> Any:
    """As conv_transpose3d, with one spatial axis."""
    return _conv_transpose(
        1,
        x,
        weight,
        bias,
        stride,
        padding,
        output_padding,
        groups,
        dilation,
        epilogue,
        out,
    )


def conv_transpose2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
    epilogue: Operators = (),
    *,
    out: Any = None,
) -> Any:
    """As conv_transpose3d, with two spatial axes."""
    return _conv_transpose(
        2,
        x,
        weight,
        bias,
        stride,
        padding,
        output_padding,
        groups,
        dilation,
        epilogue,
        out,
    )


def conv_transpose3d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
    epilogue: Operators = (),
    *,
    out: Any = None,
) -> Any:
    """The transposed convolution of x, and what follows it, in one pass.

    x: [N, C, D, H, W], or [C, D, H, W]; weight: [C, C_out / groups, kernel...]; bias: [C_out]. The
    other arguments are those of torch.nn.functional.conv_transpose3d. epilogue: the operators that
    follow, such as ["relu", ("max_pool", 2), ("add", skip)]; docs/PYTHON.md has the format.

    With PyTorch tensors the result is one, on the same device. Otherwise x is a NumPy array, or an
    object on the CPU with __dlpack__, of float32, float16 or bfloat16 (ml_dtypes), and the result
    is a NumPy array of x's type. out, if given, receives the result and is returned: an array or a
    tensor of the right shape, also a slice of a larger one. With tensors it has the result's type,
    and no gradients are recorded."""
    return _conv_transpose(
        3,
        x,
        weight,
        bias,
        stride,
        padding,
        output_padding,
        groups,
        dilation,
        epilogue,
        out,
    )


# Attributes that need PyTorch: name -> (module, attribute of it, or None for the module itself).
_LAZY = {
    "nn": ("upconv.nn", None),
    "frozen": ("upconv._torch", "frozen"),
    "fuse": ("upconv._torch_fuse", "fuse"),
    "explain": ("upconv._torch_fuse", "explain"),
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
