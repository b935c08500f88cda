# SPDX-License-Identifier: Apache-2.0
"""Which nodes of a graph do more than compute a result, and what they change.

A fused tail runs where its last operator stood, so the convolution and what it reads move past the
nodes in between. That is allowed only past nodes that change no tensor and no state. A node that is
not known to be harmless is not.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

_PURE_MODULES = frozenset(
    {
        "_operator",
        "math",
        "torch",
        "torch._C._fft",
        "torch._C._linalg",
        "torch._C._nn",
        "torch._C._special",
        "torch._jit_internal",
        "torch.functional",
        "torch.nn.functional",
    }
)
_PURE_BUILTINS = frozenset(
    {getattr, max, min, len, abs, round, int, float, bool, sum, pow, divmod, tuple, list, slice}
)
_RANDOM = (
    "rand attention bernoulli binomial cauchy dropout exponential geometric gumbel multinomial"
    " normal poisson rnn gru lstm rrelu fractional sample".split()
)
# A new ModuleList, such as a slice of one, says that it was used.
_PURE_FUNCTIONS = frozenset({torch._C._log_api_usage_once})
_IMPURE_OPERATORS = frozenset({operator.setitem, operator.delitem})

# Methods without an underscore at the end that change what they are called on, or what is recorded
# of it.
_IMPURE_METHODS = frozenset({"backward", "register_hook", "retain_grad", "set_data", "__setitem__"})


def is_torch_function(node: Node) -> bool:
    """Whether node calls a function of PyTorch or of Python, rather than of the user."""
    if node.op == "call_method":
        return hasattr(torch.Tensor, str(node.target))
    return node.op == "call_function" and _is_known(node.target)


def may_be_random(node: Node) -> bool:
    """Whether node may draw random numbers, by the names that PyTorch gives such functions."""
    target: Any = node.target
    name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
    return any(part in name for part in _RANDOM)


def has_effects(node: Node) -> bool:
    """Whether node changes a tensor or a state, as far as is known."""
    if node.op in ("placeholder", "get_attr", "output"):
        return False
    return not is_torch_function(node) or bool(_changed_arguments(node))


def changed_by(node: Node) -> Sequence[Node]:
    """The nodes whose tensors node may change."""
    if not has_effects(node):
        return ()
    changed = _changed_arguments(node) if is_torch_function(node) else node.all_input_nodes
    return [argument for argument in changed if isinstance(argument, Node)]


def _changed_arguments(node: Node) -> Sequence[Any]:
    """What a function of PyTorch changes of its arguments."""
    if node.op == "call_method":
        return node.args[:1] if _is_impure_method(node) else ()
    function: Any = node.target
    name = getattr(function, "__name__", "_")
    if isinstance(function, torch._ops.OpOverload):
        return node.all_input_nodes if function._schema.is_mutable else ()
    if function in _IMPURE_OPERATORS or name.endswith("_") or _is_in_place_operator(function):
        return node.args[:1]
    if node.kwargs.get("out") is not None:
        return node.all_input_nodes
    arguments = _named_arguments(function, node)
    if arguments is None:
        return node.all_input_nodes if _has_mutable_schema(name) else ()
    return _changed_by_python(arguments, node)


def _is_impure_method(node: Node) -> bool:
    name = str(node.target)
    if name.startswith("__") and name.endswith("__"):
        return name == "__setitem__" or _is_in_place_operator(getattr(operator, name, None))
    return name in _IMPURE_METHODS or name.endswith("_") or _has_mutable_schema(name)


def _is_in_place_operator(function: Any) -> bool:
    """operator.iadd and its like."""
    name = getattr(function, "__name__", "").strip("_")
    return (
        getattr(function, "__module__", None) == "_operator"
        and name.startswith("i")
        and hasattr(operator, name[1:].rstrip("_") or "-")
    )


def _named_arguments(function: Any, node: Node) -> dict[str, Any] | None:
    """None for functions of C++, which do not tell."""
    try:
        return inspect.signature(function).bind(*node.args, **node.kwargs).arguments
    except (TypeError, ValueError):
        return None


def _changed_by_python(arguments: dict[str, Any], node: Node) -> Sequence[Any]:
    """Of the functions in torch.nn.functional: inplace, running statistics, renormalisation."""
    if arguments.get("inplace"):
        return node.args[:1] or node.all_input_nodes
    if arguments.get("max_norm") is not None:
        return node.all_input_nodes
    training = arguments.get("training", arguments.get("use_input_stats", "use_input_stats"))
    statistics = (arguments.get("running_mean"), arguments.get("running_var"))
    if training is False or "running_mean" not in arguments:
        return ()
    return [tensor for tensor in statistics if tensor is not None]


def _is_known(function: Any) -> bool:
    if isinstance(function, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return True
    module = getattr(function, "__module__", None)
    if module == "builtins":
        return function in _PURE_BUILTINS
    if function in _PURE_FUNCTIONS:
        return True
    return module in _PURE_MODULES or _is_torch_builtin(function)


def _is_torch_builtin(function: Any) -> bool:
    return inspect.isbuiltin(function) and hasattr(torch._C._VariableFunctions, function.__name__)


def _has_mutable_schema(name: str) -> bool:
    """Whether an operator of that name changes an argument, other than out."""
    if "batch_norm" in name or "instance_norm" in name:  # their schemas do not say so
        return True
    packet = getattr(torch.ops.aten, name, None)
    if packet is None:
        return False
    schemas = [getattr(packet, overload)._schema for overload in packet.overloads()]
    return any(
        argument.alias_info is not None and argument.alias_info.is_write
        for schema in schemas
        for argument in schema.arguments
        if not argument.kwarg_only
    )
