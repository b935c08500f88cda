# SPDX-License-Identifier: Apache-2.0
"""The library's statuses as exceptions."""

from __future__ import annotations

from typing import NoReturn

from . import _library as c


class UpconvError(RuntimeError):
    """What the library refuses or fails at: the argument, its value, and what is allowed."""


class InvalidArgumentError(UpconvError, ValueError):
    """A value that can never be right."""


class UnsupportedError(UpconvError, NotImplementedError):
    """Meaningful, but not offered."""


class SizeOverflowError(UpconvError, OverflowError):
    """A size, or a product of sizes, that does not fit 64 bits."""


class OutOfMemoryError(UpconvError, MemoryError):
    """No memory, on the host or on the device."""


class DeviceError(UpconvError):
    """The device or its driver is missing or failed."""


_ERRORS: dict[int, type[UpconvError]] = {
    c.INVALID_ARGUMENT: InvalidArgumentError,
    c.UNSUPPORTED: UnsupportedError,
    c.OVERFLOW: SizeOverflowError,
    c.OUT_OF_MEMORY: OutOfMemoryError,
    c.DEVICE_ERROR: DeviceError,
}


def fail(status: int) -> NoReturn:
    """Raises the error of this thread's last call, which returned status."""
    message = c.lib.upconv_last_error().decode(errors="replace")
    raise _ERRORS.get(status, UpconvError)(message)


def check(status: int) -> None:
    if status:
        fail(status)
