# SPDX-License-Identifier: Apache-2.0
"""From the items that users write after epilogue= to the text, the parameters and the tensors of
the operator.

The items are those of the whole package (_epilogue.py), and modules that modules.py knows. Which
text they become depends on the tensors among them only by which of their extents are 1 and by their
types, so texts are remembered by that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Union

import torch
from torch import Tensor

from .. import _epilogue
from . import modules

Item = Union[str, torch.nn.Module, tuple[Any, ...]]
Epilogue = Union[str, Sequence[Item], None]

DTYPE_NAMES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
_MOST_KEPT = 1024


class Program(NamedTuple):
    """The operator's arguments epilogue, params and tensors."""

    text: str
    params: list[Tensor]
    tensors: list[Tensor]


NOTHING = Program("", [], [])


class _Stand(NamedTuple):
    """What stands for a tensor while the text is made. shape has 1 or 2 for each axis: 2 is "other
    than 1"."""

    index: int  # among all tensors of the items
    shape: tuple[int, ...]
    dtype: torch.dtype


class _Recipe(NamedTuple):
    """A text, and which tensors of the items are its parameters and its extra tensors."""

    text: str
    params: tuple[int, ...]
    tensors: tuple[int, ...]


_recipes: dict[Any, _Recipe] = {}


def build(spatial_dims: int, epilogue: Epilogue) -> Program:
    """The program of an epilogue, for a convolution of so many spatial axes."""
    if epilogue is None:
        return NOTHING
    if isinstance(epilogue, str):
        return Program(_recipe(spatial_dims, epilogue).text, [], [])
    found: list[Tensor] = []
    items = tuple([_plain(item, found) for item in modules.expand(spatial_dims, epilogue)])
    recipe = _recipe(spatial_dims, items)
    return Program(
        recipe.text, [found[i] for i in recipe.params], [found[i] for i in recipe.tensors]
    )


def _plain(value: Any, found: list[Tensor]) -> Any:
    """value as the key of a dictionary: a stand for each tensor, tuples for lists."""
    if isinstance(value, Tensor):
        found.append(value)
        shape = tuple([1 if extent == 1 else 2 for extent in value.shape])
        return _Stand(len(found) - 1, shape, value.dtype)
    if isinstance(value, (tuple, list)):
        return tuple([_plain(part, found) for part in value])
    if isinstance(value, dict):
        return (_OPTIONS, *[(key, _plain(part, found)) for key, part in value.items()])
    if isinstance(value, (float, bool)):  # as keys 1, 1.0 and True, and 0.0 and -0.0, are the same
        return (_EXACT, repr(value), value)
    return value


_OPTIONS, _EXACT = "\0options", "\0exact"


def _restore(value: Any) -> Any:
    """The opposite of _plain, with the stands left in."""
    if isinstance(value, tuple) and not isinstance(value, _Stand):
        if value and value[0] == _OPTIONS:
            return {key: _restore(part) for key, part in value[1:]}
        if value and value[0] == _EXACT:
            return value[2]
        return tuple([_restore(part) for part in value])
    return value


@torch.compiler.assume_constant_result
def _recipe(spatial_dims: int, items: Any) -> _Recipe:
    key = (spatial_dims, items)
    try:
        recipe = _recipes.get(key)
    except TypeError:  # something that cannot be hashed: parsing says what is wrong with it
        return _make_recipe(spatial_dims, items)
    if recipe is None:
        recipe = _make_recipe(spatial_dims, items)
        if len(_recipes) >= _MOST_KEPT:
            _recipes.clear()
        _recipes[key] = recipe
    return recipe


def _make_recipe(spatial_dims: int, items: Any) -> _Recipe:
    parsed = _epilogue.parse(_restore(items), spatial_dims, _dtype_name)
    for operand in (*parsed.params, *parsed.tensors):
        if not isinstance(operand, _Stand):
            raise TypeError(
                f"epilogue: an operand is {type(operand).__module__}.{type(operand).__name__}:"
                " must be a PyTorch tensor, as x is"
            )
    return _Recipe(
        parsed.text,
        tuple(stand.index for stand in parsed.params),
        tuple(stand.index for stand in parsed.tensors),
    )


def _dtype_name(stand: _Stand) -> str:
    """Of an extra tensor; what the library does not read is converted to float32 when it runs."""
    return DTYPE_NAMES.get(stand.dtype, "f32")
