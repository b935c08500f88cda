# SPDX-License-Identifier: Apache-2.0
"""Our side: a fused copy of the model, or a drop-in that was written by hand."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import upconv
from upconv.bench.problem import Problem, UsageError, convert_model
from upconv.bench.sides import reason


@dataclass(frozen=True)
class Ours:
    """The model that is compared, and what to say of it."""

    model: torch.nn.Module
    explanation: str


def fused(model: torch.nn.Module, inputs: list[Any]) -> Ours:
    """A copy with the same weights, fused as far as upconv.fuse can."""
    twin = copy.deepcopy(model)
    try:
        result = upconv.fuse(twin, tuple(inputs))
    except Exception as error:  # the model stays as it is, and the report says so
        return Ours(copy.deepcopy(model), f"nothing was fused: {reason(error)}")
    return Ours(result, str(upconv.explain(result)).strip())


def drop_in(
    problem: Problem, make: Callable[..., torch.nn.Module], original: torch.nn.Module, seed: int
) -> Ours:
    """ModelNew with the weights of the original."""
    model = problem.model(seed, make)
    try:
        model.load_state_dict(original.state_dict())
    except RuntimeError as error:
        raise UsageError(f"ModelNew does not load Model's state_dict: {error}") from error
    tensor = next((t for t in original.parameters()), None)
    if tensor is not None:
        convert_model(model, tensor.device, tensor.dtype)
    return Ours(model.train(original.training), "ModelNew of a drop-in file")
