# SPDX-License-Identifier: Apache-2.0
"""Measures one row: all sides in turns, then whether they agree. Makes plain data for JSON."""

import statistics
import time

import numpy as np
import rivals
from results import compare, spread
from sides import Ours, Rival

LEAST_ROUNDS = 2
# Of a row's entries, as many are compared with the float64 oracle as have this many FLOP.
ORACLE_FLOP = 1.5e9
ORACLE_ENTRIES = 2


def open_rivals(row, threads, with_torch, evict):
    session = rivals.open_session(row.path, threads)
    arrays = rivals.make_inputs(session, {}, {"N": row.batch}, seed=0)
    sides = [Rival("onnxruntime", rivals.Bound(session, arrays), evict)]
    if with_torch:
        from rival_torch import Eager

        sides.append(Rival("torch", Eager(row.path, arrays, threads), evict))
    return arrays, sides


def take_turns(sides, rounds, deadline):
    """Samples of each side, in seconds. Another side begins each round, so that none has the same
    neighbour always; drift of the machine meets all alike."""
    samples = {side.name: [] for side in sides}
    for number in range(rounds):
        began = time.monotonic()
        first = number % len(sides)
        for side in sides[first:] + sides[:first]:
            samples[side.name].extend(side.sample())
        now = time.monotonic()
        if number + 1 >= LEAST_ROUNDS and now + (now - began) > deadline:
            break
    return samples


def run_program(program, row, arrays, folder, name):
    """Our output on the rivals' inputs."""
    inputs = []
    for key, array in arrays.items():
        path = folder / f"{key}.npy"
        np.save(path, array)
        inputs += ["--input", f"{key}={path}"]
    path = folder / "output.npy"
    threads = ("--threads", str(program.threads))
    program.call("run", row.path, *inputs, "--output", f"{name}={path}", *threads)
    return np.load(path)


def check_bounds(program, row, flop):
    """Our largest error over its bound by the float64 oracle, where that is cheap."""
    entries = min(row.batch, ORACLE_ENTRIES, int(ORACLE_FLOP * row.batch // flop))
    if entries < 1:
        return None
    report = program.bench(row, entries, "--repeat", "1", "--verify", allowed=(0, 1))
    result = report["result"]
    return {"entries": entries, "error_over_bound": result["error_over_bound"]}


def measure_row(row, program, options, evict, folder, deadline):
    """Returns the row as data, and the reports of the program, which hold the machine's rates."""
    arrays, others = open_rivals(row, options.threads, options.torch, evict)
    fused = Ours("fused", program, row)
    sides = [fused, Ours("unfused", program, row, "--no-fuse"), *others]
    samples = take_turns(sides, options.rounds, deadline)
    work = fused.reports[0]["result"]
    rival_outputs = {side.name: side.model.outputs() for side in others}
    name = next(iter(rival_outputs["onnxruntime"]))
    output = run_program(program, row, arrays, folder, name)
    data = {
        "group": row.group,
        "title": row.title,
        "model": row.path.name if not row.text else None,
        "problem": row.text or None,
        "batch": row.batch,
        "bytes": work["bytes"],
        "flop": work["flop"],
        "source_bytes": work["source_bytes"],
        "source_flop": work["source_flop"],
        "median_ms": {key: 1e3 * statistics.median(values) for key, values in samples.items()},
        "spread": {key: spread(values) for key, values in samples.items()},
        "samples_ms": {key: [1e3 * s for s in values] for key, values in samples.items()},
        "agreement": {key: compare(output, value[name]) for key, value in rival_outputs.items()},
        "oracle": check_bounds(program, row, work["source_flop"]),
    }
    return data, [report for side in sides[:2] for report in side.reports]
