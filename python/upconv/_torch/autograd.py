# SPDX-License-Identifier: Apache-2.0
"""Gradients: the forward pass again, by PyTorch's operators, and its derivative.

Nothing but the inputs is saved. Without an epilogue the gradient is PyTorch's convolution_backward,
and nothing is computed again. Gradients of gradients work since all of that is made of
differentiable operators."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction

from . import execute


class Settings:
    """The operator's arguments that are no tensors, and what runs it below autograd."""

    __slots__ = ("compute", "param_count", "sizes", "text")

    def __init__(
        self, sizes: execute.Sizes, text: str, param_count: int, compute: Any = execute.run
    ) -> None:
        self.sizes = sizes  # stride, padding, output_padding, groups, dilation
        self.text = text
        self.param_count = param_count
        self.compute = compute  # (x, weight, bias, sizes, text, params, tensors)

    def split(self, operands: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        """params and tensors."""
        return operands[: self.param_count], operands[self.param_count :]


class Fused(_SingleLevelFunction):
    """The operator with gradients. It is a function of one level, which torch.func never sees.
    short.py has its forward pass in C."""

    @staticmethod
    def forward(
        ctx: Any,
        settings: Settings,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        *operands: Tensor,
    ) -> Tensor:
        ctx.settings = settings
        ctx.save_for_backward(x, weight, bias, *operands)
        params, tensors = settings.split(operands) if operands else ((), ())
        return settings.compute(x, weight, bias, settings.sizes, settings.text, params, tensors)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        saved, needed = ctx.saved_tensors, ctx.needs_input_grad[1:]
        with _no_autocast(grad.device.type):
            if ctx.settings.text:
                grads = _differentiate(ctx.settings, saved, needed, grad)
            else:
                grads = _convolution_backward(ctx.settings, saved, needed, grad)
        return (None, *grads)


def kernel(x: Tensor, weight: Tensor, bias: Tensor | None, *rest: Any) -> Tensor:
    """The operator's kernel for the key Autograd."""
    *sizes, text, params, tensors = rest
    inputs = [t for t in (x, weight, bias, *params, *tensors) if t is not None]
    backward = torch.is_grad_enabled() and any(t.requires_grad for t in inputs)
    forward = forward_ad._current_level >= 0 and any(map(_has_tangent, inputs))
    if forward or (backward and torch._C._are_functorch_transforms_active()):
        # Derivatives along with values, and those of torch.func, which nest: PyTorch's operators.
        return execute.fall_back(x, weight, bias, tuple(sizes), text, params, tensors)
    if backward:
        settings = Settings(tuple(sizes), text, len(params), _below_autograd)
        return Fused.apply(settings, x, weight, bias, *params, *tensors)
    return _below_autograd(x, weight, bias, sizes, text, params, tensors)


def _has_tangent(tensor: Tensor) -> bool:
    """Whether a derivative is carried forward along with it."""
    return forward_ad.unpack_dual(tensor).tangent is not None


def run_direct(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    sizes: execute.Sizes,
    text: str,
    params: Sequence[Tensor],
    tensors: Sequence[Tensor],
) -> Tensor:
    """As kernel with a gradient wanted, past the dispatcher: for plain tensors that
    execute.takes()."""
    settings = Settings(sizes, text, len(params))
    return Fused.apply(settings, x, weight, bias, *params, *tensors)


def _below_autograd(
    x: Tensor, weight: Tensor, bias: Tensor | None, sizes: Sequence[Any], *rest: Any
) -> Tensor:
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.upconv.conv_transpose.default(x, weight, bias, *sizes, *rest)


def _no_autocast(device: str) -> Any:
    """Gradients are computed in the types of the forward pass."""
    if torch.is_autocast_enabled(device):
        return torch.autocast(device, enabled=False)
    return nullcontext()


def _compute_dtype(x: Tensor) -> torch.dtype:
    """PyTorch's own 16-bit convolutions on the CPU are incomplete."""
    half = x.dtype in (torch.float16, torch.bfloat16)
    return torch.float32 if half and x.device.type == "cpu" else x.dtype


def _convolution_backward(
    settings: Settings, saved: Sequence[Tensor | None], needed: Sequence[bool], grad: Tensor
) -> list[Tensor | None]:
    x, weight, bias = saved[:3]
    assert x is not None and weight is not None
    stride, padding, output_padding, groups, dilation = settings.sizes
    dtype = _compute_dtype(x)
    grads = torch.ops.aten.convolution_backward(
        grad.to(dtype),
        x.to(dtype),
        weight.to(dtype),
        None if bias is None else [bias.shape[0]],
        stride,
        padding,
        dilation,
        True,
        output_padding,
        groups,
        list(needed[:3]),
    )
    return [g.to(x.dtype) if wanted else None for g, wanted in zip(grads, needed)]


def _differentiate(
    settings: Settings, saved: Sequence[Tensor | None], needed: Sequence[bool], grad: Tensor
) -> list[Tensor | None]:
    keep_graph = torch.is_grad_enabled()  # somebody wants gradients of these gradients
    with torch.enable_grad():
        # New tensors for the inputs, so that one input that depends on another, or is the same, is
        # no path between them.
        inputs = [
            t if t is None else (t.view_as(t) if keep_graph else t.detach().requires_grad_(wanted))
            for t, wanted in zip(saved, needed)
        ]
        x, weight, bias = inputs[:3]
        dtype = _compute_dtype(x)
        convolved = [None if t is None else t.to(dtype) for t in (x, weight, bias)]
        y = execute.by_torch(*convolved, settings.sizes, settings.text, *settings.split(inputs[3:]))
        wanted = [t for t, need in zip(inputs, needed) if need]
        found = iter(
            torch.autograd.grad(
                y, wanted, grad.to(y.dtype), create_graph=keep_graph, allow_unused=True
            )
        )
    return [next(found) if need else None for need in needed]
