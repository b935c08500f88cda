# SPDX-License-Identifier: Apache-2.0
"""conv_transpose1d, conv_transpose2d, conv_transpose3d: PyTorch's functions, with what follows in
the same pass.

The arguments, their defaults and their errors are those of torch.nn.functional.conv_transpose1d, 2d
and 3d. epilogue says what follows, in order: see program.py. The result has the type and the device
of the input and, where PyTorch has one for its rank, the input's memory format.

float32, float16 and bfloat16 on the CPU and on CUDA run in upconv; any other type or device is
given to PyTorch's own operators, one by one. out= receives the result, without gradients, as that
of PyTorch's functions does: see into.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from . import fast, into, short
from .operator import conv_transpose as _operator
from .program import NOTHING, Epilogue, build

Size = int | Sequence[int]

# Past the dispatcher, where a call allows it, in C; fast.call does it in Python.
_short = None if short.module is None else short.module.call


def conv_transpose1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
    epilogue: Epilogue = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """torch.nn.functional.conv_transpose1d, then epilogue.

    x is [N, C_in, W] or [C_in, W], weight [C_in, C_out / groups, K].
    """
    return conv_transpose(
        1, x, weight, bias, stride, padding, output_padding, groups, dilation, epilogue, out
    )


def conv_transpose2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
    epilogue: Epilogue = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """torch.nn.functional.conv_transpose2d, then epilogue.

    x is [N, C_in, H, W] or [C_in, H, W], weight [C_in, C_out / groups, KH, KW].
    """
    return conv_transpose(
        2, x, weight, bias, stride, padding, output_padding, groups, dilation, epilogue, out
    )


def conv_transpose3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
    epilogue: Epilogue = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """torch.nn.functional.conv_transpose3d, then epilogue.

    x is [N, C_in, D, H, W] or [C_in, D, H, W], weight [C_in, C_out / groups, KD, KH, KW].

        y = upconv.conv_transpose3d(x, w, b, stride=2, epilogue=["leaky_relu 0.2", ("mul", m),
        ("max_pool", 2)])
    """
    return conv_transpose(
        3, x, weight, bias, stride, padding, output_padding, groups, dilation, epilogue, out
    )


def conv_transpose(
    spatial_dims: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Size,
    padding: Size,
    output_padding: Size,
    groups: int,
    dilation: Size,
    epilogue: Epilogue,
    out: Tensor | None = None,
) -> Tensor:
    """conv_transpose1d, 2d or 3d, as spatial_dims says."""
    text, params, tensors = build(spatial_dims, epilogue) if epilogue else NOTHING
    if out is not None:
        sizes = (stride, padding, output_padding, groups, dilation)
        return _write_into(out, spatial_dims, x, weight, bias, sizes, text, params, tensors)
    if _short is not None and not is_dynamo_compiling():
        y = _short(
            spatial_dims,
            x,
            weight,
            bias,
            stride,
            padding,
            output_padding,
            groups,
            dilation,
            text,
            params,
            tensors,
        )
        if y is not None:
            return y
    return call(
        spatial_dims,
        x,
        weight,
        bias,
        stride,
        padding,
        output_padding,
        groups,
        dilation,
        text,
        params,
        tensors,
    )


def call(
    spatial_dims: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Size,
    padding: Size,
    output_padding: Size,
    groups: int,
    dilation: Size,
    text: str,
    params: list[Tensor],
    tensors: list[Tensor],
) -> Tensor:
    """The same with the epilogue as text: its parameters and extra tensors in the order of their
    declaration."""
    if not torch.compiler.is_compiling():
        y = fast.call(
            spatial_dims,
            x,
            weight,
            bias,
            stride,
            padding,
            output_padding,
            groups,
            dilation,
            text,
            params,
            tensors,
        )
        if y is not None:
            return y
    sizes = [
        _per_axis(value, spatial_dims, name)
        for value, name in (
            (stride, "stride"),
            (padding, "padding"),
            (output_padding, "output_padding"),
            (dilation, "dilation"),
        )
    ]
    unbatched = x.dim() == spatial_dims + 1
    x = x.unsqueeze(0) if unbatched else x
    if x.dim() != spatial_dims + 2:
        raise RuntimeError(
            f"Expected {spatial_dims + 1}D (unbatched) or {spatial_dims + 2}D (batched) input to "
            f"conv_transpose{spatial_dims}d, but got input of size: {list(x.shape)}"
        )
    y = _operator(
        x, weight, bias, sizes[0], sizes[1], sizes[2], groups, sizes[3], text, params, tensors
    )
    return y.squeeze(0) if unbatched else y


def _write_into(
    out: Tensor,
    spatial_dims: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    sizes: tuple[Any, ...],
    text: str,
    params: list[Tensor],
    tensors: list[Tensor],
) -> Tensor:
    """out with the result in it. A compiler sees the operator and a copy."""
    into.check_kind(out)
    inputs = (out, x, weight, bias, *params, *tensors)
    if torch.is_grad_enabled() and fast.wants_gradient(inputs):
        raise RuntimeError(
            f"conv_transpose{spatial_dims}d: out= does not support automatic differentiation, but"
            " one of the arguments requires grad: call it under torch.no_grad()"
        )
    arguments = (spatial_dims, x, weight, bias, *sizes, text, params, tensors)
    if not torch.compiler.is_compiling() and fast.call_into(out, *arguments):
        return out
    y = call(*arguments)
    into.check(out, y.shape, y.dtype, y.device)
    return out.copy_(y)


def _per_axis(value: Size, spatial_dims: int, name: str) -> list[int]:
    """One number for each axis. Like PyTorch, takes a list of one for all."""
    if isinstance(value, int) or hasattr(value, "__index__"):  # also NumPy's
        return [int(value)] * spatial_dims
    sizes = list(value)
    if len(sizes) == 1:
        return sizes * spatial_dims
    if len(sizes) != spatial_dims:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {spatial_dims} values to"
            f" match the convolution dimensions, but got {name}={sizes}"
        )
    return sizes
