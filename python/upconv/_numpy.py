# SPDX-License-Identifier: Apache-2.0
"""Transposed convolution of NumPy arrays, and of anything on the CPU that speaks DLPack."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from . import _epilogue
from ._core import (
    ALIGNMENT,
    DTYPE_NAMES,
    InvalidArgumentError,
    Plan,
    Tensor,
    UnsupportedError,
    context,
    dense_strides,
    problem_text,
)
from ._tuning import on_tuning

_DTYPES = {"float32": 0, "float16": 1, "bfloat16": 2}  # bfloat16 is that of ml_dtypes
_DLPACK_HOST = (1, 3)  # kDLCPU, kDLCUDAHost
_TooHardError = getattr(np, "exceptions", np).TooHardError  # NumPy moved it in 1.25
_MAX_WORK = 100_000  # of deciding whether two arrays overlap; beyond it they are taken to


# ---------------------------------------------------------------- arrays


_CODES = {np.dtype(np.float32): 0, np.dtype(np.float16): 1}  # found sooner than by name


def _dtype(array: np.ndarray, name: str) -> int:
    code = _CODES.get(array.dtype)
    if code is None:
        code = _DTYPES.get(array.dtype.name)
    if code is None:
        raise UnsupportedError(
            f"{name} has dtype {array.dtype}: must be float32, float16 or bfloat16 (of ml_dtypes)"
        )
    return code


def _import(value: Any, name: str) -> np.ndarray:
    if hasattr(value, "__dlpack__"):
        device = value.__dlpack_device__()
        if device[0] not in _DLPACK_HOST:
            raise UnsupportedError(
                f"{name} is on DLPack device {tuple(int(part) for part in device)}: must be on the"
                " CPU; on a GPU pass PyTorch tensors"
            )
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError) as error:
            if hasattr(value, "__array__"):  # bfloat16, which NumPy's DLPack does not know
                return np.asarray(value)
            raise UnsupportedError(
                f"{name}: NumPy cannot take this {type(value).__name__}: {error}"
            ) from error
    raise TypeError(
        f"{name} is {type(value).__name__}: must be a NumPy array, or an object with __dlpack__"
    )


def _array(value: Any, name: str) -> np.ndarray:
    """value as an array that the library can read: of a known type, aligned, in native order."""
    array = value if isinstance(value, np.ndarray) else _import(value, name)
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array: fill it first")
    _dtype(array, name)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array if _is_addressable(array) else array.copy()


def _is_addressable(array: np.ndarray) -> bool:
    """Whether elements lie where they can be counted in elements."""
    size = array.itemsize
    return array.flags.aligned and all(step % size == 0 for step in array.strides)


def _tensor(array: np.ndarray, name: str) -> Tensor:
    size = array.itemsize
    strides: Sequence[int] = [step // size for step in array.strides]
    if array.size == 0:
        strides = dense_strides(array.shape)  # NumPy's may be 0
    return Tensor(array.ctypes.data, _dtype(array, name), array.shape, strides)


def _layout(array: np.ndarray) -> str:
    channels_last = array.strides[1] == array.itemsize != array.strides[-1] and array.shape[1] > 1
    return "ndhwc" if channels_last else "ncdhw"


def _buffer(size: int) -> tuple[np.ndarray, int]:
    """Memory, and the first address in it that is aligned as the library wants it."""
    memory = np.empty(size + ALIGNMENT, np.uint8)
    return memory, -(-memory.ctypes.data // ALIGNMENT) * ALIGNMENT


def _overlap(a: np.ndarray, b: np.ndarray) -> bool:
    if not np.may_share_memory(a, b):
        return False
    try:
        return np.shares_memory(a, b, max_work=_MAX_WORK)  # type: ignore[arg-type]
    except _TooHardError:
        return True


# ---------------------------------------------------------------- arguments


def per_axis(value: Any, spatial_dims: int, name: str, lowest: int) -> tuple[int, ...]:
    """One integer for all axes, or one for each, as PyTorch takes them."""
    if type(value) is int and value >= lowest:
        return (value,) * spatial_dims
    parts = tuple(value) if isinstance(value, Sequence) else (value,)
    if isinstance(value, str) or len(parts) not in (1, spatial_dims):
        raise InvalidArgumentError(
            f"{name} = {value!r}: must be one integer or {spatial_dims} of them"
        )
    for part in parts:
        if isinstance(part, bool) or not hasattr(part, "__index__"):
            raise TypeError(f"{name} = {value!r}: must be one integer or {spatial_dims} of them")
        if part < lowest:
            raise InvalidArgumentError(f"{name} = {value!r}: must be at least {lowest}")
    parts = tuple(part.__index__() for part in parts)
    return parts * spatial_dims if len(parts) == 1 else parts


def _check_shapes(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, groups: int, spatial_dims: int
) -> None:
    """x is batched here."""
    if weight.ndim != spatial_dims + 2:
        raise InvalidArgumentError(
            f"weight has shape {weight.shape}: must have {spatial_dims + 2} axes"
            " [in_channels, out_channels / groups, kernel...]"
        )
    if x.shape[1] != weight.shape[0]:
        raise InvalidArgumentError(
            f"x has {x.shape[1]} channels, but weight, with shape {weight.shape}, is for"
            f" {weight.shape[0]}"
        )
    if weight.dtype != x.dtype:
        raise InvalidArgumentError(f"weight is {weight.dtype}, x is {x.dtype}: must be the same")
    if bias is None:
        return
    out_channels = weight.shape[1] * groups
    if bias.shape != (out_channels,):
        raise InvalidArgumentError(f"bias has shape {bias.shape}: must have ({out_channels},)")
    if bias.dtype != x.dtype:
        raise InvalidArgumentError(f"bias is {bias.dtype}, x is {x.dtype}: must be the same")


def _batched(x: np.ndarray, spatial_dims: int) -> tuple[np.ndarray, bool]:
    if x.ndim == spatial_dims + 1:
        return x[None], False
    if x.ndim != spatial_dims + 2:
        raise InvalidArgumentError(
            f"x has shape {x.shape}: must have {spatial_dims + 2} axes, or {spatial_dims + 1}"
            " without a batch"
        )
    return x, True


def _output_type(out: Any) -> int:
    """The type of out, which must be an array that can be written."""
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out is {type(out).__name__}: must be a NumPy array")
    if not out.flags.writeable:
        raise InvalidArgumentError("out is read-only")
    return _dtype(out, "out")


def _output(out: np.ndarray, shape: tuple[int, ...], batched: bool) -> np.ndarray:
    """out with a batch axis."""
    wanted = shape if batched else shape[1:]
    if out.shape != wanted:
        raise InvalidArgumentError(f"out has shape {out.shape}: must have {wanted}")
    return out if batched else out[None]


@lru_cache(maxsize=256)
def _plan(text: str) -> Plan:
    return Plan(context("cpu"), text)


on_tuning(_plan.cache_clear)


# ---------------------------------------------------------------- the function


def conv_transpose(
    spatial_dims: int,
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
    epilogue: str | Sequence[Any] | None = (),
    *,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """See upconv.conv_transpose3d."""
    source, batched = _batched(_array(x, "x"), spatial_dims)
    kernel = _array(weight, "weight")
    offsets = None if bias is None else _array(bias, "bias")
    group_count = per_axis(groups, 1, "groups", 1)[0]
    _check_shapes(source, kernel, offsets, group_count, spatial_dims)
    tail = _epilogue.parse(
        epilogue,
        spatial_dims,
        lambda array: DTYPE_NAMES[_dtype(_array(array, "array"), "array")],
    )
    type_name = DTYPE_NAMES[_dtype(source, "x")]
    text = problem_text(
        batch=source.shape[0],
        in_channels=source.shape[1],
        out_channels=kernel.shape[1] * group_count,
        groups=group_count,
        in_size=source.shape[2:],
        kernel=kernel.shape[2:],
        stride=per_axis(stride, spatial_dims, "stride", 1),
        dilation=per_axis(dilation, spatial_dims, "dilation", 1),
        padding=per_axis(padding, spatial_dims, "padding", 0),
        output_padding=per_axis(output_padding, spatial_dims, "output_padding", 0),
        bias=offsets is not None,
        x=type_name,
        w=type_name,
        y=type_name if out is None else DTYPE_NAMES[_output_type(out)],
        x_layout=_layout(source),
        y_layout="ncdhw",
        epilogue=tail.text,
    )
    plan = _plan(text)
    shape = plan.output_shape(source.shape)
    y = np.empty(shape, source.dtype) if out is None else _output(out, shape, batched)
    _run(plan, source, kernel, offsets, tail, y)
    if out is not None:
        return out
    return y if batched else y[0]


def _run(
    plan: Plan,
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    tail: _epilogue.Epilogue,
    y: np.ndarray,
) -> None:
    params = [_array(param, "parameter").reshape(-1) for param in tail.params]
    tensors = [_array(tensor, "tensor") for tensor in tail.tensors]
    tensors = [t.reshape(_epilogue.full_shape(t.shape, x.ndim - 2)) for t in tensors]
    packed_memory, packed = _buffer(plan.packed_size)
    plan.pack(
        _tensor(weight, "weight"),
        None if bias is None else _tensor(bias, "bias"),
        [_tensor(param, "parameter") for param in params],
        packed,
    )
    # An output that overlaps what is read, or that cannot be addressed, is written at the end.
    aside = not (_is_addressable(y) and y.dtype.isnative)
    aside = aside or any(_overlap(y, read) for read in (x, *tensors))
    target = np.empty(y.shape, y.dtype.newbyteorder("=")) if aside else y
    size = plan.workspace_size(x.shape)
    workspace_memory, workspace = _buffer(size)
    plan.execute(
        _tensor(x, "x"),
        _tensor(target, "out"),
        [_tensor(tensor, "tensor") for tensor in tensors],
        packed,
        workspace,
        size,
    )
    del packed_memory, workspace_memory
    if aside:
        y[...] = target
