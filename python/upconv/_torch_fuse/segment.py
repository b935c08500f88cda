# SPDX-License-Identifier: Apache-2.0
"""Finds the longest tail of one transposed convolution in a graph."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
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

# Nodes that may hand on what they were given without any operator: of others it is not known what else they do.
_IDENTITIES = frozenset(
    "dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout feature_dropout rrelu identity getitem "
    "contiguous to type type_as float half bfloat16 cpu cuda squeeze".split()
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


def describe(node: Node) -> str:
    """ "up.act (LeakyReLU)" for a module, "mul" for a function."""
    target: Any = node.target
    name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
    if name == "fn":  # PyTorch's dispatch by a flag
        name = node.name.rstrip("0123456789").rstrip("_")
    module = module_of(node)
    return name if module is None else f"{name} of {module}"


def module_of(node: Node) -> str | None:
    """The path of the module whose forward made the node, and its class; None for the root."""
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return None
    path, kind = list(stack.values())[-1]
    path = _plain_path(path)
    if not path:
        return None
    name = kind.__name__ if isinstance(kind, type) else str(kind).rpartition(".")[2]
    return f"{path} ({name})"


def _plain_path(path: str) -> str:
    """ "up.0.conv" of "L['self'].up[0]._modules['conv']"."""
    path = re.sub(r"^L\['\w+'\]", "", path)
    path = re.sub(r"\._(modules|parameters|buffers)\b", "", path)
    path = re.sub(r"\[['\"]?([^'\"\]]*)['\"]?\]", r".\1", path)
    return path.strip(".")


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

    def absorb(self, node: Node) -> None:
        """Takes node into the tail, or raises Unfusable and leaves everything as it was."""
        result, calls = self._record(node)
        tail = self.tail.snapshot()
        tail.outside.update(self._inputs(node))
        if not calls and _bare_name(node) not in _IDENTITIES:
            raise Unfusable("is not known to be free of effects")
        self._replay(tail, calls)
        self._finish(node, result, tail)
        self.nodes.append(node)
        self.tail = tail

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
        self.results[node] = result
        tail.forget_all_but(leaf for r in self.results.values() for leaf in tree_leaves(r))


def _signature(tensor: Tensor) -> tuple[str, torch.dtype, torch.device]:
    return str(tuple(tensor.shape)), tensor.dtype, tensor.device


def _bare_name(node: Node) -> str:
    target: Any = node.target
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    return name.strip("_")


def _start(calls: Sequence[Call], inputs: dict[int, Any]) -> Tail:
    """The tail that is the convolution alone. What surrounds it in the same node (casts, a batch of one that is put in
    and taken out) is replayed like any other operator."""
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
    lists = {n: integers(call.argument(n)) for n in ("stride", "padding", "output_padding", "dilation")}
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
    """An operator on tensors that have nothing to do with the convolution, such as a view of a bias."""
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
    """The longest tail of `convolution` of which exactly one value is read outside; raises Unfusable."""
    grower = _Grower(convolution, regions)
    best = _candidate(grower)
    stop, stop_node = "nothing follows", None
    node = convolution.next
    while node.op != "root":
        if not any(argument in grower.results for argument in node.all_input_nodes):
            if has_effects(node):
                stop, stop_node = "may change tensors or modes, and stands in between", node
                break
        elif node.op == "output":
            stop, stop_node = "the result leaves the graph", None
            break
        else:
            try:
                grower.absorb(node)
            except Unfusable as error:
                stop, stop_node = str(error), node
                break
            best = _candidate(grower) or best
        node = node.next
    if best is None:
        raise Unfusable("more than one of its values is read" if stop_node is None else stop)
    nodes = grower.nodes[: best.count]
    if best.count < len(grower.nodes):
        stop, stop_node = _why_shorter(nodes, grower.nodes[best.count])
    return Segment(
        nodes, best.tail, best.value, best.result, regions, stop, stop_node, grower.results
    )


def _why_shorter(nodes: Sequence[Node], following: Node) -> tuple[str, Node]:
    return "could be fused, but a value before it is read elsewhere too", following


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

