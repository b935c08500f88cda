# SPDX-License-Identifier: Apache-2.0
"""The short way in C (python/csrc), for calls so small that Python's time would show.

It is optional: without it, or for a call that it does not know, fast.py does the same in Python.
What it needs to know of a call is prepared here, the second time that such a call comes.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import weakref
from ctypes import c_void_p, cast
from typing import Any

import torch
from torch import Tensor

from .. import _library
from .._tuning import on_tuning
from . import autograd, execute, packing

_WORKSPACE = 32768  # bytes: as WORKSPACE_ON_STACK in short.h
_MOST_BYTES = 1 << 18  # of parameters: what a comparison may read without letting others run
_MOST_OPERANDS = 16
COMPARED, PACKED_ANEW, COUNTED = range(3)  # as enum mode in prepared.c
_MOST_KEPT = 4096

# Keys hold the identity of weight and bias: what is prepared goes when one of them does.
_watched: dict[Any, list[weakref.ref[Tensor]]] = {}


def _load() -> Any:
    """The module, which lies beside the library; None if there is none, or UPCONV_SHORT=0."""
    path = os.path.join(os.path.dirname(_library.PATH), "upconv_short.so")
    if os.environ.get("UPCONV_SHORT") == "0" or not os.path.isfile(path):
        return None
    try:
        loader = importlib.machinery.ExtensionFileLoader("upconv_short", path)
        spec = importlib.util.spec_from_loader("upconv_short", loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
        return module
    except ImportError:  # made for another Python
        return None


module = _load()


def set_up(checks: tuple[Any, ...], levels: Any) -> None:
    """checks: functions without arguments; the short way is closed while one of them returns a
    true value. levels: a module whose _current_level must be negative."""
    if module is None:
        return

    class Prepared(autograd.Fused):
        """Fused for what the C module prepared, which takes the place of the settings."""

        forward = staticmethod(module.forward)

    module.setup(
        # what Tensor.__dlpack_c_exchange_api__ is, unless another package has put its own there
        getattr(torch._C, "_dlpack_exchange_api", lambda: None)(),
        torch.strided,
        (torch.float32, torch.float16, torch.bfloat16),
        Tensor,
        torch.nn.Parameter,
        levels,
        torch.is_grad_enabled,
        torch.get_num_threads,
        _environment,
        Prepared.apply,
        *checks,
    )
    packing.Statistics.more_calls = module.calls
    packing.on_promise.append(module.known.clear)
    on_tuning(module.known.clear)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=module.known.clear)


def _environment(x: Tensor) -> Any:
    return (execute.environment(x), torch._C._cuda_getDevice() if x.is_cuda else None)


def remember(arguments: tuple[Any, ...], call: execute.Call, sizes: execute.Sizes) -> None:
    """arguments: those of a call that went well, as module.call takes them."""
    x, weight, bias, text, params, tensors = *arguments[1:4], *arguments[9:]
    if not _is_fit(call, x, weight, bias, params, tensors):
        return
    mode, kept = _mode(call, x, weight, bias, params)
    if mode is None:
        return
    prepared = prepare(mode, call, x, kept, autograd.Settings(sizes, text, len(params)))
    if len(module.known) >= _MOST_KEPT:
        module.known.clear()
        _watched.clear()
    key = module.store(*arguments, prepared)
    if key is None:
        return
    owners = [weight] if bias is None else [weight, bias]
    _watched[key] = [weakref.ref(tensor, lambda _: _forget(key)) for tensor in owners]


def _mode(
    call: execute.Call, x: Tensor, weight: Tensor, bias: Tensor | None, params: Any
) -> tuple[int | None, packing.Entry | None]:
    """When packed weights may serve again, and the packed weights; None: nothing to remember."""
    if packing.is_promised(weight, bias, params):
        kept = packing.find(weight, call.packing)
        usable = kept is not None and kept.stamp == packing.stamp_of(weight, bias, params)
        return (COUNTED if usable and not weight.is_inference() else None), kept
    if x.is_cuda:
        return PACKED_ANEW, None
    kept = packing.find(weight, call.packing)
    return (COMPARED if kept is not None and kept.copies is not None else None), kept


def prepare(
    mode: int,
    call: execute.Call,
    x: Tensor,
    kept: packing.Entry | None,
    settings: autograd.Settings,
) -> Any:
    """What the C module runs."""
    frame, pack_frame = call.execution._make_frame(), call.packing._make_frame()
    origins: tuple[Any, ...] = ()
    if mode == COMPARED:
        origins = tuple(copy[1:] for copy in kept.copies)
    elif mode == COUNTED:
        origins = tuple(stamp[1:] for stamp in kept.stamp)
    packed_size = -(-call.packed_size // 256) * 256 if mode == PACKED_ANEW else 0
    objects = (
        torch.empty_like,
        _without_memory(call, x),
        torch.empty(0, dtype=torch.uint8, device=x.device),
        (packed_size + call.workspace_size,),
        (1,),
        torch._C._cuda_getCurrentRawStream if x.is_cuda else None,
        x.get_device(),
        torch.cuda.is_current_stream_capturing if x.is_cuda else None,
        kept.stream if x.is_cuda and kept is not None else None,
        execute.run,
        settings,
        (kept, call),
    )
    return module.Prepared(
        mode,
        _address(_library.lib.upconv_execute),
        _address(_library.lib.upconv_plan_pack),
        call.execution.plan.handle,
        bytes(frame.keep[0]),
        bytes(pack_frame.keep[0]),
        bytes(pack_frame.keep[1] or b""),
        bytes(frame.keep[1] or b""),
        origins,
        0 if kept is None else kept.buffer.data_ptr(),
        packed_size,
        objects,
    )


def _without_memory(call: execute.Call, x: Tensor) -> Tensor:
    """A tensor of the result's shape and strides. One like another is made sooner than by these."""
    like = x.detach().new_empty_strided(call.shape, call.strides)
    like.untyped_storage().resize_(0)
    return like


def _forget(key: Any) -> None:
    module.known.pop(key, None)
    _watched.pop(key, None)


def _address(function: Any) -> int:
    return cast(function, c_void_p).value or 0


def _is_fit(
    call: execute.Call, x: Tensor, weight: Tensor, bias: Tensor | None, params: Any, tensors: Any
) -> bool:
    if call.casts or call.is_empty or max(len(params), len(tensors)) > _MOST_OPERANDS:
        return False
    if x.is_cuda:
        return torch._C._cuda_getDevice() == x.get_device()
    if packing.is_promised(weight, bias, params):
        return True
    return (
        call.workspace_size <= _WORKSPACE and packing.size_of(weight, bias, params) <= _MOST_BYTES
    )
