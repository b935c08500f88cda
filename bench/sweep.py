#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Neighbours of the founding models on a GPU: one size, channel count or batch varied at a time.

    python3 bench/sweep.py --gpu-run build-gpu/tests/gpu_run --out docs/bench/sweep.json

Each point is measured with what the planner chooses for it. Its time is divided by its own floor,
so that points of different size compare; between neighbours along a line the quotient should not
jump.
Needs Python alone. Draw it with bench/plot_sweep.py.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gpu_program import read_upconv, with_mode
from machine import commit
from problems import FOUNDING, ROOT, read_suite

# What is added to a count. Channels of a grouped problem move by whole groups.
STEPS = {"n": (-8, -1, 0, 1, 8), "ci": (-4, -1, 0, 1, 4), "co": (-4, -1, 0, 1, 4)}
SIZES = (-2, -1, 0, 1, 2, 8)
NAMES = ("A", "B", "C")
WANTED = 1.5
AT_ONCE = 16  # points of one process


def counts(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in re.findall(r"\b(n|ci|co|g)(\d+)\b", text)}


def with_count(text: str, name: str, value: int) -> str:
    return re.sub(rf"\b{name}\d+\b", f"{name}{value}", text, count=1)


def sizes(text: str) -> list[int]:
    return [int(part) for part in re.search(r"\bin([\dx]+)", text)[1].split("x")]


def lines(text: str) -> list[tuple[str, list[tuple[int, str]]]]:
    """(what varies, [(its value, text)]) for one problem."""
    found, have = [], counts(text)
    groups = have.get("g", 1)
    for name, steps in STEPS.items():
        unit = groups if name != "n" else 1
        values = sorted(
            {have[name] + unit * step for step in steps if have[name] + unit * step > 0}
        )
        found.append((name, [(value, with_count(text, name, value)) for value in values]))
    for axis, size in enumerate(sizes(text)):
        points = []
        for step in SIZES:
            changed = sizes(text)
            changed[axis] = size + step
            new = re.sub(r"\bin[\dx]+", "in" + "x".join(map(str, changed)), text, count=1)
            points.append((size + step, new))
        found.append((f"size {axis}", points))
    return found


def run(program: Path, texts: list[str], runs: int) -> str:
    command = [program, "--chosen", "--no-check", "--runs", str(runs), *texts]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def floor_ms(point: dict, rates: dict[str, float]) -> float:
    return 1e3 * max(point["bytes"] / rates["copy"], point["flop"] / rates[point["mode"]])


def measure(options: argparse.Namespace) -> list[dict]:
    models = [text for group, text in read_suite(ROOT / "bench/suite.txt") if group == FOUNDING]
    todo = [
        (model, what, value, mode, with_mode(text, mode))
        for mode in options.modes
        for model, base in zip(NAMES, models, strict=True)
        for what, points in lines(base)
        for value, text in points
    ]
    texts = list(dict.fromkeys(text for *_, text in todo))
    with ThreadPoolExecutor(options.jobs) as pool:  # compiles all first
        list(pool.map(lambda text: run(options.gpu_run, [text], 1), texts))
    known, end = {}, time.monotonic() + options.seconds
    for first in range(0, len(texts), AT_ONCE):
        if time.monotonic() > end:
            break
        some = texts[first : first + AT_ONCE]
        said = run(options.gpu_run, some, options.runs)
        for text in some:
            known[text] = read_upconv(said.split(f"\n{text}\n", 1)[1].split("\nn", 1)[0], text)
    return [
        {"model": model, "varied": what, "value": value, "mode": mode, "at": at, **known[text]}
        for at, (model, what, value, mode, text) in enumerate(todo)
        if text in known
    ]


def jumps(points: list[dict]) -> list[tuple[float, dict, dict]]:
    """How much time over floor changes from each point to the next of its line."""
    found = []
    for a, b in zip(points, points[1:], strict=False):
        key = ("model", "varied", "mode")
        neighbours = b["at"] == a["at"] + 1  # none left out between them
        if neighbours and [a[k] for k in key] == [b[k] for k in key]:
            low, high = sorted((a["over_floor"], b["over_floor"]))
            found.append((high / low, a, b))
    return found


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpu-run", type=Path, required=True, help="the program tests/gpu/gpu_run")
    parser.add_argument("--modes", nargs="+", default=["tf32"], choices=("ieee", "tf32", "f16"))
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--jobs", type=int, default=4, help="programs that compile at once")
    parser.add_argument("--seconds", type=float, default=1e9, help="begins no point after so many")
    parser.add_argument(
        "--copy", type=float, default=4.27e12, help="bytes a second, read or written"
    )
    parser.add_argument("--flop", type=float, nargs="+", default=[51e12, 405e12, 748e12])
    parser.add_argument("--commit", help="of this code, where git cannot say")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def main() -> int:
    options = parse()
    rates = dict(zip(("ieee", "tf32", "f16"), options.flop, strict=True), copy=options.copy)
    points = measure(options)
    for point in points:
        point["over_floor"] = point["ms"] / floor_ms(point, rates)
    found = sorted(jumps(points), key=lambda jump: -jump[0])
    over = [jump for jump in found if jump[0] > WANTED]
    print(f"{len(points)} points, {len(found)} pairs of neighbours, {len(over)} beyond {WANTED}")
    for ratio, a, b in found[:12]:
        print(
            f"  {ratio:.2f}  {a['model']} {a['varied']} {a['value']} to {b['value']}, {a['mode']}: "
            f"{a['ms']:.4f} ({a['chosen']}) to {b['ms']:.4f} ms ({b['chosen']})"
        )
    if options.out:
        document = {"commit": options.commit or commit(), "rates": rates, "points": points}
        options.out.write_text(json.dumps(document, indent=1) + "\n")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
