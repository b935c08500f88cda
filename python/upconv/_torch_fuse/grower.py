# SPDX-License-Identifier: Apache-2.0
"""Takes nodes of a graph into the tail of a convolution, one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Node
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves

from .effects import changed_by, has_effects, is_torch_function
from .names import function_name
from .recorder import Call, record
from .rules import RULES, VIEWS
from .tail import DTYPES, Convolution, Tail, Unfusable, Value, integers

# Nodes that may hand on what they were given without any operator: of others it is not known what
# else they do.
_IDENTITIES = frozenset(
    "dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout feature_dropout"
    " identity getitem contiguous to type type_as float half bfloat16 cpu cuda squeeze".split()
)


def _is_random(node: Node) -> bool:
    """Dropout in training mode, by its third argument in all forms."""
    name = function_name(node).strip("_")
    if "dropout" not in name or name not in _IDENTITIES:
        return False
    training = node.args[2] if len(node.args) > 2 else node.kwargs.get("training", True)
    return training is not False


def following(node: Node) -> Iterator[Node]:
    while node.next.op != "root":
        node = node.next
        yield node


class Grower:
    """Grows the tail of one convolution node by node."""

    def __init__(self, convolution: Node, regions: Sequence[tuple[Any, ...]]) -> None:
        self.nodes = [convolution]
        self.results: dict[Node, Any] = {}
        example = convolution.meta.get("example_value")
        if not isinstance(example, FakeTensor):
            raise Unfusable("its sizes are not known")
        self._fake_mode = example.fake_mode
        self._regions = regions
        self._changed_later = _changes_after(convolution) if torch.is_grad_enabled() else {}
        result, calls = self._record(convolution)
        self.tail = _start(calls, self._inputs(convolution))
        self._replay(self.tail, calls)
        self._finish(convolution, result, self.tail)
        self.results[convolution] = result
        if self.tail.convolution.bias is not None:
            self._require_unchanged(self.tail.convolution.bias, convolution)

    def reads(self, node: Node) -> bool:
        return any(argument in self.results for argument in node.all_input_nodes)

    def absorb(self, node: Node) -> None:
        """Takes node into the tail, or raises Unfusable and leaves everything as it was."""
        result, tail = self.grown(node)
        self.results[node] = result
        self.nodes.append(node)
        self.tail = tail

    def grown(self, node: Node) -> tuple[Any, Tail]:
        """What node returns, and the tail with it."""
        if _is_random(node):
            raise Unfusable("is random while training, which is left to PyTorch")
        if node.op == "call_module":
            raise Unfusable("is a module that cannot be opened up")
        if not is_torch_function(node):
            raise Unfusable(f"{function_name(node)} is not a function of PyTorch")
        if has_effects(node) and any(a not in self.results for a in changed_by(node)):
            raise Unfusable(_what_changes(node))
        result, calls = self._record(node)
        tail = self.tail.snapshot()
        tail.outside.update(self._inputs(node))
        if not calls and function_name(node).strip("_") not in _IDENTITIES:
            raise Unfusable("is not known to be free of effects")
        self._replay(tail, calls)
        self._finish(node, result, tail)
        for operand in (*tail.params, *tail.tensors):
            self._require_unchanged(operand.tensor, node)
        return result, tail

    def _record(self, node: Node) -> tuple[Any, list[Call]]:
        args, kwargs = map_arg((node.args, node.kwargs), self._example)
        function: Callable[..., Any]
        if node.op == "call_method":
            function = getattr(type(args[0]), str(node.target))
        else:
            function = node.target  # type: ignore[assignment]
        try:
            return record(function, args, kwargs, self._fake_mode, self._regions)
        except Exception as error:  # of whatever kind: PyTorch runs the node as it did
            raise Unfusable(f"cannot be looked at alone: {error}") from error

    def _require_unchanged(self, operand: Tensor, reader: Node) -> None:
        """Operands are kept for the backward pass, where PyTorch's operator may not need them; what
        is changed in place after it was read cannot be kept."""
        later = self._changed_later.get(_storage(operand))
        if later is not None and later is not reader and _is_behind(later, reader):
            raise Unfusable(f"an operand is changed in place later, by {function_name(later)}")

    def _example(self, argument: Node) -> Any:
        if argument in self.results:
            return self.results[argument]
        if "example_value" not in argument.meta:
            raise Unfusable(f"the sizes of {argument} are not known")
        return argument.meta["example_value"]

    def _inputs(self, node: Node) -> dict[int, Node | Call]:
        """The tensors that node reads from outside the tail."""
        outside = [n for n in node.all_input_nodes if n not in self.results]
        return {id(n.meta.get("example_value")): n for n in outside}

    def _replay(self, tail: Tail, calls: Sequence[Call]) -> None:
        for call in calls:
            try:
                _apply(tail, call)
            except KeyError as error:
                raise Unfusable(f"an overload of {call.name} without {error}") from None

    def _finish(self, node: Node, result: Any, tail: Tail) -> None:
        """Compares what the node returned in this run with what the graph says that it returns."""
        leaves = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        if not any(tail.value_of(leaf) for leaf in leaves):
            raise Unfusable("does not return a value of the tail")
        known = node.meta.get("example_value")
        expected = [leaf for leaf in tree_leaves(known) if isinstance(leaf, Tensor)]
        if expected and [_signature(t) for t in leaves] != [_signature(t) for t in expected]:
            raise Unfusable("the type or the shape differs when it is looked at alone")
        visible = (*self.results.values(), result)
        tail.forget_all_but(leaf for r in visible for leaf in tree_leaves(r))


def _what_changes(node: Node) -> str:
    if function_name(node) in ("batch_norm", "instance_norm"):
        return "takes the statistics of the batch, which is left to PyTorch"
    return "changes a tensor that is not a result of the convolution"


def _changes_after(convolution: Node) -> dict[int, Node]:
    """By memory: the last node behind the convolution that may change it."""
    changes = {}
    for node in following(convolution):
        for argument in changed_by(node):
            example = argument.meta.get("example_value")
            if isinstance(example, FakeTensor):
                changes[_storage(example)] = node
    return changes


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _is_behind(node: Node, other: Node) -> bool:
    return any(n is node for n in following(other))


def _signature(tensor: Tensor) -> tuple[str, torch.dtype, torch.device]:
    return str(tuple(tensor.shape)), tensor.dtype, tensor.device


def _start(calls: Sequence[Call], inputs: dict[int, Any]) -> Tail:
    """The tail that is the convolution alone. What surrounds it in the same node (casts, a batch of
    one that is put in and taken out) is replayed like any other operator."""
    found = [call for call in calls if call.name == "convolution"]
    if len(found) != 1:
        raise Unfusable("is not one convolution")
    call = found[0]
    if not call.argument("transposed"):
        raise Unfusable("is not transposed")
    x, weight, bias = (call.argument(name) for name in ("input", "weight", "bias"))
    if not 3 <= x.dim() <= 5:
        raise Unfusable(f"has {x.dim() - 2} spatial dimensions")
    for tensor in (x, weight, bias):
        if tensor is not None and tensor.dtype not in DTYPES:
            raise Unfusable(f"{str(tensor.dtype).removeprefix('torch.')} is left to PyTorch")
    if any(t is not None and t.layout is not torch.strided for t in (x, weight, bias)):
        raise Unfusable("a tensor without strides is left to PyTorch")
    if x.device.type not in ("cpu", "cuda"):
        raise Unfusable(f"the device {x.device} is left to PyTorch")
    lists = {
        n: integers(call.argument(n)) for n in ("stride", "padding", "output_padding", "dilation")
    }
    groups = call.argument("groups")
    convolution = Convolution(x, weight, bias, groups=groups, **lists)
    tail = Tail(convolution, call.result.dtype, x.device)
    tail.outside.update(inputs)
    return tail


def _apply(tail: Tail, call: Call) -> None:
    """Replays one ATen operator on the tail."""
    arguments = [a for a in tree_leaves((call.args, call.kwargs)) if isinstance(a, Tensor)]
    tail.alive.extend(arguments)
    if call.name == "convolution" and call.argument("input") is tail.convolution.x:
        convolution = tail.convolution
        for tensor in (convolution.x, convolution.weight, convolution.bias):
            if tensor is not None:
                tail.require_outside(tensor)
        tail.define(call.result, Value(0, tuple(range(tail.rank))))
        return
    if not any(tail.value_of(argument) for argument in arguments):
        _outside(tail, call)
        return
    if _asks_for_sizes(call):
        return
    in_place = call.name.endswith("_")
    base = call.name[:-1] if in_place else call.name
    rule = RULES.get(base)
    if rule is None or (base == "as_strided" and not in_place):
        raise Unfusable(f"{call.name} is not an operator of an epilogue")
    if not in_place and call.func._schema.is_mutable and "batch_norm" not in base:
        raise Unfusable(f"{call.name} changes an argument")
    value = rule(tail, call)
    result = call.result[0] if isinstance(call.result, (tuple, list)) else call.result
    if in_place:
        _redefine(tail, call.args[0], value)
    elif base in VIEWS:
        tail.define_view(result, call.args[0], value)
    else:
        tail.define(result, value)


def _asks_for_sizes(call: Call) -> bool:
    return call.func.namespace == "prim" or call.name.startswith(("sym_", "is_contiguous"))


def _redefine(tail: Tail, target: Tensor, value: Value) -> None:
    """target has changed in place: all who read it from now on see the new value."""
    if tail.value_of(target) is None:
        raise Unfusable("changes a tensor in place that is not a result of the convolution")
    if len(tail.family.get(id(target), ())) > 1:
        raise Unfusable("changes a view in place")
    tail.define(target, value)


def _outside(tail: Tail, call: Call) -> None:
    """An operator on tensors that have nothing to do with the convolution, such as a view of a
    bias."""
    if call.func._schema.is_mutable or torch.Tag.nondeterministic_seeded in call.func.tags:
        raise Unfusable(f"{call.name} has effects")
    tail.alive.append(call.result)
    for result in tree_leaves(call.result):
        if isinstance(result, Tensor) and id(result) not in tail.outside:
            tail.outside[id(result)] = call
