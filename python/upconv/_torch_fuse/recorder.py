# SPDX-License-Identifier: Apache-2.0
"""What one node of a graph does, in ATen operators.

PyTorch offers each operation in many spellings: a module, a function, a method, an operator, each
perhaps in place. Below the dispatcher they are the same few operators. So a node is run once on
fake tensors (shapes without data) and what arrives at the dispatcher is written down.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


@dataclass(frozen=True)
class Call:
    """One ATen operator as it was called; tensors are fake and are told apart by identity."""

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any

    @property
    def name(self) -> str:
        """ "relu_" of aten::relu_."""
        return self.func._schema.name.partition("::")[2]

    def argument(self, name: str) -> Any:
        """The argument of that name, or its default."""
        for index, argument in enumerate(self.func._schema.arguments):
            if argument.name == name:
                if not argument.kwarg_only and index < len(self.args):
                    return self.args[index]
                return self.kwargs.get(name, argument.default_value)
        raise KeyError(name)


class _Recorder(TorchDispatchMode):
    def __init__(self, calls: list[Call]) -> None:
        super().__init__()
        self._calls = calls

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _is_composite(func):  # in inference mode some arrive before they are taken apart
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        self._calls.append(Call(func, tuple(args), kwargs, result))
        return result


def _is_composite(func: Any) -> bool:
    if func.namespace != "aten":
        return False
    return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")


@contextlib.contextmanager
def _autocast(regions: Sequence[tuple[Any, ...]]) -> Iterator[None]:
    """The autocast regions that the node stands in. Cached casts would not be seen, so the cache is
    off."""
    cached = torch.is_autocast_cache_enabled()
    with contextlib.ExitStack() as stack:
        for device_type, dtype, enabled, _ in regions:
            stack.enter_context(torch.autocast(device_type, dtype, enabled, cache_enabled=False))
        torch.set_autocast_cache_enabled(False)
        try:
            yield
        finally:
            torch.set_autocast_cache_enabled(cached)


def record(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    fake_mode: Any,
    regions: Sequence[tuple[Any, ...]] = (),
) -> tuple[Any, list[Call]]:
    """Runs function on fake tensors; its result and the ATen operators that it called, in order."""
    calls: list[Call] = []
    with torch.no_grad(), _autocast(regions), fake_mode, _no_new_symbols(fake_mode):
        with _Recorder(calls):
            result = function(*args, **kwargs)
    return result, calls


def _no_new_symbols(fake_mode: Any) -> Any:
    """Sizes that depend on data would be left over in the graph's own list of such sizes."""
    ignore = getattr(fake_mode.shape_env, "ignore_fresh_unbacked_symbols", None)
    return contextlib.nullcontext() if ignore is None else ignore()
