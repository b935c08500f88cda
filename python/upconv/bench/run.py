# SPDX-License-Identifier: Apache-2.0
"""One problem from file to result: build, fuse, check, measure."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from upconv.bench import fusion, sides, timing
from upconv.bench.check import Checker, Verdict
from upconv.bench.floor import Rates, count_flop, floor_of, measure_rates
from upconv.bench.planned import account_of
from upconv.bench.problem import Problem, UsageError, convert_model, load, load_drop_in
from upconv.bench.rounding import rounding_of, set_math

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Options:
    """What a user may choose; see the program's --help."""

    device: str = "cpu"
    dtype: torch.dtype | None = None
    math: str | None = None
    inputs: int = 5
    runs: int = 15
    seconds: float = 60.0  # that timing may take
    check_seconds: float = 60.0
    compiles: bool = True
    train: bool = False
    seed: int = 0
    drop_in: Path | None = None


def dtype_of(values: Any) -> torch.dtype | None:
    for value in pytree.tree_leaves(values):
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            return value.dtype
    return None


class Runner:
    """Runs problems on one device; its clock and the device's rates serve all of them."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.device = torch.device(options.device)
        set_math(options.math)
        torch.backends.cudnn.benchmark = True  # the opponent at its best
        self.clock = timing.Clock(self.device)
        self.rates: dict[torch.dtype, Rates] = {}

    def __call__(self, path: Path, progress: Progress = lambda *_: None) -> dict[str, Any]:
        """The result as plain data, ready for JSON."""
        with torch.no_grad():
            return self.run(load(path), progress)

    def run(self, problem: Problem, progress: Progress) -> dict[str, Any]:
        options = self.options
        progress("building", 0)
        model = problem.model(options.seed)
        convert_model(model, self.device, options.dtype).train(options.train)
        inputs = problem.inputs(options.seed, self.device, options.dtype)
        self.try_original(problem, model, inputs)
        dtype = dtype_of(list(model.parameters())) or dtype_of(inputs) or torch.float32
        ours = self.make_ours(problem, model, inputs)
        verdict = self.check(problem, model, ours.model, dtype, progress)
        result = {
            "file": str(problem.path),
            "name": problem.name,
            "dtype": str(dtype).removeprefix("torch."),
            "inputs": [list(v.shape) for v in pytree.tree_leaves(inputs) if torch.is_tensor(v)],
            "fused": ours.explanation,
            "check": verdict.as_dict(),
        }
        if verdict.right:
            result |= self.measure(model, ours.model, inputs, dtype, progress)
        return result

    def try_original(self, problem: Problem, model: torch.nn.Module, inputs: list[Any]) -> None:
        try:
            model(*inputs)
        except Exception as error:  # the file's own code
            raise UsageError(f"{problem.path}: Model.forward: {sides.reason(error)}") from error

    def make_ours(self, problem: Problem, model: torch.nn.Module, inputs: list[Any]) -> fusion.Ours:
        if self.options.drop_in is None:
            return fusion.fused(model, inputs)
        return fusion.drop_in(problem, load_drop_in(self.options.drop_in), model, self.options.seed)

    def check(
        self, problem: Problem, model, ours, dtype: torch.dtype, progress: Progress
    ) -> Verdict:
        options = self.options

        def fresh(number: int) -> Callable[[], list[Any]]:
            seed = options.seed + 1 + number
            return lambda: problem.inputs(seed, self.device, options.dtype)

        checker = Checker(
            copy.deepcopy(model),
            ours,
            rounding_of(self.device, dtype),
            options.check_seconds,
            lambda fraction: progress("checking against float64", 0.5 * fraction),
        )
        progress("checking against float64", 0)
        return checker.run([fresh(number) for number in range(options.inputs)])

    def measure(self, model, ours, inputs, dtype: torch.dtype, progress: Progress) -> dict:
        options = self.options
        if dtype not in self.rates:
            progress("measuring the device", 0.5)
            self.rates[dtype] = measure_rates(self.device, dtype, self.clock)
        everyone = [sides.Side(sides.UPCONV, ours, inputs)]
        everyone += sides.rivals(model, inputs, options.compiles)
        for place, side in enumerate(everyone):
            progress(f"warming up: {side.name}", 0.55 + 0.2 * place / len(everyone))
            sides.prepare(side, times=3)
        progress("timing", 0.75)
        there = [side for side in everyone if not side.skipped]
        calls = {side.name: side.call for side in there}
        leads = {name: timing.Lead() for name in calls}
        samples = timing.take_turns(self.clock, calls, options.runs, options.seconds, leads)
        memory = {side.name: timing.peak_memory(self.device, side.call) for side in there}
        account = account_of(ours, inputs)
        flop = count_flop(model, inputs, account)
        rates = self.rates[dtype]
        return {
            "convolutions_by_upconv": account.convolutions,
            "sides": [summary(side, samples.get(side.name), leads, memory) for side in everyone],
            "floor": asdict(floor_of(model, inputs, flop, rates)),
            "rates": asdict(rates),
        }


def summary(
    side: sides.Side,
    samples: list[float] | None,
    leads: dict[str, timing.Lead],
    memory: dict[str, int | None],
) -> dict[str, Any]:
    """A side as plain data."""
    if samples is None:
        return {"name": side.name, "skipped": side.skipped}
    return {
        "name": side.name,
        "median_ms": timing.statistics.median(samples),
        "fastest_ms": min(samples),
        "spread": timing.spread(samples),
        "samples_with_host": leads[side.name].late,
        "memory_bytes": memory[side.name],
        "samples_ms": samples,
    }
