# SPDX-License-Identifier: Apache-2.0
"""Where a result was measured."""

from __future__ import annotations

import datetime
import platform
from typing import Any

import torch

import upconv


def cpu_name() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def describe(device: torch.device) -> dict[str, Any]:
    found: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "upconv": upconv.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.platform(terse=True),
        "cpu": cpu_name(),
        "threads": torch.get_num_threads(),
    }
    if device.type == "cuda":
        found["gpu"] = torch.cuda.get_device_name(device)
        found["cuda"] = torch.version.cuda
        found["cudnn"] = torch.backends.cudnn.version()
    return found
