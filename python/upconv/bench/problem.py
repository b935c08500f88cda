# SPDX-License-Identifier: Apache-2.0
"""A problem file in the KernelBench form: `Model`, `get_inputs()`, `get_init_inputs()`."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils import _pytree as pytree

_numbers = itertools.count()


class UsageError(Exception):
    """Bad usage or input: one line for the user, exit code 2."""


@dataclass(frozen=True)
class Problem:
    """What a file defines. Everything random follows from the seed that is passed."""

    path: Path
    model_class: Callable[..., torch.nn.Module]
    get_inputs: Callable[[], Any]
    get_init_inputs: Callable[[], Any]

    @property
    def name(self) -> str:
        return self.path.stem

    def model(self, seed: int, cls: Callable[..., torch.nn.Module] | None = None):
        """`Model`, or another class with the same constructor, drawn from the seed."""
        torch.manual_seed(seed)
        arguments = _call(self, "get_init_inputs", self.get_init_inputs)
        torch.manual_seed(seed)
        positional, named = ([], arguments) if isinstance(arguments, dict) else (arguments, {})
        model = _call(self, "Model(...)", lambda: (cls or self.model_class)(*positional, **named))
        if not isinstance(model, torch.nn.Module):
            raise UsageError(f"{self.path}: Model makes a {_kind(model)}, not a torch.nn.Module")
        return model

    def inputs(self, seed: int, device: torch.device, dtype: torch.dtype | None) -> list[Any]:
        """Fresh inputs on the device; floating-point tensors get the dtype, if one is named."""
        torch.manual_seed(seed)
        values = _call(self, "get_inputs", self.get_inputs)
        if isinstance(values, torch.Tensor):
            values = [values]
        if not isinstance(values, (list, tuple)):
            raise UsageError(f"{self.path}: get_inputs() gives a {_kind(values)}, not a list")
        return [convert(value, device, dtype) for value in values]


def convert(values: Any, device: torch.device | None, dtype: torch.dtype | None) -> Any:
    """The same structure with its tensors on the device, floating-point ones in the dtype."""

    def one(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.to(device, dtype if value.is_floating_point() else None)

    return pytree.tree_map(one, values)


def convert_model(
    model: torch.nn.Module, device: torch.device | None, dtype: torch.dtype | None
) -> torch.nn.Module:
    """Moves the model in place, tensors that are plain attributes of its modules included."""
    model.to(device=device, dtype=dtype)
    for module in model.modules():
        for name, value in list(vars(module).items()):
            if name in ("_parameters", "_buffers", "_modules") or name.endswith("_hooks"):
                continue
            if any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(value)):
                setattr(module, name, convert(value, device, dtype))
    return model


def _kind(value: Any) -> str:
    return type(value).__name__


def _call(problem: Problem, what: str, function: Callable[[], Any]) -> Any:
    """Calls the file's code; what goes wrong in it is the file's error."""
    try:
        return function()
    except (Exception, SystemExit) as error:
        raise UsageError(f"{problem.path}: {what}: {_kind(error)}: {error}") from error


def import_file(path: Path) -> ModuleType:
    """The file as a module; its folder may be imported from while it loads, as for a script."""
    if not path.is_file():
        raise UsageError(f"{path}: there is no such file")
    name = f"_upconv_bench_{next(_numbers)}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path}: not a Python file (the name must end in .py)")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # pickling, dataclasses and torch.compile look it up
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise UsageError(f"{path}: {_kind(error)}: {error}") from error
    finally:
        sys.path.remove(str(path.resolve().parent))
    return module


def load(path: Path) -> Problem:
    """Reads a problem file; names everything that it lacks."""
    module = import_file(path)
    names = ("Model", "get_inputs", "get_init_inputs")
    missing = [name for name in names if not callable(getattr(module, name, None))]
    if missing:
        raise UsageError(
            f"{path}: no {', '.join(missing)}. A problem defines the class Model and the functions"
            " get_inputs() and get_init_inputs(), which give the arguments of forward and of Model"
        )
    return Problem(path, *(getattr(module, name) for name in names))


def load_drop_in(path: Path) -> Callable[..., torch.nn.Module]:
    """The class (or function) ModelNew of a drop-in file."""
    module = import_file(path)
    if not callable(getattr(module, "ModelNew", None)):
        raise UsageError(f"{path}: no ModelNew. A drop-in defines it with Model's constructor")
    return module.ModelNew
