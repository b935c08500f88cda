# SPDX-License-Identifier: Apache-2.0
"""out=: what a tensor must be to receive the result.

The library writes into it if the call is one for the short way and out shares no memory with what
is read (fast.py); else the result is made as always, and copied (functional.py)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from .._errors import InvalidArgumentError


def check_kind(out: object) -> None:
    """Before anything is computed."""
    if not isinstance(out, Tensor):
        raise TypeError(
            f"out is {type(out).__name__}: must be a tensor of PyTorch, as the input is"
        )
    tracing = torch.compiler.is_compiling()  # the copy that is traced checks this again
    if not tracing and out.is_inference() and not torch.is_inference_mode_enabled():
        raise RuntimeError(
            "out is an inference tensor: must be written in torch.inference_mode() only"
        )
    if any(step == 0 and extent > 1 for extent, step in _axes(out)):
        raise InvalidArgumentError(
            f"out has shape {list(out.shape)} and strides {list(out.stride())}: its elements must"
            " not share memory, as those of an expanded tensor do"
        )


def check(
    out: Tensor, shape: Sequence[int] | None, dtype: torch.dtype, device: torch.device
) -> None:
    """Raises if the result, which is so, cannot be written into it."""
    if out.device != device:
        raise InvalidArgumentError(f"out is on {out.device}: must be on {device}, as the input is")
    if out.dtype != dtype:
        raise InvalidArgumentError(f"out has type {out.dtype}: must have {dtype}, as the result")
    if shape is not None and tuple(out.shape) != tuple(shape):
        raise InvalidArgumentError(f"out has shape {list(out.shape)}: must have {list(shape)}")


def count_change(out: Tensor) -> None:
    """Lets autograd notice that what it may have saved was written."""
    torch.autograd.graph.increment_version(out)


# ---------------------------------------------------------------- overlap


def is_apart(out: Tensor, read: Iterable[Tensor]) -> bool:
    """Whether each element of out surely has memory of its own, that no tensor of read has."""
    beyond = 0  # bytes from the first element to the last, of the axes of smaller steps
    for extent, step in sorted(_axes(out), key=lambda axis: axis[1]):
        if extent > 1 and step <= beyond:
            return False
        beyond += (extent - 1) * step
    return all(_are_apart(out, tensor) for tensor in read)


def _axes(tensor: Tensor) -> list[tuple[int, int]]:
    """Extents and strides in elements; strided tensors only."""
    return [] if tensor.layout is not torch.strided else list(zip(tensor.shape, tensor.stride()))


def _are_apart(a: Tensor, b: Tensor) -> bool:
    first, second = a.data_ptr(), b.data_ptr()
    if a.numel() == 0 or b.numel() == 0:
        return True
    if first + _bytes(a, None) <= second or second + _bytes(b, None) <= first:
        return True
    # Ranges that cross: slices of one larger tensor repeat with the same step, and may fit into the
    # gaps of each other.
    for step in _steps(a) & _steps(b):
        distance = (second - first) % step
        if _bytes(a, step) <= distance and distance + _bytes(b, step) <= step:
            return True
    return False


def _steps(tensor: Tensor) -> set[int]:
    """Strides in bytes, of axes of more than one element."""
    size = tensor.element_size()
    return {size * step for extent, step in zip(tensor.shape, tensor.stride()) if extent > 1}


def _bytes(tensor: Tensor, without: int | None) -> int:
    """From the first byte to behind the last, of the axes whose step in bytes is another."""
    size = tensor.element_size()
    spans = [(extent - 1) * step * size for extent, step in _axes(tensor) if step * size != without]
    return sum(spans) + size
