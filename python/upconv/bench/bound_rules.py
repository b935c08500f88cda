# SPDX-License-Identifier: Apache-2.0
"""The rules of bound.py: from the bounds of what an operator reads to that of what it makes.

A rule is called with the mode, the operator, its arguments and its result, all in float64. Each
adds what one operator may round: `rounded` says how much. What is of second order (a bound times a
bound) is kept where it is cheap, and left out of the norms and softmax.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from upconv.bench.rounding import FLOAT32, STEPS

if TYPE_CHECKING:
    from upconv.bench.bound import BoundMode

aten = torch.ops.aten
Bounds = "list[torch.Tensor | None]"


class Lost(Exception):
    """An operator through which no bound can be carried; names it."""


def rounded(mode: BoundMode, result: torch.Tensor) -> torch.Tensor:
    """What an elementwise operator rounds, its result's storage included."""
    rounding = mode.rounding
    relative = STEPS * FLOAT32 + (rounding.stored if rounding.stored > FLOAT32 else 0.0)
    return relative * result.abs() + rounding.smallest


def replaced(values: Any, table: dict[int, torch.Tensor]) -> Any:
    """The same arguments with some tensors, by their id, exchanged."""
    if isinstance(values, (list, tuple)):
        return type(values)(replaced(value, table) for value in values)
    return table.get(id(values), values)


def uncertain(mode: BoundMode, values: Any) -> dict[int, tuple[torch.Tensor, torch.Tensor]]:
    """Tensors with a bound among the arguments: (value, bound) by id."""
    found = {}
    for value in values:
        if isinstance(value, (list, tuple)):
            found.update(uncertain(mode, value))
        elif mode.bound_of(value) is not None:
            found[id(value)] = (value, mode.bound_of(value))
    return found


def first(result: Any) -> torch.Tensor:
    return result if isinstance(result, torch.Tensor) else result[0]


def only_operand(mode: BoundMode, func: Any, args: tuple) -> torch.Tensor:
    """The bound of operand 0; the others have to be exact."""
    found = uncertain(mode, args)
    if any(key != id(args[0]) for key in found):
        raise Lost(f"{func.overloadpacket} of several uncertain operands has no rule")
    return found[id(args[0])][1] if found else torch.zeros_like(args[0])


def moved(mode, func, args, kwargs, result) -> Bounds:
    """Elements are copied, reordered or left out: so are their bounds."""
    found = uncertain(mode, args)
    if not found:
        return []
    tensors = [v for a in args for v in (a if isinstance(a, (list, tuple)) else [a])]
    exact = {
        id(v): torch.zeros_like(v)
        for v in tensors
        if isinstance(v, torch.Tensor) and v.is_floating_point() and id(v) not in found
    }
    made = func(*replaced(args, exact | {k: bound for k, (_, bound) in found.items()}), **kwargs)
    return list(made) if isinstance(made, (list, tuple)) else [made]


def padded(mode, func, args, kwargs, result) -> Bounds:
    """What padding adds is exact."""
    return [func(only_operand(mode, func, args), args[1], 0.0)]


def ends(mode, func, args, kwargs, result) -> Bounds:
    """A function that rises or falls within the bound: its values at both ends."""
    bound = only_operand(mode, func, args)
    low = first(func(args[0] - bound, *args[1:], **kwargs))
    high = first(func(args[0] + bound, *args[1:], **kwargs))
    value = first(result)
    deviation = torch.maximum((low - value).abs(), (high - value).abs())
    # Two infinities of one sign are the same value.
    deviation = torch.where((low == value) & (high == value), 0.0, deviation)
    return [deviation + rounded(mode, value)]


def selects(mode, func, args, kwargs, result) -> Bounds:
    """Extremes of windows or axes: as `ends`, and nothing is rounded."""
    bound = only_operand(mode, func, args)
    low = first(func(args[0] - bound, *args[1:], **kwargs))
    high = first(func(args[0] + bound, *args[1:], **kwargs))
    return [torch.maximum(high - first(result), first(result) - low)]


def averages(mode, func, args, kwargs, result) -> Bounds:
    """Sums of many elements with factors >= 0, which do not depend on the elements."""
    bound = only_operand(mode, func, args)
    terms = max(1.0, args[0].numel() / max(1, result.numel()))
    magnitude = func(args[0].abs(), *args[1:], **kwargs)
    carried = func(bound, *args[1:], **kwargs)
    return [carried + mode.rounding.of_sum(terms) * magnitude + rounded(mode, result)]


def _pair(mode: BoundMode, args: tuple) -> tuple:
    """|a|, E(a), |b|, E(b), where numbers and exact tensors have the bound 0."""
    out: list[Any] = []
    for value in args[:2]:
        bound = mode.bound_of(value)
        out += [abs(value), 0.0 if bound is None else bound]
    return tuple(out)


def adds(mode, func, args, kwargs, result) -> Bounds:
    _, left, _, right = _pair(mode, args)
    factor = abs(args[2] if len(args) > 2 else kwargs.get("alpha", 1))
    return [torch.zeros_like(result) + left + factor * right + rounded(mode, result)]


def multiplies(mode, func, args, kwargs, result) -> Bounds:
    a, left, b, right = _pair(mode, args)
    return [left * b + a * right + left * right + rounded(mode, result)]


def divides(mode, func, args, kwargs, result) -> Bounds:
    if kwargs.get("rounding_mode"):
        raise Lost(f"{func.overloadpacket} with rounding_mode has no rule")
    _, left, b, right = _pair(mode, args)
    room = torch.as_tensor(b - right)
    carried = (left + result.abs() * right) / torch.where(room > 0, room, 0.0)
    return [carried + rounded(mode, result)]


def larger(mode, func, args, kwargs, result) -> Bounds:
    """maximum and minimum of two tensors move no more than the one that moves more."""
    _, left, _, right = _pair(mode, args)
    zero = torch.zeros_like(result)
    return [torch.maximum(zero + left, zero + right)]


def chosen(mode, func, args, kwargs, result) -> Bounds:
    """where(condition, a, b) with an exact condition."""
    if len(args) != 3 or mode.bound_of(args[0]) is not None:
        raise Lost(f"{func.overloadpacket} on an uncertain condition has no rule")
    sides = [mode.bound_of(value) for value in args[1:]]
    zero = torch.zeros((), dtype=torch.float64, device=result.device)
    return [torch.where(args[0], *[zero if side is None else side for side in sides])]


def _products(mode, made: Callable, a, b, terms: float, operands: float, addend) -> torch.Tensor:
    """A bilinear operator `made`: DESIGN's (2 v + c 2^-24) M, and the bounds of both factors."""
    magnitude = made(a.abs(), b.abs())
    carried = torch.zeros_like(magnitude)
    left, right = mode.bound_of(a), mode.bound_of(b)
    if left is not None:
        carried += made(left, b.abs())
    if right is not None:
        carried += made(a.abs() + (0.0 if left is None else left), right)
    if addend is not None:
        magnitude = magnitude + addend.abs()
        extra = mode.bound_of(addend)
        carried = carried if extra is None else carried + extra
    return carried + (2 * operands + mode.rounding.of_sum(terms)) * magnitude


def convolves(mode, func, args, kwargs, result) -> Bounds:
    x, weight, bias, stride, padding, dilation, transposed, output_padding, groups = args[:9]
    geometry = (stride, padding, dilation, transposed, output_padding, groups)
    inputs = weight.shape[0] // groups if transposed else weight.shape[1]
    strides = [*stride] * (weight.dim() - 2 if len(stride) == 1 else 1)
    steps = [
        # With a dilation that shares a factor with the stride, one phase has more of the taps.
        math.ceil(k * math.gcd(s, d) / s) if transposed else k
        for k, s, d in zip(weight.shape[2:], strides, [*dilation] * len(strides))
    ]

    def made(a, b):
        return aten.convolution(a, b, None, *geometry)

    addend = bias if bias is None else bias.view(-1, *[1] * (weight.dim() - 2))
    if bias is not None and mode.bound_of(bias) is not None:
        raise Lost(f"{func.overloadpacket} with an uncertain bias has no rule")
    terms = inputs * math.prod(steps)
    return [
        _products(mode, made, x, weight, terms, mode.rounding.operands, addend)
        + rounded(mode, result)
    ]


def multiplies_matrices(mode, func, args, kwargs, result) -> Bounds:
    """mm, bmm, and addmm, baddbmm with their factors 1."""
    if kwargs.get("alpha", 1) != 1 or kwargs.get("beta", 1) != 1:
        raise Lost(f"{func.overloadpacket} with alpha or beta has no rule")
    addend, (a, b) = (args[0], args[1:3]) if len(args) > 2 else (None, args[:2])
    operands = mode.rounding.matmul_operands
    bound = _products(mode, torch.matmul, a, b, a.shape[-1], operands, addend)
    return [bound + rounded(mode, result)]


def softmax(mode, func, args, kwargs, result) -> Bounds:
    bound = only_operand(mode, func, args)
    mean = (result * bound).sum(args[1], keepdim=True)
    terms = args[0].shape[args[1]]
    # exp(x - max): a difference of size t is rounded, and its exponential moves by t roundings.
    spread = (args[0] - args[0].amax(args[1], keepdim=True)).abs()
    relative = bound + mean + (mode.rounding.of_sum(terms) + FLOAT32 * spread)
    relative = relative + FLOAT32 * (result * spread).sum(args[1], keepdim=True)
    return [result * torch.expm1(relative) + rounded(mode, result)]


def log_softmax(mode, func, args, kwargs, result) -> Bounds:
    bound = only_operand(mode, func, args)
    mean = (result.exp() * bound).sum(args[1], keepdim=True)
    terms = args[0].shape[args[1]]
    size = 2 * args[0].abs().amax(args[1], keepdim=True)
    added = mode.rounding.of_sum(terms) + STEPS * FLOAT32 * (size + args[0].abs())
    return [bound + mean + added + rounded(mode, result)]


def _normalised(mode, x, bound, dims: list[int], epsilon: float) -> tuple[torch.Tensor, ...]:
    """((x - mean) / sqrt(variance + epsilon), its bound) over some axes, to first order."""
    terms = math.prod(x.shape[d] for d in dims)
    mean = x.mean(dims, keepdim=True)
    sigma = (x.var(dims, unbiased=False, keepdim=True) + epsilon).sqrt()
    value = (x - mean) / sigma
    moved = bound + mode.rounding.of_sum(terms) * (x.abs() + x.abs().mean(dims, keepdim=True))
    centred = moved + moved.mean(dims, keepdim=True)
    scaled = value.abs() * (value.abs() * centred).mean(dims, keepdim=True)
    return value, (centred + scaled) / sigma + rounded(mode, value)


def _affine(mode, value, bound, weight, bias, result) -> Bounds:
    scale = 1.0 if weight is None else weight.abs()
    shift = 0.0 if bias is None else bias.abs()
    return [bound * scale + rounded(mode, value * scale) + FLOAT32 * shift + rounded(mode, result)]


def _channels(parameter: torch.Tensor | None, rank: int) -> torch.Tensor | None:
    return parameter if parameter is None else parameter.view(1, -1, *[1] * (rank - 2))


def batch_norm(mode, func, args, kwargs, result) -> Bounds:
    """With stored statistics (inference) or those of the batch (training, instance norm)."""
    x, weight, bias, mean, variance = args[:5]
    training, epsilon = (args[5], args[7]) if len(args) == 8 else (False, args[6])
    bound = only_operand(mode, func, args)
    weight, bias, mean, variance = (_channels(p, x.dim()) for p in (weight, bias, mean, variance))
    if training:
        dims = [0, *range(2, x.dim())]
        value, bound = _normalised(mode, x, bound, dims, epsilon)
    else:
        sigma = (variance + epsilon).sqrt()
        value = (x - mean) / sigma
        bound = (bound + STEPS * FLOAT32 * (x.abs() + mean.abs())) / sigma + rounded(mode, value)
    return _affine(mode, value, bound, weight, bias, result[0])


def group_norm(mode, func, args, kwargs, result) -> Bounds:
    x, weight, bias, batch, channels, _, groups, epsilon = args[:8]
    bound = only_operand(mode, func, args)
    folded = (batch, groups, -1)
    value, bound = _normalised(mode, x.reshape(folded), bound.reshape(folded), [2], epsilon)
    weight, bias = _channels(weight, x.dim()), _channels(bias, x.dim())
    return _affine(mode, value.reshape(x.shape), bound.reshape(x.shape), weight, bias, result[0])


def layer_norm(mode, func, args, kwargs, result) -> Bounds:
    x, shape, weight, bias, epsilon = args[:5]
    bound = only_operand(mode, func, args)
    dims = list(range(x.dim() - len(shape), x.dim()))
    value, bound = _normalised(mode, x, bound, dims, epsilon)
    return _affine(mode, value, bound, weight, bias, result[0])


# Each rule with the operators that it serves; versions of PyTorch differ in which exist.
SERVES: list[tuple[Callable[..., Any], str]] = [
    (
        moved,
        """_reshape_alias _to_copy _unsafe_view alias as_strided cat chunk clone contiguous copy
        detach expand flip index lift_fresh movedim narrow permute pixel_shuffle pixel_unshuffle
        reflection_pad1d reflection_pad2d reflection_pad3d repeat replication_pad1d
        replication_pad2d replication_pad3d reshape roll select select_scatter slice slice_scatter
        split split_with_sizes squeeze stack t transpose unbind unfold unsqueeze upsample_nearest1d
        upsample_nearest2d upsample_nearest3d view""",
    ),
    (padded, "constant_pad_nd"),
    (
        ends,
        """_prelu_kernel abs atan celu clamp clamp_max clamp_min elu erf exp exp2 expm1 gelu
        hardshrink hardsigmoid hardswish hardtanh leaky_relu log log1p log_sigmoid_forward
        logsumexp mish neg pow relu rsqrt selu sigmoid silu sinh softplus softshrink sqrt square
        tanh threshold""",
    ),
    (
        selects,
        """adaptive_max_pool2d adaptive_max_pool3d amax amin max max_pool1d max_pool2d_with_indices
        max_pool3d_with_indices min""",
    ),
    (
        averages,
        """_adaptive_avg_pool2d _adaptive_avg_pool3d avg_pool1d avg_pool2d avg_pool3d mean sum
        upsample_bilinear2d upsample_linear1d upsample_trilinear3d""",
    ),
    (adds, "add rsub sub"),
    (multiplies, "mul"),
    (divides, "div"),
    (larger, "maximum minimum"),
    (chosen, "where"),
    (convolves, "convolution"),
    (multiplies_matrices, "addmm baddbmm bmm mm"),
    (softmax, "_softmax"),
    (log_softmax, "_log_softmax"),
    (
        batch_norm,
        """_batch_norm_no_update _native_batch_norm_legit_no_training cudnn_batch_norm
        native_batch_norm""",
    ),
    (group_norm, "native_group_norm"),
    (layer_norm, "native_layer_norm"),
]

# Read no more of a tensor than its shape.
SHAPE_ONLY = "empty_like full_like new_empty new_full new_ones new_zeros ones_like zeros_like"


def _table() -> dict[Any, Callable[..., Any]]:
    """Rules by operator, as far as this PyTorch has it."""
    return {
        getattr(aten, name): rule
        for rule, names in SERVES
        for name in names.split()
        if hasattr(aten, name)
    }


RULES = _table()
EXACT = {getattr(aten, name) for name in SHAPE_ONLY.split()}
DRAWS = aten.bernoulli  # dropout's mask; exact where the probability is
