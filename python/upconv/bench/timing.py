# SPDX-License-Identifier: Apache-2.0
"""Times and memory of sides, measured in turns, each run with cold caches."""

from __future__ import annotations

import ctypes
import gc
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

# Read before every run.
LEAST_FLUSH, MOST_FLUSH = 64 << 20, 1 << 30
# On a GPU the buffer is read as often as queueing a run behind it takes, but not oftener than this.
MOST_READS = 64
# OpenMP's threads, which read the buffer, spin for up to 10 ms after their work; whoever comes next
# would have to share the processors with them.
SETTLE = 0.02


def last_cache_bytes() -> int:
    try:
        return os.sysconf("SC_LEVEL3_CACHE_SIZE")
    except (ValueError, OSError):
        return 0


@dataclass
class Lead:
    """What keeps a GPU busy while the host queues a side's run: as many reads as it has needed."""

    reads: int = 1
    late: int = 0  # samples whose run the device began before all of it was queued


class Clock:
    """Measures one call in milliseconds."""

    def __init__(self, device: torch.device) -> None:
        self.cuda = device.type == "cuda"
        if self.cuda:
            total = torch.cuda.get_device_properties(device).total_memory
            size = min(MOST_FLUSH, total // 16)
        else:  # virtual machines report the whole host's cache
            size = min(max(2 * last_cache_bytes(), LEAST_FLUSH), 256 << 20)
        self.flush = torch.ones(size // 4, dtype=torch.float32, device=device)

    def __call__(self, call: Callable[[], Any], lead: Lead | None = None) -> float:
        if self.cuda:
            return self._on_gpu(call, lead or Lead())
        self.flush.sum()  # reading leaves no lines to write back while the clock runs
        time.sleep(SETTLE)
        start = time.perf_counter()
        call()
        return (time.perf_counter() - start) * 1e3

    def _on_gpu(self, call: Callable[[], Any], lead: Lead) -> float:
        """A run that the device begins before all of it is queued would measure the host: it is
        done again behind twice as many reads, until there are MOST_READS."""
        while True:
            for _ in range(lead.reads):
                self.flush.sum()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            call()
            end.record()
            late = begin.query()
            end.synchronize()
            if not late or lead.reads >= MOST_READS:
                break
            lead.reads *= 2
        lead.late += late
        return begin.elapsed_time(end)


def take_turns(
    clock: Clock,
    calls: dict[str, Callable[[], Any]],
    runs: int,
    seconds: float,
    leads: dict[str, Lead],
) -> dict[str, list[float]]:
    """Samples of each side. Rounds begin with another side each, so that drift meets all alike.
    leads has one for each side, which is brought up to date.

    Stops after `seconds` once every side has three samples.
    """
    samples: dict[str, list[float]] = {name: [] for name in calls}
    names, end = list(calls), time.monotonic() + seconds
    for number in range(runs):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            samples[name].append(clock(calls[name], leads[name]))
        if number >= 2 and time.monotonic() > end:
            break
    return samples


def spread(samples: list[float]) -> float:
    """Half the distance of the quartiles, relative to the median."""
    if len(samples) < 2:
        return 0.0
    low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
    return (high - low) / 2 / middle if middle else 0.0


def _status(key: str) -> int:
    """A line of /proc/self/status in bytes."""
    with open("/proc/self/status") as lines:
        for line in lines:
            if line.startswith(key):
                return int(line.split()[1]) << 10
    raise OSError(f"no {key}")


def peak_memory(device: torch.device, call: Callable[[], Any]) -> int | None:
    """Bytes that a run needs beyond what is there before it, its outputs included; None: unknown.

    On a GPU by PyTorch's allocator, on Linux by the process's resident memory.
    """
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    try:
        ctypes.CDLL(None).malloc_trim(0)
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # the high-water mark becomes what is resident now
        before = _status("VmRSS:")
        call()
        return max(0, _status("VmHWM:") - before)
    except (OSError, AttributeError):
        return None
