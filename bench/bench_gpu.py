# SPDX-License-Identifier: Apache-2.0
"""Founding models on a GPU: upconv beside PyTorch eager in the same math mode, one run.

    python3 bench/bench_gpu.py --gpu-run build-gpu/tests/gpu_run --json docs/bench/gpu.json

Both sides are timed with events, medians of many runs; before each run the second-level cache is
evicted by reading a large buffer. PyTorch gets its faster layout.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import re
import statistics
import subprocess
from pathlib import Path

import torch
from torch import nn

LEAKY = 0.2


class ScalePool(nn.Module):
    """Model A."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose3d(3, 16, 3, stride=2, padding=1)
        self.scale1 = nn.Parameter(torch.tensor(0.5))
        self.bias = nn.Parameter(torch.randn(16, 1, 1, 1))
        self.scale2 = nn.Parameter(torch.tensor(1.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.avg_pool3d(self.conv(x) * self.scale1, 2)
        return (y + self.bias) * self.scale2


class Grouped(nn.Module):
    """Model B."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose3d(
            32, 32, (3, 5, 7), (2, 2, 2), (1, 2, 3), (1, 1, 1), groups=4, bias=False
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


class DoubleLeakyMax(nn.Module):
    """Model C."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose3d(16, 32, 3, stride=2, padding=1, output_padding=1)
        self.multiplier = nn.Parameter(torch.randn(32, 1, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.leaky_relu(self.conv(x), LEAKY) * self.multiplier
        return nn.functional.max_pool3d(nn.functional.leaky_relu(y, LEAKY), 2)


MODELS = {
    "A": (
        ScalePool,
        (128, 3, 16, 32, 32),
        "n128 ci3 co16 in16x32x32 k3 s2 p1 bias{}"
        " | mul @scale1[] | avg_pool 2 | add @b | mul @scale2[]",
    ),
    "B": (
        Grouped,
        (8, 32, 12, 24, 48),
        "n8 ci32 co32 in12x24x48 k3x5x7 s2 p1x2x3 op1 g4{}",
    ),
    "C": (
        DoubleLeakyMax,
        (16, 16, 16, 32, 32),
        "n16 ci16 co32 in16x32x32 k3 s2 p1 op1 bias{}"
        " | leaky_relu 0.2 | mul @m | leaky_relu 0.2 | max_pool 2",
    ),
}
MODES = {"ieee": "", "tf32": " math=tf32", "f16": " dtype=f16", "bf16": " dtype=bf16"}


def median_ms(call, flush: torch.Tensor, runs: int) -> tuple[float, list[float]]:
    """Milliseconds of each run, the cache evicted by reading before it."""
    for _ in range(5):
        call()
    samples = []
    for _ in range(runs):
        flush.sum()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        end.synchronize()
        samples.append(begin.elapsed_time(end))
    return statistics.median(samples), samples


def eager(name: str, mode: str, flush: torch.Tensor, runs: int) -> tuple[float, list[float]]:
    """The faster of PyTorch's two layouts."""
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = mode != "ieee"
    torch.backends.cuda.matmul.allow_tf32 = mode != "ieee"
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}.get(mode, torch.float32)
    make, shape, _ = MODELS[name]
    model = make().cuda().to(dtype).eval()
    best: tuple[float, list[float]] = (float("inf"), [])
    with torch.no_grad():
        for layout in (torch.contiguous_format, torch.channels_last_3d):
            x = torch.rand(shape, device="cuda", dtype=dtype).to(memory_format=layout)
            model.conv.to(memory_format=layout)
            measured = median_ms(lambda v=x: model(v), flush, runs)
            best = min(best, measured)
    return best


def ours(program: Path, text: str, runs: int, check: bool) -> list[dict]:
    """Every candidate's time, and its largest error as a fraction of the bound."""
    options = ["--runs", str(runs)] + ([] if check else ["--no-check"])
    out = subprocess.run([program, *options, text], check=True, capture_output=True, text=True)
    pattern = (
        r"^\s+(\S+)\s+(ok|WRONG|-)\s+worst (\S+) of the bound(.*), median ([\d.]+) ms "
        r"\(min ([\d.]+) max ([\d.]+)\)"
    )
    found = re.findall(pattern, out.stdout, re.M)
    if not found:
        raise SystemExit(f"gpu_run said nothing about {text}:\n{out.stdout}{out.stderr}")
    return [
        {"candidate": f[0], "verdict": f[1], "worst": f[2], "ms": float(f[4]), "min": float(f[5])}
        for f in found
    ]


def copy_rate() -> float:
    """Bytes read and written per second."""
    a = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    b = torch.empty_like(a)
    ms, _ = median_ms(lambda: b.copy_(a), torch.empty(1, device="cuda"), 20)
    return 2 * a.numel() / ms * 1e3


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu-run", type=Path, required=True, help="the program tests/gpu/gpu_run")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--check", action="store_true", help="also against float64 (slow)")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    flush = torch.empty(64 << 20, device="cuda")
    rate = copy_rate()
    environment = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),
        "driver": subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=False,
        ).stdout.strip(),
        "python": platform.python_version(),
        "date": datetime.date.today().isoformat(),
        "copy_gb_per_s": rate * 1e-9,
    }
    print(environment)
    rows = []
    for name, (_, _, text) in MODELS.items():
        for mode, words in MODES.items():
            theirs, samples = eager(name, mode, flush, arguments.runs)
            candidates = ours(
                arguments.gpu_run, text.format(words), arguments.runs, arguments.check
            )
            best = min(candidates, key=lambda c: c["ms"])
            rows.append(
                {
                    "model": name,
                    "mode": mode,
                    "eager_ms": theirs,
                    "eager_samples": samples,
                    "candidates": candidates,
                    "ms": best["ms"],
                    "speed_up": theirs / best["ms"],
                }
            )
            print(
                f"{name} {mode:5} eager {theirs:8.4f} ms   upconv {best['ms']:8.4f} ms "
                f"({best['candidate']}, {best['verdict']} {best['worst']})   "
                f"{theirs / best['ms']:6.1f}x",
                flush=True,
            )
    if arguments.json:
        arguments.json.write_text(json.dumps({"environment": environment, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
