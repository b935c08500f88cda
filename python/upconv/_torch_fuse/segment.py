# SPDX-License-Identifier: Apache-2.0
"""Finds the longest tail of one transposed convolution in a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Node
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves

from .effects import has_effects
from .names import describe, function_name
from .recorder import Call, record
from .rules import RULES, VIEWS
from .tail import DTYPES, Convolution, Tail, Unfusable, Value, integers

_CONVOLUTIONS = frozenset(
    {
        torch.conv_transpose1d,
        torch.conv_transpose2d,
        torch.conv_transpose3d,
        torch.convolution,
        F.conv_transpose1d,
        F.conv_transpose2d,
        F.conv_transpose3d,
    }
)
_CONVOLUTION_NAMES = ("aten::conv_transpose", "aten::convolution")

# Nodes that may hand on what they were given without any operator: of others it is not known what
# else they do.
_IDENTITIES = frozenset(
    "dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout feature_dropout"
    " identity getitem contiguous to type type_as float half bfloat16 cpu cuda squeeze".split()
)


@dataclass
class Segment:
    """What one call of the operator replaces."""

    nodes: list[Node]
    tail: Tail
    value: Value
    result: Any  # the fake tensor that takes the place of the last node's
    regions: Sequence[tuple[Any, ...]]
    stop: str  # why it ends where it ends
    stop_node: Node | None
    results: dict[Node, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return self.tail.text(self.value.index)


def is_convolution(node: Node) -> bool:
    if node.op != "call_function":
        return False
    target: Any = node.target
    if isinstance(target, torch._ops.OpOverload):
        return target._schema.name.startswith(_CONVOLUTION_NAMES)
    if isinstance(target, torch._ops.OpOverloadPacket):
        return target._qualified_op_name.startswith(_CONVOLUTION_NAMES)
    return target in _CONVOLUTIONS


def _is_random(node: Node) -> bool:
    """Dropout in training mode, by its third argument in all forms."""
    name = function_name(node).strip("_")
    if "dropout" not in name or name not in _IDENTITIES:
        return False
    training = node.args[2] if len(node.args) > 2 else node.kwargs.get("training", True)
    return training is not False


class _Grower:
    """Grows the tail of one convolution node by node."""

    def __init__(self, convolution: Node, regions: Sequence[tuple[Any, ...]]) -> None:
        self.nodes = [convolution]
        self.regions = regions
        self.results: dict[Node, Any] = {}
        example = convolution.meta.get("example_value")
        if not isinstance(example, FakeTensor):
            raise Unfusable("its sizes are not known")
        self.fake_mode = example.fake_mode
        result, calls = self._record(convolution)
        self.tail = _start(calls, self._inputs(convolution))
        self._replay(self.tail, calls)
        self._finish(convolution, result, self.tail)
        self.results[convolution] = result

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
        result, calls = self._record(node)
        tail = self.tail.snapshot()
        tail.outside.update(self._inputs(node))
        if not calls and function_name(node).strip("_") not in _IDENTITIES:
            raise Unfusable("is not known to be free of effects")
        self._replay(tail, calls)
        self._finish(node, result, tail)
        return result, tail

    def _record(self, node: Node) -> tuple[Any, list[Call]]:
        args, kwargs = map_arg((node.args, node.kwargs), self._example)
        function: Callable[..., Any]
        if node.op == "call_method":
            function = getattr(type(args[0]), str(node.target))
        else:
            function = node.target  # type: ignore[assignment]
        return record(function, args, kwargs, self.fake_mode, self.regions)

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


@dataclass
class _Candidate:
    count: int
    tail: Tail
    value: Value
    result: Any


def find(convolution: Node, regions: Sequence[tuple[Any, ...]]) -> Segment:
    """The longest tail of `convolution` of which exactly one value is read outside; raises
    Unfusable."""
    grower = _Grower(convolution, regions)
    best = _candidate(grower)
    stop, stop_node = "the result leaves the graph", None
    for node in _following(convolution):
        if not grower.reads(node):
            if has_effects(node):
                stop, stop_node = _why_not_past(node, grower)
                break
            continue
        if node.op == "output":
            break
        try:
            grower.absorb(node)
        except Unfusable as error:
            stop, stop_node = str(error), node
            break
        best = _candidate(grower) or best
    if best is None:
        raise Unfusable(stop)
    nodes = grower.nodes[: best.count]
    if best.count < len(grower.nodes):
        then = "" if stop_node is None else f"{describe(stop_node)}: "
        stop = f"could follow, but its operand is read elsewhere too; {then}{stop}"
        stop_node = grower.nodes[best.count]
    return Segment(
        nodes, best.tail, best.value, best.result, regions, stop, stop_node, grower.results
    )


def _following(node: Node) -> Iterator[Node]:
    while node.next.op != "root":
        node = node.next
        yield node


def _why_not_past(barrier: Node, grower: _Grower) -> tuple[str, Node | None]:
    """Why the tail ends at a node that does not read it: what comes behind may not fit anyhow."""
    for node in _following(barrier):
        if grower.reads(node):
            if node.op == "output":
                return "the result leaves the graph", None
            try:
                grower.grown(node)
            except Unfusable as error:
                return str(error), node
            break
    return "may change tensors or modes, and stands in between", barrier


def _candidate(grower: _Grower) -> _Candidate | None:
    """The tail as it stands, if all readers outside read the same value."""
    own = set(grower.nodes)
    read = [n for n in grower.nodes if any(user not in own for user in n.users)]
    values = set()
    result = None
    for node in read:
        result = grower.results[node]
        value = grower.tail.value_of(result)
        if value is None or None in value.axes:
            return None
        values.add(value)
    if len(values) != 1:
        return None
    return _Candidate(len(own), grower.tail, values.pop(), result)


def output_dims(segment: Segment) -> list[int]:
    """Dimensions of the operator's result that PyTorch's does not have."""
    return [axis for axis in range(segment.tail.rank) if axis not in segment.value.axes]
