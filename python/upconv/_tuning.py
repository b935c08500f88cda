# SPDX-License-Identifier: Apache-2.0
"""Whether plans measure their candidates."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

# upconv_tuning, by number
MODES = ("default", "off", "stored", "measure")

_mode = "default"
_forgetters: list[Callable[[], object]] = []


def current() -> str:
    """How plans are made now: one of MODES."""
    return _mode


def on_tuning(forget: Callable[[], object]) -> None:
    """forget is called when measuring begins: plans that were kept until then were not measured."""
    _forgetters.append(forget)


def _set(mode: str) -> None:
    global _mode
    begins = mode == "measure" and _mode != mode
    _mode = mode
    if begins:
        for forget in _forgetters:
            forget()


class tune:
    """Whether the candidates of a problem that is met for the first time are measured.

        with upconv.tune():
            model(x)            # the first call of each layer takes a second or so
        model(x)                # the fastest candidates, from now on

        upconv.tune()           # from here on, everywhere; like cudnn.benchmark = True
        upconv.tune(False)      # no more

    As with torch.set_grad_enabled a call counts at once, and `with` or a decorated function takes
    it back at its end; unlike there it counts for all threads. What was measured is kept, in this
    process and in a file for others (docs/PYTHON.md), and plans find it whether tuning is on or
    not. Within a CUDA graph's capture nothing is measured."""

    def __init__(self, mode: bool = True) -> None:
        self._before = _mode
        self._mode = "measure" if mode else "stored"
        _set(self._mode)

    def __enter__(self) -> None:
        _set(self._mode)

    def __exit__(self, *error: object) -> None:
        _set(self._before)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        _set(self._before)  # decorating tunes nothing
        mode: Any = self._mode == "measure"

        @wraps(function)
        def tuned(*args: P.args, **named: P.kwargs) -> R:
            with tune(mode):
                return function(*args, **named)

        return tuned

    def __repr__(self) -> str:
        return f"upconv.tune({self._mode == 'measure'})"
