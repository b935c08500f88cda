# SPDX-License-Identifier: Apache-2.0
"""Repeated calls: everything but the addresses is written into C structures once."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import addressof, c_size_t, c_void_p
from typing import TYPE_CHECKING, NoReturn

from . import _library as c
from ._errors import InvalidArgumentError, fail
from ._tensors import TensorLike, arguments_of, parameters_of, tensor_array

if TYPE_CHECKING:
    from ._core import Plan

_execute = c.lib.upconv_execute
_pack = c.lib.upconv_plan_pack

_WORD = ctypes.sizeof(c_void_p)
_TENSOR_WORDS = ctypes.sizeof(c.CTensor) // _WORD

# Where the pointers lie among the machine words of the structures; x and weight come first.
_Y = c.CArguments.y.offset // _WORD
_PACKED = c.CArguments.packed.offset // _WORD
_WORKSPACE = c.CArguments.workspace.offset // _WORD
_STREAM = c.CArguments.stream.offset // _WORD
_BIAS = c.CParameters.bias.offset // _WORD


class _Frame:
    """One call's C structures, and their memory as machine words: cheaper to write than fields."""

    __slots__ = ("address", "extra", "keep", "words")

    def __init__(self, structure: ctypes.Structure, array: ctypes.Array[c.CTensor] | None) -> None:
        self.address = addressof(structure)
        self.words = (c_size_t * (ctypes.sizeof(structure) // _WORD)).from_buffer(structure)
        self.extra = None
        if array is not None:
            self.extra = (c_size_t * (_TENSOR_WORDS * len(array))).from_buffer(array)
        self.keep = (structure, array)


class _Prepared:
    """A stack of frames. A call takes one, or makes one, and puts it back, so that threads never
    share one (pop and append of a list are atomic)."""

    __slots__ = ("__weakref__", "_count", "_frames", "plan")

    plan: Plan
    _count: int
    _frames: list[_Frame]

    def _make_frame(self) -> _Frame:
        raise NotImplementedError

    def _take(self) -> _Frame:
        try:
            return self._frames.pop()
        except IndexError:
            return self._make_frame()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"upconv: a {type(self).__name__} cannot be pickled: prepare it anew")


def _set_extra(frame: _Frame, pointers: Sequence[int], count: int, what: str) -> None:
    if len(pointers) != count:
        raise InvalidArgumentError(f"{len(pointers)} addresses of {what}: must be {count}")
    extra = frame.extra
    for index, address in enumerate(pointers):
        extra[index * _TENSOR_WORDS] = address  # type: ignore[index]


class Execution(_Prepared):
    """A plan with the shapes, strides and types of its arguments, made by Plan.prepare. run costs
    about a microsecond of Python."""

    __slots__ = ("_tensors", "_x", "_x_shape", "_y", "workspace_size")

    def __init__(
        self,
        plan: Plan,
        x: TensorLike,
        y: TensorLike,
        tensors: Sequence[TensorLike],
        x_shape: Sequence[int] | None,
    ) -> None:
        self.plan = plan
        self._x, self._y, self._tensors, self._x_shape = x, y, tuple(tensors), x_shape
        self._count = len(self._tensors)
        self.workspace_size = plan.workspace_size(x[2] if x_shape is None else x_shape)
        self._frames = [self._make_frame()]

    def _make_frame(self) -> _Frame:
        array = tensor_array(self._tensors)
        arguments = arguments_of(self._x, self._y, array, self._x_shape)
        arguments.workspace_size = self.workspace_size
        return _Frame(arguments, array)

    def run(
        self,
        x: int,
        y: int,
        tensors: Sequence[int] = (),
        packed: int = 0,
        workspace: int = 0,
        stream: int = 0,
    ) -> None:
        """Executes with these addresses (0: none); workspace has workspace_size bytes."""
        frame = self._take()
        words = frame.words
        words[0] = x
        words[_Y] = y
        words[_PACKED] = packed
        words[_WORKSPACE] = workspace
        words[_STREAM] = stream
        if tensors or self._count:
            _set_extra(frame, tensors, self._count, "tensors")
        plan = self.plan
        status = _execute(plan._handle or plan.handle, frame.address)
        if status:
            fail(status)
        self._frames.append(frame)


class Packing(_Prepared):
    """A plan with the shapes, strides and types of its parameters, made by Plan.prepare_pack."""

    __slots__ = ("_bias", "_params", "_weight")

    def __init__(
        self,
        plan: Plan,
        weight: TensorLike,
        bias: TensorLike | None,
        params: Sequence[TensorLike],
    ) -> None:
        self.plan = plan
        self._weight, self._bias, self._params = weight, bias, tuple(params)
        self._count = len(self._params)
        self._frames = [self._make_frame()]

    def _make_frame(self) -> _Frame:
        array = tensor_array(self._params)
        return _Frame(parameters_of(self._weight, self._bias, array), array)

    def run(
        self,
        weight: int,
        bias: int = 0,
        params: Sequence[int] = (),
        packed: int = 0,
        stream: int = 0,
    ) -> None:
        """Packs from these addresses (bias 0: none) into packed."""
        frame = self._take()
        words = frame.words
        words[0] = weight
        words[_BIAS] = bias
        if params or self._count:
            _set_extra(frame, params, self._count, "parameters")
        plan = self.plan
        status = _pack(plan._handle or plan.handle, frame.address, packed, stream or None)
        if status:
            fail(status)
        self._frames.append(frame)
