# SPDX-License-Identifier: Apache-2.0
"""Each operator of a tail, in the spellings that models use."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fuse_support import Tail, check, operators
from torch import nn

C = 6


def _convolution(rank: int, channels: int = C, **options: Any) -> nn.Module:
    kind = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)[rank - 1]
    return kind(4, channels, 3, stride=2, padding=1, **options)


def _input(rank: int) -> torch.Tensor:
    return torch.randn(2, 4, *(4, 3, 5)[:rank])


def _channels(value: float, rank: int = 2) -> nn.Parameter:
    return nn.Parameter(value + torch.rand(C, *[1] * rank))


# name: (function of the model and the convolution's result, the operators expected)
ELEMENTWISE: dict[str, tuple[Any, list[str]]] = {
    "add scalar": (lambda m, y: y + 0.5, ["add 0.5"]),
    "radd scalar": (lambda m, y: 2 + y, ["add 2"]),
    "add method": (lambda m, y: y.add(0.1), ["add 0.1"]),
    "add_ method": (lambda m, y: y.add_(0.1), ["add 0.1"]),
    "torch.add": (lambda m, y: torch.add(y, 3), ["add 3"]),
    "add alpha": (lambda m, y: torch.add(1, y, alpha=3), ["mul %0 3", "add 1 %1"]),
    "sub": (lambda m, y: y - 0.25, ["sub 0.25"]),
    "rsub": (lambda m, y: 1 - y, ["sub 1 %0"]),
    "mul": (lambda m, y: y * -2.0, ["mul -2"]),
    "rmul": (lambda m, y: 1e-3 * y, ["mul 0.001"]),
    "div": (lambda m, y: y / 4, ["div 4"]),
    "rdiv": (lambda m, y: 4 / (y * y + 1), ["mul %0", "add 1", "div 1 %2", "mul 4"]),
    "neg": (lambda m, y: -y, ["neg"]),
    "abs": (lambda m, y: y.abs(), ["abs"]),
    "square": (lambda m, y: y**2, ["mul %0 %0"]),
    "sqrt": (lambda m, y: (y.abs() + 0.1).sqrt(), ["abs", "add 0.1", "sqrt"]),
    "rsqrt": (lambda m, y: torch.rsqrt(y * y + 1), ["mul %0", "add 1", "sqrt", "div 1 %3"]),
    "exp": (lambda m, y: torch.exp(y), ["exp"]),
    "reciprocal": (lambda m, y: (y.exp() + 1).reciprocal(), ["exp", "add 1", "div 1 %2"]),
    "relu": (lambda m, y: F.relu(y), ["relu"]),
    "relu method": (lambda m, y: y.relu(), ["relu"]),
    "relu_": (lambda m, y: torch.relu_(y), ["relu"]),
    "relu inplace": (lambda m, y: F.relu(y, inplace=True), ["relu"]),
    "relu6": (lambda m, y: F.relu6(4 * y), ["mul 4", "clamp 0 6"]),
    "threshold": (lambda m, y: F.threshold(y, 0, 0), ["relu"]),
    "leaky_relu": (lambda m, y: F.leaky_relu(y, 0.2), ["leaky_relu 0.2"]),
    "leaky_relu_": (lambda m, y: F.leaky_relu_(y, 0.2), ["leaky_relu 0.2"]),
    "elu": (lambda m, y: F.elu(y, 0.7), ["elu 0.7"]),
    "celu": (lambda m, y: F.celu(y, 0.7), ["celu 0.7"]),
    "selu": (lambda m, y: F.selu(y), ["selu 1.6732632423543772 1.0507009873554805"]),
    "softplus": (lambda m, y: F.softplus(y, 2, 10), ["softplus 2 10"]),
    "softsign": (lambda m, y: F.softsign(y), ["abs", "add 1", "div %0 %2"]),
    "gelu": (lambda m, y: F.gelu(y), ["gelu"]),
    "gelu tanh": (lambda m, y: F.gelu(y, approximate="tanh"), ["gelu_tanh"]),
    "silu": (lambda m, y: F.silu(y), ["silu"]),
    "silu inplace": (lambda m, y: F.silu(y, inplace=True), ["silu"]),
    "swish": (lambda m, y: y * torch.sigmoid(y), ["sigmoid", "mul %0 %1"]),
    "mish": (lambda m, y: F.mish(y), ["mish"]),
    "hardswish": (lambda m, y: F.hardswish(y), ["hardswish"]),
    "hardsigmoid": (lambda m, y: F.hardsigmoid(y), ["hardsigmoid"]),
    "hardtanh": (lambda m, y: F.hardtanh(y, -0.5, 0.5), ["clamp -0.5 0.5"]),
    "clamp": (lambda m, y: y.clamp(-0.1, 0.2), ["clamp -0.1 0.2"]),
    "clamp_": (lambda m, y: y.clamp_(min=0), ["clamp 0 inf"]),
    "clamp max": (lambda m, y: torch.clamp(y, max=0.3), ["clamp -inf 0.3"]),
    "clamp_min": (lambda m, y: torch.clamp_min(y, 0.1), ["clamp 0.1 inf"]),
    "sigmoid": (lambda m, y: y.sigmoid(), ["sigmoid"]),
    "F.sigmoid": (lambda m, y: F.sigmoid(y), ["sigmoid"]),
    "tanh": (lambda m, y: torch.tanh(y), ["tanh"]),
    "tanhshrink": (lambda m, y: F.tanhshrink(y), ["tanh", "sub %0 %1"]),
    "double": (lambda m, y: y + y, ["add %0"]),
    "dropout": (lambda m, y: F.relu(F.dropout(y, 0.5, training=False)), ["relu"]),
    "augmented": (lambda m, y: _augmented(y), ["add 1", "mul 3", "relu"]),
    "softmax": (lambda m, y: torch.softmax(y, 1), ["softmax"]),
    "F.softmax": (lambda m, y: F.softmax(y, dim=1), ["softmax"]),
    "softmin": (lambda m, y: F.softmin(y, dim=1), ["neg", "softmax"]),
    "log_softmax": (lambda m, y: y.log_softmax(1), ["log_softmax"]),
    "logsumexp": (lambda m, y: torch.logsumexp(y, 1, keepdim=True), ["logsumexp"]),
    "logsumexp flat": (lambda m, y: torch.logsumexp(y, 1), ["logsumexp"]),
    "sum c": (lambda m, y: y.sum(1, keepdim=True), ["sum c"]),
    "sum c flat": (lambda m, y: y.sum(dim=1), ["sum c"]),
    "mean c": (lambda m, y: torch.mean(y, 1), ["mean c"]),
    "max c": (lambda m, y: torch.max(y, dim=1, keepdim=True)[0], ["max c"]),
    "max c values": (lambda m, y: y.max(1).values, ["max c"]),
    "amax": (lambda m, y: y.amax(1), ["max c"]),
    "amin": (lambda m, y: torch.amin(y, (1,), keepdim=True), ["min c"]),
    "min c, tanh": (lambda m, y: y.min(1, True)[0].tanh().tanh(), ["min c", "tanh", "tanh"]),
    "centred": (lambda m, y: y - y.mean(1, keepdim=True), ["mean c", "sub %0 %1"]),
    "clone": (lambda m, y: y.clone().relu_(), ["relu"]),
    "contiguous": (lambda m, y: y.contiguous().relu(), ["relu"]),
    "to": (lambda m, y: y.to(torch.float32).float().relu(), ["relu"]),
}


def _augmented(y: torch.Tensor) -> torch.Tensor:
    y += 1
    y *= 3
    return y.relu()


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_spelling(name: str) -> None:
    torch.manual_seed(1)
    function, expected = ELEMENTWISE[name]
    (entry,) = check(Tail(_convolution(2), function), _input(2))
    assert operators(entry) == expected


MODULES: dict[str, tuple[Any, list[str]]] = {
    "ReLU": (nn.ReLU(inplace=True), ["relu"]),
    "ReLU6": (nn.ReLU6(), ["clamp 0 6"]),
    "LeakyReLU": (nn.LeakyReLU(0.3, inplace=True), ["leaky_relu 0.3"]),
    "PReLU": (nn.PReLU(), ["prelu %0 @p0[]"]),
    "PReLU C": (nn.PReLU(C), ["prelu %0 @p0"]),
    "ELU": (nn.ELU(), ["elu 1"]),
    "SELU": (nn.SELU(), ["selu 1.6732632423543772 1.0507009873554805"]),
    "CELU": (nn.CELU(2.0), ["celu 2"]),
    "Softplus": (nn.Softplus(), ["softplus 1 20"]),
    "Softsign": (nn.Softsign(), ["abs", "add 1", "div %0 %2"]),
    "GELU": (nn.GELU(), ["gelu"]),
    "SiLU": (nn.SiLU(inplace=True), ["silu"]),
    "Mish": (nn.Mish(), ["mish"]),
    "Hardswish": (nn.Hardswish(), ["hardswish"]),
    "Hardsigmoid": (nn.Hardsigmoid(), ["hardsigmoid"]),
    "Hardtanh": (nn.Hardtanh(), ["clamp -1 1"]),
    "Sigmoid": (nn.Sigmoid(), ["sigmoid"]),
    "Tanh": (nn.Tanh(), ["tanh"]),
    "Softmax": (nn.Softmax(dim=1), ["softmax"]),
    "LogSoftmax": (nn.LogSoftmax(dim=1), ["log_softmax"]),
    "Identity": (nn.Sequential(nn.Identity(), nn.ReLU()), ["relu"]),
}


_SEVERAL_RANKS = [(n, r) for n in ("PReLU C", "GELU", "Softmax") for r in (1, 3)]


@pytest.mark.parametrize(("name", "rank"), [*((name, 2) for name in MODULES), *_SEVERAL_RANKS])
def test_module(name: str, rank: int) -> None:
    torch.manual_seed(2)
    module, expected = MODULES[name]
    (entry,) = check(nn.Sequential(_convolution(rank), module), _input(rank))
    assert operators(entry) == expected


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_dropout_and_batch_norm_in_eval_mode(rank: int) -> None:
    torch.manual_seed(3)
    norm = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)[rank - 1](C)
    drop = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)[rank - 1]()
    nn.init.uniform_(norm.weight)
    nn.init.uniform_(norm.bias)
    model = nn.Sequential(_convolution(rank, bias=False), norm, drop, nn.AlphaDropout(), nn.ReLU())
    model(_input(rank))  # so that the statistics are not the initial ones
    (entry,) = check(model.eval(), _input(rank))
    assert operators(entry) == [
        "batch_norm mean=@p0 var=@p1 weight=@p2 bias=@p3 eps=1e-05",
        "relu",
    ]


def test_batch_norm_without_weights() -> None:
    norm = nn.BatchNorm2d(C, affine=False, eps=1e-3)
    (entry,) = check(nn.Sequential(_convolution(2), norm).eval(), _input(2))
    assert operators(entry) == ["batch_norm mean=@p0 var=@p1 eps=0.001"]


def _per_axis(rank: int, number: int) -> str:
    return "x".join([str(number)] * rank)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_pools(rank: int) -> None:
    torch.manual_seed(4)
    index = rank - 1
    maximum = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)[index]
    average = (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)[index]
    two, three, one, none = (_per_axis(rank, number) for number in (2, 3, 1, 0))
    for module, expected in (
        (maximum(2), f"max_pool {two} s{two} p{none} d{one}"),
        (maximum(3, 2, 1), f"max_pool {three} s{two} p{one} d{one}"),
        (maximum(2, 1, 0, 2, ceil_mode=True), f"max_pool {two} s{one} p{none} d{two} ceil"),
        (average(2), f"avg_pool {two} s{two} p{none}"),
        (
            average(3, 2, 1, ceil_mode=True, count_include_pad=False),
            f"avg_pool {three} s{two} p{one} ceil exclude_pad",
        ),
    ):
        (entry,) = check(nn.Sequential(_convolution(rank), module, nn.ReLU(True)), _input(rank))
        assert operators(entry) == [expected, "relu"]


def test_pool_divisor() -> None:
    (entry,) = check(nn.Sequential(_convolution(2), nn.AvgPool2d(2, divisor_override=3)), _input(2))
    assert operators(entry) == ["avg_pool 2x2 s2x2 p0x0 div=3"]


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_global_pools(rank: int) -> None:
    torch.manual_seed(5)
    index = rank - 1
    average = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)[index]
    maximum = (nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.AdaptiveMaxPool3d)[index]
    axes = ("w", "hw", "dhw")[index]
    dims = list(range(2, 2 + rank))
    for function, expected in (
        (average(1), f"mean {axes}"),
        (maximum(1), f"max {axes}"),
        (lambda y: y.mean(dims), f"mean {axes}"),
        (lambda y: y.mean(dims, keepdim=True), f"mean {axes}"),
        (lambda y: y.amax(dims), f"max {axes}"),
        (lambda y: y.sum(dim=tuple(d - 2 - rank for d in dims)), f"sum {axes}"),
    ):
        model = Tail(_convolution(rank), lambda m, y, f=function: f(y) * 2)
        (entry,) = check(model, _input(rank))
        assert operators(entry) == [expected, "mul 2"]


def test_adaptive_pool_of_equal_windows() -> None:
    model = nn.Sequential(nn.ConvTranspose2d(4, C, 2, stride=2), nn.AdaptiveAvgPool2d((4, 3)))
    (entry,) = check(model, torch.randn(2, 4, 4, 3))
    assert operators(entry) == ["avg_pool 2x2"]


def test_adaptive_pool_of_unequal_windows_is_left() -> None:
    (entry,) = check(nn.Sequential(_convolution(2), nn.AdaptiveAvgPool2d(2)), _input(2))
    assert operators(entry) == []
    assert "windows of different sizes" in entry.stop


def test_reduction_over_channels_and_space() -> None:
    (entry,) = check(Tail(_convolution(2), lambda m, y: y.mean((1, 2, 3))), _input(2))
    assert operators(entry) == ["mean hw", "mean c"]


PARAMETERS: dict[str, tuple[Any, Any, str]] = {
    "0-d": (lambda: nn.Parameter(torch.tensor(0.7)), lambda m, y: y * m.p, "mul @p0[]"),
    "one": (lambda: nn.Parameter(torch.rand(1)), lambda m, y: m.p + y, "add @p0[] %0"),
    "C11": (lambda: _channels(0.5), lambda m, y: y * m.p, "mul @p0"),
    "1C11": (lambda: nn.Parameter(torch.rand(1, C, 1, 1)), lambda m, y: y - m.p, "sub @p0"),
    "view": (
        lambda: nn.Parameter(torch.rand(C)),
        lambda m, y: y / (m.p.view(1, -1, 1, 1) + 1),
        "div @p0",
    ),
    "expanded": (
        lambda: nn.Parameter(torch.rand(C)),
        lambda m, y: y * m.p[:, None, None].expand(C, 1, 1),
        "mul @p0",
    ),
    "buffer": (lambda: torch.tensor(2.5), lambda m, y: y * m.p, "mul @p0[]"),
    "integer": (lambda: torch.tensor(3), lambda m, y: y * m.p, "mul @p0[]"),
    "float64": (lambda: torch.tensor(3.5, dtype=torch.float64), lambda m, y: y * m.p, "mul @p0[]"),
    "width": (lambda: nn.Parameter(torch.rand(5)), lambda m, y: y + m.p, "add #t0[w]:f32"),
    "full": (
        lambda: nn.Parameter(torch.rand(2, C, 7, 5)),
        lambda m, y: y + m.p,
        "add #t0:f32",
    ),
    "mask": (
        lambda: torch.rand(1, 1, 7, 5) > 0.5,
        lambda m, y: y * m.p,
        "mul #t0[hw]:f32",
    ),
    "batch": (lambda: torch.rand(2, 1, 1, 1), lambda m, y: y * m.p, "mul #t0[n]:f32"),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_operand(name: str) -> None:
    torch.manual_seed(6)
    make, function, expected = PARAMETERS[name]
    (entry,) = check(Tail(_convolution(2), function, p=make()), _input(2))
    assert operators(entry) == [expected]


def test_operand_after_a_reduction_that_drops_dimensions() -> None:
    model = Tail(
        _convolution(3), lambda m, y: y.mean((2, 3, 4)) * m.p, p=nn.Parameter(torch.rand(C))
    )
    (entry,) = check(model, _input(3))
    assert operators(entry) == ["mean dhw", "mul @p0"]


def test_unbatched_input() -> None:
    (entry,) = check(Tail(_convolution(2), lambda m, y: y.relu().softmax(0)), torch.randn(4, 3, 5))
    assert operators(entry) == ["relu", "softmax"]


def test_one_channel() -> None:
    model = Tail(_convolution(2, 1), lambda m, y: y * m.p, p=nn.Parameter(torch.rand(1, 1, 1)))
    (entry,) = check(model, _input(2))
    assert operators(entry) == ["mul @p0[]"]


UNSUPPORTED: dict[str, tuple[Any, str]] = {
    "softmax over width": (lambda m, y: F.relu(y).softmax(-1), "another dimension"),
    "sin": (lambda m, y: F.relu(y).sin(), "sin is not an operator"),
    "cumsum": (lambda m, y: y.relu().cumsum(2), "cumsum is not an operator"),
    "sum over batch": (lambda m, y: y.relu().sum(0), "batch"),
    "mean of all": (lambda m, y: y.relu().mean(), "overload"),
    "max of all": (lambda m, y: y.relu().max(), "overload"),
    "float64": (lambda m, y: y.relu().double(), "is not an operator"),
    "reshape": (lambda m, y: y.relu().flatten(1), "is not an operator"),
    "power": (lambda m, y: y.relu() ** 3, "power"),
    "instance norm": (lambda m, y: F.instance_norm(y.relu()), "is not an operator"),
    "group norm": (lambda m, y: F.group_norm(y.relu(), 2), "group_norm is not an operator"),
    "dropout": (lambda m, y: F.dropout(y.relu(), 0.0, training=True), "random"),
    "comparison": (lambda m, y: y.relu() > 0.5, "gt is not an operator"),
    "maximum of two": (lambda m, y: torch.maximum(y.relu(), -y), "maximum is not an operator"),
    "indices": (lambda m, y: y.relu().max(1), "does not return a value"),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_operator_ends_the_tail(name: str) -> None:
    torch.manual_seed(7)
    function, reason = UNSUPPORTED[name]
    model = Tail(_convolution(2), lambda m, y: function(m, y))
    plain = name in ("comparison", "dropout", "indices")
    if plain:
        import upconv
        from upconv._torch_fuse import fuse

        fused, x = fuse(model), _input(2)
        with torch.no_grad():
            torch.testing.assert_close(fused(x), model(x), rtol=1e-5, atol=1e-5)
        (entry,) = upconv.explain(fused).fused
    else:
        (entry,) = check(model, _input(2))
    assert operators(entry) == ([] if name == "maximum of two" else ["relu"])
    assert reason in entry.stop
