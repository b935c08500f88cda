# SPDX-License-Identifier: Apache-2.0
"""The epilogue of a module: items whose tensors, parameters and modules belong to the module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor, nn

from . import interpret, modules
from .program import Epilogue, build


class _Owned(NamedTuple):
    """Stands for a submodule, or for a tensor of one."""

    module: str
    tensor: str | None = None


class _Given(NamedTuple):
    """Stands for a tensor that is given when the module is called."""

    name: str


class EpilogueModule(nn.Module):
    """Item i is the submodule "i" if it is a module, or a tuple with tensors: these are its
    parameters (if they are nn.Parameter) or buffers operand0, operand1, ..."""

    def __init__(self, epilogue: Epilogue) -> None:
        super().__init__()
        items: Sequence[Any] = [epilogue] if isinstance(epilogue, str) else list(epilogue or ())
        self._given: list[str] = []
        self._items = [self._own(str(number), item) for number, item in enumerate(items)]

    def _own(self, number: str, item: Any) -> Any:
        """Makes the item's modules and tensors our own; returns the item with stands in their
        place."""
        if isinstance(item, nn.Module):
            self.add_module(number, item)
            return _Owned(number)
        if not isinstance(item, (tuple, list)):
            return item
        owner = nn.Module()
        plain = tuple([self._own_piece(owner, number, piece) for piece in item])
        if any(isinstance(piece, _Owned) for piece in plain):
            self.add_module(number, owner)
        return plain

    def _own_piece(self, owner: nn.Module, number: str, piece: Any) -> Any:
        if isinstance(piece, str) and piece.startswith("#"):
            self._given.append(piece[1:])
            return _Given(piece[1:])
        if not isinstance(piece, Tensor):
            return piece
        name = f"operand{len(owner._parameters) + len(owner._buffers)}"
        if isinstance(piece, nn.Parameter):
            owner.register_parameter(name, piece)
        else:
            owner.register_buffer(name, piece)
        return _Owned(number, name)

    def split(self, given: Mapping[str, Tensor]) -> tuple[list[Any], list[Any]]:
        """Items as conv_transpose takes them, with their tensors: those to fuse, and the rest,
        which begins with a module that cannot be fused in the state it is in (batch norm and
        dropout in training mode)."""
        self._check_given(given)
        items = [self._resolve(item, given) for item in self._items]
        for number, item in enumerate(items):
            if isinstance(item, nn.Module) and not modules.can_fuse(item):
                return items[:number], items[number:]
        return items, []

    def _check_given(self, given: Mapping[str, Tensor]) -> None:
        if set(self._given) != set(given):
            wanted = ", ".join(sorted(set(self._given))) or "none"
            raise TypeError(
                f"tensors of the epilogue, {', '.join(given) or 'none'}: must be {wanted}"
            )

    def _resolve(self, item: Any, given: Mapping[str, Tensor]) -> Any:
        if isinstance(item, _Owned):
            owner = self._modules[item.module]
            return owner if item.tensor is None else getattr(owner, item.tensor)
        if isinstance(item, _Given):
            return given[item.name]
        if isinstance(item, tuple):
            return tuple([self._resolve(piece, given) for piece in item])
        return item

    def run_rest(self, spatial_dims: int, y: Tensor, items: Sequence[Any]) -> Tensor:
        """The items that were not fused, by PyTorch's operators. y: the result of those that
        were."""
        for item in items:
            if isinstance(item, nn.Module) and not modules.can_fuse(item):
                y = item(y)
                continue
            text, params, tensors = build(spatial_dims, [item])
            if "%" in text:
                raise RuntimeError(
                    f'epilogue item "{text}": a value of the fused pass cannot be read behind a'
                    " module in training mode"
                )
            y = interpret.evaluate(text, y, params, tensors)
        return y

    def extra_repr(self) -> str:
        return "\n".join(
            f"({number}): {_words(item)}"
            for number, item in enumerate(self._items)
            if not isinstance(item, _Owned)
        )


def _words(item: Any) -> str:
    if isinstance(item, tuple):
        return " ".join(_words(piece) for piece in item)
    return str(item)
