# SPDX-License-Identifier: Apache-2.0
"""Calls of PyTorch's modules in a graph, opened up into the functions that they call.

PyTorch before 2.5 leaves modules of torch.nn in the graphs of torch.compile as they are.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Graph, GraphModule, Node, Tracer
from torch.fx.proxy import TraceError
from torch.nn.modules import activation, conv, dropout, pooling
from torch.nn.modules.batchnorm import _BatchNorm

_FILES = frozenset(file.__name__ for file in (activation, conv, dropout, pooling))


class _Call(nn.Module):
    """Without optional arguments, which would be traced as if they were given."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        return self.module(x)


class _Tracer(Tracer):
    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        return False


def inline_modules(root: GraphModule) -> None:
    for node in list(root.graph.nodes):
        if node.op == "call_module" and isinstance(node.meta.get("example_value"), FakeTensor):
            module = root.get_submodule(str(node.target))
            if isinstance(module, _BatchNorm):
                _inline_batch_norm(root.graph, node, module)
            elif type(module).__module__ in _FILES and len(node.args) == 1 and not node.kwargs:
                _inline(root.graph, node, module)


def _inline_batch_norm(graph: Graph, call: Node, module: _BatchNorm) -> None:
    """Its forward looks at sizes, which cannot be traced."""
    if module.momentum is None:
        return
    with graph.inserting_before(call):
        names = ("running_mean", "running_var", "weight", "bias")
        tensors = [_attribute(graph, call, module, name) for name in names]
        count = _attribute(graph, call, module, "num_batches_tracked")
        if module.training and count is not None:
            graph.call_method("add_", (count, 1))
        training = module.training or tensors[0] is None
        args = (call.args[0], *tensors, training, module.momentum, module.eps)
        _replace(graph, call, graph.call_function(F.batch_norm, args))


def _inline(graph: Graph, call: Node, module: nn.Module) -> None:
    try:
        inside = _Tracer().trace(_Call(module))
    except (TraceError, TypeError):  # it looks at values: left as it is
        return
    new: dict[Node, Any] = {}
    with graph.inserting_before(call):
        for node in inside.nodes:
            if node.op == "placeholder":
                new[node] = call.args[0]
            elif node.op == "get_attr":
                path = str(node.target).removeprefix("module.")
                new[node] = _attribute(graph, call, module, path)
            elif node.op == "output":
                _replace(graph, call, new[node.args[0]])
            else:
                new[node] = graph.node_copy(node, lambda n: new[n])


def _attribute(graph: Graph, call: Node, module: Any, path: str) -> Node | None:
    """A node for a parameter or buffer of the module that is called; None if it has none."""
    tensor = module
    for name in path.split("."):
        tensor = getattr(tensor, name)
    if not isinstance(tensor, Tensor):
        return None
    node = graph.create_node("get_attr", f"{call.target}.{path}")
    node.meta["example_value"] = call.meta["example_value"].fake_mode.from_tensor(
        tensor, static_shapes=True
    )
    return node


def _replace(graph: Graph, call: Node, result: Node) -> None:
    result.meta.update(call.meta)
    call.replace_all_uses_with(result)
    graph.erase_node(call)
