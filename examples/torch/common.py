# SPDX-License-Identifier: Apache-2.0
"""What the examples share: a device, a clock."""

import statistics
import time

import torch


def default_device():
    return "cuda" if torch.cuda.is_available() else "cpu"


def milliseconds(call, runs=5):
    """The median of a few runs, after one that plans and packs."""
    call()
    samples = []
    for _ in range(runs):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        samples.append((time.perf_counter() - start) * 1e3)
    return statistics.median(samples)


def compare(name, eager, fused):
    """Runs both, prints times and the largest difference, and returns that difference."""
    difference = float((eager() - fused()).abs().max())
    before, after = milliseconds(eager), milliseconds(fused)
    print(f"{name}: PyTorch {before:.2f} ms, upconv {after:.2f} ms; difference {difference:.1e}")
    return difference
