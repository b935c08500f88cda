# SPDX-License-Identifier: Apache-2.0
"""Finds the longest tail of one transposed convolution in a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import Node

from .effects import has_effects
from .grower import Grower, following
from .names import describe
from .tail import Tail, Unfusable, Value

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


@dataclass
class Segment:
    """What one call of the operator replaces."""

    nodes: list[Node]
    tail: Tail
    value: Value
    result: Any  # the fake tensor that takes the place of the last node's
    stop: str  # why it ends where it ends
    stop_node: Node | None

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


@dataclass
class _Candidate:
    count: int
    tail: Tail
    value: Value
    result: Any


def find(convolution: Node, regions: Sequence[tuple[Any, ...]]) -> Segment:
    """The longest tail of `convolution` of which exactly one value is read outside; raises
    Unfusable."""
    grower = Grower(convolution, regions)
    best = _candidate(grower)
    stop, stop_node = "the result leaves the graph", None
    for node in following(convolution):
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
    return Segment(nodes, best.tail, best.value, best.result, stop, stop_node)


def _why_not_past(barrier: Node, grower: Grower) -> tuple[str, Node | None]:
    """Why the tail ends at a node that does not read it: what comes behind may not fit anyhow."""
    for node in following(barrier):
        if grower.reads(node):
            if node.op == "output":
                return "the result leaves the graph", None
            try:
                grower.grown(node)
            except Unfusable as error:
                return str(error), node
            break
    return "may change tensors or modes, and stands in between", barrier


def _candidate(grower: Grower) -> _Candidate | None:
    """The tail as it stands, if all readers outside read one and the same tensor. Two tensors that
    hold the same values are not the same: one may be changed in place."""
    own = set(grower.nodes)
    read = [n for n in grower.nodes if any(user not in own for user in n.users)]
    results = [grower.results[node] for node in read]
    if not results or any(result is not results[0] for result in results):
        return None
    value = grower.tail.value_of(results[0])
    if value is None or None in value.axes:
        return None
    return _Candidate(len(own), grower.tail, value, results[0])
