# SPDX-License-Identifier: Apache-2.0
"""Packed weights on the CPU and under a promise: kept as long as they are right, else packed anew.

What is packed depends on the bytes of weight, bias and parameters. PyTorch counts changes of a
tensor (_version), but not those made through .data or NumPy, nor those of inference tensors. So

  - on the CPU a packed buffer is kept with a copy of those bytes, and serves again if a comparison
    finds them equal;
  - on CUDA, where a comparison would cost as much as packing, every call packs, on its stream;
  - tensors that somebody promised not to change (promise) are packed once, on both. Changes that
    PyTorch counts, and other memory behind the tensor, are noticed even then.

Buffers belong to the weight: they go when it does.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._prepared import Packing

_MOST_KEPT = 1024
_LARGE = 1 << 18  # bytes; comparisons of more than that let other threads of Python run

_address = ctypes.c_void_p
_compare = ctypes.PyDLL(None).memcmp
_compare.argtypes = (_address, _address, ctypes.c_size_t)
_compare_unlocked = ctypes.CDLL(None).memcmp
_compare_unlocked.argtypes = (_address, _address, ctypes.c_size_t)


class Entry:
    """A packed buffer, and what it was made of."""

    __slots__ = ("buffer", "copies", "packing", "stamp", "stream", "weight")

    def __init__(self, weight: Tensor, packing: Packing, buffer: Tensor) -> None:
        self.weight = weakref.ref(weight, _forget(id(weight)))
        self.packing = packing
        self.buffer = buffer
        self.copies: list[tuple[Tensor, int, int]] | None = None  # copy, its address, bytes
        self.stamp: tuple[Any, ...] | None = None
        self.stream = 0


class _Statistics:
    """What ran since the package was imported; approximate when threads run at once."""

    def __init__(self) -> None:
        self.own_calls = 0  # from Python
        self.more_calls: Callable[[], int] = int  # by the short way in C
        self.packs = 0  # packings by the library, but those of the short way
        self.fallbacks = 0  # calls that went to PyTorch's operators

    @property
    def calls(self) -> int:
        """Executions by the library."""
        return self.own_calls + self.more_calls()


Statistics = _Statistics()
on_promise: list[Callable[[], None]] = []  # called when tensors come under the promise

_entries: dict[tuple[int, int], Entry] = {}
_keys: dict[int, set[tuple[int, int]]] = {}  # of _entries, by the weight's id
_lock = threading.RLock()  # a weight may be collected while it is held
_promised: dict[int, weakref.ref[Tensor]] = {}


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.RLock()  # another thread may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def _forget(identity: int) -> Callable[[object], None]:
    def forget(_: object) -> None:
        with _lock:
            for key in _keys.pop(identity, ()):
                _entries.pop(key, None)

    return forget


def _keep(key: tuple[int, int], entry: Entry) -> None:
    with _lock:
        if len(_entries) >= _MOST_KEPT:
            oldest = next(iter(_entries))
            _entries.pop(oldest)
            _keys.get(oldest[0], set()).discard(oldest)
        _entries[key] = entry
        _keys.setdefault(key[0], set()).add(key)


# ---------------------------------------------------------------- promises


def promise(tensors: Sequence[Tensor | None]) -> None:
    """The caller promises that these tensors change only in ways that PyTorch counts."""
    for tensor in tensors:
        if tensor is None:
            continue
        known = _promised.get(id(tensor))
        if known is None or known() is not tensor:
            identity = id(tensor)
            _promised[identity] = weakref.ref(tensor, lambda _, i=identity: _promised.pop(i, None))
            for notify in on_promise:
                notify()


def is_promised(weight: Tensor, bias: Tensor | None, params: Sequence[Tensor]) -> bool:
    """Whether all of them are under the promise."""
    if not _promised:
        return False
    for tensor in (weight, bias, *params):
        if tensor is not None:
            known = _promised.get(id(tensor))
            if known is None or known() is not tensor:
                return False
    return True


def stamp_of(weight: Tensor, bias: Tensor | None, params: Sequence[Tensor]) -> tuple[Any, ...]:
    """What PyTorch knows of the state of these tensors."""
    return tuple(
        (id(t), t.data_ptr(), 0 if t.is_inference() else t._version)
        for t in (weight, bias, *params)
        if t is not None
    )


def find(weight: Tensor, packing: Packing) -> Entry | None:
    entry = _entries.get((id(weight), id(packing)))
    return entry if entry is not None and entry.weight() is weight else None


def keep_stamped(
    weight: Tensor, packing: Packing, buffer: Tensor, stamp: tuple[Any, ...], stream: int
) -> Entry:
    entry = Entry(weight, packing, buffer)
    entry.stamp, entry.stream = stamp, stream
    _keep((id(weight), id(packing)), entry)
    return entry


# ---------------------------------------------------------------- the CPU


def packed_on_cpu(
    packing: Packing,
    size: int,
    comparable: bool,
    weight: Tensor,
    bias: Tensor | None,
    params: Sequence[Tensor],
) -> Tensor:
    """The packed buffer for these parameters. comparable: their elements lie side by side, in
    whatever order."""
    entry = find(weight, packing)
    promised = is_promised(weight, bias, params)
    stamp = stamp_of(weight, bias, params) if promised else None
    if entry is not None:
        if stamp is not None and entry.stamp == stamp:
            return entry.buffer
        if entry.copies is not None and _unchanged(entry.copies, weight, bias, params):
            entry.stamp = stamp  # if promised since: it is right as of now
            return entry.buffer
    copies = None
    if comparable and _is_worth_copies(entry, promised):
        copies = [_copy(t) for t in (weight, bias, *params) if t is not None]
    buffer = torch.empty(size, dtype=torch.uint8)
    Statistics.packs += 1
    packing.run(
        weight.data_ptr(),
        0 if bias is None else bias.data_ptr(),
        [param.data_ptr() for param in params],
        buffer.data_ptr(),
    )
    new = Entry(weight, packing, buffer)
    new.copies, new.stamp = copies, stamp
    _keep((id(weight), id(packing)), new)
    return buffer


def _is_worth_copies(entry: Entry | None, promised: bool) -> bool:
    """A weight that lives for one call, or changes at each, is not worth a copy: one that was seen
    before is, unless it has just changed. Under a promise nothing is compared."""
    return not promised and entry is not None and entry.copies is None


def size_of(weight: Tensor, bias: Tensor | None, params: Sequence[Tensor]) -> int:
    """Bytes of all parameters."""
    tensors = (weight, bias, *params)
    return sum(t.numel() * t.element_size() for t in tensors if t is not None)


def _copy(tensor: Tensor) -> tuple[Tensor, int, int]:
    size = tensor.numel() * tensor.element_size()
    copy = torch.empty(size, dtype=torch.uint8)
    ctypes.memmove(copy.data_ptr(), tensor.data_ptr(), size)
    return copy, copy.data_ptr(), size


def _unchanged(
    copies: list[tuple[Tensor, int, int]],
    weight: Tensor,
    bias: Tensor | None,
    params: Sequence[Tensor],
) -> bool:
    _, address, size = copies[0]
    compare = _compare if size < _LARGE else _compare_unlocked
    if compare(weight.data_ptr(), address, size):
        return False
    index = 1
    if bias is not None:
        _, address, size = copies[1]
        if _compare(bias.data_ptr(), address, size):
            return False
        index = 2
    for param in params:
        _, address, size = copies[index]
        if _compare(param.data_ptr(), address, size):
            return False
        index += 1
    return True


# ---------------------------------------------------------------- CUDA

_captured: list[Tensor] = []  # buffers that a CUDA graph may read for as long as the process lives


def packed_on_cuda(
    packing: Packing,
    size: int,
    promised: bool,
    weight: Tensor,
    bias: Tensor | None,
    params: Sequence[Tensor],
    stream: int,
) -> Tensor:
    """The packed buffer for these parameters, packed on the stream unless promised."""
    if not promised:
        return _pack_on_cuda(packing, size, weight, bias, params, stream)
    capturing = torch.cuda.is_current_stream_capturing()
    stamp = stamp_of(weight, bias, params)
    entry = find(weight, packing)
    if entry is None or entry.stamp != stamp:
        buffer = _pack_on_cuda(packing, size, weight, bias, params, stream)
        if capturing:  # part of the graph, and in its memory: of no use to others
            return buffer
        # Once per change: other streams may then use it without waiting.
        torch.cuda.current_stream(weight.device).synchronize()
        entry = keep_stamped(weight, packing, buffer, stamp, stream)
    if capturing:
        if not any(buffer is entry.buffer for buffer in _captured):
            _captured.append(entry.buffer)
    elif entry.stream != stream:
        entry.buffer.record_stream(torch.cuda.current_stream(weight.device))
    return entry.buffer


def _pack_on_cuda(
    packing: Packing,
    size: int,
    weight: Tensor,
    bias: Tensor | None,
    params: Sequence[Tensor],
    stream: int,
) -> Tensor:
    buffer = torch.empty(size, dtype=torch.uint8, device=weight.device)
    Statistics.packs += 1
    packing.run(
        weight.data_ptr(),
        0 if bias is None else bias.data_ptr(),
        [param.data_ptr() for param in params],
        buffer.data_ptr(),
        stream,
    )
    return buffer
