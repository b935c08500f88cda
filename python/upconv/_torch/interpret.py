# SPDX-License-Identifier: Apache-2.0
"""The text form of an epilogue as PyTorch's own operators.

It is what gradients are taken of, what runs for types and devices that upconv does not take, and
where the shapes of results come from. Grammar and formulas are those of upconv.h and docs/MATH.md.
Text that comes here has been accepted by the library, so that what is wrong with it is not
explained again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import inf
from typing import Any, NamedTuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor

Value = Union[Tensor, float]


class Window(NamedTuple):
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pad_begin: tuple[int, ...]
    pad_end: tuple[int, ...]
    ceil: bool
    count_include_pad: bool
    divisor: int


class Reference(NamedTuple):
    """An operand: value "%", parameter "@" or tensor "#" of that number."""

    kind: str
    index: int


Operand = Union[Reference, float]


class Operator(NamedTuple):
    name: str
    operands: tuple[Operand, ...]
    attributes: tuple[float, ...] = ()
    named: tuple[tuple[str, Operand], ...] = ()  # of batch_norm
    window: Window | None = None
    axes: tuple[int, ...] = ()


class Parsed(NamedTuple):
    operators: tuple[Operator, ...]
    param_count: int
    tensor_count: int


# ---------------------------------------------------------------- reading

_BINARY = {"add": 2, "sub": 2, "mul": 2, "div": 2, "prelu": 2, "two_slope": 3}
_POOLS = ("max_pool", "avg_pool", "extreme_pool")
_REDUCTIONS = ("sum", "mean", "max", "min")
_ALIASES = {"scale": "mul"}
_GLOBAL = {"global_avg_pool": "mean", "global_max_pool": "max"}


class _Reader:
    def __init__(self, spatial_dims: int) -> None:
        self.spatial_dims = spatial_dims
        self.params: dict[str, int] = {}
        self.tensors: dict[str, int] = {}
        self.count = 0  # operators so far

    def operand(self, word: str) -> Operand:
        kind, name = word[0], word[1:].split("[")[0].split(":")[0]
        if kind == "%":
            return Reference("%", int(name))
        if kind == "@":
            return Reference("@", self.params.setdefault(name, len(self.params)))
        if kind == "#":
            return Reference("#", self.tensors.setdefault(name, len(self.tensors)))
        return float(word)

    def operator(self, words: list[str]) -> Operator:
        name, rest = _ALIASES.get(words[0], words[0]), words[1:]
        previous = Reference("%", self.count)
        if name in _BINARY:
            operands = [self.operand(word) for word in rest]
            if len(operands) < _BINARY[name]:
                operands.insert(0, previous)
            return Operator(name, tuple(operands))
        value: Operand = previous
        if rest and rest[0].startswith("%"):
            value = self.operand(rest.pop(0))
        if name in _GLOBAL:
            return Operator(_GLOBAL[name], (value,), axes=tuple(range(2, self.spatial_dims + 2)))
        if name == "batch_norm":
            pairs = [word.split("=", 1) for word in rest]
            return Operator(name, (value,), named=tuple((k, self.operand(v)) for k, v in pairs))
        if name in _POOLS:
            return self.pool(name, value, rest)
        if name in _REDUCTIONS:
            letters = "nc" + "dhw"[3 - self.spatial_dims :]
            return Operator(name, (value,), axes=tuple(sorted(letters.index(c) for c in rest[0])))
        return Operator(name, (value,), tuple(float(word) for word in rest))

    def sizes(self, word: str) -> tuple[int, ...]:
        numbers = tuple(int(part) for part in word.split("x"))
        return numbers * self.spatial_dims if len(numbers) == 1 else numbers

    def pool(self, name: str, value: Operand, words: list[str]) -> Operator:
        nd = self.spatial_dims
        kernel = self.sizes(words[0])
        found: dict[str, Any] = {"s": kernel, "d": (1,) * nd, "p": (0,) * nd}
        operands = [value]
        for word in words[1:]:
            if word in ("ceil", "exclude_pad"):
                found[word] = True
            elif word.startswith("div="):
                found["div"] = int(word[4:])
            elif word.startswith("dir="):
                operands.append(self.operand(word[4:]))
            else:
                key = "pe" if word.startswith("pe") else word[0]
                found[key] = self.sizes(word[len(key) :])
        window = Window(
            kernel,
            found["s"],
            found["d"],
            found["p"],
            found.get("pe", found["p"]),
            "ceil" in found,
            "exclude_pad" not in found,
            found.get("div", 0),
        )
        return Operator(name, tuple(operands), window=window)


@lru_cache(maxsize=1024)
def parse(spatial_dims: int, text: str) -> Parsed:
    reader = _Reader(spatial_dims)
    operators = []
    for part in text.split("|"):
        words = part.split()
        if not words:
            continue
        if words[0] == "declare":
            for word in words[1:]:
                reader.operand(word)
            continue
        operators.append(reader.operator(words))
        reader.count += 1
    return Parsed(tuple(operators), len(reader.params), len(reader.tensors))


# ---------------------------------------------------------------- running


def evaluate(
    text: str, value: Tensor, params: Sequence[Tensor], tensors: Sequence[Tensor]
) -> Tensor:
    """The epilogue's result for the convolution's result, in its type (16-bit: computed in
    float32)."""
    nd = value.dim() - 2
    program = parse(nd, text)
    if not program.operators:
        return value
    dtype = torch.float32 if value.dtype in (torch.float16, torch.bfloat16) else value.dtype
    inputs = {
        "@": [_per_channel(param, nd).to(dtype) for param in params],
        "#": [_full_rank(tensor, nd).to(dtype) for tensor in tensors],
        "%": [value.to(dtype)],
    }

    def get(operand: Operand) -> Value:
        return inputs[operand.kind][operand.index] if isinstance(operand, Reference) else operand

    for operator in program.operators:
        operands = [get(operand) for operand in operator.operands]
        inputs["%"].append(_run(operator, operands, get, nd))
    return inputs["%"][-1].to(value.dtype)


def _per_channel(param: Tensor, nd: int) -> Tensor:
    """One number, or one per channel, as a tensor that broadcasts over values."""
    return param.reshape(()) if param.numel() == 1 else param.reshape((-1,) + (1,) * nd)


def _full_rank(tensor: Tensor, nd: int) -> Tensor:
    return tensor.reshape((1,) * (nd + 2 - tensor.dim()) + tuple(tensor.shape))


def _run(
    operator: Operator, operands: list[Value], get: Callable[[Operand], Value], nd: int
) -> Tensor:
    first = operands[0]
    if operator.name in _ARITHMETIC:
        return _ARITHMETIC[operator.name](*operands)
    assert isinstance(first, Tensor)
    if operator.name == "batch_norm":
        return _batch_norm(first, {key: get(operand) for key, operand in operator.named})
    if operator.window is not None:
        return _pool(operator.name, first, operands[1:], operator.window, nd)
    if operator.axes:
        return _REDUCE[operator.name](first, operator.axes)
    return _UNARY[operator.name](first, *operator.attributes)


def _two_slope(x: Tensor, positive: Value, negative: Value) -> Tensor:
    return torch.where(x > 0, x * positive, x * negative)


_ARITHMETIC: dict[str, Callable[..., Tensor]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "prelu": lambda x, slope: torch.where(x > 0, x, x * slope),
    "two_slope": _two_slope,
}

_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946

_UNARY: dict[str, Callable[..., Tensor]] = {
    "relu": F.relu,
    "leaky_relu": lambda x, slope=0.01: F.leaky_relu(x, slope),
    "elu": lambda x, alpha=1.0: F.elu(x, alpha),
    "selu": lambda x, alpha=_SELU_ALPHA, scale=_SELU_SCALE: scale * F.elu(x, alpha),
    "celu": lambda x, alpha=1.0: F.celu(x, alpha),
    "softplus": lambda x, beta=1.0, threshold=20.0: F.softplus(x, beta, threshold),
    "softsign": F.softsign,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "mish": F.mish,
    "hardswish": F.hardswish,
    "hardsigmoid": lambda x, slope=1 / 6, offset=0.5: (x * slope + offset).clamp(0.0, 1.0),
    "clamp": lambda x, low=-inf, high=inf: x.clamp(low, high),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "abs": torch.abs,
    "neg": torch.neg,
    "sqrt": torch.sqrt,
    "exp": torch.exp,
    "softmax": lambda x: torch.softmax(x, 1),
    "log_softmax": lambda x: torch.log_softmax(x, 1),
    "logsumexp": lambda x: torch.logsumexp(x, 1, keepdim=True),
}

_REDUCE: dict[str, Callable[[Tensor, tuple[int, ...]], Tensor]] = {
    "sum": lambda x, axes: x.sum(axes, keepdim=True),
    "mean": lambda x, axes: x.mean(axes, keepdim=True),
    "max": lambda x, axes: x.amax(axes, keepdim=True),
    "min": lambda x, axes: x.amin(axes, keepdim=True),
}


def _batch_norm(x: Tensor, named: dict[str, Any]) -> Tensor:
    scale = (named["var"] + named.get("eps", 1e-5)) ** -0.5
    if "weight" in named:
        scale = scale * named["weight"]
    shifted = (x - named["mean"]) * scale
    return shifted + named["bias"] if "bias" in named else shifted


# ---------------------------------------------------------------- windows


def _pool(name: str, x: Tensor, operands: list[Value], window: Window, nd: int) -> Tensor:
    if name == "avg_pool":
        return _avg_pool(x, window, nd)
    if name == "max_pool":
        return _max_pool(x, window, nd)
    direction = operands[0]
    if not isinstance(direction, Tensor):
        return _max_pool(x, window, nd) if direction >= 0 else -_max_pool(-x, window, nd)
    # A window over -x where the direction falls: one pool, and the gradient goes to one extreme.
    sign = torch.where(direction >= 0, 1.0, -1.0).to(x.dtype)
    return _max_pool(x * sign, window, nd) * sign


def _end_padding(extent: int, window: Window, axis: int) -> int:
    """What must follow an axis so that every window of the result lies within; negative if the last
    elements are in no window."""
    span = window.dilation[axis] * (window.kernel[axis] - 1) + 1
    begin, step = window.pad_begin[axis], window.stride[axis]
    free = extent + begin + window.pad_end[axis] - span
    count = free // step + 1
    if window.ceil and free % step != 0 and count * step < extent + begin:
        count += 1
    return (count - 1) * step + span - extent - begin


def _padded(x: Tensor, window: Window, nd: int, value: float) -> Tensor:
    """x with padding as elements, such that windows without padding and ceil mode give the
    result."""
    amounts: list[int] = []
    for axis in reversed(range(nd)):
        amounts += [window.pad_begin[axis], _end_padding(x.shape[axis + 2], window, axis)]
    return F.pad(x, amounts, value=value)


def _is_plain(window: Window) -> bool:
    """Whether PyTorch's own pools have this padding: the same at both ends, at most half of the
    kernel."""
    return window.pad_begin == window.pad_end and all(
        0 <= padding <= kernel // 2 for padding, kernel in zip(window.pad_begin, window.kernel)
    )


def _max_pool(x: Tensor, window: Window, nd: int) -> Tensor:
    pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[nd - 1]
    kernel, stride, dilation = window.kernel, window.stride, window.dilation
    if _is_plain(window):
        return pool(x, kernel, stride, window.pad_begin, dilation, window.ceil)
    return pool(_padded(x, window, nd, -inf), kernel, stride, 0, dilation)


def _avg_pool(x: Tensor, window: Window, nd: int) -> Tensor:
    if _is_plain(window) and set(window.dilation) == {1} and (nd > 1 or not window.divisor):
        pool = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[nd - 1]
        more = {"divisor_override": window.divisor or None} if nd > 1 else {}
        return pool(
            x,
            window.kernel,
            window.stride,
            window.pad_begin,
            window.ceil,
            window.count_include_pad,
            **more,
        )
    total = _window_sum(_padded(x, window, nd, 0.0), window, nd)
    if window.divisor:
        return total / window.divisor
    ones = torch.ones_like(x[:1, :1])
    if window.count_include_pad:
        amounts: list[int] = []
        for axis in reversed(range(nd)):
            amounts += [window.pad_begin[axis], window.pad_end[axis]]
        counted = window._replace(pad_begin=(0,) * nd)
        ones = F.pad(ones, amounts, value=1.0)
        ends = [
            _end_padding(x.shape[axis + 2], window, axis) - window.pad_end[axis]
            for axis in range(nd)
        ]
        ones = F.pad(ones, [amount for end in reversed(ends) for amount in (0, end)])
        return total / _window_sum(ones, counted, nd)
    return total / _window_sum(_padded(ones, window, nd, 0.0), window, nd)


def _window_sum(x: Tensor, window: Window, nd: int) -> Tensor:
    """Sums over windows that lie within x."""
    convolve = (F.conv1d, F.conv2d, F.conv3d)[nd - 1]
    n, channels = x.shape[:2]
    ones = x.new_ones((1, 1, *window.kernel))
    sums = convolve(
        x.reshape(n * channels, 1, *x.shape[2:]), ones, None, window.stride, 0, window.dilation
    )
    return sums.reshape(n, channels, *sums.shape[2:])
