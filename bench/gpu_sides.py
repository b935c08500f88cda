# SPDX-License-Identifier: Apache-2.0
"""PyTorch on a GPU, in its layouts and modes, timed with events; what the machine can do."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import torch
from problems import ROOT, Problem, SuiteError
from torch import nn

sys.path.append(str(ROOT / "python/upconv/bench"))  # its clock alone: the package needs its library
import timing

DTYPES = {
    "ieee": torch.float32,
    "tf32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
}
LAST = {1: torch.contiguous_format, 2: torch.channels_last, 3: torch.channels_last_3d}


class Clock:
    """Times with events; before each run the second-level cache is evicted by reading."""

    def __init__(self, runs: int) -> None:
        self.runs = runs
        self.once = timing.Clock(torch.device("cuda"))
        self.lead = timing.Lead()

    def samples(self, call: Callable[[], object]) -> list[float]:
        """Milliseconds of each run; of slow ones fewer. lead.late says how many have the host's
        time in them."""
        start = time.monotonic()
        for _ in range(3):
            call()
        self.lead = timing.Lead()
        found: list[float] = []
        while len(found) < self.runs and (len(found) < 3 or time.monotonic() < start + 3):
            found.append(self.once(call, self.lead))
        return found

    def median(self, call: Callable[[], object]) -> float:
        return statistics.median(self.samples(call))


def set_mode(mode: str) -> None:
    """PyTorch's switches; also the search for the fastest algorithm."""
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = mode != "ieee"
    torch.backends.cuda.matmul.allow_tf32 = mode != "ieee"


# ---- PyTorch ----


class Tail(nn.Module):
    """What follows the convolution, operator by operator."""

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        self.dims = len(problem.size)
        self.operators = problem.operators
        shape = (problem.co, *[1] * self.dims)
        for i, (name, *arguments) in enumerate(problem.operators):
            if name == "batch_norm":
                norm = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)[self.dims - 1]
                self.add_module(f"norm{i}", norm(problem.co))
            elif arguments and arguments[0].startswith("@"):
                self.register_buffer(f"p{i}", torch.randn(shape))

    def apply_one(self, x: torch.Tensor, i: int) -> torch.Tensor:
        name, *arguments = self.operators[i]
        if name == "batch_norm":
            return getattr(self, f"norm{i}")(x)
        if name in ("max_pool", "avg_pool"):
            return getattr(nn.functional, f"{name}{self.dims}d")(x, int(arguments[0]))
        if name == "leaky_relu":
            return nn.functional.leaky_relu(x, float(arguments[0]))
        if name in ("relu", "sigmoid", "tanh"):
            return getattr(torch, name)(x)
        if name in ("add", "mul", "scale"):
            operand = getattr(self, f"p{i}", None)
            operand = float(arguments[0]) if operand is None else operand
            return x + operand if name == "add" else x * operand
        raise SuiteError(f"operator '{name}' is not supported here")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i in range(len(self.operators)):
            x = self.apply_one(x, i)
        return x


def model_of(problem: Problem) -> nn.Module:
    """The problem as PyTorch's users write it."""
    kind = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)[len(problem.size) - 1]
    convolution = kind(
        problem.ci,
        problem.co,
        problem.kernel,
        problem.stride,
        problem.padding,
        problem.output_padding,
        groups=problem.g,
        bias=problem.bias,
    )
    return nn.Sequential(convolution, Tail(problem)) if problem.operators else convolution


def weight_of(model: nn.Module) -> nn.Parameter:
    """The convolution's: parameters of what follows have fewer axes, or one element along them."""
    return (model[0] if isinstance(model, nn.Sequential) else model).weight


def pytorch(
    problem: Problem, mode: str, clock: Clock, compiled: bool
) -> tuple[dict[str, list[float]], dict[str, int]]:
    """Samples of eager PyTorch in both layouts and, if wanted, of torch.compile; of each side that
    has the host's time in some, in how many."""
    set_mode(mode)
    dtype, dims = DTYPES[mode], len(problem.size)
    model = model_of(problem).cuda().to(dtype).eval()
    samples: dict[str, list[float]] = {}
    with_host: dict[str, int] = {}

    def measure(side: str, call: Callable[[], object]) -> None:
        samples[side] = clock.samples(call)
        if clock.lead.late:
            with_host[side] = clock.lead.late

    with torch.no_grad():
        x = torch.rand((problem.n, problem.ci, *problem.size), device="cuda").to(dtype)
        measure("eager", lambda: model(x))
        if LAST[dims] != torch.contiguous_format:
            last, weight = x.to(memory_format=LAST[dims]), weight_of(model)
            weight.data = weight.data.to(memory_format=LAST[dims])
            measure("channels_last", lambda: model(last))
            weight.data = weight.data.contiguous()
        if compiled:
            torch._dynamo.reset()
            fast = torch.compile(model)
            measure("compile", lambda: fast(x))
    return samples, with_host


# ---- what the machine can do ----


def rates(clock: Clock) -> dict[str, float]:
    """Bytes a second of a copy, read and written; FLOP a second of large matrix products."""
    source = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    seconds = clock.median(lambda: target.copy_(source)) * 1e-3
    found = {"copy": 2 * source.numel() / seconds}
    n = 8192
    for mode, dtype in DTYPES.items():
        set_mode(mode)
        x, y = (torch.randn(n, n, device="cuda").to(dtype) for _ in range(2))
        found[mode] = 2 * n**3 / clock.median(lambda x=x, y=y: x @ y) * 1e3
    return found
