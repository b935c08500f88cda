# SPDX-License-Identifier: Apache-2.0
"""The results as tables: on the terminal with rich, in Markdown for docs/bench."""

import statistics

from rich.table import Table

SIDE_TITLES = {
    "fused": "upconv",
    "unfused": "unfused",
    "onnxruntime": "ONNX Runtime",
    "torch": "PyTorch",
}


def significant(value):
    """Three digits, without an exponent."""
    if value == 0:
        return "0"
    digits = max(0, 2 - int(f"{value:.2e}".partition("e")[2]))
    return f"{value:.{digits}f}"


def time_text(data, side):
    return f"{significant(data['median_ms'][side])} ± {100 * data['spread'][side]:.0f} %"


def floor_text(data):
    reason = {"memory": "copy", "arithmetic": "FMA"}[data["floor_reason"]]
    return f"{significant(data['floor_ms'])} {reason}"


def best_rival(data):
    """How much faster than the fastest rival."""
    return min(value for key, value in data["speedup"].items() if key != "unfused")


def columns(document):
    """Titles and functions of a row, in order."""
    sides = document["settings"]["sides"]
    result = [("", lambda row: row["title"]), ("batch", lambda row: str(row["batch"]))]
    for side in sides:
        result.append((f"{SIDE_TITLES[side]}, ms", lambda row, side=side: time_text(row, side)))
    return result + [
        ("faster", lambda row: f"{significant(best_rival(row))}×"),
        ("floor, ms", floor_text),
        ("of floor", lambda row: f"{100 * row['fraction_of_floor']['fused']:.0f} %"),
        ("error", error_text),
    ]


def error_text(row):
    oracle = row["oracle"]
    bound = "" if oracle is None else f"{oracle['error_over_bound']:.2f}"
    wrong = [
        f"NOT as {SIDE_TITLES[key]}"
        for key, value in row["agreement"].items()
        if not value["agrees"]
    ]
    return " ".join([bound or "–", *wrong])


def machine_line(document):
    machine, environment = document["machine"], document["environment"]
    return (
        f"{environment['cpu']}, {environment['device']}; "
        f"copy {significant(machine['copy_bytes_per_s'] / 1e9)} GB/s, "
        f"multiply-add {significant(machine['fma_flop_per_s'] / 1e9)} GFLOP/s, measured between "
        f"the runs; caches {document['settings']['caches']}"
    )


def versions_line(document):
    environment = document["environment"]
    names = ("upconv", "onnxruntime", "torch", "onnx", "numpy", "python")
    versions = [f"{name} {environment[name]}" for name in names if environment.get(name)]
    return ", ".join(versions)


def run_line(document):
    begin, end = document["load_average"]["begin"], document["load_average"]["end"]
    return (
        f"{document['date']}, commit {document['commit'][:12] or 'unknown'}"
        f"{'+' if document['commit'].endswith('+') else ''}, "
        f"{document['environment']['system']}, load average {begin:.2f} at the beginning and "
        f"{end:.2f} at the end"
    )


def summary_line(rows):
    faster = [best_rival(row) for row in rows]
    return (
        f"against the fastest rival: {significant(min(faster))}× at least, "
        f"{significant(statistics.median(faster))}× in the median, "
        f"{significant(statistics.geometric_mean(faster))}× on average (geometric), "
        f"{significant(max(faster))}× at most"
    )


def groups(rows):
    """Rows by their group, in order."""
    found = {}
    for row in rows:
        found.setdefault(row["group"], []).append(row)
    return found.items()


def print_table(document, console):
    table = Table(box=None, header_style="bold", pad_edge=False)
    shown = columns(document)
    for number, (title, _) in enumerate(shown):
        table.add_column(title, justify="left" if number == 0 else "right")
    for group, rows in groups(document["rows"]):
        table.add_row(f"[bold cyan]{group}[/]")
        for row in rows:
            table.add_row(*[text(row) for _, text in shown])
    console.print(table)
    console.print(f"\n{summary_line(document['rows'])}", highlight=False)
    for line in (machine_line(document), versions_line(document), run_line(document)):
        console.print(f"[dim]{line}[/]", highlight=False)


def markdown_table(document, rows):
    shown = columns(document)
    lines = [
        "| " + " | ".join(title for title, _ in shown) + " |",
        "|---|" + "--:|" * (len(shown) - 1),
    ]
    lines += ["| " + " | ".join(text(row) for _, text in shown) + " |" for row in rows]
    return "\n".join(lines)


EXPLANATION = """\
- Times are medians in milliseconds; behind ± stands half the distance of the quartiles.
- *unfused*: the same library, operator by operator. *faster*: against the fastest rival.
- *floor*: the larger of the fused plan's bytes over this machine's copy rate (copy) and its FLOP
  over this machine's multiply-add rate (FMA); *of floor*: the floor over upconv's time.
- *error*: the largest, as a fraction of its bound, by the float64 oracle on the first entries of
  the batch (–: too large for it). Whole outputs were compared with the rivals' on the same inputs.
"""


def largest_difference(rows):
    values = [value for row in rows for value in row["agreement"].values() if value["agrees"]]
    relative = [value["max_abs_difference"] / (value["max_abs_value"] or 1) for value in values]
    return max(relative, default=0)


def markdown(document):
    rows = document["rows"]
    parts = [
        "# upconv on a CPU",
        "<!-- Written by bench/bench_cpu.py; the samples are in cpu.json. -->",
        "![Milliseconds a model](cpu-models.svg)",
        "![Fractions of the floor](cpu-floor.svg)",
    ]
    for group, members in groups(rows):
        parts += [f"## {group}", markdown_table(document, members)]
    parts += [
        "## How to read it",
        EXPLANATION
        + f"- {summary_line(rows).capitalize()}.\n"
        + f"- The largest difference from a rival is {largest_difference(rows):.1e} of the largest "
        "value.",
        "## Where and when",
        "\n".join(f"- {line(document)}" for line in (machine_line, versions_line, run_line)),
    ]
    return "\n\n".join(parts) + "\n"
