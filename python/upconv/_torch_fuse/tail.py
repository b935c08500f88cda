# SPDX-License-Identifier: Apache-2.0
"""A convolution and what follows it, as it grows: ATen operators go in, the library's text form
comes out."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Node
from torch.utils._pytree import tree_leaves

from .recorder import Call

DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
SPATIAL_LETTERS = {1: "w", 2: "hw", 3: "dhw"}

# The library's text has an upper limit; no model comes near this one.
_MAX_OPERATORS = 256


class Unfusable(Exception):
    """This operator cannot join the tail; the text says why."""


@dataclass(frozen=True)
class Value:
    """A value of the program. axes: for each dimension of PyTorch's tensor the axis it is (0 batch,
    1 channel, 2... space), or None for one of extent 1 that was put in between. Axes that PyTorch's
    tensor lacks have extent 1."""

    index: int
    axes: tuple[int | None, ...]


@dataclass(frozen=True)
class Convolution:
    """What the convolution reads (fake tensors) and its arguments in the order of
    torch.ops.upconv.conv_transpose."""

    x: Tensor
    weight: Tensor
    bias: Tensor | None
    stride: list[int]
    padding: list[int]
    output_padding: list[int]
    groups: int
    dilation: list[int]

    @property
    def spatial_dims(self) -> int:
        return self.x.dim() - 2


@dataclass(frozen=True)
class Operand:
    """A tensor from outside: shape is what it has to be reshaped to, or None; new_axes are axes to
    be put in."""

    tensor: Tensor
    declaration: str
    shape: tuple[int, ...] | None = None
    new_axes: tuple[int, ...] = ()


@dataclass
class Tail:
    convolution: Convolution
    dtype: torch.dtype
    device: torch.device
    lines: list[str] = field(default_factory=list)
    params: list[Operand] = field(default_factory=list)
    tensors: list[Operand] = field(default_factory=list)
    # By identity of the fake tensor, which `alive` keeps from being reused.
    current: dict[int, Value] = field(default_factory=dict)
    outside: dict[int, Node | Call] = field(default_factory=dict)
    family: dict[int, frozenset[int]] = field(default_factory=dict)
    alive: list[Any] = field(default_factory=list)

    @property
    def rank(self) -> int:
        return self.convolution.spatial_dims + 2

    @property
    def letters(self) -> str:
        return "nc" + SPATIAL_LETTERS[self.convolution.spatial_dims]

    def snapshot(self) -> Tail:
        """A copy that later operators leave alone."""
        new = copy.copy(self)
        for name in ("lines", "params", "tensors", "current", "outside", "family", "alive"):
            setattr(new, name, copy.copy(getattr(self, name)))
        return new

    # ---- values

    def value_of(self, tensor: Any) -> Value | None:
        return self.current.get(id(tensor)) if isinstance(tensor, Tensor) else None

    def define(self, tensor: Tensor, value: Value) -> None:
        if tensor.dtype != self.dtype:
            raise Unfusable(f"changes the type from {_name(self.dtype)} to {_name(tensor.dtype)}")
        if tensor.dim() != len(value.axes):
            raise Unfusable("changes the number of dimensions")
        self.current[id(tensor)] = value
        self.alive.append(tensor)

    def define_view(self, tensor: Tensor, base: Tensor, value: Value) -> None:
        """tensor shares base's memory."""
        self.define(tensor, value)
        members = self.family.get(id(base), frozenset({id(base)})) | {id(tensor)}
        for member in members:
            self.family[member] = members

    def forget_all_but(self, tensors: Iterable[Any]) -> None:
        """Only these tensors can be read from now on."""
        visible = {id(tensor) for tensor in tensors}
        self.current = {key: value for key, value in self.current.items() if key in visible}
        self.family = {key: ids & visible for key, ids in self.family.items() if key in visible}

    def append(self, line: str) -> int:
        """Adds an operator; the index of its value."""
        if len(self.lines) >= _MAX_OPERATORS:
            raise Unfusable(f"more than {_MAX_OPERATORS} operators")
        self.lines.append(line)
        return len(self.lines)

    def input(self, index: int) -> str:
        """Value index as the operand of an operator that takes one: left out where it is the
        previous value."""
        return "" if index == len(self.lines) else f" %{index}"

    def text(self, last: int) -> str:
        """The program that ends with value `last`."""
        declared = [f"@p{i}{p.declaration}" for i, p in enumerate(self.params)]
        declared += [f"#t{i}{t.declaration}" for i, t in enumerate(self.tensors)]
        parts = (["declare " + " ".join(declared)] if declared else []) + self.lines[:last]
        return " | ".join(parts)

    # ---- operands

    def operand(self, operand: Any, axes: tuple[int | None, ...], shape: Any) -> str:
        """operand beside a value of those axes and that shape: "%3", "0.5", "@p0" or "#t0"."""
        if isinstance(operand, Tensor):
            value = self.value_of(operand)
            if value is None:
                return self._outside_operand(operand, axes, shape)
            if value.axes != axes:
                raise Unfusable("combines values of different ranks")
            return f"%{value.index}"
        return constant(operand)

    def channel_operand(self, operand: Tensor, channels: Any) -> str:
        """operand has one element per channel, as a parameter of batch normalisation."""
        if self.value_of(operand) is not None:
            raise Unfusable("has a parameter that is computed from the convolution")
        if operand.dim() != 1 or not isinstance(channels, int) or operand.shape[0] != channels:
            raise Unfusable("has a parameter that is not one number per channel")
        return self._param(operand, "", None)

    def _outside_operand(self, tensor: Tensor, axes: tuple[int | None, ...], shape: Any) -> str:
        if tensor.dim() > len(axes):
            raise Unfusable("an operand has more dimensions than the result of the convolution")
        own = axes[len(axes) - tensor.dim() :]
        present = [axis for axis, size in zip(own, tensor.shape) if not _is(size, 1)]
        if any(axis in present and _is(size, 1) for axis, size in zip(axes, shape)):
            raise Unfusable("an operand is larger than the value that it is combined with")
        if not present:
            return self._param(tensor, "[]", () if tensor.dim() else None)
        if present == [1]:
            channels = tensor.shape[own.index(1)]
            if isinstance(channels, int) and _is(shape[axes.index(1)], channels):
                return self._param(tensor, "", (channels,) if tensor.dim() > 1 else None)
        if None in axes:
            raise Unfusable("an operand next to a dimension that was put in between")
        return self._tensor(tensor, own, present)

    def _param(self, tensor: Tensor, declaration: str, shape: tuple[int, ...] | None) -> str:
        self._check(tensor)
        index = _find_or_append(self.params, Operand(tensor, declaration, shape))
        return f"@p{index}{declaration}"

    def _tensor(self, tensor: Tensor, own: tuple[Any, ...], present: list[Any]) -> str:
        self._check(tensor)
        axes = "".join(self.letters[axis] for axis in present)
        declaration = "" if len(axes) == self.rank else f"[{axes}]"
        declaration += f":{DTYPES.get(tensor.dtype, 'f32')}"
        missing = tuple(axis for axis in range(self.rank) if axis not in own)
        index = _find_or_append(self.tensors, Operand(tensor, declaration, new_axes=missing))
        return f"#t{index}{declaration}"

    def _check(self, tensor: Tensor) -> None:
        if tensor.is_complex():
            raise Unfusable(f"an operand is {_name(tensor.dtype)}")
        if tensor.device != self.device:
            raise Unfusable(f"an operand is on {tensor.device}, the convolution on {self.device}")
        self.require_outside(tensor)

    def require_outside(self, tensor: Tensor) -> None:
        """tensor, and what it is computed from inside a node, can be computed again in front of the
        convolution."""
        origin = self.outside.get(id(tensor))
        if origin is None:
            raise Unfusable("reads a tensor of unknown origin")
        if isinstance(origin, Node):
            if type(tensor) is not FakeTensor or tensor.layout is not torch.strided:
                raise Unfusable("an operand is no plain tensor")
            return
        if not isinstance(origin.result, Tensor):
            raise Unfusable(f"reads one of several results of {origin.name}")
        for argument in tree_leaves((origin.args, origin.kwargs)):
            if isinstance(argument, Tensor):
                self.require_outside(argument)
            elif isinstance(argument, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                raise Unfusable("an operand depends on a size that changes")


def constant(number: Any, infinite: bool = False) -> str:
    """A number as text. infinite: infinities are allowed."""
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise Unfusable(f"an operand of type {type(number).__name__}")
    value = float(number)
    if not (math.isfinite(value) or (infinite and not math.isnan(value))):
        raise Unfusable(f"the operand {value}")
    return repr(value).removesuffix(".0")


def integers(sizes: Any) -> list[int]:
    """Sizes that are known."""
    numbers = list(sizes)
    if not all(isinstance(number, int) and not isinstance(number, bool) for number in numbers):
        raise Unfusable("an argument depends on a size that changes")
    return numbers


def _is(size: Any, number: int) -> bool:
    return isinstance(size, int) and size == number


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _find_or_append(operands: list[Operand], operand: Operand) -> int:
    for index, known in enumerate(operands):
        if known.tensor is operand.tensor and known.declaration == operand.declaration:
            return index
    operands.append(operand)
    return len(operands) - 1
