# SPDX-License-Identifier: Apache-2.0
"""One call of the operator: finds what is prepared for calls like it, and runs the library.

Nothing here knows of gradients, autocast or tracing: operator.py and fast.py see to those first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import _epilogue
from .._errors import UpconvError
from .._prepared import Execution
from .._tensors import dense_strides
from .._tuning import on_tuning
from . import interpret, packing
from .packing import Statistics
from .plans import DTYPES, KeptPlan, described, is_vector, plan_for
from .program import DTYPE_NAMES

# stride, padding, output_padding, groups, dilation; all but groups with an entry for each axis
Sizes = tuple[Any, Any, Any, int, Any]
Layout = tuple[tuple[int, ...], tuple[int, ...]]  # shape and strides


_MOST_KEPT = 4096
_SMALL = 1 << 17  # multiply-adds that one thread has done before another is awake


class Call:
    """What is prepared for calls that differ in nothing but memory."""

    __slots__ = (
        "casts",
        "device",
        "execution",
        "is_dense",
        "is_empty",
        "packed_size",
        "packing",
        "run",
        "shape",
        "strides",
        "workspace_size",
    )

    execution: Execution
    run: Callable[..., Tensor]  # (call, x, weight, bias, params, tensors, out=None)


class OtherShape(Exception):
    """The result has not the shape of the tensor that it was to be written into, but this one."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


_calls: dict[Any, Call] = {}
on_tuning(_calls.clear)


def takes(x: Tensor, weight: Tensor) -> bool:
    """Whether the library computes this, rather than PyTorch."""
    return x.dtype in DTYPES and (x.is_cpu or is_nvidia(x)) and weight.dtype == x.dtype


def is_nvidia(x: Tensor) -> bool:
    """Whether it is on a CUDA device; AMD's have the same name in PyTorch."""
    return x.is_cuda and torch.version.hip is None


def run(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    sizes: Sizes,
    text: str,
    params: Sequence[Tensor],
    tensors: Sequence[Tensor],
) -> Tensor:
    """The result of the operator for tensors that takes() accepts."""
    call = find(x, weight, bias, sizes, text, params, tensors)
    if call.casts:
        params, tensors = _readable(params), _readable(tensors)
    return call.run(call, x, weight, bias, params, tensors)


def run_into(
    out: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    sizes: Sizes,
    text: str,
    params: Sequence[Tensor],
    tensors: Sequence[Tensor],
) -> None:
    """As run, with the result written into out: of x's type and device, apart from x and tensors.
    Raises OtherShape."""
    call = find(x, weight, bias, sizes, text, params, tensors, (tuple(out.shape), out.stride()))
    if call.casts:
        params, tensors = _readable(params), _readable(tensors)
    call.run(call, x, weight, bias, params, tensors, out)


def on_one_device(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    sizes: Sizes,
    params: Sequence[Tensor],
    tensors: Sequence[Tensor],
) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """params and tensors on the device of x: as in PyTorch a tensor without axes may be on the CPU.
    Anything else elsewhere is refused: no memory of another device may come to run."""
    params, tensors = _scalars_on(x, params), _scalars_on(x, tensors)
    if any(t is not None and t.device != x.device for t in (weight, bias, *params, *tensors)):
        _check_like_torch(x, weight, bias, sizes)
        _check_operands(x, params, tensors)
    return params, tensors


def _scalars_on(x: Tensor, operands: Sequence[Tensor]) -> Sequence[Tensor]:
    if x.is_cpu:
        return operands
    # Filled rather than copied: the host waits for nothing, and a graph that is being captured does
    # not read the host's memory later.
    return [
        torch.full((), t.item(), dtype=t.dtype, device=x.device) if t.is_cpu and t.dim() == 0 else t
        for t in operands
    ]


def find(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    sizes: Sizes,
    text: str,
    params: Sequence[Tensor],
    tensors: Sequence[Tensor],
    y: Layout | None = None,
) -> Call:
    """What is prepared for such calls, made now if need be. All tensors are on one device. y: of
    the result, if it is not the usual one; raises OtherShape if that cannot be."""
    key: tuple[Any, ...] = (
        x.shape,
        x.stride(),
        x.dtype,
        weight.shape,
        weight.stride(),
        bias if bias is None else (bias.shape, bias.stride()),
        sizes,
        text,
        environment(x),
        y,
    )
    if params or tensors:
        key += tuple([(t.shape, t.stride(), t.dtype) for t in params])
        key += tuple([(t.shape, t.stride(), t.dtype) for t in tensors])
    call = _calls.get(key)
    if call is None:
        call = _prepare(x, weight, bias, sizes, text, params, tensors, y)
        if len(_calls) >= _MOST_KEPT:
            _calls.clear()
        _calls[key] = call
    return call


def _readable(operands: Sequence[Tensor]) -> list[Tensor]:
    """What the library does not read is made float32."""
    return [t if t.dtype in DTYPES else t.to(torch.float32) for t in operands]


def environment(x: Tensor) -> Any:
    """What else decides the plan: threads, or the GPU and whether it may round to TF32."""
    if x.is_cuda:
        return (x.get_device(), x.dtype == torch.float32 and allows_tf32())
    return torch.get_num_threads()


def allows_tf32() -> bool:
    """torch.backends.cudnn.allow_tf32, or its successor fp32_precision."""
    if _precision is None:
        return torch._C._get_cudnn_allow_tf32()
    return _precision("cuda", "conv") == "tf32"


_precision = getattr(torch._C, "_get_fp32_precision_getter", None)


# ---------------------------------------------------------------- preparing


def problem_fields(x: Tensor, weight: Tensor, bias: Tensor | None, sizes: Sizes) -> dict[str, Any]:
    """The convolution, as plan_for and upconv.problem_text take it."""
    stride, padding, output_padding, groups, dilation = sizes
    name = DTYPE_NAMES[x.dtype]
    return {
        "batch": x.shape[0],
        "in_size": x.shape[2:],
        "in_channels": x.shape[1],
        "out_channels": weight.shape[1] * groups,
        "kernel": weight.shape[2:],
        "groups": groups,
        "stride": stride,
        "dilation": dilation,
        "padding": padding,
        "output_padding": output_padding,
        "bias": bias is not None,
        "x": name,
        "w": name,
        "y": name,
    }


def _prepare(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    sizes: Sizes,
    text: str,
    params: Sequence[Tensor],
    tensors: Sequence[Tensor],
    y: Layout | None,
) -> Call:
    nd = weight.dim() - 2
    _check_like_torch(x, weight, bias, sizes)
    _check_operands(x, params, tensors)
    casts = any(t.dtype not in DTYPES for t in (*params, *tensors))
    if casts:
        params, tensors = _readable(params), _readable(tensors)
    x_last, y_last = _is_channels_last(x)
    if y is not None:
        y_last = len(y[0]) == nd + 2 and y[0][1] > 1 and y[1][1] == 1 != y[1][-1]
    device, threads = "cpu", torch.get_num_threads()
    if x.is_cuda:
        device, threads = f"cuda:{x.get_device()}", 0
    elif x.numel() * weight[0].numel() < _SMALL:
        threads = 1
    try:
        kept = plan_for(
            device,
            threads,
            **problem_fields(x, weight, bias, sizes),
            math="tf32" if x.is_cuda and x.dtype == torch.float32 and allows_tf32() else "ieee",
            x_layout="ndhwc" if x_last else "ncdhw",
            y_layout="ndhwc" if y_last else "ncdhw",
            epilogue=text,
        )
        shape = kept.plan.output_shape(x.shape)
        if y is None:
            y = (shape, dense_strides(shape, "ndhwc" if y_last else "ncdhw"))
        elif y[0] != shape:
            raise OtherShape(shape)
        return _prepared(kept, x, weight, bias, params, tensors, y, casts)
    except UpconvError:
        if x.is_cpu:  # what PyTorch refuses as well is refused in its words
            _torch_convolution(nd)(x, weight, bias, *sizes)
        raise


def _prepared(
    kept: KeptPlan,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    params: Sequence[Tensor],
    tensors: Sequence[Tensor],
    y: Layout,
    casts: bool,
) -> Call:
    call = Call()
    call.casts = casts
    call.device = x.device
    call.shape, call.strides = y
    rank = x.dim()
    call.execution = kept.plan.prepare(
        described(x, rank), (0, DTYPES[x.dtype], *y), [described(t, rank) for t in tensors]
    )
    call.workspace_size = call.execution.workspace_size
    call.packed_size = kept.plan.packed_size
    call.packing, call.is_dense = kept.packing(weight, bias, params)
    call.is_empty = 0 in call.shape
    call.run = _run_on_cuda if x.is_cuda else _run_on_cpu
    return call


def _torch_convolution(nd: int) -> Callable[..., Tensor]:
    return (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[nd - 1]


def _check_like_torch(x: Tensor, weight: Tensor, bias: Tensor | None, sizes: Sizes) -> None:
    """Raises PyTorch's own error for what its function refuses by shapes, types and devices."""
    nd = weight.dim() - 2
    if not 1 <= nd <= 3 or x.dim() != weight.dim():
        raise RuntimeError(
            f"Expected {nd + 1}D (unbatched) or {nd + 2}D (batched) input to conv_transpose{nd}d,"
            f" but got input of size: {list(x.shape)}"
        )
    for tensor in (weight, bias):
        if tensor is not None and (tensor.dtype != x.dtype or tensor.device != x.device):
            raise RuntimeError(
                f"Input type ({x.dtype} on {x.device}) and weight or bias type ({tensor.dtype} on"
                f" {tensor.device}) should be the same"
            )
    like = [t if t is None else torch.empty_like(t, device="meta") for t in (x, weight, bias)]
    _torch_convolution(nd)(*like, *sizes)


def _check_operands(x: Tensor, params: Sequence[Tensor], tensors: Sequence[Tensor]) -> None:
    for name, group in (("params", params), ("tensors", tensors)):
        for index, tensor in enumerate(group):
            where = f"{name}[{index}] of shape {list(tensor.shape)}"
            if tensor.device != x.device:
                raise RuntimeError(
                    f"{where} on {tensor.device}: must be on {x.device}, like the input"
                )
            if tensor.is_complex():
                raise RuntimeError(f"{where} of type {tensor.dtype}: must be real, like the input")
            if tensor.dim() > x.dim():
                raise RuntimeError(f"{where}: must have at most {x.dim()} axes")
            if name == "params" and not is_vector(tensor):
                raise RuntimeError(
                    f"{where}: must have one element, or one per channel along one axis"
                )


def _is_channels_last(x: Tensor) -> tuple[bool, bool]:
    """Whether x is laid out so, and whether the result shall be."""
    if x.dim() == 3:
        return x.stride(1) == 1 and x.shape[1] > 1 and x.stride(2) != 1, False
    last = memory_format(x) != torch.contiguous_format
    return last, last


def memory_format(x: Tensor) -> torch.memory_format:
    """That of the result."""
    if x.dim() not in (4, 5) or x.is_contiguous():
        return torch.contiguous_format
    return torch._prims_common.suggest_memory_format(x)


# ---------------------------------------------------------------- running

_local = threading.local()


def _workspace(size: int) -> int:
    """Memory of this thread, at least size bytes."""
    buffer = getattr(_local, "workspace", None)
    if buffer is None or buffer.numel() < size:
        buffer = _local.workspace = torch.empty(size, dtype=torch.uint8)
    return buffer.data_ptr()


def _run_on_cpu(
    call: Call,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    params: Sequence[Tensor],
    tensors: Sequence[Tensor],
    out: Tensor | None = None,
) -> Tensor:
    y = x.new_empty_strided(call.shape, call.strides) if out is None else out
    if call.is_empty:
        return y
    packed = packing.packed_on_cpu(
        call.packing, call.packed_size, call.is_dense, weight, bias, params
    )
    Statistics.own_calls += 1
    call.execution.run(
        x.data_ptr(),
        y.data_ptr(),
        [t.data_ptr() for t in tensors] if tensors else (),
        packed.data_ptr(),
        _workspace(call.workspace_size) if call.workspace_size else 0,
    )
    return y


def _run_on_cuda(
    call: Call,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    params: Sequence[Tensor],
    tensors: Sequence[Tensor],
    out: Tensor | None = None,
) -> Tensor:
    index = call.device.index
    if torch._C._cuda_getDevice() != index:
        with torch.cuda.device(index):
            return _run_on_cuda(call, x, weight, bias, params, tensors, out)
    y = x.new_empty_strided(call.shape, call.strides) if out is None else out
    if call.is_empty:
        return y
    stream = torch._C._cuda_getCurrentRawStream(index)
    promised = packing.is_promised(weight, bias, params)
    packed = packing.packed_on_cuda(
        call.packing, call.packed_size, promised, weight, bias, params, stream
    )
    workspace = None
    if call.workspace_size:
        workspace = torch.empty(call.workspace_size, dtype=torch.uint8, device=call.device)
    Statistics.own_calls += 1
    call.execution.run(
        x.data_ptr(),
        y.data_ptr(),
        [t.data_ptr() for t in tensors] if tensors else (),
        packed.data_ptr(),
        0 if workspace is None else workspace.data_ptr(),
        stream,
    )
    return y


def fall_back(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    sizes: Sizes,
    text: str,
    params: Sequence[Tensor],
    tensors: Sequence[Tensor],
) -> Tensor:
    """The same by PyTorch's operators, one by one."""
    Statistics.fallbacks += 1
    y = by_torch(x, weight, bias, sizes, text, params, tensors)
    return y.contiguous(memory_format=memory_format(x))


def by_torch(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    sizes: Sizes,
    text: str,
    params: Sequence[Tensor],
    tensors: Sequence[Tensor],
) -> Tensor:
    """As fall_back, without a promise about the result's layout."""
    nd = weight.dim() - 2
    y = _torch_convolution(nd)(x, weight, bias, *sizes)
    if not text:
        return y
    _epilogue._check_text(nd, text)
    return interpret.evaluate(text, y, params, tensors)
