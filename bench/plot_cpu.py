#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draw the pictures of docs/bench from cpu.json."""

import argparse
import json
import sys
from pathlib import Path

import matplotlib
from report import SIDE_TITLES, groups, significant

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parent.parent
COLOURS = {
    "fused": "#0f766e",
    "unfused": "#8fc7bf",
    "onnxruntime": "#d97706",
    "torch": "#b4443c",
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
    "axes.titlesize": 11.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "grid.color": "#e5e7eb",
    "xtick.color": PALE,
    "ytick.color": INK,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "svg.hashsalt": "upconv",  # the same data make the same file
}


def save(figure, path):
    figure.savefig(path, metadata={"Date": None}, facecolor="white", dpi=160)
    plt.close(figure)


def legend(axes, sides):
    """One line above the plot, at its right: the sides in their order, then the floor."""
    handles, labels = axes.get_legend_handles_labels()
    found = dict(zip(labels, handles))
    order = [title for title in [*(SIDE_TITLES[side] for side in sides), "floor"] if title in found]
    axes.legend(
        [found[title] for title in order],
        order,
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=len(order),
        handlelength=1.0,
        handleheight=0.9,
        columnspacing=1.2,
        borderaxespad=0.2,
    )


def subtitle(figure, document):
    environment, threads = document["environment"], document["settings"]["threads"]
    text = (
        f"{environment['cpu']}, {threads} threads, float32, medians, cold caches; "
        f"ONNX Runtime {environment['onnxruntime']}, {document['date'][:10]}"
    )
    figure.text(0.012, 0.012, text, color=PALE, fontsize=8)


def bar_label(row, side):
    text = f"{significant(row['median_ms'][side])} ms"
    if side != "fused":
        text += f"  ({significant(row['speedup'][side])}×)"
    return text


def draw_models(document, path):
    """Milliseconds on a logarithmic axis, a bar each side; a mark at the floor."""
    rows = [row for row in document["rows"] if row["model"]]
    sides = document["settings"]["sides"]
    height = 0.8 / len(sides)
    figure, axes = plt.subplots(figsize=(WIDTH, 0.9 + 0.27 * len(rows) * (len(sides) + 0.6)))
    for place, side in enumerate(sides):
        centres = [i + (place - (len(sides) - 1) / 2) * height for i in range(len(rows))]
        values = [row["median_ms"][side] for row in rows]
        axes.barh(centres, values, 0.9 * height, color=COLOURS[side], label=SIDE_TITLES[side])
        for centre, row, value in zip(centres, rows, values):
            weight = "bold" if side == "fused" else "normal"
            label = bar_label(row, side)
            axes.text(1.06 * value, centre, label, va="center", fontsize=8.5, weight=weight)
    for i, row in enumerate(rows):
        axes.vlines(row["floor_ms"], i - 0.44, i + 0.44, color=INK, linewidth=1.6)
    axes.plot([], [], color=INK, linewidth=1.6, label="floor")
    axes.set_yticks(range(len(rows)), [f"{row['title']}\nbatch {row['batch']}" for row in rows])
    axes.set_xscale("log")
    least = min(min(row["floor_ms"], *row["median_ms"].values()) for row in rows)
    most = max(max(row["median_ms"].values()) for row in rows)
    axes.set_xlim(least / 2, most * (most / least) ** 0.22)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.invert_yaxis()
    axes.grid(axis="x")
    axes.set_xlabel("milliseconds, logarithmic; in brackets: how many times as long as upconv")
    axes.set_title("Whole models", pad=8)
    legend(axes, sides)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    subtitle(figure, document)
    save(figure, path)


def floor_lines(document):
    """Rows from the top down, with a heading before each group: (place, row or None, text)."""
    lines, place = [], 0.0
    for group, rows in groups(document["rows"]):
        lines.append((place, None, group))
        place += 0.9
        for row in rows:
            lines.append((place, row, row["title"]))
            place += 1.0
        place += 0.3
    return lines


def draw_floor(document, path):
    """How much of what the machine can do at best each side reaches: a bar for ours, dots else."""
    lines = floor_lines(document)
    figure, axes = plt.subplots(figsize=(WIDTH, 1.1 + 0.205 * (lines[-1][0] + 1)))
    rows = [(place, row) for place, row, _ in lines if row]
    places = [place for place, _ in rows]
    for side in document["settings"]["sides"]:
        values = [100 * row["fraction_of_floor"][side] for _, row in rows]
        if side == "fused":
            axes.barh(places, values, 0.62, color=COLOURS[side], label=SIDE_TITLES[side])
            for place, value in zip(places, values):
                axes.text(value + 1, place, f"{value:.0f}", va="center", fontsize=8)
        else:
            options = {"color": COLOURS[side], "edgecolor": "white", "linewidth": 0.6, "zorder": 3}
            axes.scatter(values, places, 34, label=SIDE_TITLES[side], **options)
    axes.axvline(100, color=INK, linewidth=1.6, label="floor")
    axes.set_yticks([place for place, _, _ in lines], [text for _, _, text in lines], fontsize=8.5)
    for label, (_, row, _) in zip(axes.get_yticklabels(), lines):
        if row is None:
            label.set_fontweight("bold")
    axes.set_xlim(0, 106)
    axes.set_ylim(lines[-1][0] + 0.7, -0.7)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0f} %")
    axes.grid(axis="x")
    axes.set_xlabel(
        "floor over time: the larger of bytes at the copy rate and FLOP at the FMA rate"
    )
    axes.set_title("Share of the floor", pad=8)
    legend(axes, document["settings"]["sides"])
    figure.tight_layout(rect=(0, 0.025, 1, 1))
    subtitle(figure, document)
    save(figure, path)


def draw(document, folder, suffix="svg"):
    with plt.rc_context(STYLE):
        if any(row["model"] for row in document["rows"]):
            draw_models(document, folder / f"cpu-models.{suffix}")
        draw_floor(document, folder / f"cpu-floor.{suffix}")


def main(argv=None):
    parser = argparse.ArgumentParser(
        description="Draw cpu-models and cpu-floor from the results of bench_cpu.py.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="""examples:
  python bench/plot_cpu.py
  python bench/plot_cpu.py /tmp/short/cpu.json --out /tmp/short --format png
""",
    )
    results = ROOT / "docs/bench/cpu.json"
    parser.add_argument("json", type=Path, nargs="?", default=results, help="default: %(default)s")
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: where the JSON is")
    parser.add_argument("--format", choices=("svg", "png"), default="svg", help="default: svg")
    args = parser.parse_args(argv)
    try:
        document = json.loads(args.json.read_text())
        draw(document, args.out or args.json.parent, args.format)
    except (OSError, ValueError, KeyError) as error:
        print(f"plot_cpu.py: {args.json}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
