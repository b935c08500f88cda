# SPDX-License-Identifier: Apache-2.0
"""Is a model right? Compares it with the original and with float64, element by element.

An element is right if its distance from the float64 run is at most the larger of
  - its bound, how far right arithmetic of this data type may be (bound.py), and
  - the original's own largest distance on the same input.
NaN and infinities have to be where float64 or the original has them. docs/BENCH_TORCH.md has the
cases in which there is no bound, or float64 is no reference.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from upconv.bench.problem import convert_model
from upconv.bench.reference import (
    batch_of,
    part_of_inputs,
    parts_of,
    run_in_double,
    tensors_of,
)
from upconv.bench.rounding import FLOAT32, Rounding

# Without a bound: as the sum of 1,024 products, relative to the largest magnitude of the output.
NORM = 68 * FLOAT32
# An original further than this from float64, and than its bound, is random or discontinuous.
NO_REFERENCE = {torch.float32: 0.01}


@dataclass
class Verdict:
    """What five fresh inputs showed."""

    right: bool = True
    problems: list[str] = field(default_factory=list)
    inputs: int = 0
    elements: int = 0  # of all outputs
    elements_float64: int = 0  # of these, compared with float64
    error: float = 0.0  # largest |ours - float64|
    original_error: float = 0.0  # largest |original - float64|
    error_over_bound: float = 0.0
    original_over_bound: float = 0.0
    difference: float = 0.0  # largest |ours - original|
    largest_value: float = 0.0
    bound: str = "element by element"
    notes: list[str] = field(default_factory=list)

    def wrong(self, problem: str) -> None:
        self.right = False
        if problem not in self.problems:
            self.problems.append(problem)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def numbers_as_tensors(outputs: Any) -> Any:
    return pytree.tree_map(lambda v: torch.tensor(v) if isinstance(v, float) else v, outputs)


def form(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def largest(values: torch.Tensor) -> float:
    """The largest finite value, or 0."""
    finite = values[torch.isfinite(values)]
    return float(finite.max()) if finite.numel() else 0.0


def norm_bound(rounding: Rounding, size: float) -> float:
    operands = max(rounding.operands, rounding.matmul_operands)
    return (NORM + 4 * operands + 4 * (rounding.stored - FLOAT32)) * size + rounding.smallest


def distance(y: torch.Tensor, value: torch.Tensor, bound: torch.Tensor, dtype: torch.dtype):
    """|y - value|, with 0 where both are the same non-finite value and infinity where only one is.

    An infinity is as good as a number that rounds to it.
    """
    y = y.double()
    stored = value.to(dtype).double()
    overflows = value.abs() + bound > torch.finfo(dtype).max
    same = (y == stored) | (y.isnan() & stored.isnan())
    same |= y.isinf() & overflows & (y.sign() == value.sign())
    found = (y - value).abs().nan_to_num(nan=torch.inf)
    return torch.where(same & ~torch.isfinite(y), 0.0, found)


def apart(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """|a - b| with 0 where both are the same, NaN included."""
    same = (a == b) | (a.isnan() & b.isnan())
    return torch.where(same, 0.0, (a.double() - b.double()).abs()).nan_to_num(nan=torch.inf)


@dataclass
class _Excess:
    """Elements of one output beyond their bound, until the original's own error is known."""

    size: float  # the largest magnitude of the original
    error: float = 0.0
    from_original: float = 0.0
    where: str = ""
    original_error: float = 0.0
    original_beyond: float = 0.0


class Checker:
    """Compares `ours` with `original`; both are called without gradients."""

    def __init__(
        self,
        original: torch.nn.Module,
        ours: Callable[..., Any],
        rounding: Rounding,
        seconds: float,
        advance: Callable[[float], None] = lambda fraction: None,
    ) -> None:
        self.original, self.ours, self.rounding = original, ours, rounding
        self.seconds, self.advance = seconds, advance
        self.verdict = Verdict()
        self.parts: dict[Any, list[slice]] = {}  # of the batch, by the shapes of the inputs
        self.twin: torch.nn.Module | None = None
        try:
            self.twin = convert_model(copy.deepcopy(original), None, torch.float64)
        except Exception as error:  # whatever a model's copy may raise
            self.verdict.note(f"no float64 run: {type(error).__name__}: {error}")

    def run(self, sets: list[Callable[[], list[Any]]]) -> Verdict:
        """Each of the sets makes fresh inputs."""
        began = time.monotonic()
        for number, make in enumerate(sets):
            end = began + self.seconds * (number + 1) / len(sets)
            self.check_inputs(make(), number, len(sets), end)
            self.verdict.inputs += 1
        return self.verdict

    def call(self, model: Callable[..., Any], inputs: list[Any], seed: int) -> Any:
        """With a seed, so that models with dropout draw alike; numbers as tensors."""
        torch.manual_seed(seed)
        return numbers_as_tensors(
            model(*[v.clone() if isinstance(v, torch.Tensor) else v for v in inputs])
        )

    def check_inputs(self, inputs: list[Any], number: int, count: int, end: float) -> None:
        original = self.call(self.original, inputs, number)
        try:
            ours = self.call(self.ours, inputs, number)
        except Exception as error:  # a model that fails where the original does not is wrong
            self.verdict.wrong(f"input {number + 1}: {type(error).__name__}: {error}")
            return
        if not self.same_form(ours, original):
            return
        ours, original = tensors_of(ours), tensors_of(original)
        self.verdict.elements += sum(t.numel() for t in original)
        excesses, done = self.compare_with_original(ours, original), 0
        if self.twin is None:
            self.judge_by_original(ours, original, excesses)
            return
        shapes = tuple(v.shape for v in tensors_of(inputs))
        if shapes not in self.parts:
            self.parts[shapes] = parts_of(self.original, inputs)
        parts = self.parts[shapes]
        first = number * len(parts) // count
        batch = batch_of(inputs, original)
        for place, part in enumerate(parts[first:] + parts[:first]):
            if place and time.monotonic() > end:
                break
            some = part_of_inputs(inputs, batch, part) if len(parts) > 1 else inputs
            if not self.check_part(some, ours, original, part, number, excesses):
                break
            done += 1
            self.advance((number + (place + 1) / len(parts)) / count)
        for excess in excesses:
            self.judge(excess, number)
        if done < len(parts):
            self.verdict.note("float64: not the whole batch; the rest compared with the original")
            self.judge_by_original(ours, original, excesses)

    def same_form(self, ours: Any, original: Any) -> bool:
        """Whether tensors of the same shapes and types stand in the same structure."""
        forms = [
            str(pytree.tree_map(lambda v: form(v) if isinstance(v, torch.Tensor) else v, side))
            for side in (ours, original)
        ]
        if forms[0] != forms[1]:
            self.verdict.wrong(f"the output is {forms[0]}, that of the original {forms[1]}")
        return forms[0] == forms[1]

    def compare_with_original(self, ours, original) -> list[_Excess]:
        """Notes the largest difference; returns what begins the account of each output."""
        excesses = []
        for a, b in zip(ours, original):
            difference = largest((a.double() - b.double()).abs())
            excesses.append(_Excess(largest(b.abs().double())))
            self.verdict.difference = max(self.verdict.difference, difference)
            self.verdict.largest_value = max(self.verdict.largest_value, excesses[-1].size)
        return excesses

    def judge_by_original(self, ours, original, excesses: list[_Excess]) -> None:
        """Where float64 is not to be had: the norm's bound on each side, NaN in the same places."""
        for a, b, excess in zip(ours, original, excesses):
            allowed = 2 * max(norm_bound(self.rounding, excess.size), excess.original_error)
            worst = float(apart(a, b).max()) if a.numel() else 0.0
            if worst > allowed:
                self.verdict.wrong(f"{worst:.3g} off the original, where {allowed:.3g} is allowed")

    def check_part(self, inputs, ours, original, part: slice, seed: int, excesses: list[_Excess]):
        """Compares one part of the batch with float64; False where that run fails."""
        try:
            torch.manual_seed(seed)
            done = run_in_double(self.twin, inputs, self.rounding)
        except Exception as error:  # whatever the model may raise in float64
            self.verdict.note(f"no float64 run: {type(error).__name__}: {error}".splitlines()[0])
            self.twin = None
            return False
        if done.lost:
            self.verdict.bound = f"of the largest value: {done.lost}"
        values = tensors_of(numbers_as_tensors(done.outputs))
        bounds = [None] * len(values) if done.lost else done.bounds
        for a, b, value, bound, excess in zip(ours, original, values, bounds, excesses):
            if part != slice(None):
                a, b = a[part], b[part]
            if value.shape != a.shape:
                self.verdict.note("float64: a part of the batch has another shape: not compared")
                return False
            self.verdict.elements_float64 += a.numel()
            if not a.is_floating_point():
                self.check_integers(a, b, value)
            elif a.numel():
                self.measure(a, b, value, bound, excess)
        return True

    def check_integers(self, a: torch.Tensor, b: torch.Tensor, value: torch.Tensor) -> None:
        """Counts and indices: as the original, or as float64, where rounding decides."""
        wrong = int(((a != b) & (a != value.to(a.dtype))).sum())
        if wrong:
            self.verdict.wrong(f"{wrong} integers neither as the original nor as float64")

    def measure(self, a, b, value, bound: torch.Tensor | None, excess: _Excess) -> None:
        """Adds one tensor's distances to the verdict and to what is beyond the bound."""
        value = value.double()
        if bound is None:
            size = norm_bound(self.rounding, largest(value.abs()))
            bound = torch.full((), size, dtype=torch.float64, device=value.device)
        bound = torch.where(torch.isfinite(value), bound, 0.0)
        between = apart(a, b)
        error = distance(a, value, bound, a.dtype)
        # Not a number in float64 alone, or in both of the others: the original decides.
        near = between <= norm_bound(self.rounding, excess.size)
        settled = near & ~(torch.isfinite(a) & torch.isfinite(value))
        error = torch.where(settled, 0.0, error)
        own = distance(b, value, bound, b.dtype)
        verdict = self.verdict
        verdict.error = max(verdict.error, float(error.max()))
        verdict.error_over_bound = max(verdict.error_over_bound, _ratio(error, bound))
        verdict.original_over_bound = max(verdict.original_over_bound, _ratio(own, bound))
        excess.original_error = max(excess.original_error, largest(own))
        verdict.original_error = max(verdict.original_error, excess.original_error)
        excess.original_beyond = max(excess.original_beyond, largest(own[own > bound]))
        beyond = torch.where(error > bound, error, 0.0)
        worst = int(beyond.argmax())
        if float(beyond.flatten()[worst]) > excess.error:
            excess.error = float(beyond.flatten()[worst])
            place = [int(i) for i in torch.unravel_index(torch.tensor(worst), a.shape)]
            got, want = (float(t.flatten()[worst]) for t in (a, value))
            excess.where = f"{got:.9g} instead of {want:.9g} at {place} of a part of the output"
        from_original = float(torch.where(error > bound, between, 0.0).max())
        excess.from_original = max(excess.from_original, from_original)

    def judge(self, excess: _Excess, number: int) -> None:
        """What is beyond the bound may still be as near as the original is."""
        place = f"input {number + 1}"
        if excess.original_beyond > NO_REFERENCE.get(self.rounding.dtype, 0.2) * excess.size:
            self.verdict.note(
                "float64 is no reference: the original differs from it by"
                f" {excess.original_beyond:.3g} (is it random?); compared with the original"
            )
            if excess.from_original > 2 * norm_bound(self.rounding, excess.size):
                self.verdict.wrong(f"{place}: {excess.from_original:.3g} off the original")
        elif excess.error > excess.original_error:
            self.verdict.wrong(
                f"{place}: {excess.where}: an error of {excess.error:.3g}, beyond the bound and the"
                f" original's own {excess.original_error:.3g}"
            )


def _ratio(error: torch.Tensor, bound: torch.Tensor) -> float:
    """The largest error over bound; 0 / 0 counts as 0."""
    ratio = torch.where(error > 0, error / bound, 0.0)
    return float(ratio.nan_to_num(nan=0.0, posinf=torch.inf).max())
