# SPDX-License-Identifier: Apache-2.0
"""Problems: their text, and what can be asked of them without a device."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import byref, c_double, c_int64, c_size_t, c_void_p
from functools import partial
from typing import Any

from . import _library as c
from ._errors import InvalidArgumentError, check
from ._handles import Owner
from ._library import lib
from ._tensors import (
    LAYOUT_NAMES,
    MATH_NAMES,
    TensorLike,
    arguments_of,
    fill,
    parameters_of,
    tensor_array,
)


def text_of(function: Callable[..., int], *handles: Any) -> str:
    """What a printing function of the library writes."""
    length = c_size_t()
    check(function(*handles, None, 0, byref(length)))
    buffer = ctypes.create_string_buffer(length.value + 1)
    check(function(*handles, buffer, len(buffer), None))
    return buffer.value.decode()


def names_of(function: Callable[[Any, int], bytes | None], handle: Any) -> tuple[str, ...]:
    names: list[str] = []
    while (name := function(handle, len(names))) is not None:
        names.append(name.decode())
    return tuple(names)


def _axes(value: int | Sequence[int]) -> str:
    return (
        str(int(value)) if not isinstance(value, Sequence) else "x".join(str(int(v)) for v in value)
    )


def problem_text(
    *,
    in_channels: int,
    out_channels: int,
    kernel: Sequence[int],
    in_size: Sequence[int],
    batch: int = 1,
    groups: int = 1,
    stride: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    padding_end: int | Sequence[int] | None = None,
    output_padding: int | Sequence[int] = 0,
    bias: bool = False,
    x: str = "f32",
    w: str = "f32",
    y: str = "f32",
    math: str = "ieee",
    x_layout: str = "ncdhw",
    y_layout: str = "ncdhw",
    epilogue: str = "",
) -> str:
    """The text form of a problem. The lengths of in_size and kernel are the number of spatial axes;
    padding is that at the beginning and, unless padding_end says otherwise, at the end. Nothing is
    checked here."""
    words = [
        f"n{batch} ci{in_channels} co{out_channels} g{groups} in{_axes(in_size)} k{_axes(kernel)}",
        f"s{_axes(stride)} d{_axes(dilation)} p{_axes(padding)}",
        f"op{_axes(output_padding)}",
    ]
    if padding_end is not None:
        words.append(f"pe{_axes(padding_end)}")
    if bias:
        words.append("bias")
    words.append(f"x={x} w={w} y={y} math={math} xlayout={x_layout} ylayout={y_layout}")
    if epilogue:
        words.append("| " + epilogue)
    return " ".join(words)


def _destroy(epilogue: int, problem: int) -> None:
    lib.upconv_problem_destroy(problem)
    lib.upconv_epilogue_destroy(epilogue)


class Problem(Owner):
    """A transposed convolution and what follows it, read from text (see problem_text)."""

    survives_fork = True  # memory alone

    def __init__(self, text: str) -> None:
        if "\0" in text:
            raise InvalidArgumentError("text: must not contain a zero character")
        problem, epilogue = c_void_p(), c_void_p()
        check(lib.upconv_problem_parse(text.encode(), byref(problem), byref(epilogue)))
        self._own(problem.value, partial(_destroy, epilogue.value))
        self._epilogue = epilogue.value
        self._desc = c.CProblemDesc()
        check(lib.upconv_problem_get_desc(self._handle, byref(self._desc)))
        self.text: str = text_of(lib.upconv_problem_print, self._handle, self._epilogue)
        self.param_names = names_of(lib.upconv_epilogue_param_name, self._epilogue)
        self.tensor_names = names_of(lib.upconv_epilogue_tensor_name, self._epilogue)

    @classmethod
    def from_fields(cls, **fields: Any) -> Problem:
        """From the arguments of problem_text."""
        return cls(problem_text(**fields))

    def _per_axis(self, name: str) -> tuple[int, ...]:
        return tuple(getattr(self._desc, name)[: self.spatial_dims])

    # Named as the fields of upconv_problem_desc.
    spatial_dims = property(lambda self: int(self._desc.spatial_dims))
    batch = property(lambda self: int(self._desc.batch))
    in_channels = property(lambda self: int(self._desc.in_channels))
    out_channels = property(lambda self: int(self._desc.out_channels))
    groups = property(lambda self: int(self._desc.groups))
    in_size = property(lambda self: self._per_axis("in_size"))
    kernel = property(lambda self: self._per_axis("kernel"))
    stride = property(lambda self: self._per_axis("stride"))
    dilation = property(lambda self: self._per_axis("dilation"))
    pad_begin = property(lambda self: self._per_axis("pad_begin"))
    pad_end = property(lambda self: self._per_axis("pad_end"))
    output_padding = property(lambda self: self._per_axis("output_padding"))
    bias = property(lambda self: bool(self._desc.bias))
    x_dtype = property(lambda self: int(self._desc.x_dtype))
    w_dtype = property(lambda self: int(self._desc.w_dtype))
    y_dtype = property(lambda self: int(self._desc.y_dtype))
    x_layout = property(lambda self: LAYOUT_NAMES[self._desc.x_layout])
    y_layout = property(lambda self: LAYOUT_NAMES[self._desc.y_layout])
    math = property(lambda self: MATH_NAMES[self._desc.math])

    @property
    def x_shape(self) -> tuple[int, ...]:
        """Shape of x at the nominal extents."""
        return (self.batch, self.in_channels, *self.in_size)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """[in_channels, out_channels / groups, kernel...]"""
        return (self.in_channels, self.out_channels // self.groups, *self.kernel)

    def conv_shape(self) -> tuple[int, ...]:
        """Shape of the convolution's output at the nominal extents."""
        shape = (c_int64 * c.MAX_RANK)()
        check(lib.upconv_problem_conv_shape(self.handle, shape))
        return tuple(shape[: self.spatial_dims + 2])

    def output_shape(self) -> tuple[int, ...]:
        """Shape of the result at the nominal extents."""
        shape = (c_int64 * c.MAX_RANK)()
        check(lib.upconv_output_shape(self.handle, self._epilogue, shape))
        return tuple(shape[: self.spatial_dims + 2])

    def reference(
        self,
        weight: TensorLike,
        bias: TensorLike | None,
        params: Sequence[TensorLike],
        x: TensorLike,
        tensors: Sequence[TensorLike],
        value: int,
        bound: int,
        *,
        y_dtype: int | None = None,
        operand_rounding: float = 0.0,
        tensor_core: bool = False,
    ) -> None:
        """The float64 oracle: fills two dense float64 arrays of the output's shape, given by
        address, with the values and the errors that correct arithmetic may have."""
        parameters = parameters_of(weight, bias, tensor_array(params))
        arguments = arguments_of(x, None, tensor_array(tensors))
        arguments.y.dtype = self.y_dtype if y_dtype is None else y_dtype
        model = c.CErrorModel(operand_rounding, tensor_core)
        check(
            lib.upconv_reference(
                self.handle,
                self._epilogue,
                byref(parameters),
                byref(arguments),
                byref(model),
                value,
                bound,
            )
        )

    def __repr__(self) -> str:
        return f"<upconv.Problem {self.text}>"


def compare(y: TensorLike, value: int, bound: int) -> tuple[float, int]:
    """The largest |y - value| / bound over all elements (right if at most 1), and its index in
    dense order."""
    tensor, worst, where = c.CTensor(), c_double(), c_int64()
    fill(tensor, y)
    check(lib.upconv_compare(byref(tensor), value, bound, byref(worst), byref(where)))
    return worst.value, where.value
