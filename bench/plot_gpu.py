#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draw the pictures of docs/bench from gpu.json: how many times as fast, and how near the floor."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from plot_cpu import INK, PALE, STYLE, WIDTH, save
from problems import ROOT

COLOURS = {"ieee": "#6b7280", "tf32": "#0f766e", "f16": "#d97706", "bf16": "#b4443c"}
NAMES = {"ieee": "float32", "tf32": "TF32", "f16": "float16", "bf16": "bfloat16"}


def bars(
    document: dict, value, labels, log: bool, title: str, note: str, mark: float, path: Path
) -> None:
    """A group of bars each problem, a bar each mode; a line at `mark`."""
    rows = document["rows"]
    problems = list(dict.fromkeys(row["title"] for row in rows))
    figure, axes = plt.subplots(figsize=(WIDTH, 1.2 + 0.17 * len(rows) + 0.1 * len(problems)))
    place, ticks, seen = 0.0, [], set()
    for problem in problems:
        own = [row for row in rows if row["title"] == problem]
        ticks.append(place + (len(own) - 1) / 2)
        for row in own:
            label = None if row["mode"] in seen else NAMES[row["mode"]]
            seen.add(row["mode"])
            axes.barh(place, value(row), 0.85, color=COLOURS[row["mode"]], label=label)
            axes.text(value(row), place, f" {labels(row)}", va="center", fontsize=7)
            place += 1
        place += 0.7
    axes.axvline(mark, color=INK, linewidth=1)
    axes.set_yticks(ticks, problems)
    if log:
        axes.set_xscale("log")
    axes.margins(x=0.12)
    axes.invert_yaxis()
    axes.grid(axis="x")
    axes.set_title(title, pad=18)
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, borderaxespad=0.2)
    e = document["environment"]
    text = f"{note}; {e['gpu']}, driver {e['driver']}, PyTorch {e['torch']}, {e['date']}"
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    figure.text(0.012, 0.008, text, color=PALE, fontsize=7.5)
    save(figure, path)


def draw(document: dict, folder: Path, suffix: str = "svg") -> list[Path]:
    with plt.rc_context(STYLE):
        up, floor = folder / f"gpu-speed-up.{suffix}", folder / f"gpu-floor.{suffix}"
        bars(
            document,
            lambda row: row["speed_up"],
            lambda row: f"{row['speed_up']:.1f}×",
            True,
            "Times as fast as PyTorch's fastest",
            "cold cache, medians",
            1,
            up,
        )
        bars(
            document,
            lambda row: 100 * row["fraction_of_floor"],
            lambda row: f"{100 * row['fraction_of_floor']:.0f} % ({row['bound_by']})",
            False,
            "Per cent of what the machine could do at best",
            "bytes over the copy rate or FLOP over the matrix rate, whichever takes longer",
            100,
            floor,
        )
    return [up, floor]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json", type=Path, nargs="?", default=ROOT / "docs/bench/gpu.json")
    parser.add_argument("--suffix", default="svg", choices=("svg", "png", "pdf"))
    options = parser.parse_args(argv)
    for path in draw(json.loads(options.json.read_text()), options.json.parent, options.suffix):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
