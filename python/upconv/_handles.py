# SPDX-License-Identifier: Apache-2.0
"""Python objects that own an object of the library: destruction, forks, pickling."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

_rebuilding = threading.RLock()
_owners: weakref.WeakSet[Owner] = weakref.WeakSet()
Self = TypeVar("Self", bound="Owner")


class Owner:
    """Owns one object of the library, and makes it with _create.

    Nothing is destroyed when Python exits: the system does it. With survives_fork False, a forked
    child abandons the object (its threads are gone, its locks may be held for ever) and makes it
    anew on first use."""

    survives_fork = False

    _handle: int | None = None
    _finalizer: Any = None

    def _own(self, handle: int | None, destroy: Callable[..., object], *keep: object) -> None:
        """keep: what must live until the handle is destroyed."""
        self._finalizer = weakref.finalize(self, _destroy, destroy, handle, keep)
        self._finalizer.atexit = False
        self._handle = handle
        _owners.add(self)

    def _create(self) -> None:
        raise NotImplementedError

    @property
    def handle(self) -> int:
        """The address of the C object."""
        handle = self._handle
        if handle is None:
            with _rebuilding:
                if self._handle is None:
                    self._create()
                handle = self._handle
        assert handle is not None
        return handle

    def __copy__(self: Self) -> Self:
        return self  # immutable

    def __deepcopy__(self: Self, memo: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"upconv: a {type(self).__name__} cannot be pickled, as it holds memory, threads or a"
            " device of this process; pickle its text and make it anew"
        )


def _destroy(destroy: Callable[..., object], handle: int, keep: object) -> None:
    destroy(handle)


def _after_fork_in_child() -> None:
    global _rebuilding
    _rebuilding = threading.RLock()
    for owner in list(_owners):
        if not owner.survives_fork:
            owner._finalizer.detach()
            owner._handle = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
