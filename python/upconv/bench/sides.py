# SPDX-License-Identifier: Apache-2.0
"""The sides of the comparison: ours, and PyTorch's ways to run the same model."""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

UPCONV, EAGER, COMPILE = "upconv", "eager", "torch.compile"
LAST = ", channels-last"
FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


@dataclass
class Side:
    """One way to run a model: call() makes the outputs."""

    name: str
    model: Callable[..., Any] | None
    inputs: list[Any]
    skipped: str = ""  # why it is not measured

    def call(self) -> Any:
        assert self.model is not None
        return self.model(*self.inputs)


def channels_last(values: Any) -> Any:
    """The same tensors, those of rank 4 and 5 with their channels last in memory."""

    def one(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dim() in FORMATS:
            return value.contiguous(memory_format=FORMATS[value.dim()])
        return value

    return pytree.tree_map(one, values)


def has_other_format(inputs: list[Any]) -> bool:
    return any(
        isinstance(v, torch.Tensor) and v.dim() in FORMATS for v in pytree.tree_leaves(inputs)
    )


def model_channels_last(model: torch.nn.Module) -> torch.nn.Module:
    """A copy with the kernels of its convolutions channels-last."""
    twin = copy.deepcopy(model)
    for module in twin.modules():
        weight = getattr(module, "weight", None)
        if isinstance(weight, torch.nn.Parameter) and weight.dim() in FORMATS:
            weight.data = channels_last(weight.data)
    return twin


def reason(error: BaseException) -> str:
    """The first line of an error, as people read it."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:200]


def rivals(model: torch.nn.Module, inputs: list[Any], compiles: bool) -> list[Side]:
    """PyTorch's sides, each with its own copy of the model."""
    sides = [Side(EAGER, copy.deepcopy(model), inputs)]
    if has_other_format(inputs):
        sides.append(Side(EAGER + LAST, model_channels_last(model), channels_last(inputs)))
    if compiles:
        plain = list(sides)
        for side in plain if inputs_on_cuda(inputs) else plain[:1]:
            name = side.name.replace(EAGER, COMPILE)
            sides.append(Side(name, torch.compile(side.model, dynamic=False), side.inputs))
    return sides


def inputs_on_cuda(inputs: list[Any]) -> bool:
    return any(isinstance(v, torch.Tensor) and v.is_cuda for v in pytree.tree_leaves(inputs))


def prepare(side: Side, times: int) -> None:
    """Runs a side before it is timed; one that cannot run says why and is left out."""
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            for _ in range(times):
                side.call()
    except Exception as error:  # a compiler may raise anything
        if side.name in (UPCONV, EAGER):
            raise
        side.skipped, side.model = reason(error), None
