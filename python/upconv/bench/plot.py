# SPDX-License-Identifier: Apache-2.0
"""A picture of the results: a bar for each side, and the floor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from upconv.bench.report import environment_line, measured, sides_of, significant
from upconv.bench.sides import COMPILE, EAGER, LAST, UPCONV

COLOURS = {
    UPCONV: "#0f766e",
    EAGER: "#b4443c",
    EAGER + LAST: "#dd9a94",
    COMPILE: "#d97706",
    COMPILE + LAST: "#f0c48a",
}
INK, PALE = "#1f2937", "#6b7280"
WIDTH = 8.3  # inches: a README's width at 100 dots an inch
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "text.color": INK,
    "axes.labelcolor": PALE,
    "axes.edgecolor": "#d1d5db",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "grid.color": "#e5e7eb",
    "xtick.color": PALE,
    "ytick.color": INK,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "svg.hashsalt": "upconv",  # the same data make the same file
}


def draw(document: dict[str, Any], path: Path) -> None:
    """Milliseconds on a logarithmic axis, a bar for each side; a mark at the floor."""
    with matplotlib.rc_context(STYLE):
        figure = picture(document)
        date = {"Date": None} if path.suffix == ".svg" else {}
        figure.savefig(path, facecolor="white", dpi=160, metadata=date)


def label_of(row: dict[str, Any], name: str) -> str:
    ours, side = sides_of(row)[UPCONV]["median_ms"], sides_of(row)[name]["median_ms"]
    text = f"{significant(side)} ms"
    return text if name == UPCONV else f"{text}  ({significant(side / ours)}×)"


def picture(document: dict[str, Any]) -> Figure:
    rows = measured(document)
    names = [name for name in COLOURS if any(name in sides_of(row) for row in rows)]
    height = 0.84 / len(names)
    figure = Figure(figsize=(WIDTH, 1.1 + 0.24 * len(rows) * (len(names) + 0.6)))
    axes = figure.subplots()
    for place, name in enumerate(names):
        there = [(i, row) for i, row in enumerate(rows) if name in sides_of(row)]
        centres = [i + (place - (len(names) - 1) / 2) * height for i, _ in there]
        values = [sides_of(row)[name]["median_ms"] for _, row in there]
        axes.barh(centres, values, 0.9 * height, color=COLOURS[name], label=name)
        for centre, value, (_, row) in zip(centres, values, there):
            weight = "bold" if name == UPCONV else "normal"
            text = label_of(row, name)
            axes.text(1.06 * value, centre, text, va="center", fontsize=8.5, weight=weight)
    for i, row in enumerate(rows):
        axes.vlines(row["floor"]["milliseconds"], i - 0.46, i + 0.46, color=INK, linewidth=1.6)
    axes.plot([], [], color=INK, linewidth=1.6, label="floor")
    scale(axes, rows)
    handles, labels = axes.get_legend_handles_labels()
    by_name = dict(zip(labels, handles))
    order = [*names, "floor"]
    figure.legend(
        [by_name[name] for name in order],
        order,
        loc="upper right",
        ncols=len(order),
        handlelength=1.0,
        columnspacing=1.2,
    )
    figure.tight_layout(rect=(0, 0.04, 1, 0.96 - 0.1 / figure.get_figheight()))
    figure.text(0.012, 0.012, environment_line(document), color=PALE, fontsize=7)
    return figure


def scale(axes: Any, rows: list[dict[str, Any]]) -> None:
    """A logarithmic axis with room for the labels behind the bars."""
    times = [side["median_ms"] for row in rows for side in sides_of(row).values()]
    least = min(min(times), *(row["floor"]["milliseconds"] for row in rows))
    axes.set_xscale("log")
    axes.set_xlim(least / 2, max(times) * (max(times) / least) ** 0.3 * 1.5)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_yticks(range(len(rows)), [f"{row['name']}\n{row['dtype']}" for row in rows])
    axes.invert_yaxis()
    axes.grid(axis="x")
    axes.set_xlabel("milliseconds, logarithmic; in brackets: how many times as long as upconv")
