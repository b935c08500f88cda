# SPDX-License-Identifier: Apache-2.0
"""torch.ops.upconv.conv_transpose: the schema, and a kernel for each of PyTorch's dispatch keys
that matters.

    CPU, CUDA      the library; PyTorch's operators for types that the library does not take
    other devices  PyTorch's operators
    Meta, fake     shapes, types and strides of what those return
    Autograd       autograd.py
    Autocast       casts x, weight and bias, as for PyTorch's conv_transpose; operands of the
                   epilogue keep their types
    vmap           refused
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import autograd, execute

_SCHEMA = (
    "conv_transpose(Tensor x, Tensor weight, Tensor? bias, int[] stride, int[] padding,"
    " int[] output_padding, int groups, int[] dilation, str epilogue, Tensor[] params,"
    " Tensor[] tensors) -> Tensor"
)

_library = torch.library.Library("upconv", "DEF")
# The result's layout follows that of x, so a compiler must pass x as it was when the shapes were
# found.
_STRIDES = getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)
_library.define(_SCHEMA, tags=(torch.Tag.pt2_compliant_tag, _STRIDES))

conv_transpose = torch.ops.upconv.conv_transpose.default


def _split(rest: tuple[Any, ...]) -> tuple[execute.Sizes, str, list[Tensor], list[Tensor]]:
    """What follows x, weight and bias in the schema, as the functions of execute.py take it."""
    stride, padding, output_padding, groups, dilation, text, params, tensors = rest
    sizes = (tuple(stride), tuple(padding), tuple(output_padding), groups, tuple(dilation))
    return sizes, text, params, tensors


def _native(x: Tensor, weight: Tensor, bias: Tensor | None, *rest: Any) -> Tensor:
    sizes, text, params, tensors = _split(rest)
    if not execute.takes(x, weight):
        return execute.fall_back(x, weight, bias, sizes, text, params, tensors)
    operands = execute.on_one_device(x, weight, bias, sizes, params, tensors)
    return execute.run(x, weight, bias, sizes, text, *operands)


def _foreign(x: Tensor, weight: Tensor, bias: Tensor | None, *rest: Any) -> Tensor:
    return execute.fall_back(x, weight, bias, *_split(rest))


def _fake(x: Tensor, weight: Tensor, bias: Tensor | None, *rest: Any) -> Tensor:
    y = execute.by_torch(x, weight, bias, *_split(rest))
    return torch.empty_like(y, dtype=x.dtype, memory_format=execute.memory_format(x))


def _autocast(device: str, key: Any) -> Any:
    excluded = torch._C.DispatchKeySet(key)

    def cast(tensor: Tensor | None, dtype: torch.dtype) -> Tensor | None:
        eligible = (
            tensor is not None
            and tensor.device.type == device
            and tensor.is_floating_point()
            and tensor.dtype != torch.float64
        )
        return tensor.to(dtype) if eligible else tensor

    def kernel(x: Tensor, weight: Tensor, bias: Tensor | None, *rest: Any) -> Tensor:
        dtype = torch.get_autocast_dtype(device)
        with torch._C._ExcludeDispatchKeyGuard(excluded):
            return conv_transpose(cast(x, dtype), cast(weight, dtype), cast(bias, dtype), *rest)

    return kernel


def _refuse_vmap(*arguments: Any) -> Tensor:
    raise NotImplementedError(
        "upconv.conv_transpose: torch.vmap is not supported; put the mapped axis into the batch"
    )


_NAME = "conv_transpose"
_library.impl(_NAME, _native, "CPU")
_library.impl(_NAME, _native, "CUDA")
_library.impl(_NAME, _foreign, "CompositeExplicitAutograd")
torch.library.register_fake("upconv::conv_transpose", _fake, lib=_library)
_library.impl(_NAME, autograd.kernel, "Autograd")
_library.impl(_NAME, _autocast("cpu", torch._C.DispatchKey.AutocastCPU), "AutocastCPU")
_library.impl(_NAME, _autocast("cuda", torch._C.DispatchKey.AutocastCUDA), "AutocastCUDA")
_library.impl(_NAME, _refuse_vmap, "FuncTorchBatched")
