# SPDX-License-Identifier: Apache-2.0
"""The short way of a call: past PyTorch's dispatcher, when nothing that it sees to is asked for.

That is so for plain tensors of one device outside of tracing, torch.func, modes, autocast and the
profiler. Whatever is out of the ordinary makes call() return None, and the caller goes through the
operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

from . import autograd, execute
from .plans import DTYPES

try:
    _functions = torch._C._len_torch_function_stack
    _modes = torch._C._len_torch_dispatch_stack
    _transforms = torch._C._are_functorch_transforms_active
    _tracing = torch._C._get_tracing_state
    _autocast = torch._C._is_any_autocast_enabled
    _profiler = torch._C._autograd._profiler_enabled
    _is_available = hasattr(forward_ad, "_current_level")
except AttributeError:  # a PyTorch that has other names for them: the operator always works
    _is_available = False


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
    if (
        not _is_available
        or _functions()
        or _modes()
        or _transforms()
        or _tracing() is not None
        or _autocast()
        or _profiler()
        or forward_ad._current_level >= 0
        or not _is_plain(x)
        or not _is_plain(weight)
        or x.dtype not in DTYPES
        or x.dim() != spatial_dims + 2
        or weight.dim() != spatial_dims + 2
    ):
        return None
    wants_grad = x.requires_grad or weight.requires_grad
    is_cpu = x.is_cpu
    if is_cpu is not weight.is_cpu or x.dtype != weight.dtype:
        return None
    for tensor in (bias, *params, *tensors):
        if tensor is not None:
            if not _is_plain(tensor) or tensor.is_cpu is not is_cpu:
                return None
            wants_grad = wants_grad or tensor.requires_grad
    if type(stride) is int:
        stride = (stride,) * spatial_dims
    if type(padding) is int:
        padding = (padding,) * spatial_dims
    if type(output_padding) is int:
        output_padding = (output_padding,) * spatial_dims
    if type(dilation) is int:
        dilation = (dilation,) * spatial_dims
    if not (
        type(stride) is type(padding) is type(output_padding) is type(dilation) is tuple
        and len(stride) == len(padding) == len(output_padding) == len(dilation) == spatial_dims
    ):
        return None
    sizes = (stride, padding, output_padding, groups, dilation)
    if wants_grad and torch.is_grad_enabled():
        return autograd.run_direct(x, weight, bias, sizes, text, params, tensors)
    return execute.run(x, weight, bias, sizes, text, params, tensors)


def _is_plain(tensor: Tensor) -> bool:
    """A tensor whose elements lie at data_ptr(), as shape and strides say."""
    kind = type(tensor)
    return (
        (kind is Tensor or kind is Parameter)
        and tensor.layout is torch.strided
        and (tensor.is_cpu or tensor.is_cuda)
        and not (tensor.is_neg() or tensor.is_nested or tensor._is_zerotensor())
    )
