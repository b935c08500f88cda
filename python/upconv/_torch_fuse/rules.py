# SPDX-License-Identifier: Apache-2.0
"""One rule for each ATen operator that the library's epilogues have: it appends operators to the
tail and returns the value of the result, or says why it cannot."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from .recorder import Call
from .tail import SPATIAL_LETTERS, Tail, Unfusable, Value, constant, integers

Rule = Callable[[Tail, Call], Value]


def _subject(tail: Tail, call: Call) -> tuple[Tensor, Value]:
    """The first argument, which must be a value of the tail."""
    tensor = call.args[0]
    value = tail.value_of(tensor)
    if value is None:
        raise Unfusable("takes the result of the convolution as a parameter")
    return tensor, value


def _require_outside(tail: Tail, *tensors: Any) -> None:
    if any(tail.value_of(tensor) is not None for tensor in tensors):
        raise Unfusable("takes the result of the convolution as a parameter")


# ---- one operand


def _unary(name: str, *attributes: str, **fixed: Any) -> Rule:
    """The operator `name` with the arguments `attributes`; `fixed` arguments must have the value
    given."""

    def rule(tail: Tail, call: Call) -> Value:
        _, value = _subject(tail, call)
        for argument, expected in fixed.items():
            if call.argument(argument) != expected:
                raise Unfusable(f"{argument} is not {expected}")
        numbers = "".join(" " + constant(call.argument(argument)) for argument in attributes)
        return Value(tail.append(f"{name}{tail.input(value.index)}{numbers}"), value.axes)

    return rule


def _clamp(lowest: str | None, highest: str | None) -> Rule:
    def rule(tail: Tail, call: Call) -> Value:
        _, value = _subject(tail, call)
        low = call.argument(lowest) if lowest else None
        high = call.argument(highest) if highest else None
        low = -math.inf if low is None else low
        high = math.inf if high is None else high
        bounds = f"{constant(low, infinite=True)} {constant(high, infinite=True)}"
        if low > high:
            raise Unfusable(f"the bounds {bounds} are the wrong way round")
        return Value(tail.append(f"clamp{tail.input(value.index)} {bounds}"), value.axes)

    return rule


def _elu(tail: Tail, call: Call) -> Value:
    """elu, selu and celu are one operator of ATen: x > 0 ? scale x : scale alpha (exp(input_scale
    x) - 1)."""
    _, value = _subject(tail, call)
    alpha, scale, input_scale = (call.argument(name) for name in ("alpha", "scale", "input_scale"))
    if input_scale == 1 and scale == 1:
        text = f"elu{tail.input(value.index)} {constant(alpha)}"
    elif input_scale == 1:
        text = f"selu{tail.input(value.index)} {constant(alpha)} {constant(scale)}"
    elif scale == 1 and alpha > 0 and math.isclose(alpha * input_scale, 1, rel_tol=1e-12):
        text = f"celu{tail.input(value.index)} {constant(alpha)}"
    else:
        raise Unfusable("a combination of alpha, scale and input_scale")
    return Value(tail.append(text), value.axes)


def _gelu(tail: Tail, call: Call) -> Value:
    _, value = _subject(tail, call)
    name = {"none": "gelu", "tanh": "gelu_tanh"}[call.argument("approximate")]
    return Value(tail.append(name + tail.input(value.index)), value.axes)


def _threshold(tail: Tail, call: Call) -> Value:
    _, value = _subject(tail, call)
    if call.argument("threshold") != 0 or call.argument("value") != 0:
        raise Unfusable("a threshold other than relu's")
    return Value(tail.append("relu" + tail.input(value.index)), value.axes)


def _power(tail: Tail, call: Call) -> Value:
    _, value = _subject(tail, call)
    exponent = call.argument("exponent")
    if not isinstance(exponent, (int, float)) or exponent not in (2, 0.5):
        raise Unfusable("a power other than 2 and 0.5")
    if exponent == 2:
        return Value(tail.append(f"mul %{value.index} %{value.index}"), value.axes)
    return Value(tail.append("sqrt" + tail.input(value.index)), value.axes)


def _square(tail: Tail, call: Call) -> Value:
    _, value = _subject(tail, call)
    return Value(tail.append(f"mul %{value.index} %{value.index}"), value.axes)


def _reciprocal(tail: Tail, call: Call) -> Value:
    _, value = _subject(tail, call)
    return Value(tail.append(f"div 1 %{value.index}"), value.axes)


def _rsqrt(tail: Tail, call: Call) -> Value:
    _, value = _subject(tail, call)
    root = tail.append("sqrt" + tail.input(value.index))
    return Value(tail.append(f"div 1 %{root}"), value.axes)


def _clone(tail: Tail, call: Call) -> Value:
    """The values themselves; memory formats are compared when the whole tail is known."""
    return _subject(tail, call)[1]


# ---- two operands


def _anchor(tail: Tail, first: Any, second: Any) -> tuple[tuple[int | None, ...], Any]:
    """Axes and shape of the operand that is a value, against which the other is laid."""
    for operand in (first, second):
        value = tail.value_of(operand)
        if value is not None:
            return value.axes, operand.shape
    raise Unfusable("no operand is a result of the convolution")


def _combine(tail: Tail, name: str, first: Any, second: Any) -> Value:
    axes, shape = _anchor(tail, first, second)
    operands = [tail.operand(operand, axes, shape) for operand in (first, second)]
    if operands[0] == f"%{len(tail.lines)}":
        return Value(tail.append(f"{name} {operands[1]}"), axes)
    return Value(tail.append(f"{name} {operands[0]} {operands[1]}"), axes)


def _binary(name: str) -> Rule:
    return lambda tail, call: _combine(tail, name, call.args[0], call.argument("other"))


def _sum_of_two(name: str, swapped: bool = False) -> Rule:
    """first + alpha second, first - alpha second; swapped: the first argument is the second
    (rsub)."""

    def rule(tail: Tail, call: Call) -> Value:
        first, second = call.args[0], call.argument("other")
        first, second = (second, first) if swapped else (first, second)
        factor = call.argument("alpha")
        if factor == 1:
            return _combine(tail, name, first, second)
        value = tail.value_of(second)
        if value is None:
            raise Unfusable("a factor alpha for an operand")
        operand = tail.operand(first, value.axes, second.shape)
        product = tail.append(f"mul %{value.index} {constant(factor)}")
        return Value(tail.append(f"{name} {operand} %{product}"), value.axes)

    return rule


def _prelu(tail: Tail, call: Call) -> Value:
    tensor, value = _subject(tail, call)
    slope = call.argument("weight")
    _require_outside(tail, slope)
    operand = tail.operand(slope, value.axes, tensor.shape)
    return Value(tail.append(f"prelu %{value.index} {operand}"), value.axes)


def _division(tail: Tail, call: Call) -> Value:
    if "rounding_mode" in call.kwargs and call.kwargs["rounding_mode"] is not None:
        raise Unfusable("a division that rounds")
    return _combine(tail, "div", call.args[0], call.argument("other"))


# ---- normalisation


def _batch_norm(epsilon: str) -> Rule:
    def rule(tail: Tail, call: Call) -> Value:
        tensor, value = _subject(tail, call)
        if "training" in {a.name for a in call.func._schema.arguments} and call.argument(
            "training"
        ):
            raise Unfusable("takes the statistics of the batch, which is left to PyTorch")
        if len(value.axes) < 2 or value.axes[1] != 1:
            raise Unfusable("normalises something else than channels")
        channels = tensor.shape[1]
        text = f"batch_norm{tail.input(value.index)}"
        for name, argument in (
            ("mean", "running_mean"),
            ("var", "running_var"),
            ("weight", "weight"),
            ("bias", "bias"),
        ):
            operand = call.argument(argument)
            if operand is not None:
                text += f" {name}={tail.channel_operand(operand, channels)}"
            elif name in ("mean", "var"):
                raise Unfusable("takes the statistics of the batch, which is left to PyTorch")
        return Value(tail.append(f"{text} eps={constant(call.argument(epsilon))}"), value.axes)

    return rule


# ---- windows


def _spatial(sizes: Sequence[int], count: int) -> list[int]:
    numbers = integers(sizes)
    return numbers * count if len(numbers) == 1 else numbers


def _window(tail: Tail, name: str, call: Call, count: int, options: str) -> Value:
    """A pool over the last `count` dimensions."""
    _, value = _subject(tail, call)
    kernel = _spatial(call.argument("kernel_size"), count)
    stride = _spatial(call.argument("stride") or kernel, count)
    padding = _spatial(call.argument("padding"), count)
    dilation = _spatial(call.argument("dilation"), count) if name == "max_pool" else [1] * count
    window = {axis: (1, 1, 0, 1) for axis in range(2, tail.rank)}
    for axis, *numbers in zip(value.axes[-count:], kernel, stride, padding, dilation, strict=True):
        if axis is None and (numbers[0] != 1 or numbers[2] != 0):
            raise Unfusable("pools over a dimension that was put in between")
        if axis in (0, 1):
            raise Unfusable("pools over channels or the batch")
        if axis is not None:
            window[axis] = tuple(numbers)
    per_axis = ["x".join(map(str, numbers)) for numbers in zip(*window.values(), strict=True)]
    text = f"{name}{tail.input(value.index)} {per_axis[0]} s{per_axis[1]} p{per_axis[2]}"
    text += f" d{per_axis[3]}" if name == "max_pool" else ""
    text += " ceil" if call.argument("ceil_mode") else ""
    return Value(tail.append(text + options), value.axes)


def _max_pool(count: int) -> Rule:
    return lambda tail, call: _window(tail, "max_pool", call, count, "")


def _avg_pool(count: int) -> Rule:
    def rule(tail: Tail, call: Call) -> Value:
        options = "" if call.argument("count_include_pad") else " exclude_pad"
        divisor = call.argument("divisor_override")
        if divisor is not None:
            if divisor < 1:
                raise Unfusable(f"the divisor {divisor}")
            options += f" div={divisor}"
        return _window(tail, "avg_pool", call, count, options)

    return rule


def _adaptive_pool(name: str, count: int) -> Rule:
    """To one element, or to windows of one size that do not overlap."""

    def rule(tail: Tail, call: Call) -> Value:
        tensor, value = _subject(tail, call)
        wanted = _spatial(call.argument("output_size"), count)
        if all(size == 1 for size in wanted):
            dims = list(range(-count, 0))
            reduction = "max" if name == "max_pool" else "mean"
            return _reduce_dims(tail, reduction, value, dims, keep=True)
        sizes = integers(tensor.shape[-count:])
        window = {axis: 1 for axis in range(2, tail.rank)}
        for axis, size, target in zip(value.axes[-count:], sizes, wanted, strict=True):
            if target == 0 or size % target:
                raise Unfusable("windows of different sizes")
            if axis in (0, 1):
                raise Unfusable("pools over channels or the batch")
            if axis is not None:
                window[axis] = size // target
            elif size != target:
                raise Unfusable("pools over a dimension that was put in between")
        text = "x".join(map(str, window.values()))
        return Value(tail.append(f"{name}{tail.input(value.index)} {text}"), value.axes)

    return rule


# ---- channels and reductions


def _channel_dim(tail: Tail, value: Value, dim: int) -> None:
    if value.axes[dim] != 1:
        raise Unfusable("goes along another dimension than the channels")


def _softmax(name: str) -> Rule:
    def rule(tail: Tail, call: Call) -> Value:
        _, value = _subject(tail, call)
        _channel_dim(tail, value, call.argument("dim"))
        return Value(tail.append(name + tail.input(value.index)), value.axes)

    return rule


def _logsumexp(tail: Tail, call: Call) -> Value:
    _, value = _subject(tail, call)
    dims = integers(call.argument("dim"))
    if len(dims) != 1:
        raise Unfusable("goes along another dimension than the channels")
    _channel_dim(tail, value, dims[0])
    index = tail.append("logsumexp" + tail.input(value.index))
    return Value(index, _remaining(value, dims, call.argument("keepdim")))


def _remaining(value: Value, dims: Sequence[int], keep: bool) -> tuple[int | None, ...]:
    reduced = {dim % len(value.axes) for dim in dims}
    return tuple(a for i, a in enumerate(value.axes) if keep or i not in reduced)


def _reduce_dims(tail: Tail, name: str, value: Value, dims: Sequence[int], keep: bool) -> Value:
    axes = {value.axes[dim] for dim in dims} - {None}
    if not dims or 0 in axes:
        raise Unfusable("reduces over the batch")
    letters = SPATIAL_LETTERS[tail.convolution.spatial_dims]
    spatial = "".join(letters[axis - 2] for axis in sorted(axes - {1}))
    index = value.index
    for group in (spatial, "c" if 1 in axes else ""):
        if group:
            index = tail.append(f"{name}{tail.input(index)} {group}")
    return Value(index, _remaining(value, dims, keep))


def _reduction(name: str) -> Rule:
    def rule(tail: Tail, call: Call) -> Value:
        _, value = _subject(tail, call)
        dims = call.argument("dim")
        dims = [dims] if isinstance(dims, int) else integers(dims or ())
        return _reduce_dims(tail, name, value, dims, bool(call.argument("keepdim")))

    return rule


# ---- views


def _unsqueeze(tail: Tail, call: Call) -> Value:
    _, value = _subject(tail, call)
    dim = call.argument("dim") % (len(value.axes) + 1)
    return Value(value.index, (*value.axes[:dim], None, *value.axes[dim:]))


def _squeeze(tail: Tail, call: Call) -> Value:
    tensor, value = _subject(tail, call)
    dims = call.argument("dim")
    dims = [dims] if isinstance(dims, int) else list(dims)
    sizes = integers(tensor.shape[dim] for dim in dims)
    ones = [dim for dim, size in zip(dims, sizes, strict=True) if size == 1]
    return Value(value.index, _remaining(value, ones, keep=False))


def _as_strided(tail: Tail, call: Call) -> Value:
    """PyTorch's global pools restate the strides of a result that has space of one element; nothing
    moves."""
    tensor, value = _subject(tail, call)
    size, stride = integers(call.argument("size")), integers(call.argument("stride"))
    plain = size[2:] == [1] * (len(size) - 2) and stride[:2] == [size[1], 1]
    if len(size) < 3 or not plain or size != list(tensor.shape):
        raise Unfusable("changes strides")
    if call.argument("storage_offset") not in (None, 0):
        raise Unfusable("changes strides")
    return value


VIEWS = frozenset({"unsqueeze", "squeeze"})

# By the name of the operator without the underscore of its in-place form; overloads that take an
# argument that a rule does not know fail in Call.argument or in constant().
RULES: dict[str, Rule] = {
    "add": _sum_of_two("add"),
    "sub": _sum_of_two("sub"),
    "rsub": _sum_of_two("sub", swapped=True),
    "mul": _binary("mul"),
    "div": _division,
    "relu": _unary("relu"),
    "threshold": _threshold,
    "leaky_relu": _unary("leaky_relu", "negative_slope"),
    "_prelu_kernel": _prelu,
    "elu": _elu,
    "celu": _unary("celu", "alpha"),
    "softplus": _unary("softplus", "beta", "threshold"),
    "gelu": _gelu,
    "silu": _unary("silu"),
    "mish": _unary("mish"),
    "hardswish": _unary("hardswish"),
    "hardsigmoid": _unary("hardsigmoid"),
    "hardtanh": _clamp("min_val", "max_val"),
    "clamp": _clamp("min", "max"),
    "clamp_min": _clamp("min", None),
    "clamp_max": _clamp(None, "max"),
    "sigmoid": _unary("sigmoid"),
    "tanh": _unary("tanh"),
    "abs": _unary("abs"),
    "neg": _unary("neg"),
    "sqrt": _unary("sqrt"),
    "exp": _unary("exp"),
    "pow": _power,
    "square": _square,
    "reciprocal": _reciprocal,
    "rsqrt": _rsqrt,
    "clone": _clone,
    "native_batch_norm": _batch_norm("eps"),
    "_native_batch_norm_legit": _batch_norm("eps"),
    "_native_batch_norm_legit_no_training": _batch_norm("eps"),
    "_batch_norm_no_update": _batch_norm("eps"),
    "_batch_norm_with_update": _batch_norm("eps"),
    "cudnn_batch_norm": _batch_norm("epsilon"),
    "miopen_batch_norm": _batch_norm("epsilon"),
    "max_pool2d_with_indices": _max_pool(2),
    "max_pool3d_with_indices": _max_pool(3),
    "avg_pool2d": _avg_pool(2),
    "avg_pool3d": _avg_pool(3),
    "_adaptive_avg_pool2d": _adaptive_pool("avg_pool", 2),
    "_adaptive_avg_pool3d": _adaptive_pool("avg_pool", 3),
    "adaptive_max_pool2d": _adaptive_pool("max_pool", 2),
    "adaptive_max_pool3d": _adaptive_pool("max_pool", 3),
    "_softmax": _softmax("softmax"),
    "_log_softmax": _softmax("log_softmax"),
    "logsumexp": _logsumexp,
    "sum": _reduction("sum"),
    "mean": _reduction("mean"),
    "amax": _reduction("max"),
    "amin": _reduction("min"),
    "max": _reduction("max"),
    "min": _reduction("min"),
    "as_strided": _as_strided,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
}
