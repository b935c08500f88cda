# SPDX-License-Identifier: Apache-2.0
"""What follows from samples and outputs: spread, agreement, floors. Numbers in, numbers out."""

import math
import statistics

import numpy as np

# Largest difference from a rival, as a fraction of the largest value. Rounding alone makes 1e-6.
TOLERANCE = 1e-4


def spread(samples):
    """Half the distance of the quartiles, as a fraction of the median."""
    low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
    return (high - low) / 2 / middle


def compare(ours, theirs):
    """The largest difference; None, which is wrong, when shapes differ or it is not finite."""
    largest = float(np.max(np.abs(theirs)))
    difference = None
    if ours.shape == theirs.shape:
        value = float(np.max(np.abs(ours - theirs)))
        difference = value if math.isfinite(value) else None
    right = difference is not None and difference <= TOLERANCE * largest
    return {"max_abs_difference": difference, "max_abs_value": largest, "agrees": right}


def right(data):
    """Whether a row's results are right by all that was checked."""
    oracle = data["oracle"]
    within = oracle is None or oracle["error_over_bound"] <= 1
    return within and all(value["agrees"] for value in data["agreement"].values())


def add_floors(rows, copy_rate, fma_rate):
    """What the machine could do at best: the larger of bytes over the best copy rate and FLOP over
    the best multiply-add rate that were measured between the runs."""
    for data in rows:
        memory, arithmetic = data["bytes"] / copy_rate, data["flop"] / fma_rate
        data["floor_ms"] = 1e3 * max(memory, arithmetic)
        data["floor_reason"] = "memory" if memory > arithmetic else "arithmetic"
        medians = data["median_ms"]
        data["fraction_of_floor"] = {key: data["floor_ms"] / ms for key, ms in medians.items()}
        data["speedup"] = {
            key: ms / medians["fused"] for key, ms in medians.items() if key != "fused"
        }
