# SPDX-License-Identifier: Apache-2.0
"""Which nodes of a graph do more than compute a result.

A fused tail runs where its last operator stood, so the convolution and what it reads move past the
nodes in between. That is allowed only past nodes that change no tensor and no state. A node that is
not known to be harmless is not.
"""

from __future__ import annotations

import inspect
import operator
from typing import Any

import torch
from torch.fx import Node

_PURE_MODULES = frozenset(
    {
        "_operator",
        "builtins",
        "math",
        "torch",
        "torch._C._fft",
        "torch._C._linalg",
        "torch._C._nn",
        "torch._C._special",
        "torch.functional",
        "torch.nn.functional",
        "torch._jit_internal",
    }
)

_IMPURE_OPERATORS = frozenset(
    {operator.setitem, operator.delitem, operator.attrgetter, operator.methodcaller}
)

# Methods without an underscore at the end that change what they are called on, or what is recorded
# of it.
_IMPURE_METHODS = frozenset({"backward", "register_hook", "retain_grad", "set_data", "__setitem__"})


def has_effects(node: Node) -> bool:
    if node.op in ("placeholder", "get_attr", "output"):
        return False
    if node.op == "call_method":
        return _method_has_effects(node)
    if node.op == "call_function":
        return _function_has_effects(node)
    return True


def _method_has_effects(node: Node) -> bool:
    name = str(node.target)
    if name in _IMPURE_METHODS or not hasattr(torch.Tensor, name):
        return True
    dunder = name.startswith("__") and name.endswith("__")
    in_place = name.startswith("__i") and name not in ("__invert__", "__index__", "__int__")
    return in_place if dunder else name.endswith("_")


def _function_has_effects(node: Node) -> bool:
    function: Any = node.target
    if isinstance(function, torch._ops.OpOverload):
        return function._schema.is_mutable
    name = getattr(function, "__name__", "_")
    module = getattr(function, "__module__", None)
    if isinstance(getattr(function, "__self__", None), type(torch._C._VariableFunctions)):
        module = "torch"
    if module not in _PURE_MODULES and not _is_torch_builtin(function):
        return True
    if function in _IMPURE_OPERATORS or name.endswith("_"):
        return True
    if module == "_operator" and name.startswith("i") and hasattr(operator, name[1:]):
        return True
    if node.kwargs.get("out") is not None or node.kwargs.get("inplace"):
        return True
    return _may_change_arguments(function, node)


def _is_torch_builtin(function: Any) -> bool:
    return inspect.isbuiltin(function) and hasattr(torch._C._VariableFunctions, function.__name__)


def _may_change_arguments(function: Any, node: Node) -> bool:
    """inplace given by position, or running statistics."""
    try:
        bound = inspect.signature(function).bind(*node.args, **node.kwargs)
    except (
        TypeError,
        ValueError,
    ):  # built-in functions have no signature, and none of these two either
        return "batch_norm" in function.__name__ or "instance_norm" in function.__name__
    arguments = bound.arguments
    if arguments.get("inplace"):
        return True
    return arguments.get("running_mean") is not None and (
        "use_input_stats" in arguments or bool(arguments.get("training", False))
    )
