# SPDX-License-Identifier: Apache-2.0
"""The original in float64, whole or in parts of the batch: what both sides are compared with."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from upconv.bench.bound import Carried, carried
from upconv.bench.problem import convert
from upconv.bench.rounding import Rounding

# Elements of the largest value of a part. With its bound, a rule needs about eight such tensors; on
# the CPU they are small enough for the allocator to use their memory again.
PART = {"cpu": 1 << 21, "cuda": 1 << 25}


def run_in_double(twin: torch.nn.Module, inputs: list[Any], rounding: Rounding) -> Carried:
    """What the model makes anew in forward is float64, too."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return carried(twin, convert(inputs, None, torch.float64), rounding)
    finally:
        torch.set_default_dtype(before)


class _Largest(TorchDispatchMode):
    """Notes the element count of the largest tensor that is made."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 1

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for value in pytree.tree_leaves(result):
            if isinstance(value, torch.Tensor):
                self.elements = max(self.elements, value.numel())
        return result


def tensors_of(values: Any) -> list[torch.Tensor]:
    return [value for value in pytree.tree_leaves(values) if isinstance(value, torch.Tensor)]


def batch_of(inputs: list[Any], outputs: list[torch.Tensor]) -> int:
    """The extent of axis 0 that the first input and every output share, or 0."""
    tensors = [t for t in tensors_of(inputs) if t.dim() > 1][:1] + outputs
    extents = {t.shape[0] if t.dim() else 0 for t in tensors}
    return extents.pop() if len(extents) == 1 and len(tensors) > len(outputs) else 0


def parts_of(model: Callable[..., Any], inputs: list[Any]) -> list[slice]:
    """Slices of the batch small enough for float64; one, the whole, where it cannot be cut."""
    noted = _Largest()
    with noted:
        outputs = tensors_of(model(*inputs))
    batch = batch_of(inputs, outputs)
    most = PART.get(outputs[0].device.type, PART["cpu"]) if outputs else 1
    count = min(max(batch, 1), math.ceil(noted.elements / most))
    if count == 1:
        return [slice(None)]
    size = math.ceil(batch / count)
    return [slice(start, min(start + size, batch)) for start in range(0, batch, size)]


def part_of_inputs(inputs: list[Any], batch: int, part: slice) -> list[Any]:
    """The inputs with every tensor that has the batch on axis 0 cut."""

    def cut(value: Any) -> Any:
        batched = isinstance(value, torch.Tensor) and value.dim() > 1 and value.shape[0] == batch
        return value[part] if batched else value

    return pytree.tree_map(cut, inputs)
