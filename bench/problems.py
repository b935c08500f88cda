# SPDX-License-Identifier: Apache-2.0
"""The users' suite of suite.txt, from upconv's text form. Needs nothing but Python."""

import math
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The first part of suite.txt: models/ has these whole.
FOUNDING = "The three founding models"

SUPERSCRIPT = {1: "", 2: "²", 3: "³"}


class SuiteError(Exception):
    """A line of suite.txt, or a model, that cannot be used here."""


@dataclass
class Problem:
    """A transposed convolution and what follows it, from upconv's text form."""

    size: tuple = ()
    kernel: tuple = ()
    stride: tuple = ()
    padding: tuple = ()
    output_padding: tuple = ()
    n: int = 1
    ci: int = 0
    co: int = 0
    g: int = 1
    bias: bool = False
    operators: list = field(default_factory=list)  # [name, argument...]

    @property
    def macs(self):
        """Multiply-adds of one entry of the batch."""
        per_input = self.ci * self.co // self.g * math.prod(self.kernel)
        return math.prod(self.size) * per_input

    def title(self):
        def short(values):
            return str(values[0]) if len(set(values)) == 1 else "×".join(map(str, values))

        size = short(self.size) + SUPERSCRIPT[len(self.size)] * (len(set(self.size)) == 1)
        channels = f"depthwise {self.ci}" if self.g == self.ci else f"{self.ci}→{self.co}"
        return f"{channels} k{short(self.kernel)} s{short(self.stride)} at {size}"


# Longest first, so that `ci` is not read as `c`, nor `op` as `o`.
COUNTS = ("ci", "co", "n", "g")
AXES = {"in": "size", "op": "output_padding", "k": "kernel", "s": "stride", "p": "padding"}


def parse_problem(text):
    convolution, *operators = (part.split() for part in text.split("|"))
    problem = Problem(operators=operators)
    for token in convolution:
        letters = token.rstrip("0123456789x")
        digits = token[len(letters) :]
        if token == "bias":
            problem.bias = True
        elif letters in COUNTS and digits.isdigit():
            setattr(problem, letters, int(digits))
        elif letters in AXES and digits:
            setattr(problem, AXES[letters], tuple(int(part) for part in digits.split("x")))
        else:
            raise SuiteError(f"'{text}': '{token}' is not supported here")
    if not (problem.size and problem.kernel and problem.ci and problem.co):
        raise SuiteError(f"'{text}': in, k, ci and co are required")
    dims = len(problem.size)
    defaults = {"kernel": 1, "stride": 1, "padding": 0, "output_padding": 0}
    for name, default in defaults.items():
        values = getattr(problem, name) or (default,)
        setattr(problem, name, values * dims if len(values) == 1 else values)
    return problem


def read_suite(path):
    """Yields (heading, text) for each problem of the file."""
    heading = ""
    for line in path.read_text().splitlines():
        line = line.strip()
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line:
            yield heading, line


def cut_batch(problem, most_macs):
    """The problem's batch, or the largest power of two below it that fits; at least 1."""
    batch = problem.n
    if batch * problem.macs > most_macs:
        batch = 1
        while 2 * batch * problem.macs <= most_macs:
            batch *= 2
    return batch
