# SPDX-License-Identifier: Apache-2.0
"""What the tests of fuse share."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

import upconv
from upconv._torch.execute import Statistics
from upconv._torch_fuse import Fused, fuse


class Executed:
    """How many calls the library carried out inside the with statement."""

    def __enter__(self) -> Executed:
        self._before = Statistics.calls
        return self

    def __exit__(self, *exception: object) -> None:
        self.calls = Statistics.calls - self._before


class Tail(nn.Module):
    """A transposed convolution and a function of its result."""

    def __init__(self, convolution: nn.Module, function: Any, **members: Any) -> None:
        super().__init__()
        self.convolution = convolution
        self.function = function
        for name, member in members.items():
            if isinstance(member, Tensor) and not isinstance(member, nn.Parameter):
                self.register_buffer(name, member)
            else:
                setattr(self, name, member)

    def forward(self, x: Tensor, *others: Tensor) -> Any:
        return self.function(self, self.convolution(x), *others)


def close(a: Any, b: Any, dtype: torch.dtype = torch.float32) -> None:
    """The tolerance is that of a different order of summation, and of 16-bit storage after each
    operator."""
    tolerance = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def check(model: nn.Module, *inputs: Any, calls: int | None = 1, **keywords: Any) -> list[Fused]:
    """Compares the fused model with the model, without and with gradients; what was fused. calls:
    by the library in one run, None for any number."""
    plain = copy.deepcopy(model)
    fused = fuse(model)
    with torch.no_grad(), Executed() as executed:
        result = fused(*copy.deepcopy(inputs), **keywords)
    with torch.no_grad():
        close(result, plain(*copy.deepcopy(inputs), **keywords))
    assert calls is None or executed.calls == calls
    compare_gradients(plain, fused, inputs, keywords)
    explanation = upconv.explain(fused)
    assert str(explanation)
    return list(explanation.graphs[0].fused) if explanation.graphs else []


def compare_gradients(
    plain: nn.Module, fused: nn.Module, inputs: Any, keywords: dict[str, Any]
) -> None:
    found = []
    for model in (plain, fused):
        model.zero_grad()
        own = [
            t.clone().requires_grad_() if isinstance(t, Tensor) and t.is_floating_point() else t
            for t in inputs
        ]
        leaves = [t for t in own if isinstance(t, Tensor) and t.is_floating_point()]
        passed = [t.clone() if isinstance(t, Tensor) else t for t in own]
        result = model(*passed, **keywords)
        results = [r for r in torch.utils._pytree.tree_leaves(result) if isinstance(r, Tensor)]
        sum((r * torch.arange(r.numel()).reshape(r.shape).sin()).sum() for r in results).backward()
        parameters = getattr(model, "_orig_mod", model).named_parameters()
        gradients = {name: p.grad for name, p in parameters}
        found.append((result, gradients, [t.grad for t in leaves]))
    close(found[1][0], found[0][0])
    for name, gradient in found[0][1].items():
        assert (gradient is None) == (found[1][1][name] is None), name
        if gradient is not None:
            torch.testing.assert_close(found[1][1][name], gradient, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(found[1][2], found[0][2], rtol=1e-3, atol=1e-4)


def operators(entry: Fused) -> list[str]:
    """The epilogue without its declarations."""
    parts = [part.strip() for part in entry.epilogue.split("|")]
    return [part for part in parts if part and not part.startswith("declare")]
