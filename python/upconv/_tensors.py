# SPDX-License-Identifier: Apache-2.0
"""Descriptions of memory, and the C structures that are filled from them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from ctypes import c_int64
from typing import Any, NamedTuple, Union

from . import _library as c
from ._errors import InvalidArgumentError

F32, F16, BF16 = 0, 1, 2
DTYPE_NAMES = ("f32", "f16", "bf16")
DTYPE_SIZES = (4, 2, 2)
LAYOUT_NAMES = ("ncdhw", "ndhwc")
MATH_NAMES = ("ieee", "tf32")
ALIGNMENT = 64  # of packed buffers and workspaces, in bytes


class Tensor(NamedTuple):
    """A view of memory: its address (0 or None: no memory), F32, F16 or BF16, shape, strides in
    elements, and, for sub-volumes, the coordinates of its first element in the whole tensor."""

    pointer: int | None
    dtype: int
    shape: Sequence[int]
    stride: Sequence[int]
    offset: Sequence[int] = ()


TensorLike = Union[Tensor, tuple[Any, ...]]


def dense_strides(shape: Sequence[int], layout: str = "ncdhw") -> tuple[int, ...]:
    """Strides in elements of a dense tensor. shape is in the order N, C, spatial, also for "ndhwc",
    channels last."""
    order = list(range(len(shape)))
    if layout == "ndhwc" and len(shape) >= 3:
        order = [0, *order[2:], 1]
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(int(shape[axis]), 1)
    return tuple(strides)


def fill(target: c.CTensor, tensor: TensorLike | None) -> None:
    """Writes tensor into an empty C structure; None leaves it empty: no data."""
    if tensor is None:
        return
    address, dtype, shape, stride, *rest = tensor
    rank = len(shape)
    if rank > c.MAX_RANK or len(stride) != rank:
        raise InvalidArgumentError(
            f"tensor with shape {tuple(shape)} and strides {tuple(stride)}: both must have the"
            f" same length, at most {c.MAX_RANK}"
        )
    target.data = address or None
    target.dtype = dtype
    target.rank = rank
    target.shape[:rank] = list(shape)
    target.stride[:rank] = list(stride)
    if rest and rest[0]:
        target.offset[:rank] = list(rest[0])


def tensor_array(tensors: Sequence[TensorLike]) -> ctypes.Array[c.CTensor] | None:
    if not tensors:
        return None
    array = (c.CTensor * len(tensors))()
    for target, tensor in zip(array, tensors):
        fill(target, tensor)
    return array


def parameters_of(
    weight: TensorLike, bias: TensorLike | None, params: ctypes.Array[c.CTensor] | None
) -> c.CParameters:
    result = c.CParameters()
    fill(result.weight, weight)
    fill(result.bias, bias)
    if params is not None:
        result.params = params  # ctypes keeps the array alive with the structure
        result.param_count = len(params)
    return result


def arguments_of(
    x: TensorLike,
    y: TensorLike | None,
    tensors: ctypes.Array[c.CTensor] | None,
    x_shape: Sequence[int] | None = None,
) -> c.CArguments:
    result = c.CArguments()
    fill(result.x, x)
    fill(result.y, y)
    if tensors is not None:
        result.tensors = tensors
        result.tensor_count = len(tensors)
    if x_shape is not None:
        result.x_shape = extents(x_shape, len(x[2]), "x_shape")
    return result


def extents(shape: Iterable[int], rank: int, name: str) -> ctypes.Array[c_int64]:
    values = [int(extent) for extent in shape]
    if len(values) != rank:
        raise InvalidArgumentError(f"{name} = {tuple(values)}: must have {rank} entries")
    return (c_int64 * rank)(*values)
