# SPDX-License-Identifier: Apache-2.0
"""What people call the nodes of a graph."""

from __future__ import annotations

import re
from typing import Any

from torch.fx import Node


def describe(node: Node) -> str:
    """ "up.act (LeakyReLU)" for a module of PyTorch, "mul" or "mul of up (Block)" for a
    function."""
    function = function_name(node)
    path, kind = _module(node)
    if not path:
        return function
    module = f"{path} ({kind.__name__})"
    return module if kind.__module__.startswith("torch.nn.") else f"{function} of {module}"


def function_name(node: Node) -> str:
    target: Any = node.target
    name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
    if name == "fn":  # PyTorch's dispatch by a flag
        name = re.sub(r"_\d+$", "", node.name)
    return name


def _module(node: Node) -> tuple[str, type]:
    """The path of the module whose forward made the node, and its class; an empty path for the
    root."""
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return "", object
    path, kind = list(stack.values())[-1]
    return _plain_path(path), kind if isinstance(kind, type) else object


def _plain_path(path: str) -> str:
    """ "up.0.conv" of "L['self'].up[0]._modules['conv']"."""
    nested = r"getattr\(([^()]*), '(\w+)'\)"
    while re.search(nested, path):
        path = re.sub(nested, r"\1.\2", path)
    path = re.sub(r"^L(\['\w+'\]|\.\w+)", "", path)
    path = re.sub(r"\._(modules|parameters|buffers)\b", "", path)
    path = re.sub(r"\[['\"]?([^'\"\]]*)['\"]?\]", r".\1", path)
    return path.strip(".")
