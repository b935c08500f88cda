# SPDX-License-Identifier: Apache-2.0
"""Plans and prepared calls, made once for what distinguishes calls and found again."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .. import _core
from .._prepared import Packing
from .._problem import problem_text
from .._tuning import on_tuning

DTYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
_MOST_PLANS = 512
_lock = threading.Lock()


class KeptPlan:
    """A plan and its prepared packings: one for each layout of parameters."""

    def __init__(self, plan: _core.Plan) -> None:
        self.plan = plan
        self.packings: dict[Any, tuple[Packing, bool]] = {}

    def packing(
        self, weight: Tensor, bias: Tensor | None, params: Sequence[Tensor]
    ) -> tuple[Packing, bool]:
        """The packing for tensors like these, and whether each of them is dense."""
        tensors = [weight, *([] if bias is None else [bias]), *params]
        key = tuple([(t.shape, t.stride(), t.dtype) for t in tensors])
        found = self.packings.get(key)
        if found is None:
            packing = self.plan.prepare_pack(
                described(weight, weight.dim()),
                None if bias is None else described(bias, 1),
                [_flat(param) for param in params],
            )
            found = self.packings[key] = (packing, all(_is_dense(t) for t in tensors))
        return found


def described(tensor: Tensor, rank: int) -> tuple[Any, ...]:
    """A tensor for the library, with axes of extent 1 in front up to that rank."""
    missing = rank - tensor.dim()
    shape, strides = (1,) * missing + tuple(tensor.shape), (0,) * missing + tensor.stride()
    return (0, DTYPES[tensor.dtype], shape, strides)


def is_vector(tensor: Tensor) -> bool:
    """Whether at most one axis has more than one element."""
    return sum(extent != 1 for extent in tensor.shape) <= 1


def _flat(param: Tensor) -> tuple[Any, ...]:
    """A parameter as a vector, whatever its shape: the step is that of its one axis of more than
    one element."""
    step = max([s for extent, s in zip(param.shape, param.stride()) if extent > 1], default=1)
    return (0, DTYPES[param.dtype], (param.numel(),), (step,))


def _is_dense(tensor: Tensor) -> bool:
    """Whether the elements lie side by side, in whatever order."""
    expected = 1
    for extent, stride in sorted(zip(tensor.shape, tensor.stride()), key=lambda pair: pair[1]):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True


# ---------------------------------------------------------------- plans

_plans: OrderedDict[Any, KeptPlan] = OrderedDict()


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()  # another thread may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def forget() -> None:
    """Every plan; calls that are prepared keep theirs."""
    with _lock:
        _plans.clear()


on_tuning(forget)


def _rounded(extent: int) -> int:
    return 1 << max(extent - 1, 0).bit_length()


def plan_for(
    device: str, threads: int, batch: int, in_size: Sequence[int], **fields: Any
) -> KeptPlan:
    """The plan for a problem. Plans serve any batch and size, but choose tiles for those of the
    call that made them: sizes that differ by more than the next power of two have plans of their
    own."""
    near = problem_text(batch=_rounded(batch), in_size=[_rounded(i) for i in in_size], **fields)
    key = (device, threads, near)
    with _lock:
        kept = _plans.get(key)
        if kept is not None:
            _plans.move_to_end(key)
            return kept
    context = _core.context(device, threads)
    exact = problem_text(batch=batch, in_size=in_size, **fields)
    capturing = device.startswith("cuda") and torch.cuda.is_current_stream_capturing()
    made = KeptPlan(_core.Plan(context, exact, tuning="stored" if capturing else None))
    with _lock:
        kept = _plans.setdefault(key, made)  # another thread may have been faster
        if len(_plans) > _MOST_PLANS:
            _plans.popitem(last=False)
    return kept
