# SPDX-License-Identifier: Apache-2.0
"""What torch._dynamo could not trace while a fused model ran: kept for explain(), instead of a
hundred lines of warning before each message about a wrong argument."""

from __future__ import annotations

import logging
import threading

from torch._dynamo.utils import counters

_TRACER = logging.getLogger("torch._dynamo.convert_frame")

_running = threading.local()


class Untraced:
    """While a fused model runs in the with statement, the reasons are written down here."""

    def __init__(self) -> None:
        self.calls = 0
        self.reasons: list[str] = []

    def __enter__(self) -> None:
        self.calls += 1
        stack = _running.__dict__.setdefault("stack", [])
        stack.append(self)

    def __exit__(self, *exception: object) -> None:
        _running.stack.pop()


class _Filter(logging.Filter):
    """Takes the warnings about frames that run untraced, unless more is logged on demand."""

    def filter(self, record: logging.LogRecord) -> bool:
        stack = getattr(_running, "stack", None)
        wanted = _TRACER.isEnabledFor(logging.INFO)
        if not stack or wanted or not record.exc_info or record.levelno != logging.WARNING:
            return True
        error = record.exc_info[1]
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = " ".join(lines[:2]) or type(error).__name__
        reasons = stack[-1].reasons
        if reason not in reasons:
            reasons.append(reason)
        return False


_TRACER.addFilter(_Filter())


def frames_left() -> int:
    """How many frames torch._dynamo has met so far and not traced."""
    frames = counters["frames"]
    return int(frames["total"] - frames["ok"])
