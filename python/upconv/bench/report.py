# SPDX-License-Identifier: Apache-2.0
"""Results as tables: on the terminal and in Markdown."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from upconv.bench.rounding import convolutions_use_tf32
from upconv.bench.run import Options
from upconv.bench.sides import COMPILE, EAGER, LAST, UPCONV

Result = dict[str, Any]


def plain(value: Any) -> Any:
    """For JSON: six digits, and no infinities, which JSON does not have."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def settings(options: Options) -> dict[str, Any]:
    """The options, and the math mode that PyTorch's switches mean."""
    found = {
        key: str(value) if isinstance(value, (Path, torch.dtype)) else value
        for key, value in dataclasses.asdict(options).items()
    }
    if options.device.startswith("cuda"):
        found["math"] = "tf32" if convolutions_use_tf32() else "ieee"
    return found


def significant(value: float) -> str:
    """Three digits, without an exponent."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = max(0, 2 - int(f"{value:.2e}".partition("e")[2]))
    return f"{value:.{digits}f}"


def memory(size: int | None) -> str:
    return "-" if size is None else f"{significant(size / 2**20)} MiB"


def sides_of(result: Result) -> dict[str, Result]:
    """The measured sides by name."""
    return {side["name"]: side for side in result.get("sides", []) if "median_ms" in side}


def measured(document: dict[str, Any]) -> list[Result]:
    return [result for result in document["results"] if sides_of(result)]


def fastest_rival(result: Result, names: tuple[str, ...] = ()) -> Result | None:
    """The fastest of PyTorch's sides, or of some of them."""
    others = [
        side
        for name, side in sides_of(result).items()
        if name != UPCONV and (not names or name in names)
    ]
    return min(others, key=lambda side: side["median_ms"], default=None)


def speed_up(result: Result, names: tuple[str, ...] = ()) -> float:
    rival = fastest_rival(result, names)
    ours = sides_of(result)[UPCONV]["median_ms"]
    return rival["median_ms"] / ours if rival and ours else math.nan


def verdict_lines(result: Result) -> list[str]:
    """What the check found, in words."""
    check = result["check"]
    share = check["elements_float64"] / check["elements"] if check["elements"] else 1.0
    inputs = "1 fresh input" if check["inputs"] == 1 else f"{check['inputs']} fresh inputs"
    lines = [
        f"{'right' if check['right'] else 'WRONG'} on {inputs},"
        f" {check['elements']:,} elements, {100 * share:.3g} % of them against float64",
        f"largest error {check['error']:.2e}, the original's {check['original_error']:.2e}, at"
        f" values up to {check['largest_value']:.3g}; difference {check['difference']:.2e}",
        f"error / bound {check['error_over_bound']:.3g}, the original's"
        f" {check['original_over_bound']:.3g}; bound {check['bound']}",
    ]
    return lines + [f"wrong: {text}" for text in check["problems"]] + check["notes"]


def side_table(result: Result) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("")
    for title in ("median", "spread", "peak memory", "times as long", "of the floor"):
        table.add_column(title, justify="right")
    ours, floor = sides_of(result)[UPCONV]["median_ms"], result["floor"]["milliseconds"]
    for side in result["sides"]:
        if "skipped" in side:
            continue
        median = side["median_ms"]
        table.add_row(
            f"[bold]{side['name']}[/]" if side["name"] == UPCONV else side["name"],
            f"{significant(median)} ms",
            f"± {100 * side['spread']:.0f} %",
            memory(side["memory_bytes"]),
            "" if side["name"] == UPCONV else f"{significant(median / ours)}×",
            f"{100 * floor / median:.0f} %",
        )
    return table


def host_line(result: Result) -> str:
    """The sides whose times have the host's in them; empty if there is none."""
    found = [
        f"{name} ({side['samples_with_host']} of {len(side['samples_ms'])} runs)"
        for name, side in sides_of(result).items()
        if side["samples_with_host"]
    ]
    return f"with time of the host that the device waited for: {', '.join(found)}" if found else ""


def floor_line(result: Result) -> str:
    floor, rates = result["floor"], result["rates"]
    if floor["reason"] == "copy":
        work = f"{significant(floor['bytes'] / 1e6)} MB at {significant(rates['copy'] / 1e9)} GB/s"
    else:
        rate = significant(rates["matrix"] / 1e12)
        work = f"{significant(floor['flop'] / 1e9)} GFLOP at {rate} TFLOP/s"
    return f"floor {significant(floor['milliseconds'])} ms: {work}"


def show_result(result: Result, console: Console) -> None:
    def line(text: str, style: str = "") -> None:
        console.print(text, style=style, highlight=False, markup=False)

    if "error" in result:
        line(result["error"], "red")
        return
    line(f"{result['name']}  {result['dtype']}  {result['inputs']}", "bold cyan")
    for text in result["fused"].splitlines():
        line(f"  {text}")
    verdict = verdict_lines(result)
    line(verdict[0], "green" if result["check"]["right"] else "bold red")
    for text in verdict[1:]:
        line(f"  {text}")
    if sides_of(result):
        console.print(side_table(result))
        for side in result["sides"]:
            if "skipped" in side:
                line(f"{side['name']} not measured: {side['skipped']}", "yellow")
        if host := host_line(result):
            line(host, "yellow")
        line(floor_line(result), "dim")
    line("")


COLUMNS = ("upconv", "eager", "torch.compile", "faster", "floor", "of floor", "memory")


def row(result: Result) -> list[str]:
    """The cells of COLUMNS. PyTorch's sides in their faster memory format."""
    ours = sides_of(result)[UPCONV]
    eager = fastest_rival(result, (EAGER, EAGER + LAST))
    compiled = fastest_rival(result, (COMPILE, COMPILE + LAST))
    rivals = [side for side in (eager, compiled) if side is not None]
    least = min((s["memory_bytes"] for s in rivals if s["memory_bytes"] is not None), default=None)
    floor = result["floor"]["milliseconds"]
    return [
        f"{significant(ours['median_ms'])} ms",
        *[f"{significant(s['median_ms'])} ms" if s else "-" for s in (eager, compiled)],
        f"{significant(speed_up(result))}×",
        f"{significant(floor)} ms",
        f"{100 * floor / ours['median_ms']:.0f} %",
        f"{memory(ours['memory_bytes'])} : {memory(least)}",
    ]


def environment_line(document: dict[str, Any]) -> str:
    found, chosen = document["environment"], document["settings"]
    where = found["gpu"] if "gpu" in found else f"{found['cpu']}, {found['threads']} threads"
    cudnn = f", cuDNN {found['cudnn']}" if "cudnn" in found else ""
    mode = f", math {chosen['math']}" if chosen.get("math") else ""
    return (
        f"{where}{mode}; upconv {found['upconv']}, PyTorch {found['torch']}{cudnn}, "
        f"Python {found['python']}; {found['date']}; medians, cold caches"
    )


def show_summary(document: dict[str, Any], console: Console) -> None:
    results = measured(document)
    if len(results) > 1:
        table = Table(box=None, header_style="bold", pad_edge=False)
        table.add_column("")
        for title in COLUMNS:
            table.add_column(title, justify="right")
        for result in results:
            table.add_row(result["name"], *row(result))
        console.print(table)
    console.print(environment_line(document), style="dim", highlight=False, markup=False)


def markdown(document: dict[str, Any]) -> str:
    """A table of all results, for documents."""
    lines = [
        "| model | " + " | ".join(COLUMNS) + " |",
        "|---|" + "--:|" * len(COLUMNS),
    ]
    for result in document["results"]:
        if sides_of(result):
            lines.append(f"| {result['name']} | " + " | ".join(row(result)) + " |")
        else:
            why = result["error"] if "error" in result else "wrong result"
            lines.append(f"| {result.get('name', result['file'])} | {why} |" + " |" * 6)
    return "\n".join([*lines, "", environment_line(document)]) + "\n"
