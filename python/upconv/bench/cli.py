# SPDX-License-Identifier: Apache-2.0
"""The program: arguments, progress, exit codes."""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from upconv.bench import report
from upconv.bench.environment import describe
from upconv.bench.problem import UsageError
from upconv.bench.run import Options, Runner

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
PICTURES = (".png", ".svg", ".pdf")

DESCRIPTION = """\
Measure upconv on a model. FILE.py is a problem in the KernelBench form: it defines the class Model
and the functions get_init_inputs() and get_inputs(), which give the arguments of Model and of its
forward. A copy of the model with the same weights is fused, checked on fresh inputs against the
original and against float64, and timed beside eager PyTorch and torch.compile in one run, each run
with cold caches. Any such file will do; what cannot be fused stays with PyTorch.
"""
EPILOG = """\
examples:
  python -m upconv.bench model.py
  python -m upconv.bench model.py --device cuda --dtype float16 --plot model.svg
  python -m upconv.bench examples/kernelbench/problems/*.py --json results.json
  python -m upconv.bench problems/grouped.py --drop-in grouped.py   ModelNew instead of upconv.fuse
  python -m upconv.bench model.py --quick                           one input, few runs, no compiler

exit codes: 0 right, 1 a result is wrong, 2 bad usage or input
"""


def _positive(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    def number(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = 0
        if not value > 0 or not math.isfinite(value):
            raise argparse.ArgumentTypeError(f"'{text}' is not a positive number")
        return value

    return number


def _picture(text: str) -> Path:
    path = Path(text)
    if path.suffix not in PICTURES:
        raise argparse.ArgumentTypeError(f"'{text}' must end in one of {', '.join(PICTURES)}")
    return path


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="python -m upconv.bench",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = result.add_argument
    add("files", type=Path, nargs="+", metavar="FILE.py", help="problems")
    add("--device", metavar="D", help="cpu, cuda, cuda:1 (default: cuda if there is one, else cpu)")
    add("--dtype", choices=DTYPES, help="of weights and inputs (default: as the file makes them)")
    add(
        "--math", choices=("tf32", "ieee"), help="of float32 on a GPU (default: PyTorch's settings)"
    )
    add("--train", action="store_true", help="leave the model in training mode (default: eval)")
    add("--runs", type=_positive(int), metavar="N", help="of each side (default: 15, on a GPU 40)")
    add(
        "--seconds",
        type=_positive(float),
        default=60,
        metavar="S",
        help="time for these runs; each side gets three at least (default: 60)",
    )
    add("--inputs", type=_positive(int), default=5, metavar="N", help="checked (default: 5)")
    add(
        "--check-seconds",
        type=_positive(float),
        default=60,
        metavar="S",
        help="time for float64; a part of each input is checked at least (default: 60)",
    )
    add("--no-compile", action="store_true", help="do not measure torch.compile")
    add("--quick", action="store_true", help="as --inputs 1 --runs 5 --no-compile")
    add("--seed", type=int, default=0, metavar="N", help="of weights and inputs (default: 0)")
    add("--drop-in", type=Path, metavar="FILE.py", help="its ModelNew instead of a fused copy")
    add("--json", type=Path, metavar="FILE", help="write the results, samples included")
    add("--markdown", type=Path, metavar="FILE", help="write them as a table")
    add(
        "--plot",
        type=_picture,
        metavar="FILE",
        help="draw them: bars against the floor (.png, .svg)",
    )
    return result


def options_of(args: argparse.Namespace) -> Options:
    """Checks what depends on the machine."""
    device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        kind = torch.device(device).type
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"--device {device}: {str(error).splitlines()[0]}") from error
    if kind not in ("cpu", "cuda"):
        raise UsageError(f"--device {device}: cpu or cuda")
    if args.drop_in is not None and len(args.files) > 1:
        raise UsageError("--drop-in: for one problem at a time")
    if args.plot is not None and importlib.util.find_spec("matplotlib") is None:
        raise UsageError("--plot needs matplotlib: pip install matplotlib")
    runs = args.runs or (5 if args.quick else 40 if kind == "cuda" else 15)
    return Options(
        device=device,
        dtype=DTYPES.get(args.dtype),
        math=args.math,
        inputs=1 if args.quick else args.inputs,
        runs=runs,
        seconds=args.seconds,
        check_seconds=args.check_seconds,
        compiles=not (args.no_compile or args.quick),
        train=args.train,
        seed=args.seed,
        drop_in=args.drop_in,
    )


def run_one(file: Path, runner: Runner, console: Console) -> dict[str, Any]:
    """The result, or {"file", "error"} for a file that cannot be used."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    task = bar.add_task(escape(file.stem), total=1)

    def progress(what: str, fraction: float) -> None:
        bar.update(task, description=escape(f"{file.stem}: {what}"), completed=fraction)

    try:
        with bar:
            return runner(file, progress)
    except UsageError as error:
        return {"file": str(file), "error": str(error)}


def run_all(
    files: Sequence[Path], runner: Runner, out: Console, progress: Console
) -> list[dict[str, Any]]:
    """Shows each result when it is there."""
    results = []
    for file in files:
        results.append(run_one(file, runner, progress))
        report.show_result(results[-1], out)
    return results


def write(args: argparse.Namespace, document: dict[str, Any], console: Console) -> None:
    if args.json is not None:
        args.json.write_text(json.dumps(report.plain(document), indent=1) + "\n")
    if args.markdown is not None:
        args.markdown.write_text(report.markdown(document))
    if args.plot is not None and report.measured(document):
        from upconv.bench import plot

        plot.draw(document, args.plot)
    written = [str(path) for path in (args.json, args.markdown, args.plot) if path is not None]
    if written:
        console.print(f"written: {', '.join(written)}", highlight=False, markup=False)


def exit_code(results: list[dict[str, Any]]) -> int:
    if any("check" in result and not result["check"]["right"] for result in results):
        return 1
    return 2 if any("error" in result for result in results) else 0


def main(argv: Sequence[str] | None = None) -> int:
    args = parser().parse_args(argv)
    out, progress = Console(), Console(stderr=True)
    if not out.is_terminal:
        out.width = 120
    try:
        options = options_of(args)
        runner = Runner(options)
        document = {
            "environment": describe(runner.device),
            "settings": report.settings(options),
            "results": run_all(args.files, runner, out, progress),
        }
        report.show_summary(document, out)
        write(args, document, progress)
    except (UsageError, OSError) as error:
        print(f"upconv.bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return exit_code(document["results"])
