# SPDX-License-Identifier: Apache-2.0
"""The short way of a call: past PyTorch's dispatcher, when nothing that it sees to is asked for.

That is so for plain tensors of one device outside of tracing, torch.func, modes, autocast and the
profiler. Whatever is out of the ordinary makes call() return None, and the caller goes through the
operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

from . import autograd, execute, into, short
from .plans import DTYPES

try:
    # Each returns something true while a call must go through the dispatcher.
    _CHECKS: tuple[Callable[[], Any], ...] = (
        torch._C._len_torch_function_stack,
        torch._C._len_torch_dispatch_stack,
        torch._C._are_functorch_transforms_active,
        torch._C._get_tracing_state,
        torch._C._is_any_autocast_enabled,
        torch._C._autograd._profiler_enabled,
    )
    _is_available = hasattr(forward_ad, "_current_level")
except AttributeError:  # a PyTorch that has other names for them: the operator always works
    _is_available = False

if _is_available:
    short.set_up(_CHECKS, forward_ad)


def call(
    spatial_dims: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
    text: str,
    params: Sequence[Tensor],
    tensors: Sequence[Tensor],
) -> Tensor | None:
    """The result, or None if this is not a call for the short way."""
    arguments = (stride, padding, output_padding, groups, dilation)
    sizes = _sizes_if_plain(spatial_dims, x, weight, (bias, *params, *tensors), arguments)
    if sizes is None:
        return None
    if torch.is_grad_enabled() and wants_gradient((x, weight, bias, *params, *tensors)):
        y = autograd.run_direct(x, weight, bias, sizes, text, params, tensors)
    else:
        y = execute.run(x, weight, bias, sizes, text, params, tensors)
    if short.module is not None:
        found = execute.find(x, weight, bias, sizes, text, params, tensors)
        key = (spatial_dims, x, weight, bias, *arguments, text, params, tensors)
        short.remember(key, found, sizes)
    return y


def call_into(
    out: Tensor,
    spatial_dims: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
    text: str,
    params: Sequence[Tensor],
    tensors: Sequence[Tensor],
) -> bool:
    """Whether the result has been written into out; False if this is not a call for the short way.
    No gradient is wanted."""
    arguments = (stride, padding, output_padding, groups, dilation)
    sizes = _sizes_if_plain(spatial_dims, x, weight, (bias, *params, *tensors), arguments)
    if sizes is None or not _is_plain(out) or not into.is_apart(out, (x, *tensors)):
        return False
    into.check(out, None, x.dtype, x.device)
    try:
        execute.run_into(out, x, weight, bias, sizes, text, params, tensors)
    except execute.OtherShape as other:
        into.check(out, other.shape, x.dtype, x.device)
    finally:
        into.count_change(out)
    return True


def wants_gradient(tensors: Iterable[Tensor | None]) -> bool:
    """Whether one of them requires it."""
    for tensor in tensors:
        if tensor is not None and tensor.requires_grad:
            return True
    return False


def _sizes_if_plain(
    spatial_dims: int,
    x: Tensor,
    weight: Tensor,
    others: Sequence[Tensor | None],
    arguments: tuple[Any, ...],
) -> execute.Sizes | None:
    """The arguments as numbers for each axis, or None if this is not a call for the short way."""
    if (
        not _is_available
        or any([check() for check in _CHECKS])
        or forward_ad._current_level >= 0
        or not _is_plain(x)
        or not _is_plain(weight)
        or x.dtype not in DTYPES
        or x.dim() != spatial_dims + 2
        or weight.dim() != spatial_dims + 2
    ):
        return None
    device = x.get_device()  # -1: the CPU
    if weight.get_device() != device or x.dtype != weight.dtype:
        return None
    for tensor in others:
        if tensor is not None and (not _is_plain(tensor) or tensor.get_device() != device):
            return None
    stride, padding, output_padding, groups, dilation = arguments
    sizes = (
        _per_axis(stride, spatial_dims),
        _per_axis(padding, spatial_dims),
        _per_axis(output_padding, spatial_dims),
        groups,
        _per_axis(dilation, spatial_dims),
    )
    return None if None in sizes else sizes


def _per_axis(value: Any, spatial_dims: int) -> tuple[int, ...] | None:
    """One number for each axis; None if it is not quite what it should be."""
    if type(value) is int:
        return (value,) * spatial_dims
    if isinstance(value, (tuple, list)) and len(value) == spatial_dims:
        return tuple(value)
    return None


def _is_plain(tensor: Tensor) -> bool:
    """A tensor whose elements lie at data_ptr(), as shape and strides say."""
    kind = type(tensor)
    return (
        (kind is Tensor or kind is Parameter)
        and tensor.layout is torch.strided
        and (tensor.is_cpu or execute.is_nvidia(tensor))
        and not (tensor.is_neg() or tensor.is_nested or tensor._is_zerotensor())
    )
