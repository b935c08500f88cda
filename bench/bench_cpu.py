#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure upconv on the CPU against ONNX Runtime, and PyTorch, in one run; write docs/bench."""

import argparse
import datetime
import fnmatch
import importlib.metadata
import importlib.util
import json
import os
import re
import signal
import sys
import tempfile
import time
from pathlib import Path

import machine
import measure
import report
import results
import rivals
import suite
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from sides import RUNS, Program, ProgramError

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_OUT = ROOT / "docs/bench"
# The models get this many times as much of the time as a row of the suite.
MODEL_WEIGHT = 3


class BenchError(Exception):
    """A wrong option or a missing tool; reported in one line, exit code 2."""


def positive(kind):
    def convert(text):
        try:
            value = kind(text)
        except ValueError:
            value = 0
        if not value > 0:
            raise argparse.ArgumentTypeError(f"'{text}' is not a positive number")
        return value

    return convert


def parse(argv):
    parser = argparse.ArgumentParser(
        description="Measure upconv on the CPU against ONNX Runtime in one run: the models of"
        " models/ and the users' suite, float32.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="""examples:
  make bench                                          the whole, written to docs/bench
  python bench/bench_cpu.py --list
  python bench/bench_cpu.py --only '[ABC] *'          the founding models, printed alone
  python bench/bench_cpu.py --only '*depthwise*' --rounds 2 --out /tmp/depthwise
  python bench/bench_cpu.py --torch --json >cpu.json  PyTorch, too

exit codes: 0 done, 1 a result is wrong, 2 bad usage or input
""",
    )
    parser.add_argument(
        "--program",
        type=Path,
        default=ROOT / "build/bin/upconv",
        metavar="FILE",
        help="the program upconv (default: build/bin/upconv)",
    )
    parser.add_argument("--only", metavar="GLOB", help="rows of this name, as --list prints them")
    parser.add_argument("--list", action="store_true", help="print the rows, measure nothing")
    parser.add_argument("--torch", action="store_true", help="measure eager PyTorch as well")
    parser.add_argument("--threads", type=positive(int), default=2, metavar="T", help="default: 2")
    parser.add_argument(
        "--rounds",
        type=positive(int),
        default=7,
        metavar="R",
        help=f"at most; each has {RUNS} runs of every side (default: 7)",
    )
    parser.add_argument(
        "--minutes",
        type=positive(float),
        default=7.5,
        metavar="M",
        help=f"time to keep to; a row gets {measure.LEAST_ROUNDS} rounds whatever it is"
        " (default: 7.5)",
    )
    parser.add_argument(
        "--gflop",
        type=positive(float),
        default=10,
        metavar="G",
        help="cut the batches of the suite so that a row has no more (default: 10)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="where cpu.json, cpu.md and the pictures go (default: docs/bench, and nowhere with"
        " --only)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    args = parser.parse_args(argv)
    args.rounds = max(args.rounds, measure.LEAST_ROUNDS)
    return args


def choose_rows(args, folder):
    rows = suite.model_rows() + suite.suite_rows(folder, 1e9 * args.gflop / 2)
    if args.only:
        rows = [row for row in rows if fnmatch.fnmatchcase(row.title, args.only)]
        if not rows:
            raise BenchError(f"--only {args.only}: no such row; --list prints them")
    return rows


def check_tools(args):
    """Before anything slow runs. Returns the program's version."""
    if args.threads > machine.cores():
        raise BenchError(f"--threads {args.threads}: there are {machine.cores()} cores")
    if args.torch and importlib.util.find_spec("torch") is None:
        raise BenchError(f"--torch: {sys.executable} has no torch")
    version = Program(args.program, args.threads).call("version").strip()
    if "with ONNX" not in version:
        raise BenchError(f"{args.program} was built without ONNX")
    return re.sub(r"^upconv | \(.*", "", version)


def versions(args, upconv):
    names = ["onnxruntime", "onnx", "numpy"] + ["torch"] * args.torch
    found = {name: importlib.metadata.version(name) for name in names}
    return {"upconv": upconv, **found}


def warn_if_busy(load, console):
    if load > 0.25 * machine.cores():
        console.print(
            f"[yellow]warning: load average {load:.1f}: the machine is busy, the times will be"
            " poor[/]"
        )


def measure_all(rows, args, folder, console):
    program, evict = Program(args.program, args.threads), machine.Eviction()
    weights = [MODEL_WEIGHT if not row.text else 1 for row in rows]
    end = time.monotonic() + 60 * args.minutes
    data, reports = [], []
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task("", total=len(rows))
        for number, row in enumerate(rows):
            bar.update(task, description=row.title)
            now = time.monotonic()
            share = (end - now) * weights[number] / sum(weights[number:])
            row_data, more = measure.measure_row(row, program, args, evict, folder, now + share)
            data.append(row_data)
            reports += more
            bar.advance(task)
    return data, reports


def start():
    """When, on what commit and under which load the run begins."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": machine.commit(),
        "load_average": {"begin": os.getloadavg()[0]},
    }


def make_document(args, upconv, begin, data, reports):
    copies = [report["copy_bytes_per_s"] for report in reports]
    fmas = [report["fma_flop_per_s"] for report in reports]
    results.add_floors(data, max(copies), max(fmas))
    return {
        "schema": 1,
        **begin,
        "environment": {
            **machine.describe(),
            "device": reports[0]["device"],
            **versions(args, upconv),
        },
        "settings": {
            "threads": args.threads,
            "caches": reports[0]["caches"],
            "most_rounds": args.rounds,
            "runs_per_round": RUNS,
            "sides": list(data[0]["samples_ms"]),
        },
        "machine": {
            "copy_bytes_per_s": max(copies),
            "fma_flop_per_s": max(fmas),
            "copy_samples": copies,
            "fma_samples": fmas,
        },
        "rows": data,
    }


def rounded(value):
    """The same data with six digits, so that the file stays readable."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return value


def dump(document):
    """JSON with lists of numbers on one line."""
    text = json.dumps(rounded(document), indent=1, ensure_ascii=False)
    return re.sub(r"\[[^][{}\"]*\]", lambda list_: re.sub(r"\s+", " ", list_[0]), text) + "\n"


def write(document, folder):
    import plot_cpu

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cpu.json").write_text(dump(document))
    (folder / "cpu.md").write_text(report.markdown(document))
    plot_cpu.draw(document, folder)


def run(args, console, folder):
    rows = choose_rows(args, folder)
    if args.list:
        for row in rows:
            print(f"{row.title:32} {row.text or f'models/{row.path.name} N={row.batch}'}")
        return 0
    upconv = check_tools(args)
    begin = start()
    warn_if_busy(begin["load_average"]["begin"], console)
    data, reports = measure_all(rows, args, folder, console)
    begin["load_average"]["end"] = os.getloadavg()[0]
    document = make_document(args, upconv, begin, data, reports)
    if args.json:
        print(dump(document), end="")
    else:
        out = Console(width=None if sys.stdout.isatty() else 132)
        report.print_table(document, out)
    target = args.out or (None if args.only else DEFAULT_OUT)
    if target:
        write(document, target)
        console.print(f"written: {target}/cpu.json, cpu.md and the pictures", highlight=False)
    return 0 if all(results.right(row) for row in data) else 1


def main(argv=None):
    args = parse(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the folder is removed
    os.environ["UPCONV_TUNE_FILE"] = ""  # the planner is measured, not what was tuned here before
    console = Console(stderr=True)
    try:
        with tempfile.TemporaryDirectory(prefix="upconv-bench-") as folder:
            return run(args, console, Path(folder))
    except (BenchError, ProgramError, rivals.UsageError, suite.SuiteError, OSError) as error:
        print(f"bench_cpu.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
