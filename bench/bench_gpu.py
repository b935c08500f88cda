#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Founding models and the users' suite on a GPU: upconv beside PyTorch, and what the machine could
do at best, in one run.

    python3 bench/bench_gpu.py --gpu-run build-gpu/tests/gpu_run --out docs/bench

Both sides are timed with events, medians of many runs; before each run the second-level cache is
evicted by reading a large buffer. PyTorch searches for its fastest algorithm and gets both layouts.
upconv runs what its planner chooses.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

import gpu_report
import torch
from gpu_program import upconv, with_mode
from gpu_sides import Clock, pytorch, rates
from machine import commit
from problems import FOUNDING, ROOT, parse_problem, read_suite

FOUNDING_TITLES = ("A scale-pool", "B grouped", "C double-leaky-max")
FOUNDING_MODES = ("ieee", "tf32", "f16", "bf16")
SUITE_MODES = ("tf32", "f16")
LARGE = ("More than 2^31 outputs", "ci8 co16 in256x320x320 k2 s2", ("f16",))


def suite(large: bool) -> list[tuple[str, str, str, tuple[str, ...]]]:
    """(group, title, text, modes)."""
    rows, titles = [], iter(FOUNDING_TITLES)
    for group, text in read_suite(ROOT / "bench/suite.txt"):
        founding = group == FOUNDING
        title = next(titles) if founding else parse_problem(text).title()
        rows.append((group, title, text, FOUNDING_MODES if founding else SUITE_MODES))
    if large:
        group, text, modes = LARGE
        rows.append((group, parse_problem(text).title(), text, modes))
    return rows


def environment(revision: str | None) -> dict:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    drivers = subprocess.run(query, capture_output=True, text=True, check=False).stdout.split()
    return {
        "gpu": torch.cuda.get_device_name(),
        "driver": " ".join(drivers[:1]),  # one line for each GPU
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),
        "python": platform.python_version(),
        "date": datetime.date.today().isoformat(),
        "commit": revision or commit(),
    }


def measure(row: tuple, mode: str, options: argparse.Namespace, clock: Clock) -> dict:
    group, title, text, _ = row
    ours = upconv(options.gpu_run, with_mode(text, mode), options.runs, options.check)
    samples, with_host = pytorch(parse_problem(text), mode, clock, options.compile)
    medians = {side: statistics.median(values) for side, values in samples.items()}
    torch.cuda.empty_cache()
    return {
        "group": group,
        "title": title,
        "mode": mode,
        "upconv": ours,
        "median_ms": medians,
        "samples_ms": samples,
        "samples_with_host": with_host,
        "speed_up": min(medians.values()) / ours["ms"],
    }


def add_floor(row: dict, rate: dict[str, float]) -> None:
    """The larger of bytes over the copy rate and FLOP over the matrix rate of the mode."""
    memory = row["upconv"]["bytes"] / rate["copy"]
    arithmetic = row["upconv"]["flop"] / rate[row["mode"]]
    row["floor_ms"] = 1e3 * max(memory, arithmetic)
    row["bound_by"] = "memory" if memory > arithmetic else "arithmetic"
    row["fraction_of_floor"] = row["floor_ms"] / row["upconv"]["ms"]


def right(row: dict) -> bool:
    ours = row["upconv"]
    return ours["candidates"][ours["chosen"]]["verdict"] != "WRONG"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpu-run", type=Path, required=True, help="the program tests/gpu/gpu_run")
    parser.add_argument("--runs", type=int, default=30, help="of each side (30)")
    parser.add_argument("--check", action="store_true", help="also against float64: minutes")
    parser.add_argument("--compile", action="store_true", help="also torch.compile: minutes")
    parser.add_argument("--large", action="store_true", help="also 2^31 outputs: 15 GB")
    parser.add_argument("--commit", help="of this code, where git cannot say")
    parser.add_argument("--only", default="", help="rows whose title contains this")
    parser.add_argument("--seconds", type=float, default=1e9, help="begins no row after so many")
    parser.add_argument("--out", type=Path, help="folder for gpu.json and gpu.md")
    return parser.parse_args()


def write(document: dict, folder: Path | None) -> None:
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (
        ("gpu.json", json.dumps(document, indent=1) + "\n"),
        ("gpu.md", gpu_report.markdown(document)),
    ):
        part = folder / f"{name}.part"
        part.write_text(text)
        part.replace(folder / name)


def main() -> int:
    options = parse()
    clock, begin = Clock(options.runs), time.monotonic()
    document = {
        "environment": environment(options.commit),
        "rates": rates(clock),
        "rows": [],
        "left_out": [],
    }
    print(gpu_report.head(document), flush=True)
    for row in suite(options.large):
        for mode in row[3]:
            if options.only not in row[1]:
                continue
            if time.monotonic() - begin > options.seconds:
                document["left_out"].append(f"{row[1]}, {mode}")
                continue
            measured = measure(row, mode, options, clock)
            add_floor(measured, document["rates"])
            document["rows"].append(measured)
            print(gpu_report.line(measured), flush=True)
            write(document, options.out)  # a run that is stopped keeps what it has
    wrong = [row for row in document["rows"] if not right(row)]
    print(gpu_report.summary(document))
    write(document, options.out)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
