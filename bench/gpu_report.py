# SPDX-License-Identifier: Apache-2.0
"""What bench_gpu.py prints and writes. Documents in, text out."""

from __future__ import annotations

import statistics

SIDES = {"eager": "PyTorch eager", "channels_last": "channels-last", "compile": "torch.compile"}


def head(document: dict) -> str:
    e, rate = document["environment"], document["rates"]
    matrix = ", ".join(
        f"{mode} {rate[mode] * 1e-12:.0f}" for mode in ("ieee", "tf32", "f16", "bf16")
    )
    return (
        f"{e['gpu']}, driver {e['driver']}, PyTorch {e['torch']}, cuDNN {e['cudnn']}, {e['date']}, "
        f"commit {e['commit']}. Measured in this run: copy {rate['copy'] * 1e-9:.0f} GB/s; matrix "
        f"products, TFLOP/s: {matrix}."
    )


def ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if value < 10 else f"{value:.1f}"


def line(row: dict) -> str:
    sides = " ".join(f"{side} {ms(row['median_ms'].get(side))}" for side in row["median_ms"])
    return (
        f"{row['title'][:34]:34} {row['mode']:5} {sides}; upconv {ms(row['upconv']['ms'])} "
        f"({row['upconv']['chosen'].removeprefix('cuda-')}), floor {ms(row['floor_ms'])} "
        f"({row['bound_by']}, {100 * row['fraction_of_floor']:.0f} %), {row['speed_up']:.1f} x"
    )


def summary(document: dict) -> str:
    """Speed-ups over PyTorch's fastest side: the least and the median."""
    ups = [row["speed_up"] for row in document["rows"]]
    if not ups:
        return "nothing was measured"
    behind = [f"{r['title']} {r['mode']}" for r in document["rows"] if r["speed_up"] < 0.97]
    text = f"{len(ups)} rows: {statistics.median(ups):.1f} times as fast in the median, "
    text += f"{min(ups):.2f} at least"
    if behind:
        text += f"; slower than 0.97 of PyTorch's fastest: {', '.join(behind)}"
    host = [
        f"{row['title']} {row['mode']} {side} ({count} of {len(row['samples_ms'][side])} runs)"
        for row in document["rows"]
        for side, count in row["samples_with_host"].items()
    ]
    if host:
        text += f"; with time of the host that the device waited for: {', '.join(host)}"
    if document["left_out"]:
        text += f"; not begun: {', '.join(document['left_out'])}"
    return text + "."


def markdown(document: dict) -> str:
    """A table for each group of the suite."""
    sides = [s for s in SIDES if any(s in row["median_ms"] for row in document["rows"])]
    lines = ["# On a GPU", "", head(document), "", summary(document), ""]
    group = None
    for row in document["rows"]:
        if row["group"] != group:
            group = row["group"]
            names = " | ".join(f"{SIDES[s]}, ms" for s in sides)
            lines += ["", f"## {group}", ""]
            lines.append(
                f"| problem | mode | {names} | upconv, ms | kernel | times faster | floor, ms | "
                "of the floor |"
            )
            lines.append("|---|---|" + "--:|" * (len(sides) + 1) + "---|--:|--:|--:|")
        times = " | ".join(ms(row["median_ms"].get(s)) for s in sides)
        lines.append(
            f"| {row['title']} | {row['mode']} | {times} | {ms(row['upconv']['ms'])} | "
            f"{row['upconv']['chosen']} | {row['speed_up']:.1f} | {ms(row['floor_ms'])}, "
            f"{row['bound_by']} | {100 * row['fraction_of_floor']:.0f} % |"
        )
    return "\n".join(lines) + "\n"
