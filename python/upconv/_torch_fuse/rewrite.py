# SPDX-License-Identifier: Apache-2.0
"""Puts one call of torch.ops.upconv.conv_transpose in the place of each convolution with its
tail."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import tree_map

from .._torch import operator as _operator  # noqa: F401  defines torch.ops.upconv.conv_transpose
from .effects import has_effects, may_be_random
from .inline import inline_modules
from .names import describe
from .recorder import Call
from .report import Fused, Left, Report
from .segment import Segment, find, is_convolution
from .tail import Operand, Tail, Unfusable

_logger = logging.getLogger(__name__)

_ENTER_AUTOCAST = "_enter_autocast"
_EXIT_AUTOCAST = "_exit_autocast"


def rewrite(module: GraphModule, report: Report) -> int:
    """Fuses what can be fused in module's graph and in the graphs inside it; how many segments it
    fused."""
    count = 0
    for child in module.children():
        if isinstance(child, GraphModule):
            count += rewrite(child, report)
    if any(node.op == "call_module" for node in module.graph.nodes):
        inline_modules(module)
    fused = _rewrite_graph(module.graph, report)
    if fused:
        module.graph.lint()
        module.recompile()
    return count + fused


def _rewrite_graph(graph: Graph, report: Report) -> int:
    _drop_unread(graph)
    fused = 0
    regions: list[tuple[Any, ...]] = []
    for node in list(graph.nodes):
        _follow_autocast(node, regions)
        if not is_convolution(node) or not node.users:
            continue
        try:
            segment = find(node, tuple(regions))
            entry = _entry(segment)
            _replace(graph, segment)
        except Unfusable as error:
            report.left.append(Left(describe(node), str(error)))
        except Exception as error:  # a model that runs must not stop running
            _logger.warning("please report this", exc_info=True)
            report.left.append(Left(describe(node), f"an error in fuse, please report: {error!r}"))
        else:
            report.fused.append(entry)
            fused += 1
    return fused


def _drop_unread(graph: Graph) -> None:
    """Results that nobody reads would end tails. PyTorch before 2.5 leaves them in graphs."""
    for node in reversed(list(graph.nodes)):
        if node.op in ("call_function", "call_method") and not node.users:
            if not has_effects(node) and not may_be_random(node):
                graph.erase_node(node)


def _follow_autocast(node: Node, regions: list[tuple[Any, ...]]) -> None:
    name = getattr(node.target, "__name__", "")
    if name == _ENTER_AUTOCAST:
        regions.append(tuple(node.args))
    elif name == _EXIT_AUTOCAST:
        regions.pop()


def _entry(segment: Segment) -> Fused:
    stop = segment.stop
    if segment.stop_node is not None:
        stop = f"{describe(segment.stop_node)}: {stop}"
    names = [describe(node) for node in segment.nodes]
    return Fused(names[0], tuple(names[1:]), segment.text, stop)


class _Emitter:
    """Writes nodes in front of a segment's last node."""

    def __init__(self, graph: Graph, segment: Segment) -> None:
        self._graph = graph
        self._tail: Tail = segment.tail
        self._emitted: dict[int, Node] = {}

    def call(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], example: Any
    ) -> Node:
        node = self._graph.call_function(function, args, kwargs)
        node.meta["example_value"] = example
        return node

    def tensor(self, tensor: Tensor | None) -> Node | None:
        """The node that makes this fake tensor, which is read from outside."""
        if tensor is None:
            return None
        origin = self._tail.outside[id(tensor)]
        if isinstance(origin, Node):
            return origin
        if id(tensor) not in self._emitted:
            self._emitted[id(tensor)] = self._repeat(origin)
        return self._emitted[id(tensor)]

    def _repeat(self, call: Call) -> Node:
        def argument(a: Any) -> Any:
            return self.tensor(a) if isinstance(a, Tensor) else a

        args, kwargs = tree_map(argument, (call.args, call.kwargs))
        return self.call(call.func, args, kwargs, call.result)

    def operand(self, operand: Operand) -> tuple[Node, Tensor]:
        """operand with the rank that the operator wants, and its fake tensor."""
        node, example = self.tensor(operand.tensor), operand.tensor
        assert node is not None
        if operand.shape is not None:
            example = example.reshape(operand.shape)
            shape = list(operand.shape)
            node = self.call(torch.ops.aten.reshape.default, (node, shape), {}, example)
        for axis in operand.new_axes:
            example = example.unsqueeze(axis)
            node = self.call(torch.ops.aten.unsqueeze.default, (node, axis), {}, example)
        return node, example


def _replace(graph: Graph, segment: Segment) -> None:
    convolution = segment.tail.convolution
    last = segment.nodes[-1]
    target = torch.ops.upconv.conv_transpose.default
    before = set(graph.nodes)
    with graph.inserting_before(last), torch.no_grad(), _fake_mode(segment):
        emitter = _Emitter(graph, segment)
        params = [emitter.operand(operand) for operand in segment.tail.params]
        tensors = [emitter.operand(operand) for operand in segment.tail.tensors]
        fixed = (
            convolution.stride,
            convolution.padding,
            convolution.output_padding,
            convolution.groups,
            convolution.dilation,
            segment.text,
        )
        read = (convolution.x, convolution.weight, convolution.bias)
        try:
            example = target(*read, *fixed, [e for _, e in params], [e for _, e in tensors])
            nodes = tuple(emitter.tensor(tensor) for tensor in read)
            args = (*nodes, *fixed, [n for n, _ in params], [n for n, _ in tensors])
            result = emitter.call(target, args, {}, example)
            result = _like_before(emitter, segment, result, example)
        except Exception as error:
            _remove(graph, [node for node in graph.nodes if node not in before])
            if isinstance(error, Unfusable):
                raise
            raise Unfusable(f"the operator refuses it: {error}") from error
    for key in ("nn_module_stack", "stack_trace", "source_fn_stack"):
        if key in segment.nodes[0].meta:
            result.meta[key] = segment.nodes[0].meta[key]
    for node in segment.nodes:
        node.replace_all_uses_with(result, lambda user: user not in segment.nodes)
    _remove(graph, segment.nodes)


def _like_before(emitter: _Emitter, segment: Segment, result: Node, example: Tensor) -> Node:
    """result with the shape and the memory format that PyTorch's result had."""
    dims = [axis for axis in range(segment.tail.rank) if axis not in segment.value.axes]
    if dims:
        example = example.squeeze(dims)
        result = emitter.call(torch.ops.aten.squeeze.dims, (result, dims), {}, example)
    wanted: Tensor = segment.result
    if str(tuple(example.shape)) != str(tuple(wanted.shape)) or example.dtype != wanted.dtype:
        raise Unfusable(f"its result would be {tuple(example.shape)}, not {tuple(wanted.shape)}")
    for layout in (torch.contiguous_format, torch.channels_last, torch.channels_last_3d):
        if layout is not torch.contiguous_format and wanted.dim() != _RANKS[layout]:
            continue
        if wanted.is_contiguous(memory_format=layout):
            if not example.is_contiguous(memory_format=layout):
                example = example.contiguous(memory_format=layout)
                keywords = {"memory_format": layout}
                result = emitter.call(
                    torch.ops.aten.contiguous.default, (result,), keywords, example
                )
            break
    return result


_RANKS = {torch.channels_last: 4, torch.channels_last_3d: 5}


def _fake_mode(segment: Segment) -> Any:
    return segment.result.fake_mode


def _remove(graph: Graph, nodes: Sequence[Node]) -> None:
    for node in reversed(nodes):
        graph.erase_node(node)
