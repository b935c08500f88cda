# SPDX-License-Identifier: Apache-2.0
"""The floor: what the machine could do at best, by rates measured in the same run."""

from __future__ import annotations

import logging
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from upconv.bench.planned import Account
from upconv.bench.reference import tensors_of
from upconv.bench.rounding import convolutions_use_tf32, products_use_tf32, quiet
from upconv.bench.timing import Clock

# It warns that it cannot count Triton's kernels; none are counted here.
logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402


@dataclass(frozen=True)
class Rates:
    """Of the device in the data type and math mode of the run."""

    copy: float  # bytes per second, read and written
    matrix: float  # floating-point operations per second of a large matrix product


@dataclass(frozen=True)
class Floor:
    milliseconds: float
    reason: str  # "copy" or "matrix"
    bytes: int  # inputs, outputs and parameters, each once
    flop: int  # see count_flop


def _best(clock: Clock, call: Callable[[], Any], runs: int = 9) -> float:
    """Seconds of a run. The fastest quarter: a rate is what the machine can do."""
    call()
    samples = [clock(call) for _ in range(runs)]
    return statistics.quantiles(samples, n=4, method="inclusive")[0] / 1e3


def copy_rate(device: torch.device, clock: Clock, size: int) -> float:
    source = torch.ones(size // 4, device=device)
    target = torch.empty_like(source)
    return 2 * size / _best(clock, lambda: target.copy_(source))


def matrix_rate(device: torch.device, dtype: torch.dtype, clock: Clock, side: int) -> float:
    a, b, c = (torch.ones(side, side, device=device, dtype=dtype) for _ in range(3))
    return 2 * side**3 / _best(clock, lambda: torch.mm(a, b, out=c))


def measure_rates(device: torch.device, dtype: torch.dtype, clock: Clock) -> Rates:
    """On the CPU by float32, because most processors compute 16-bit products in it."""
    if device.type != "cuda":
        return Rates(
            copy_rate(device, clock, 1 << 28), matrix_rate(device, torch.float32, clock, 1536)
        )
    roomy = torch.cuda.mem_get_info(device)[0] > 4 << 30
    size, side = (1 << 30, 8192) if roomy else (1 << 27, 4096)
    before = products_use_tf32()
    with quiet():  # the matrix product is what convolutions may use: TF32 where cuDNN may
        torch.backends.cuda.matmul.allow_tf32 = convolutions_use_tf32()
        try:
            return Rates(copy_rate(device, clock, size), matrix_rate(device, dtype, clock, side))
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before


def count_flop(model: Callable[..., Any], inputs: list[Any], account: Account) -> int:
    """Multiply-adds (each counts 2) of convolutions and matrix products, as the model is written;
    of those that upconv runs, what its plans need."""
    counter = FlopCounterMode(display=False)
    with counter:
        model(*inputs)
    saved = max(0, account.written - account.planned)
    return max(0, counter.get_total_flops() - round(saved))


def floor_of(model: torch.nn.Module, inputs: list[Any], flop: int, rates: Rates) -> Floor:
    """The larger of two times: moving every tensor once, and computing."""
    outputs = tensors_of(model(*inputs))
    tensors = [*tensors_of(inputs), *outputs, *model.parameters(), *model.buffers()]
    size = sum(t.numel() * t.element_size() for t in tensors)
    by_copy, by_matrix = size / rates.copy, flop / rates.matrix
    reason = "copy" if by_copy >= by_matrix else "matrix"
    return Floor(1e3 * max(by_copy, by_matrix), reason, size, flop)
