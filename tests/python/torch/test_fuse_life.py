# SPDX-License-Identifier: Apache-2.0
"""What happens to a fused model after it was fused: wrong calls, other classes, copies; and classes
of models that want more than nn.Module does."""

from __future__ import annotations

import copy
import logging
from typing import Any, ClassVar

import pytest
import torch
from fuse_support import Executed, Tail, check, close, operators
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

import upconv


def _x() -> Tensor:
    torch.manual_seed(31)
    return torch.randn(2, 4, 3, 5)


def _block() -> nn.Sequential:
    torch.manual_seed(32)
    return nn.Sequential(nn.ConvTranspose2d(4, 6, 3, stride=2), nn.ReLU())


def _calls(model: nn.Module) -> int:
    with torch.no_grad(), Executed() as executed:
        model(_x())
    return executed.calls


# ---- calls that fail


@pytest.mark.parametrize("first", ["wrong", "right"])
def test_a_wrong_call_is_pytorchs_error_and_no_more(
    first: str, caplog: pytest.LogCaptureFixture
) -> None:
    """torch._dynamo would never trace the model again, and warn at length."""
    model = _block()
    fused = upconv.fuse(model)
    if first == "right":
        assert _calls(fused) == 1
    with caplog.at_level(logging.WARNING):
        for wrong in (_x().double(), _x()[:, :3], _x()[0, 0]):
            with pytest.raises(RuntimeError) as expected:
                model(wrong)
            with pytest.raises(type(expected.value)) as got:
                fused(wrong)
            assert str(got.value) == str(expected.value)
            assert _calls(fused) == 1
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "could not be traced" not in str(upconv.explain(fused))


def test_an_error_in_a_traced_model_costs_no_graphs() -> None:
    def function(self: Any, y: Tensor) -> Tensor:
        if self.fail:
            raise KeyError("asked for")
        return torch.relu(y)

    fused = upconv.fuse(Tail(nn.ConvTranspose2d(4, 6, 3), function, fail=False))
    for _ in range(3):
        fused.fail = True
        with pytest.raises(KeyError, match="asked for"):
            fused(_x())
        fused.fail = False
        assert _calls(fused) == 1


class _Untraceable(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        torch._dynamo.graph_break()
        return x


def test_explanation_of_what_was_called_and_not_traced() -> None:
    """A graph break in a loop, such as Sequential's, leaves the whole forward to Python."""
    fused = upconv.fuse(_block().append(_Untraceable()))
    assert "call it" in str(upconv.explain(fused))
    fused(_x())
    text = str(upconv.explain(fused))
    if not upconv.explain(fused).fused:
        assert "call it" not in text and "TORCH_LOGS" in text


def test_explanation_of_an_error_that_only_tracing_meets(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(module: Any) -> None:
        raise ValueError("asked for")

    model = _block()
    fused = upconv.fuse(model)
    monkeypatch.setattr("upconv._torch_fuse.model.fuse_graph", fail)
    close(fused(_x()), model(_x()))
    text = str(upconv.explain(fused))
    assert "could not be traced" in text and "asked for" in text


# ---- classes


def test_class_with_arguments_and_a_register() -> None:
    class Registered(nn.Module):
        known: ClassVar[list[str]] = []

        def __init_subclass__(cls, *, name: str, **keywords: Any) -> None:
            super().__init_subclass__(**keywords)
            cls.known.append(name)

    class Model(Registered, name="model"):
        def __init__(self) -> None:
            super().__init__()
            self.up = nn.ConvTranspose2d(4, 6, 3)

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(self.up(x))

    assert operators(check(Model(), _x())[0]) == ["relu"]
    assert Registered.known == ["model"]


def test_class_with_slots_is_left_as_it_is() -> None:
    class Slotted(nn.Sequential):
        __slots__ = ("factor",)

    model = Slotted(nn.ConvTranspose2d(4, 6, 3))
    assert upconv.fuse(model) is model
    assert "__slots__" in str(upconv.explain(model))


class _Exponential(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.exp()


class _Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(4, 6, 3)
        self.scale = nn.Parameter(torch.ones(6, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.up(x) * self.scale


@pytest.mark.parametrize("whose", ["fused", "original"])
def test_parametrizations_of_the_model_itself(whose: str) -> None:
    """They give the module another class."""
    model = _Scaled()
    fused = upconv.fuse(model)
    assert _calls(fused) == 1
    target = {"fused": fused, "original": model}[whose]
    parametrize.register_parametrization(target, "scale", _Exponential())
    close(fused(_x()), fused.up(_x()) * torch.e)
    close(model(_x()), fused(_x()))
    close(copy.deepcopy(fused)(_x()), fused(_x()))
    assert _calls(fused) == 1
    assert isinstance(fused, _Scaled) and fused.__class__ is type(model)
    parametrize.remove_parametrizations(target, "scale")
    assert type(model) is _Scaled
    close(fused(_x()), fused.up(_x()) * torch.e)
    assert _calls(fused) == 1


def test_weight_norm_before_and_after() -> None:
    model = nn.ConvTranspose2d(4, 6, 3)
    expected = model(_x())
    fused = upconv.fuse(model)
    parametrizations.weight_norm(fused)
    close(fused(_x()), expected)
    again = upconv.fuse(model, _x())
    assert str(upconv.explain(again)).startswith("ParametrizedConvTranspose2d: 1 of 1")
    parametrize.remove_parametrizations(again, "weight")
    close(model(_x()), expected)
    close(again(_x()), expected)
    assert _calls(again) == 1


def test_shallow_copy_has_its_own_attributes() -> None:
    fused = upconv.fuse(_block())
    twin = copy.copy(fused)
    twin.extra = 1
    assert not hasattr(fused, "extra")
    assert twin[0].weight is fused[0].weight
    assert _calls(twin) == 1


# ---- tails


def test_slice_of_a_module_list() -> None:
    """The slice is a new module, whose making leaves a node in the graph."""
    rest = nn.ModuleList([nn.Identity(), nn.Tanh(), nn.MaxPool2d(2)])

    def function(self: Any, y: Tensor) -> Tensor:
        for layer in self.rest[1:]:
            y = layer(y)
        return y

    entry = check(Tail(nn.ConvTranspose2d(4, 6, 3), function, rest=rest), _x())[0]
    assert operators(entry)[0] == "tanh" and "max_pool" in entry.epilogue


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda m, y: y.amin(1, keepdim=True) + m.channels, ["min c"]),
        (lambda m, y: m.channels * y.amin(1, keepdim=True).relu(), ["min c", "relu"]),
        (lambda m, y: y.mean((2, 3), keepdim=True) - m.image, ["mean hw"]),
        (lambda m, y: y.mean(3, keepdim=True) - m.image, ["mean w"]),
        (lambda m, y: torch.prelu(y.amax(1, keepdim=True) + m.channels, m.slopes), ["max c"]),
    ],
)
def test_operands_larger_than_the_value_end_the_tail(function: Any, expected: list[str]) -> None:
    model = Tail(
        nn.ConvTranspose2d(4, 6, 3),
        function,
        channels=nn.Parameter(torch.rand(6, 1, 1)),
        image=torch.rand(5, 7),
        slopes=nn.Parameter(torch.rand(6)),
    )
    entry = check(model, _x())[0]
    assert operators(entry) == expected
    assert "larger than the value" in entry.stop
