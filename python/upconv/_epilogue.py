# SPDX-License-Identifier: Apache-2.0
"""What follows the convolution, from Python values to the library's text. docs/PYTHON.md explains
the format to users.

An epilogue is None, a text in the grammar of upconv_epilogue_parse, or a sequence of items, one
operator each:

    "relu"   "leaky_relu 0.2"   "max_pool 2"        the text of one operator
    ("leaky_relu", 0.2)                             a name and its attributes
    ("max_pool", 2, {"stride": 2, "padding": 1})    a window, with PyTorch's names
    ("add", 0.5)  ("mul", array)  ("add", "%0")     a number, an array, an earlier value
    ("batch_norm", mean, variance, weight, bias, eps)    the last three may be left out
    ("prelu", slope)

An array of one element, or with one element per channel ([C], [C, 1, ...] or [1, C, 1, ...]), is a
parameter: it is packed with the weights. Any other array is an extra tensor, aligned to the value's
axes from the right, as in NumPy. Arrays are anything with a shape; their types are the caller's
business (dtype_name).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ctypes import byref, c_void_p
from functools import lru_cache
from math import prod
from numbers import Integral, Real
from typing import Any, NamedTuple

from ._errors import InvalidArgumentError, UpconvError, check
from ._library import lib

_AXES = {1: "ncw", 2: "nchw", 3: "ncdhw"}

# Options of a window: the token in front of a per-axis value.
_WINDOW_TOKENS = {"stride": "s", "padding": "p", "padding_end": "pe", "dilation": "d"}
_WINDOWS = ("max_pool", "avg_pool")


class Epilogue(NamedTuple):
    """The text, and the arrays that its names stand for, in order: @p2 is a parameter of item 2,
    #t3 a tensor of item 3. Errors of the library use these names."""

    text: str
    params: tuple[Any, ...] = ()
    tensors: tuple[Any, ...] = ()


EMPTY = Epilogue("")


def parse(
    epilogue: str | Sequence[Any] | None, spatial_dims: int, dtype_name: Callable[[Any], str]
) -> Epilogue:
    """dtype_name: "f32", "f16" or "bf16" of an array; raises for what the library does not take.

    Pack wants params as tensors of rank 0 or 1 (reshape(-1)); execute wants tensors of rank
    spatial_dims + 2 (see full_shape)."""
    if epilogue is None or epilogue == "":
        return EMPTY
    if isinstance(epilogue, str):
        _refuse_names(epilogue, "epilogue")
        _check_text(spatial_dims, epilogue)
        return Epilogue(epilogue)
    if not isinstance(epilogue, Sequence):
        raise InvalidArgumentError(
            f"epilogue of type {type(epilogue).__name__}: must be a text, or a list of operators"
        )
    if not epilogue:
        return EMPTY
    builder = _Builder(spatial_dims, dtype_name)
    texts = []
    for index, item in enumerate(epilogue):
        try:
            texts.append(builder.item(index, item))
        except (TypeError, ValueError, UpconvError) as error:
            raise type(error)(f"{_where(index, item)}: {error}") from None
    text = " | ".join(texts)
    try:
        _check_text(spatial_dims, text)
    except InvalidArgumentError:
        _blame(spatial_dims, epilogue, texts)
        raise
    return Epilogue(text, tuple(builder.params), tuple(builder.tensors))


def full_shape(shape: Sequence[int], spatial_dims: int) -> tuple[int, ...]:
    """An extra tensor's shape with all axes of a value: N, C, spatial."""
    return (1,) * (spatial_dims + 2 - len(shape)) + tuple(shape)


# ---------------------------------------------------------------- errors that name the item


def _describe(value: Any) -> str:
    if isinstance(value, (str, Real, Mapping, type(None))):
        return repr(value)
    if hasattr(value, "shape"):
        return f"<array {list(value.shape)}>"
    if isinstance(value, (tuple, list)):
        parts = ", ".join(_describe(part) for part in value)
        return f"({parts},)" if len(value) == 1 else f"({parts})"
    return f"<{type(value).__name__}>"


def _where(index: int, item: Any) -> str:
    return f"epilogue[{index}] = {_describe(item)}"


@lru_cache(maxsize=1024)
def _check_text(spatial_dims: int, text: str) -> None:
    if "\0" in text:
        raise InvalidArgumentError("must not contain a zero character")
    handle = c_void_p()
    check(lib.upconv_epilogue_parse(spatial_dims, text.encode(), byref(handle)))
    lib.upconv_epilogue_destroy(handle)


def _blame(spatial_dims: int, epilogue: Sequence[Any], texts: Sequence[str]) -> None:
    """Raises the error of the first item with which the text is wrong."""
    for index, item in enumerate(epilogue):
        try:
            _check_text(spatial_dims, " | ".join(texts[: index + 1]))
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{_where(index, item)}: {error}") from None


def _refuse_names(text: str, what: str) -> None:
    for mark in "@#":
        if mark in text:
            raise InvalidArgumentError(
                f"{what} = \"{text}\": has no array for the name after '{mark}'; pass arrays in"
                ' tuples, such as ("mul", array)'
            )


# ---------------------------------------------------------------- items to text


class _Builder:
    def __init__(self, spatial_dims: int, dtype_name: Callable[[Any], str]) -> None:
        self.spatial_dims = spatial_dims
        self.dtype_name = dtype_name
        self.index = 0  # of the item
        self.names = 0  # in the item
        self.params: list[Any] = []
        self.tensors: list[Any] = []

    def item(self, index: int, item: Any) -> str:
        self.index, self.names = index, 0
        if isinstance(item, str):
            return _operator_text(item)
        if not isinstance(item, (tuple, list)) or not item or not isinstance(item[0], str):
            raise InvalidArgumentError(
                "must be the text of an operator, or a tuple that begins with its name"
            )
        name, *arguments = item
        options: Mapping[str, Any] = {}
        if arguments and isinstance(arguments[-1], Mapping):
            options = arguments.pop()
        _operator_text(name)
        if name == "batch_norm":
            return self._batch_norm(arguments, options)
        words = [name]
        for position, argument in enumerate(arguments):
            window = position == 0 and name in _WINDOWS
            words.append(_per_axis(argument) if window else self._argument(argument))
        if options:
            if name not in _WINDOWS:
                raise InvalidArgumentError(f"{name} takes no options by name")
            words += _window_words(name, options)
        return " ".join(words)

    def _argument(self, value: Any) -> str:
        if isinstance(value, str):
            return _operator_text(value)
        if isinstance(value, bool):
            raise InvalidArgumentError(f"{value}: must be a number, an array, or a text")
        if isinstance(value, Real):
            return _number(value)
        if hasattr(value, "shape"):
            return self._array(value)
        raise InvalidArgumentError(
            f"{_describe(value)}: must be a number, an array, or the name of an earlier value, such"
            ' as "%0"'
        )

    def _array(self, array: Any) -> str:
        shape = tuple(int(extent) for extent in array.shape)
        dtype = self.dtype_name(array)
        if len(shape) > self.spatial_dims + 2:
            raise InvalidArgumentError(
                f"array with shape {list(shape)}: has more axes than the value, which has"
                f" {self.spatial_dims + 2}"
            )
        if prod(shape) == 1 or _is_per_channel(shape, self.spatial_dims):
            return self._param(array, shape)
        axes = "".join(
            letter
            for letter, extent in zip(
                _AXES[self.spatial_dims], full_shape(shape, self.spatial_dims)
            )
            if extent != 1
        )
        self.tensors.append(array)
        return f"#{self._name('t')}[{axes}]:{dtype}"

    def _param(self, array: Any, shape: Sequence[int]) -> str:
        self.params.append(array)
        return f"@{self._name('p')}" + ("[]" if prod(shape) == 1 else "")

    def _name(self, letter: str) -> str:
        self.names += 1
        suffix = f".{self.names}" if self.names > 1 else ""
        return f"{letter}{self.index}{suffix}"

    def _batch_norm(self, arguments: list[Any], options: Mapping[str, Any]) -> str:
        for name in options:
            if name != "eps":
                raise InvalidArgumentError(f'option "{name}": must be "eps"')
        if not 2 <= len(arguments) <= 5 or (len(arguments) == 5 and options):
            raise InvalidArgumentError(
                "takes mean, variance, weight, bias, eps (the last three may be left out)"
            )
        words = ["batch_norm"]
        for name, value in zip(("mean", "var", "weight", "bias"), arguments):
            if value is None and name in ("weight", "bias"):
                continue
            word = self._argument(value)
            if not word.startswith("@"):
                raise InvalidArgumentError(
                    f"{name} {_describe(value)}: must have one element per channel"
                )
            words.append(f"{name}={word}")
        eps = arguments[4] if len(arguments) == 5 else options.get("eps")
        if eps is not None:
            words.append(f"eps={_number(eps)}")
        return " ".join(words)


def _is_per_channel(shape: Sequence[int], spatial_dims: int) -> bool:
    rank = len(shape)
    if rank == 1:
        return True
    channel = rank - spatial_dims - 1  # [C, 1, ...]: 0; [1, C, 1, ...]: 1
    return channel >= 0 and all(extent == 1 for axis, extent in enumerate(shape) if axis != channel)


def _operator_text(text: str) -> str:
    """A text that may be part of one operator."""
    _refuse_names(text, "text")
    if "|" in text:
        raise InvalidArgumentError(f'"{text}": must be one operator; give each an item of its own')
    return text.strip()


def _number(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidArgumentError(f"{_describe(value)}: must be a number")
    return str(int(value)) if isinstance(value, Integral) else repr(float(value))


def _per_axis(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return "x".join(str(_integer(part)) for part in value)
    return str(_integer(value))


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidArgumentError(f"{_describe(value)}: must be an integer")
    return int(value.__index__())


def _window_words(name: str, options: Mapping[str, Any]) -> list[str]:
    words = []
    for option, value in options.items():
        if option in _WINDOW_TOKENS:
            if value is not None:
                words.append(_WINDOW_TOKENS[option] + _per_axis(value))
        elif option == "ceil_mode":
            words += ["ceil"] if value else []
        elif option == "count_include_pad" and name == "avg_pool":
            words += [] if value else ["exclude_pad"]
        elif option == "divisor_override" and name == "avg_pool":
            words += [f"div={_integer(value)}"] if value is not None else []
        else:
            raise InvalidArgumentError(f'option "{option}": {name} has none of that name')
    return words
