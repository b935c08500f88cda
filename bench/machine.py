# SPDX-License-Identifier: Apache-2.0
"""The machine a benchmark runs on: what it is, how busy it is, and its caches."""

import os
import platform
import subprocess
from pathlib import Path

import numpy as np

# As in the program (cli/probe.c): virtual machines report the whole host's cache.
LEAST_CACHE, MOST_CACHE = 32 << 20, 128 << 20


def first_line(path, start=""):
    """The first line of a file that begins with `start`, or ''."""
    try:
        for line in Path(path).read_text().splitlines():
            if line.startswith(start):
                return line
    except OSError:
        pass
    return ""


def cpu_name():
    line = first_line("/proc/cpuinfo", "model name")
    return line.partition(":")[2].strip() or platform.processor() or platform.machine()


def cores():
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def command(*arguments):
    """What a command prints, or '' when it fails."""
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.rstrip("\n")


def last_cache_bytes():
    text = command("getconf", "LEVEL3_CACHE_SIZE")
    return min(max(int(text) if text.isdigit() else 0, LEAST_CACHE), MOST_CACHE)


class Eviction:
    """Empties the caches by reading a large buffer, as the program does between its runs."""

    def __init__(self):
        self.buffer = np.ones(2 * last_cache_bytes() // 8, dtype=np.uint64)

    def __call__(self):
        self.buffer[::8].sum()


def commit():
    """The commit, with '+' if tracked files, but for the results themselves, differ from it."""
    git = ["git", "-C", os.fspath(Path(__file__).parent)]
    files = ["--untracked-files=no", "--", ":/", ":(exclude,top)docs/bench"]
    changes = command(*git, "status", "--porcelain", *files)
    return command(*git, "rev-parse", "HEAD") + ("+" if changes else "")


def memory_gib():
    line = first_line("/proc/meminfo", "MemTotal:").split()
    return round(int(line[1]) / (1 << 20), 1) if len(line) > 1 else None


def describe():
    system = first_line("/etc/os-release", "PRETTY_NAME=").partition("=")[2].strip('"')
    return {
        "cpu": cpu_name(),
        "cores": cores(),
        "last_cache_mib": last_cache_bytes() >> 20,
        "memory_gib": memory_gib(),
        "system": system or platform.system(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
    }
