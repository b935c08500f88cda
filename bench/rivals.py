#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time an ONNX model under ONNX Runtime's CPU provider and print the result as JSON.

The rival gets its best conditions: every graph optimisation, inputs and outputs bound to memory
that is allocated once, warm caches, and no Python work inside the timed region.
"""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime as ort
from machine import cpu_name

DTYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
}


class UsageError(Exception):
    """A wrong option or file; reported in one line, exit code 2."""


def key_value(text):
    key, found, value = text.partition("=")
    if not found or not key or not value:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE")
    return key, value


def parse(argv):
    parser = argparse.ArgumentParser(
        description="Time an ONNX model under ONNX Runtime's CPU provider; prints JSON.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="""examples:
  python bench/rivals.py models/a_scale_pool.onnx --dim N=128
  python bench/rivals.py models/b_grouped.onnx --input x=8x32x12x24x48 --threads 1
  python bench/rivals.py models/gan3d.onnx --dim N=1 --input z=z.npy --check voxels=y.npy

exit codes: 0 done, 1 the output differs from --check, 2 bad usage or input
""",
    )
    parser.add_argument("model", type=Path, help="the ONNX file")
    parser.add_argument(
        "--input",
        action="append",
        type=key_value,
        default=[],
        metavar="NAME=SHAPE|FILE.npy",
        help="shape of an input, as 8x32x12x24x48, or a file with its values; may be repeated",
    )
    parser.add_argument(
        "--dim",
        action="append",
        type=key_value,
        default=[],
        metavar="NAME=SIZE",
        help="size of a symbolic dimension, as N=128; may be repeated",
    )
    parser.add_argument("--threads", type=int, default=2, metavar="T", help="default: 2")
    parser.add_argument("--warmup", type=int, default=3, metavar="R", help="runs (default: 3)")
    parser.add_argument("--runs", type=int, default=15, metavar="R", help="default: 15")
    parser.add_argument("--seed", type=int, default=0, help="of the random inputs (default: 0)")
    parser.add_argument(
        "--output",
        action="append",
        type=key_value,
        default=[],
        metavar="NAME=FILE.npy",
        help="write an output; may be repeated",
    )
    parser.add_argument(
        "--check",
        action="append",
        default=[],
        metavar="[NAME=]FILE.npy",
        help="compare an output (the first, without NAME) with this array; may be repeated",
    )
    parser.add_argument("--rtol", type=float, default=1e-4, help="for --check (default: 1e-4)")
    parser.add_argument("--atol", type=float, default=1e-5, help="for --check (default: 1e-5)")
    args = parser.parse_args(argv)
    for option in ("threads", "runs"):
        if getattr(args, option) < 1:
            parser.error(f"--{option} {getattr(args, option)}: must be at least 1")
    if args.warmup < 0:
        parser.error(f"--warmup {args.warmup}: must not be negative")
    return args


def positive(text, what):
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise UsageError(f"{what}: '{text}' is not a size")
    return value


def load(path):
    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from None


def make_inputs(session, given, dims, seed):
    """One array for each graph input: from a file, or uniform in [0, 1)."""
    known = [value.name for value in session.get_inputs()]
    for name in given:
        if name not in known:
            raise UsageError(f"--input {name}: the model's inputs are {', '.join(known)}")
    random = np.random.default_rng(seed)
    arrays = {}
    for value in session.get_inputs():
        if value.type not in DTYPES:
            raise UsageError(f"input {value.name}: {value.type} is not supported here")
        dtype, text = DTYPES[value.type], given.get(value.name)
        if text and text.endswith(".npy"):
            arrays[value.name] = np.ascontiguousarray(load(text), dtype=dtype)
            continue
        if text:
            shape = [positive(part, f"--input {value.name}") for part in text.split("x")]
        else:
            shape = []
            for size in value.shape:
                if isinstance(size, str):
                    if size not in dims:
                        raise UsageError(f"input {value.name}: give --dim {size}=SIZE")
                    size = positive(dims[size], f"--dim {size}")
                elif size is None:
                    raise UsageError(f"input {value.name}: give --input {value.name}=SHAPE")
                shape.append(size)
        if np.issubdtype(dtype, np.floating):
            arrays[value.name] = random.random(shape, dtype=np.float32).astype(dtype)
        else:
            arrays[value.name] = np.ones(shape, dtype=dtype)
    return arrays


def open_session(path, threads):
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    try:
        return ort.InferenceSession(os.fspath(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime raises many unrelated classes
        raise UsageError(f"{path}: {error}") from None


def check_output_names(session, args):
    """Before anything slow runs."""
    known = [value.name for value in session.get_outputs()]
    checked = [text.partition("=")[0] for text in args.check if "=" in text]
    for option, names in (("--output", dict(args.output)), ("--check", checked)):
        for name in names:
            if name not in known:
                raise UsageError(f"{option} {name}: the model's outputs are {', '.join(known)}")


class Bound:
    """A session with its inputs and outputs in memory that is allocated once."""

    def __init__(self, session, arrays):
        self.session, self.binding = session, session.io_binding()
        self.names = [value.name for value in session.get_outputs()]
        for name, array in arrays.items():
            self.binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(array))
        for name, array in zip(self.names, session.run(None, arrays)):
            target = ort.OrtValue.ortvalue_from_numpy(np.ones_like(array))
            self.binding.bind_ortvalue_output(name, target)

    def run(self):
        self.session.run_with_iobinding(self.binding)

    def outputs(self):
        return dict(zip(self.names, self.binding.copy_outputs_to_cpu()))


def measure(session, arrays, args):
    try:
        bound = Bound(session, arrays)
    except Exception as error:
        raise UsageError(f"{args.model}: {error}") from None
    for _ in range(args.warmup):
        bound.run()
    samples = []
    for _ in range(args.runs):
        start = time.perf_counter()
        bound.run()
        samples.append((time.perf_counter() - start) * 1e3)
    return bound.outputs(), samples


def compare(outputs, args):
    results = []
    for text in args.check:
        name, found, path = text.partition("=")
        if not found:
            name, path = next(iter(outputs)), text
        want, got = load(path), outputs[name]
        result = {"output": name, "file": path, "equal_shape": want.shape == got.shape}
        if result["equal_shape"]:
            want64, got64 = want.astype(np.float64), got.astype(np.float64)
            error = np.abs(got64 - want64)
            close = np.isclose(got64, want64, args.rtol, args.atol, equal_nan=True)
            finite = error[np.isfinite(error)]
            result["max_abs_error"] = float(finite.max()) if finite.size else 0.0
            result["wrong"] = int(close.size - close.sum())
        result["passed"] = result["equal_shape"] and result["wrong"] == 0
        results.append(result)
    return results


def main(argv=None):
    args = parse(argv)
    try:
        session = open_session(args.model, args.threads)
        check_output_names(session, args)
        arrays = make_inputs(session, dict(args.input), dict(args.dim), args.seed)
        outputs, samples = measure(session, arrays, args)
        checks = compare(outputs, args)
        for name, path in args.output:
            np.save(path, outputs[name])
    except (UsageError, OSError) as error:
        print(f"rivals.py: {error}", file=sys.stderr)
        return 2
    report = {
        "rival": "onnxruntime",
        "version": ort.__version__,
        "provider": session.get_providers()[0],
        "cpu": cpu_name(),
        "threads": args.threads,
        "model": os.fspath(args.model),
        "inputs": {name: list(array.shape) for name, array in arrays.items()},
        "outputs": {name: list(array.shape) for name, array in outputs.items()},
        "warmup": args.warmup,
        "runs": args.runs,
        "median_ms": statistics.median(samples),
        "min_ms": min(samples),
        "max_ms": max(samples),
        "samples_ms": samples,
    }
    if checks:
        report["checks"] = checks
    print(json.dumps(report, indent=2))
    return 0 if all(check["passed"] for check in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
