# SPDX-License-Identifier: Apache-2.0
"""Epilogues beside the same in PyTorch's words, and how near results must be."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

CONV = (None, F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)
LIBRARY_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


class Program(NamedTuple):
    """items(operands) for epilogue=, and plain(y, operands) with PyTorch. shapes: of the operands,
    with C for the channels and S for the extents of y."""

    name: str
    items: Callable[..., Sequence[Any]]
    plain: Callable[..., Tensor]
    shapes: Sequence[Sequence[Any]] = ()


def _unary(text: str, plain: Callable[[Tensor], Tensor]) -> Program:
    return Program(text, lambda: [text], plain)


def _pool(name: str, nd: int, *arguments: Any, **options: Any) -> Callable[[Tensor], Tensor]:
    return lambda y: getattr(F, f"{name}{nd}d")(y, *arguments, **options)


def programs(nd: int) -> list[Program]:
    """Every operator, each way that operands can come, and a few compositions."""
    ones = [1] * nd
    spatial = tuple(range(2, nd + 2))
    letters = "dhw"[3 - nd :]
    return [
        Program("none", lambda: (), lambda y: y),
        _unary("relu", F.relu),
        _unary("leaky_relu 0.2", lambda y: F.leaky_relu(y, 0.2)),
        _unary("elu 0.7", lambda y: F.elu(y, 0.7)),
        _unary("selu", F.selu),
        _unary("celu 1.3", lambda y: F.celu(y, 1.3)),
        _unary("softplus 2 5", lambda y: F.softplus(y, 2, 5)),
        _unary("softsign", F.softsign),
        _unary("gelu", F.gelu),
        _unary("gelu_tanh", lambda y: F.gelu(y, approximate="tanh")),
        _unary("silu", F.silu),
        _unary("mish", F.mish),
        _unary("hardswish", F.hardswish),
        _unary("hardsigmoid", F.hardsigmoid),
        _unary("hardsigmoid 0.3 0.1", lambda y: (0.3 * y + 0.1).clamp(0, 1)),
        _unary("clamp -0.3 0.4", lambda y: y.clamp(-0.3, 0.4)),
        _unary("sigmoid", torch.sigmoid),
        _unary("tanh", torch.tanh),
        _unary("abs", torch.abs),
        _unary("neg", torch.neg),
        Program("sqrt", lambda: ["abs", ("add", 0.1), "sqrt"], lambda y: (y.abs() + 0.1).sqrt()),
        _unary("exp", torch.exp),
        _unary("softmax", lambda y: y.softmax(1)),
        _unary("log_softmax", lambda y: y.log_softmax(1)),
        _unary("logsumexp", lambda y: y.logsumexp(1, keepdim=True)),
        _unary("sum c", lambda y: y.sum(1, keepdim=True)),
        _unary("mean c", lambda y: y.mean(1, keepdim=True)),
        _unary("max c", lambda y: y.amax(1, keepdim=True)),
        _unary("min c", lambda y: y.amin(1, keepdim=True)),
        _unary("sum " + letters, lambda y: y.sum(spatial, keepdim=True)),
        _unary("mean w", lambda y: y.mean(-1, keepdim=True)),
        _unary("max " + letters, lambda y: y.amax(spatial, keepdim=True)),
        _unary("global_avg_pool", lambda y: y.mean(spatial, keepdim=True)),
        _unary("max_pool 2", _pool("max_pool", nd, 2)),
        Program(
            "max_pool with options",
            lambda: [("max_pool", 3, {"stride": 2, "padding": 1, "ceil_mode": True})],
            _pool("max_pool", nd, 3, 2, 1, ceil_mode=True),
        ),
        _unary("avg_pool 2", _pool("avg_pool", nd, 2)),
        Program(
            "avg_pool without padding in the divisor",
            lambda: [("avg_pool", 3, {"stride": 2, "padding": 1, "count_include_pad": False})],
            _pool("avg_pool", nd, 3, 2, 1, count_include_pad=False),
        ),
        _unary(
            "avg_pool 3 s2 p1 pe0", lambda y: _pool("avg_pool", nd, 3, 2)(F.pad(y, (1, 0) * nd))
        ),
        _unary(
            "max_pool 2 s1 p0 pe1",
            lambda y: _pool("max_pool", nd, 2, 1)(F.pad(y, (0, 1) * nd, value=-torch.inf)),
        ),
        _unary("sub 1.5 %0", lambda y: 1.5 - y),
        Program("swish of parts", lambda: ["sigmoid", ("mul", "%0")], lambda y: y.sigmoid() * y),
        Program("add number", lambda a: [("add", a)], lambda y, a: y + a, [()]),
        Program("mul channels", lambda a: [("mul", a)], lambda y, a: y * a, [("C", *ones)]),
        Program(
            "sub batched channels", lambda a: [("sub", a)], lambda y, a: y - a, [(1, "C", *ones)]
        ),
        Program("div tensor", lambda a: [("div", a)], lambda y, a: y / a, [("N", "C", "S")]),
        Program("add row", lambda a: [("add", a)], lambda y, a: y + a, [("N", 1, *ones[1:], "W")]),
        Program(
            "prelu",
            lambda a: [("prelu", a)],
            lambda y, a: F.prelu(y, a),
            [("C",)],
        ),
        Program(
            "two_slope",
            lambda a, b: [("two_slope", a, b)],
            lambda y, a, b: torch.where(y > 0, y * a, y * b),
            [("C", *ones), ()],
        ),
        Program(
            "batch_norm",
            lambda m, v, w, b: [("batch_norm", m, v, w, b, 1e-3)],
            lambda y, m, v, w, b: F.batch_norm(y, m, v, w, b, eps=1e-3),
            [("C",)] * 4,
        ),
        Program(
            "double leaky, scale, max pool",
            lambda m: ["leaky_relu 0.2", ("mul", m), "leaky_relu 0.2", "max_pool 2"],
            lambda y, m: _pool("max_pool", nd, 2)(F.leaky_relu(F.leaky_relu(y, 0.2) * m, 0.2)),
            [("C", *ones)],
        ),
        Program(
            "scale, avg pool, bias, scale",
            lambda s, b, t: [("mul", s), "avg_pool 2", ("add", b), ("mul", t)],
            lambda y, s, b, t: (_pool("avg_pool", nd, 2)(y * s) + b) * t,
            [(), ("C", *ones), ()],
        ),
    ]


def fill(shape: Sequence[Any], y_shape: Sequence[int]) -> list[int]:
    """A shape of Program.shapes for a result of the convolution."""
    extents: list[int] = []
    for letter in shape:
        if letter == "S":
            extents += y_shape[2:]
        else:
            extents.append({"N": y_shape[0], "C": y_shape[1], "W": y_shape[-1]}.get(letter, letter))
    return extents


def operands_for(program: Program, y_shape: Sequence[int], dtype: torch.dtype) -> list[Tensor]:
    operands = [torch.randn(fill(shape, y_shape)).to(dtype) for shape in program.shapes]
    if program.name == "batch_norm":
        operands[1] = operands[1].abs() + 0.5
    if program.name == "div tensor":
        operands[0] = operands[0].abs() + 1
    return operands


def assert_near(y: Tensor, exact: Tensor, other: Tensor | None = None, factor: float = 4) -> None:
    """|y - exact| is no more than that of PyTorch's own result in the same type, other, times a
    factor, or a few roundings of the largest number."""
    exact = exact.double()
    assert y.shape == exact.shape
    error = (y.double() - exact).abs()
    unit = torch.finfo(y.dtype).eps
    allowed = 16 * 2**-24 * exact.abs().max() + unit * exact.abs() + 2**-20
    if other is not None:
        allowed = torch.maximum(allowed, factor * (other.double() - exact).abs().max())
    worst = (error - allowed).max().item() if error.numel() else 0.0
    assert worst <= 0, f"off by {error.max().item():.3g}, {worst:.3g} more than allowed"
