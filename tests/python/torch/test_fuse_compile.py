# SPDX-License-Identifier: Apache-2.0
"""torch.compile(model, backend="upconv")."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fuse_support import Executed, Tail, close, compare_gradients, operators
from torch import Tensor, nn

import upconv


def _model() -> nn.Module:
    torch.manual_seed(41)
    return Tail(
        nn.ConvTranspose2d(4, 6, 3, stride=2),
        lambda m, y: torch.sin(F.max_pool2d(F.leaky_relu(y * m.p), 2)) + 1,
        p=nn.Parameter(torch.rand(6, 1, 1)),
    )


def _x(batch: int = 2) -> Tensor:
    torch.manual_seed(42)
    return torch.randn(batch, 4, 3, 5)


_EXPECTED = ["mul @p0", "leaky_relu 0.01", "max_pool 2x2 s2x2 p0x0 d1x1"]


def _compile(model: nn.Module, inner: str, **options: Any) -> Any:
    return torch.compile(model, backend="upconv", options={"backend": inner}, **options)


def test_backend_is_known_by_name() -> None:
    assert "upconv" in torch._dynamo.list_backends(exclude_tags=())


@pytest.mark.parametrize("inner", ["eager", "aot_eager"])
def test_values_gradients_and_explanation(inner: str) -> None:
    torch._dynamo.reset()
    model = _model()
    compiled = _compile(model, inner)
    with torch.no_grad(), Executed() as executed:
        close(compiled(_x()), model(_x()))
    assert executed.calls == 1
    with Executed() as executed:
        compare_gradients(_model(), compiled, (_x(),), {})
    assert executed.calls == 1
    explanation = upconv.explain(compiled)
    assert operators(explanation.fused[0]) == _EXPECTED
    assert "sin is not an operator" in str(explanation)


def test_dynamic_shapes() -> None:
    torch._dynamo.reset()
    model = _model()
    compiled = _compile(model, "aot_eager", dynamic=True)
    with torch.no_grad():
        for batch in (2, 3, 5):
            with Executed() as executed:
                close(compiled(_x(batch)), model(_x(batch)))
            assert executed.calls == 1
    assert len(upconv.explain(compiled).graphs) == 1


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
def test_the_rest_goes_to_inductor() -> None:
    torch._dynamo.reset()
    model = _model()
    compiled = torch.compile(model, backend="upconv", options={"epilogue_fusion": True})
    with Executed() as executed:
        close(compiled(_x()), model(_x()))
    assert executed.calls == 1
    compiled(_x()).sum().backward()
    gradient = model.convolution.weight.grad.clone()
    model.zero_grad()
    model(_x()).sum().backward()
    torch.testing.assert_close(gradient, model.convolution.weight.grad, rtol=1e-4, atol=1e-4)


def test_other_backends_get_their_options() -> None:
    torch._dynamo.reset()
    seen = []

    def inner(module: torch.fx.GraphModule, inputs: list[Any], **options: Any) -> Any:
        seen.append(options)
        return module.forward

    model = _model()
    compiled = torch.compile(model, backend="upconv", options={"backend": inner, "level": 3})
    with torch.no_grad():
        close(compiled(_x()), model(_x()))
    assert seen == [{"options": {"level": 3}}]
