# SPDX-License-Identifier: Apache-2.0
"""upconv's side of a comparison on a GPU: the program tests/gpu/gpu_run."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

WORDS = {"ieee": "", "tf32": " math=tf32", "f16": " dtype=f16", "bf16": " dtype=bf16"}


def with_mode(text: str, mode: str) -> str:
    """The text form with the mode's words, which belong before the first operator."""
    convolution, *operators = text.split(" | ")
    return " | ".join([convolution + WORDS[mode], *operators])


CHOICE = re.compile(r"the planner's choice: (\S+), (\d+) FLOP, (\d+) bytes")
TIMES = re.compile(
    r"^\s+(\S+)\s+(ok|WRONG|-)\s+worst (\S+) of the bound(.*), median ([\d.]+) ms "
    r"\(min ([\d.]+) max ([\d.]+)\)",
    re.MULTILINE,
)
SAMPLES = re.compile(r"^\s+samples of (\S+), ms:(.*)$", re.MULTILINE)


def upconv(program: Path, text: str, runs: int, check: bool) -> dict:
    """Every candidate's time and largest error as a fraction of the bound; the planner's choice."""
    options = ["--runs", str(runs), "--samples"] + ([] if check else ["--no-check"])
    out = subprocess.run([program, *options, text], check=True, capture_output=True, text=True)
    return read_upconv(out.stdout, text)


def read_upconv(said: str, text: str) -> dict:
    choice, found = CHOICE.search(said), TIMES.findall(said)
    if not choice or not found:
        raise SystemExit(f"gpu_run said nothing about {text}:\n{said}")
    candidates = {
        name: {"verdict": verdict, "worst": worst, "ms": float(middle), "min": float(low)}
        for name, verdict, worst, _, middle, low, _ in found
    }
    chosen = choice[1]
    samples = {name: [float(ms) for ms in times.split()] for name, times in SAMPLES.findall(said)}
    return {
        "text": text,
        "chosen": chosen,
        "ms": candidates[chosen]["ms"],
        "flop": float(choice[2]),
        "bytes": float(choice[3]),
        "candidates": candidates,
        **({"samples_ms": samples[chosen]} if chosen in samples else {}),
    }
