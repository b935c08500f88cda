# SPDX-License-Identifier: Apache-2.0
"""fuse() and explain().

A model is traced by torch._dynamo, the part of torch.compile that turns Python into graphs: it
follows what the model does (data-dependent branches, hooks, counters, random numbers) and checks
before each call that its graphs still hold. Symbolic tracing and torch.export would bake in what
Python did once. The graphs are rewritten and run by PyTorch as they are; nothing is compiled.
"""

from __future__ import annotations

import copy
import functools
import itertools
import types
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.fx import GraphModule
from torch.nn.modules import module as _modules
from torch.utils._pytree import tree_map

from .backend import fuse_graph, reports_of
from .report import Explanation, Report
from .untraced import Untraced, frames_left

Model = TypeVar("Model", bound=nn.Module)

_MOST_REPORTS = 1024  # older graphs are forgotten

_number = itertools.count()

_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)

# Of models that fuse() returned as they were: why.
_notes: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()


class _State:
    """What a fused model has beyond the model that it was made of."""

    def __init__(self, original: nn.Module) -> None:
        self.original = original
        self.reports: deque[Report] = deque(maxlen=_MOST_REPORTS)
        self.untraced = Untraced()
        self._compile()

    def _compile(self) -> None:
        self.kind = type(self.original)
        self._compiled = torch.compile(_own_code(self.kind.forward), backend=self._backend)

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if _must_not_trace():
            return self.original.forward(*args, **kwargs)
        before = frames_left()
        try:
            with _Settings(), self.untraced:
                return self._compiled(self.original, *args, **kwargs)
        except Exception:
            # What fails while it is traced, such as a call with a wrong type, torch._dynamo never
            # traces again. Another code object is another chance.
            if frames_left() != before:
                self.untraced.reasons.clear()
                self._compile()
            raise

    def _backend(self, module: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        self.reports.append(fuse_graph(module))
        return module.forward


def fuse(model: Model, example_inputs: Any = None) -> Model:
    """A model that computes what `model` computes, each transposed convolution in one pass with
    what follows it.

        model = upconv.fuse(model)

    The result is of model's class (a subclass, in fact) and shares everything with it: parameters,
    buffers, submodules, hooks, training flag, the keys of state_dict. So optimisers made before go
    on working, and `model` itself goes on running unfused. Tracing happens when the result is first
    called, and again whenever something that mattered has changed; with example_inputs (a tensor, a
    tuple of arguments, or a mapping of keyword arguments) it is called once right away; buffers and
    random numbers are then put back.

    explain(result) says what was fused, what not, and why.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model of type {type(model).__name__}: must be a torch.nn.Module")
    state = _state_of(model)
    if state is not None:
        model = state.original  # type: ignore[assignment]
    reason = _why_not(model)
    if reason:
        _notes[model] = reason
        return model
    fused = object.__new__(_fused_class(type(model)))
    object.__setattr__(fused, "__dict__", model.__dict__)
    object.__setattr__(fused, "_upconv", _State(model))
    if example_inputs is not None:
        _call_once(fused, example_inputs)
    return fused


def explain(model: nn.Module) -> Explanation:
    """What was fused in a model that fuse() returned or that torch.compile(backend="upconv")
    compiled, what not, and why. Print it, or look at its fields. It grows as the model is
    called."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"model of type {type(model).__name__}: must be a torch.nn.Module")
    model = getattr(model, "_orig_mod", model)
    state = _state_of(model)
    reports = reports_of(model) if state is None else list(state.reports)
    seen = {entry.convolution for r in reports for entry in (*r.fused, *r.left)}
    unseen = []
    for path, module in model.named_modules():
        if isinstance(module, _TRANSPOSED):
            name = f"{path} ({type(module).__name__})" if path else type(module).__name__
            found = any(entry.endswith(name) for entry in seen) if path else bool(seen)
            if reports and not found:
                unseen.append(name)
    name = type(model).__name__ if state is None else state.kind.__name__
    return Explanation(name, tuple(reports), tuple(unseen), _note(model, state))


def _note(model: nn.Module, state: _State | None) -> str:
    if state is None:
        return _notes.get(model, "" if reports_of(model) else _NOT_FUSED)
    reasons = [f"could not be traced: {reason}" for reason in state.untraced.reasons]
    if state.untraced.calls and not state.reports and not reasons:
        reasons = ["called, but nothing of it could be traced; TORCH_LOGS=graph_breaks says why"]
    return "\n".join(reasons)


_NOT_FUSED = (
    'it is no result of fuse(), and torch.compile(model, backend="upconv") has not been called with'
    " any input"
)


def _state_of(model: nn.Module) -> _State | None:
    return getattr(type(model), "_upconv", None) and getattr(model, "_upconv", None)


def _why_not(model: nn.Module) -> str:
    if isinstance(model, torch.jit.ScriptModule):
        return "left as it is: TorchScript cannot be traced"
    if "forward" in model.__dict__:
        return "left as it is: its forward was replaced on the instance"
    if isinstance(model, nn.modules.lazy.LazyModuleMixin) and model.has_uninitialized_params():
        return "left as it is: it does not know its sizes yet; call it, then fuse it"
    if any(kind.__dict__.get("__slots__") for kind in type(model).__mro__):
        return "left as it is: its class has __slots__"
    if not torch._dynamo.is_dynamo_supported():
        return "left as it is: torch.compile does not support this Python or platform"
    return ""


# ---- the class of fused models


class _Fused:
    """The first base of fused models. It has what they do not share with the original, and keeps
    them from the original's __init_subclass__, which may register classes or want arguments."""

    __slots__ = ("_upconv",)

    def __init_subclass__(cls, **keywords: Any) -> None:
        pass


def _fused_class(base: type[nn.Module]) -> type[nn.Module]:
    """A subclass of base that has the same attributes, and forward through _State. Its instances
    share their __dict__ with the model that they are made of, so what is changed in one is changed
    in the other."""

    @functools.wraps(base.forward)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return base.forward(self, *args, **kwargs)
        state = getattr(self, "_upconv", None)
        if state is None or state.original.__dict__ is not self.__dict__:
            return base.forward(self, *args, **kwargs)  # a copy that PyTorch made of the attributes
        if state.kind is not type(state.original):
            self.__class__ = type(state.original)
        return self._upconv.call(args, kwargs)

    def get_class(self: Any) -> type:
        return type(self._upconv.original)

    def set_class(self: Any, kind: type[nn.Module]) -> None:
        """Parametrizations (weight norm, ...) give their module another class."""
        state = self._upconv
        state.original.__class__ = kind
        object.__dict__["__class__"].__set__(self, _fused_class(kind))
        object.__setattr__(self, "_upconv", _State(state.original))

    def shallow_copy(self: Any) -> Any:
        return fuse(copy.copy(self._upconv.original))

    def deepcopy(self: Any, memo: dict[int, Any]) -> Any:
        return fuse(copy.deepcopy(self._upconv.original, memo))

    def reduce(self: Any, protocol: Any) -> Any:
        return fuse, (self._upconv.original,)

    members = {
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": base.__doc__,
        "__class__": property(get_class, set_class),
        "__copy__": shallow_copy,
        "__deepcopy__": deepcopy,
        "__reduce_ex__": reduce,
        "forward": forward,
    }
    return type(base)(base.__name__, (_Fused, base), members)


# ---- tracing


def _own_code(forward: Callable[..., Any]) -> Callable[..., Any]:
    """forward with a code object and a name of its own. torch._dynamo keeps graphs by code object,
    with a limit to their number, and by name and place what it has seen change; models of one class
    must not share either."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return forward(self, *args, **kwargs)

    traced = isinstance(forward, types.FunctionType) and not torch._dynamo.trace_rules.check(
        forward
    )
    function: Any = forward if traced else call
    new = types.FunctionType(
        function.__code__.replace(co_name=f"{function.__name__}_fused_{next(_number)}"),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    new.__kwdefaults__ = function.__kwdefaults__
    new.__dict__.update(function.__dict__)
    return new


_is_fx_tracing = getattr(
    torch.fx._symbolic_trace, "is_fx_symbolic_tracing", torch.fx._symbolic_trace.is_fx_tracing
)


def _must_not_trace() -> bool:
    """Somebody else is tracing, transforms what runs, or watches every module (torch._dynamo does
    not check for that): the model runs as it is."""
    return bool(
        torch.jit.is_tracing()
        or _is_fx_tracing()
        or torch._C._len_torch_dispatch_stack() > 0
        or _modules._global_forward_hooks
        or _modules._global_forward_pre_hooks
        or _modules._global_backward_hooks
        or _modules._global_backward_pre_hooks
        or torch._C._functorch.peek_interpreter_stack() is not None
        or forward_ad._current_level >= 0
    )


class _Settings:
    """Of torch._dynamo, while a fused model runs: hooks are part of what is checked, a model that
    cannot be traced runs as it is, and more variants are kept than by default."""

    _wanted: tuple[tuple[str, Any], ...] = ()

    def __enter__(self) -> None:
        config = torch._dynamo.config
        if not _Settings._wanted:
            _Settings._wanted = _settings()
        # What another thread has set already is that thread's to put back.
        self._before = []
        for name, value in self._wanted:
            before = getattr(config, name)
            if before != value:
                self._before.append((name, before))
                setattr(config, name, value)

    def __exit__(self, *exception: Any) -> None:
        for name, value in self._before:
            setattr(torch._dynamo.config, name, value)


def _settings() -> tuple[tuple[str, Any], ...]:
    config = torch._dynamo.config
    limit = "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit"
    wanted = {
        "skip_nnmodule_hook_guards": False,
        "suppress_errors": True,
        limit: max(64, getattr(config, limit)),
    }
    if torch.__version__ < "2.5":  # a switch then, always so since
        wanted["inline_inbuilt_nn_modules"] = True
    return tuple(wanted.items())


def _call_once(fused: nn.Module, example_inputs: Any) -> None:
    """Runs the model, and puts back what that changed in its buffers and in the random number
    generators."""
    copies = tree_map(lambda t: t.clone() if isinstance(t, Tensor) else t, example_inputs)
    buffers = [(buffer, buffer.detach().clone()) for buffer in fused.buffers()]
    tensors = [*fused.parameters(), *fused.buffers()]
    devices = {tensor.get_device() for tensor in tensors if tensor.is_cuda}
    with torch.random.fork_rng(devices=devices):
        if isinstance(copies, Mapping):
            fused.forward(**copies)
        elif isinstance(copies, (tuple, list)):
            fused.forward(*copies)
        else:
            fused.forward(copies)
    with torch.no_grad():
        for buffer, value in buffers:
            buffer.copy_(value)
