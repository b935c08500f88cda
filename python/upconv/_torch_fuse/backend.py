# SPDX-License-Identifier: Apache-2.0
"""The backend of torch.compile: fuses, then hands the graph on.

torch.compile(model, backend="upconv")                                   the rest goes to inductor
torch.compile(model, backend="upconv", options={"backend": "eager"})     or to another backend
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node

from .report import Report
from .rewrite import rewrite

# What explain() looks at for a model that was compiled rather than fused. Old graphs are forgotten.
_MOST_REPORTS = 1024
_reports: deque[tuple[Report, list[weakref.ref[nn.Parameter]]]] = deque(maxlen=_MOST_REPORTS)


def backend(
    module: GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    **others: Any,
) -> Callable[..., Any]:
    """Compiles a graph for torch.compile. options: "backend" names the one that compiles what is
    left ("inductor" unless given); the others, like mode, are that one's."""
    options = dict(options or {})
    inner = options.pop("backend", "inductor")
    parameters = [t for t in (*example_inputs, *module.parameters()) if isinstance(t, nn.Parameter)]
    report = fuse_graph(module)
    _reports.append((report, [weakref.ref(parameter) for parameter in parameters]))
    if inner == "inductor":
        return _inductor(module, example_inputs, mode, options)
    from torch._dynamo.backends.registry import lookup_backend

    if mode is not None:
        others["mode"] = mode
    if options:
        others["options"] = options
    return lookup_backend(inner)(module, list(example_inputs), **others)


def _inductor(
    module: GraphModule, example_inputs: Sequence[Any], mode: str | None, options: dict[str, Any]
) -> Callable[..., Any]:
    from torch._inductor import list_mode_options
    from torch._inductor.compile_fx import compile_fx

    patches = dict(list_mode_options(mode)) if mode not in (None, "default") else {}
    patches.update((name.replace("-", "_"), value) for name, value in options.items())
    return compile_fx(module, list(example_inputs), config_patches=patches or None)


def fuse_graph(module: GraphModule) -> Report:
    """Rewrites a graph that torch._dynamo has captured, in place."""
    report = Report(_title(module))
    rewrite(module, report)
    return report


def reports_of(model: nn.Module) -> list[Report]:
    """Of the graphs that read parameters of model."""
    own = {id(parameter) for parameter in model.parameters()}
    return [
        report
        for report, references in _reports
        if any(id(parameter) in own for r in references if (parameter := r()) is not None)
    ]


def register() -> None:
    """Makes the name "upconv" known. For an installed package its entry point does, and a name
    may be registered only once."""
    if not entry_points(group="torch_dynamo_backends", name="upconv"):
        torch._dynamo.register_backend(backend, name="upconv")


def _title(module: GraphModule) -> str:
    inputs = []
    for node in module.graph.nodes:
        example = node.meta.get("example_value")
        if node.op == "placeholder" and isinstance(example, Tensor) and not _is_attribute(node):
            sizes = ", ".join(map(str, example.shape))
            name = node.name.strip("_").removeprefix("l_")
            inputs.append(f"{name} [{sizes}] {str(example.dtype).removeprefix('torch.')}")
    gradients = "with" if torch.is_grad_enabled() else "without"
    return f"graph of {'; '.join(inputs) or 'no input'}, {gradients} gradients"


def _is_attribute(placeholder: Node) -> bool:
    """Whether it stands for a parameter or buffer of the model: "L['self'].scale"."""
    source = getattr(placeholder.meta.get("grapharg"), "source", None)
    name = getattr(source, "name", "")
    return "." in (name() if callable(name) else name)
