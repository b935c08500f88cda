#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draw sweep.json of bench/sweep.py: time over floor along every line, a panel for each model and
what is varied."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from plot_cpu import STYLE, WIDTH, save
from plot_gpu import COLOURS, NAMES


def draw(document: dict, path: Path) -> None:
    points = document["points"]
    models = list(dict.fromkeys(point["model"] for point in points))
    varied = list(dict.fromkeys(point["varied"] for point in points))
    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(
            len(models), len(varied), figsize=(WIDTH * 1.3, 1.7 * len(models)), sharey="row"
        )
        for row, model in enumerate(models):
            for column, what in enumerate(varied):
                axes = panels[row][column]
                for mode in dict.fromkeys(point["mode"] for point in points):
                    line = [
                        (point["value"], point["over_floor"])
                        for point in points
                        if (point["model"], point["varied"], point["mode"]) == (model, what, mode)
                    ]
                    axes.plot(
                        *zip(*line, strict=True), ".-", color=COLOURS[mode], label=NAMES[mode]
                    )
                axes.set_ylim(bottom=0)
                axes.grid(axis="y")
                if row == 0:
                    axes.set_title(what, fontsize=9)
                if column == 0:
                    axes.set_ylabel(f"{model}: time / floor", fontsize=8)
        panels[0][0].legend(fontsize=7)
        figure.tight_layout()
        save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="sweep.json")
    file = parser.parse_args().file
    draw(json.loads(file.read_text()), file.with_suffix(".svg"))


if __name__ == "__main__":
    main()
