#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How good the planner's cost model is: on random problems such as networks have them, how much
longer does its first choice take than the fastest candidate?

    python3 bench/choice.py --program build/bin/upconv --out docs/bench/choice-cpu.json
    python3 bench/choice.py --gpu-run build-gpu/tests/gpu_run --out docs/bench/choice-gpu.json

The first measures on the CPU with `upconv tune`, the second on a GPU with tests/gpu/gpu_run, which
needs no ONNX. Needs Python alone; bench/plot_choice.py draws the result.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import choice_problems
from choice_problems import Drawn
from gpu_program import CHOICE, TIMES, WORDS

NEAR = 1.1  # times the fastest: what counts as a good choice
WANTED = 0.9  # of all problems
GPU_MODES = tuple(words.strip() for words in WORDS.values())
CHUNK = 8  # problems of one gpu_run


class FailedError(Exception):
    """A program that ended badly."""


def command(*words: str | Path) -> str:
    done = subprocess.run([*map(os.fspath, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = f"{done.stdout}{done.stderr}"
        raise FailedError(f"{' '.join(map(str, words))}: exit code {done.returncode}\n{said}")
    return done.stdout


def row(drawn: Drawn, chosen: str, times: dict[str, float]) -> dict:
    """times: milliseconds of every candidate that ran; ratio: None if the choice did not."""
    best = min(times, key=lambda name: times[name], default="")
    return {
        "family": drawn.family,
        "text": drawn.text,
        "model_choice": chosen,
        "best": best,
        "ratio": times[chosen] / times[best] if chosen in times else None,
        "ms": times,
    }


# ---------------------------------------------------------------- the CPU


def on_cpu(options: argparse.Namespace, drawn: Drawn) -> tuple[str, dict]:
    said = command(
        *(options.program, "tune", drawn.text, "--dry-run", "--json"),
        *("--milliseconds", str(options.milliseconds), "--threads", str(options.threads)),
    )
    document = json.loads(said)
    [result] = document["results"]
    times = {c["name"]: 1e3 * c["quartile_s"] for c in result["candidates"] if c["runs"] > 0}
    return document["device"], row(drawn, result["model_choice"], times)


# ---------------------------------------------------------------- a GPU


def gpu_run(options: argparse.Namespace, chunk: Iterable[Drawn], runs: int) -> str:
    texts = [drawn.text for drawn in chunk]
    return command(options.gpu_run, "--no-check", "--runs", str(runs), *texts)


def read_chunk(said: str, chunk: list[Drawn]) -> tuple[str, list[dict]]:
    """What gpu_run said of each problem stands behind its text."""
    lines = said.splitlines()
    places = [lines.index(drawn.text) for drawn in chunk] + [len(lines)]
    rows = []
    for drawn, begin, end in zip(chunk, places, places[1:]):
        said_of_it = "\n".join(lines[begin:end])
        chosen = CHOICE.search(said_of_it)
        times = {found[0]: float(found[4]) for found in TIMES.findall(said_of_it)}
        rows.append(row(drawn, chosen[1] if chosen else "", times))
    return lines[0], rows


def compile_all(options: argparse.Namespace, problems: list[Drawn]) -> None:
    """Kernels are compiled on all cores beforehand, and come from the cache when measuring."""
    jobs = min(options.jobs, len(problems))
    chunks = [problems[i : i + CHUNK] for i in range(0, len(problems), CHUNK)]
    began = time.monotonic()

    def one(chunk: list[Drawn]) -> None:
        if time.monotonic() - began < options.seconds / 2:
            with suppress(FailedError):  # which comes again when measuring
                gpu_run(options, chunk, 1)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, chunks))
    print(f"compiled in {time.monotonic() - began:.0f} s", flush=True)


# ---------------------------------------------------------------- the whole


def measure_chunk(options: argparse.Namespace, chunk: list[Drawn]) -> tuple[str, list[dict]]:
    if options.gpu_run:
        return read_chunk(gpu_run(options, chunk, options.runs), chunk)
    device, one = on_cpu(options, chunk[0])
    return device, [one]


def measure(options: argparse.Namespace, problems: list[Drawn]) -> tuple[str, list[dict]]:
    began, device, rows = time.monotonic(), "", []
    if options.gpu_run and options.jobs > 0:
        compile_all(options, problems)
    step = CHUNK if options.gpu_run else 1
    for i in range(0, len(problems), step):
        if time.monotonic() - began > options.seconds:
            break
        chunk = problems[i : i + step]
        try:
            device, more = measure_chunk(options, chunk)
        except FailedError as failed:
            print(failed, file=sys.stderr)
            more = [row(drawn, "", {}) for drawn in chunk]
        rows += more
        for found in more:
            print(line(found), flush=True)
    return device, rows


def line(found: dict) -> str:
    ratio = found["ratio"]
    mark = "  failed" if ratio is None else f"{ratio:8.2f}{' ' if ratio <= NEAR else '!'}"
    return f"{mark} {found['model_choice']:14} {found['best']:14} {found['text']}"


def is_good(found: dict) -> bool:
    return found["ratio"] is not None and found["ratio"] <= NEAR


def share(rows: list[dict]) -> float | None:
    return sum(map(is_good, rows)) / len(rows) if rows else None


def summary(rows: list[dict]) -> dict:
    """The share of good choices: of all problems, of those where there was a choice, by family."""
    contested = [found for found in rows if len(found["ms"]) > 1]
    families = {family: [] for family in choice_problems.FAMILIES}
    for found in rows:
        families[found["family"]].append(found)
    return {
        "problems": len(rows),
        "near": NEAR,
        "share": share(rows),
        "contested": len(contested),
        "share_contested": share(contested),
        "worst": max((found["ratio"] or 0 for found in rows), default=None),
        "by_family": {family: share(own) for family, own in families.items()},
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    side = parser.add_mutually_exclusive_group(required=True)
    side.add_argument("--program", type=Path, help="the program upconv: measures on the CPU")
    side.add_argument("--gpu-run", type=Path, help="tests/gpu/gpu_run: measures on a GPU")
    parser.add_argument("--count", type=int, default=200, help="problems (200)")
    parser.add_argument("--seed", type=int, default=1, help="of the problems (1)")
    parser.add_argument("--seconds", type=float, default=1e9, help="begins nothing after so many")
    parser.add_argument("--milliseconds", type=int, default=300, help="a problem, on the CPU (300)")
    parser.add_argument("--threads", type=int, default=2, help="on the CPU (2)")
    parser.add_argument("--runs", type=int, default=20, help="of a candidate, on a GPU (20)")
    parser.add_argument("--jobs", type=int, default=8, help="compile so many at once; 0: none (8)")
    parser.add_argument("--commit", default="", help="of this code")
    parser.add_argument("--list", action="store_true", help="prints the problems, and no more")
    parser.add_argument("--out", type=Path, help="JSON file")
    return parser.parse_args()


def main() -> int:
    options = parse()
    limits = choice_problems.GPU if options.gpu_run else choice_problems.CPU
    modes = GPU_MODES if options.gpu_run else ("",)
    drawn = choice_problems.draw(options.seed, modes, limits)
    problems = list(itertools.islice(drawn, options.count))
    if options.list:
        for problem in problems:
            print(problem.text)
        return 0
    device, rows = measure(options, problems)
    document = {
        "device": device,
        "date": datetime.date.today().isoformat(),
        "commit": options.commit,
        "seed": options.seed,
        "left_out": len(problems) - len(rows),
        "summary": summary(rows),
        "rows": rows,
    }
    print(json.dumps(document["summary"], indent=1))
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(document, indent=1) + "\n")
    return 0 if (document["summary"]["share"] or 0) >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
