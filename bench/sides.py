# SPDX-License-Identifier: Apache-2.0
"""The sides of the comparison. Each has a name and sample(), which measures RUNS runs.

All sides are treated alike: warm-up runs for a tenth of a second, then timed runs, each after the
caches were emptied.
"""

import json
import os
import subprocess
import time

WARM_UP_SECONDS = 0.1
# The program reports the fastest, the median and the slowest: of three runs, these are all.
RUNS = 3


class ProgramError(Exception):
    """The program could not do what it was asked for."""


class Program:
    """The program upconv, as a process for each call."""

    def __init__(self, path, threads):
        self.path, self.threads = path, threads

    def call(self, *arguments, allowed=(0,)):
        command = [os.fspath(self.path), *map(os.fspath, arguments)]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except OSError as error:
            raise ProgramError(f"{self.path}: {error.strerror} (`make build` makes it)") from None
        if done.returncode not in allowed:
            text = done.stderr.strip() or f"exit code {done.returncode}"
            raise ProgramError(f"{' '.join(command)}: {text}")
        return done.stdout

    def bench(self, row, batch, *options, allowed=(0,)):
        """The report of `upconv bench` on one model, with the only result under 'result'."""
        fixed = ("--dim", f"N={batch}", "--threads", str(self.threads), "--json")
        text = self.call("bench", row.path, *fixed, *options, allowed=allowed)
        report = json.loads(text)
        report["result"] = report.pop("results")[0]
        return report


class Ours:
    """One model in the program, which measures itself and the machine's rates."""

    def __init__(self, name, program, row, *options):
        self.name, self.program, self.row, self.options = name, program, row, options
        self.reports = []

    def sample(self):
        repeat = ("--repeat", str(RUNS))
        report = self.program.bench(self.row, self.row.batch, *repeat, *self.options)
        self.reports.append(report)
        result = report["result"]
        return [result["fastest_s"], result["median_s"], result["slowest_s"]]


class Rival:
    """A library called from this process: `model` has run() and outputs()."""

    def __init__(self, name, model, evict):
        self.name, self.model, self.evict = name, model, evict

    def sample(self):
        began = time.perf_counter()
        while True:
            self.model.run()
            if time.perf_counter() - began >= WARM_UP_SECONDS:
                break
        samples = []
        for _ in range(RUNS):
            self.evict()
            start = time.perf_counter()
            self.model.run()
            samples.append(time.perf_counter() - start)
        return samples
