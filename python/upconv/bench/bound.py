# SPDX-License-Identifier: Apache-2.0
"""A float64 run that carries, beside every value, how far right arithmetic may be from it.

`carried(model, inputs, rounding)` runs a float64 model operator by operator. Beside each tensor v
it keeps a tensor E >= 0: a number that right arithmetic computes for v[i] lies within E[i] of it.
The rules are in bound_rules.py; an operator without one ends the bound (`Carried.lost` names it),
never the run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakTensorKeyDictionary

from upconv.bench.bound_rules import DRAWS, EXACT, RULES, Lost
from upconv.bench.rounding import Rounding


@dataclass(frozen=True)
class Carried:
    """Outputs in float64 and, for each tensor among them, its bound (None: exact)."""

    outputs: Any
    bounds: list[torch.Tensor | None]
    lost: str  # the operator that ended the bound; empty when there is one


class BoundMode(TorchDispatchMode):
    """Looks at every operator that runs and keeps the bounds of what it makes."""

    def __init__(self, rounding: Rounding) -> None:
        super().__init__()
        self.rounding = rounding
        self.bounds = WeakTensorKeyDictionary()
        self.lost = ""

    def bound_of(self, value: Any) -> torch.Tensor | None:
        return self.bounds.get(value) if isinstance(value, torch.Tensor) else None

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if not self.lost:
            try:
                self.follow(func, args, kwargs, result)
            except Lost as lost:
                self.lost = str(lost)
        return result

    def follow(self, func: Any, args: tuple, kwargs: dict, result: Any) -> None:
        """Applies the operator's rule, if it reads numbers and makes some."""
        values = [v for v in pytree.tree_leaves(result) if isinstance(v, torch.Tensor)]
        read = [v for v in pytree.tree_leaves((args, kwargs)) if isinstance(v, torch.Tensor)]
        numbers = [v for v in read if v.is_floating_point()]
        if not numbers or not any(v.is_floating_point() for v in values):
            if any(self.bound_of(v) is not None for v in numbers):
                raise Lost(f"{func.overloadpacket} of uncertain values has no rule")
            return
        exact = all(self.bound_of(v) is None for v in numbers)
        if func.overloadpacket in EXACT or (exact and func.overloadpacket is DRAWS):
            return
        rule = RULES.get(func.overloadpacket)
        if rule is None or func._schema.is_mutable:
            raise Lost(f"{func.overloadpacket} has no rule")
        for value, bound in zip(values, rule(self, func, args, kwargs, result)):
            if bound is not None:
                self.bounds[value] = bound.nan_to_num_(nan=torch.inf)


def carried(model: Callable[..., Any], inputs: list[Any], rounding: Rounding) -> Carried:
    """Runs the model; without a bound where the model does something that no rule knows."""
    mode = BoundMode(rounding)
    try:
        # Writing in place becomes making new values, so that a bound belongs to one value.
        with mode:
            outputs = torch.func.functionalize(model)(*inputs)
    except RuntimeError as error:
        outputs = model(*inputs)
        mode.lost = str(error).partition("\n")[0]
    tensors = [v for v in pytree.tree_leaves(outputs) if isinstance(v, torch.Tensor)]
    return Carried(outputs, [mode.bound_of(v) for v in tensors], mode.lost)
