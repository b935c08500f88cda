#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draw what bench/choice.py found: how many times as long as the fastest candidate the planner's
choice takes, problem by problem."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from plot_cpu import INK, PALE, STYLE, WIDTH, save

COLOURS = ("#0f766e", "#d97706", "#b4443c", "#6b7280", "#4f46e5", "#65a30d", "#be185d")


def draw(document: dict, path: Path) -> Path:
    rows = [row for row in document["rows"] if row["ratio"] is not None]
    rows.sort(key=lambda row: row["ratio"])
    result, families = document["summary"], document["summary"]["by_family"]
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(WIDTH, 3.8))
        for family, colour in zip(families, COLOURS):
            own = [(i + 1, row["ratio"]) for i, row in enumerate(rows) if row["family"] == family]
            if own:
                label = f"{family} ({100 * families[family]:.0f} %)"
                axes.scatter(*zip(*own), s=12, color=colour, label=label, zorder=3)
        axes.axhline(result["near"], color=INK, linewidth=1)
        axes.set_yscale("log")
        axes.set_yticks([1, 1.1, 1.5, 2, 3, 5, 10], ["1", "1.1", "1.5", "2", "3", "5", "10"])
        axes.minorticks_off()
        axes.set_ylim(0.97, max(1.6, 1.1 * max((row["ratio"] for row in rows), default=1)))
        axes.set_xlabel("problems, best choice first")
        axes.set_ylabel("time / fastest candidate's")
        axes.grid(axis="y")
        axes.set_title(
            f"The model's choice is within 10 % of the best on {100 * result['share']:.0f} % of "
            f"{result['problems']} problems"
        )
        axes.legend(loc="upper left", fontsize=8)
        figure.tight_layout(rect=(0, 0.04, 1, 1))
        note = f"{document['device']}, {document['date']}; in brackets: the family's share"
        figure.text(0.012, 0.012, note, color=PALE, fontsize=7.5)
        save(figure, path)
    return path


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("json", type=Path, help="what bench/choice.py wrote")
    parser.add_argument("--suffix", default="svg", choices=("svg", "png", "pdf"))
    options = parser.parse_args(argv)
    print(
        draw(json.loads(options.json.read_text()), options.json.with_suffix("." + options.suffix))
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
