# SPDX-License-Identifier: Apache-2.0
"""Random programs behind a transposed convolution: in place or not, with copies, views, residuals,
several results and operators that no epilogue has. Whatever is fused, values, gradients and changed
inputs are those of PyTorch."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fuse_support import Executed, close
from torch import Tensor, nn

import upconv

UNARY: list[Callable[[Tensor], Tensor]] = [
    lambda v: v.relu(),
    lambda v: F.leaky_relu(v, 0.2),
    lambda v: v.tanh(),
    lambda v: v * 0.5,
    lambda v: v + 1,
    lambda v: 1 - v,
    lambda v: v.sigmoid(),
    lambda v: F.dropout(v, 0.5, training=False),
    lambda v: v.clone(),
    lambda v: v.contiguous(),
    lambda v: v.sin(),
    lambda v: v.view(v.shape),
    lambda v: v.detach(),
    lambda v: v - v.mean(1, keepdim=True),
    lambda v: v.softmax(1),
    lambda v: v * v.mean((2, 3), keepdim=True),
    lambda v: F.max_pool2d(v, 3, 1, 1),
]
IN_PLACE: list[Callable[[Tensor], Any]] = [
    lambda v: v.mul_(0.5),
    lambda v: v.add_(0.25),
    lambda v: F.hardtanh_(v),
    lambda v: F.relu(v, inplace=True),
    lambda v: v[:, 0].mul_(2),
    lambda v: v.cos_(),
    lambda v: v.view(-1).sub_(1),
    lambda v: v.__setitem__((0, 0), 0.5),
]
BINARY: list[Callable[[Tensor, Tensor], Tensor]] = [
    lambda a, b: a + b,
    lambda a, b: a * b,
    lambda a, b: a - 2 * b,
    lambda a, b: torch.maximum(a, b),
    lambda a, b: a.add_(b),
]


class Program(nn.Module):
    """Steps drawn with a seed; a step reads values made before, the residual r or the parameter."""

    def __init__(self, seed: int, in_place: bool) -> None:
        super().__init__()
        draw = random.Random(seed)
        torch.manual_seed(seed)
        self.up = nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1)
        self.scale = nn.Parameter(torch.rand(4, 1, 1))
        self.steps: list[tuple[Any, ...]] = []
        binary = BINARY if in_place else BINARY[:-1]
        for count in range(2, 2 + draw.randint(2, 9)):
            recent = max(0, count - draw.choice((1, 1, 2, 4)))
            kind = draw.choice("uuuupb" + "i" * in_place)
            if kind == "u":
                self.steps.append((kind, draw.choice(UNARY), recent))
            elif kind == "p":
                self.steps.append((kind, lambda v: v * self.scale, recent))
            elif kind == "b":
                self.steps.append((kind, draw.choice(binary), recent, draw.randrange(count)))
            else:
                self.steps.append((kind, draw.choice(IN_PLACE), recent))
        self.results = [
            draw.randrange(2 + len(self.steps)) for _ in range(draw.choice((0, 0, 1, 2)))
        ]

    def forward(self, x: Tensor, r: Tensor) -> Any:
        values = [r * 1, self.up(x)]
        for kind, function, *reads in self.steps:
            read = [values[i] for i in reads]
            result = function(*read)
            values.append(read[0] if kind == "i" else result)
        return [values[-1], *(values[i] for i in self.results)]


def _inputs() -> tuple[Tensor, Tensor]:
    torch.manual_seed(7)
    return torch.randn(2, 3, 3, 4), torch.randn(2, 4, 5, 7)


def _gradients(model: nn.Module, run: nn.Module) -> Any:
    model.zero_grad()
    x, r = (t.requires_grad_() for t in _inputs())
    try:
        loss = sum((v * (i + 1)).square().sum() for i, v in enumerate(run(x, r)))
        if not loss.requires_grad:
            return []
        loss.backward()
    except RuntimeError as error:
        if "modified by an inplace operation" in str(error):
            return "refused"
        raise
    return [*(p.grad for p in model.parameters()), x.grad, r.grad]


@pytest.mark.parametrize("seed", range(int(os.environ.get("UPCONV_FUSE_PROGRAMS", "60"))))
def test_program(seed: int) -> None:
    in_place = seed % 2 == 1
    model = Program(seed, in_place)
    fused = upconv.fuse(model)
    with torch.no_grad():
        expected = model(*_inputs())
        with Executed() as executed:
            result = fused(*_inputs())
        close(result, expected)
        aliases = [[a is b for b in expected] for a in expected]
        assert [[a is b for b in result] for a in result] == aliases
    found = upconv.explain(fused)
    assert executed.calls == len(found.fused)
    assert "please report" not in str(found)
    reference = _gradients(model, model)
    if reference != "refused":
        gradients = _gradients(model, fused)
        for a, b in zip(gradients, reference, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


@pytest.mark.skipif(torch.__version__ < "2.5", reason="PyTorch 2.4 cuts these programs into pieces")
def test_most_programs_fuse_something() -> None:
    lengths = []
    for seed in range(0, 60, 2):
        fused = upconv.fuse(Program(seed, in_place=False))
        with torch.no_grad():
            fused(*_inputs())
        lengths += [len(entry.operators) for entry in upconv.explain(fused).fused]
    assert len(lengths) >= 12 and sum(lengths) >= 15, lengths
