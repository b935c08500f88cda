# SPDX-License-Identifier: Apache-2.0
"""The C interface as Python objects: contexts, problems, plans. No arrays here: memory is passed as
addresses.

A tensor is described by a Tensor, or any tuple of its fields:

    Tensor(pointer, dtype, shape, stride, offset=())

pointer is an address (0 or None: no memory), dtype one of F32, F16, BF16, strides count elements,
and offset, if not empty, holds the coordinates of the view's first element in the whole tensor
(sub-volumes). Who passes an address keeps the memory alive until the call returns; on a GPU, until
the stream has passed it.

Life of a computation:

    plan = Plan(context("cpu"), problem_text(...))  # once per problem: planning, compiling
    plan.pack(weight, bias, params, packed)         # once per change of the weights
    run = plan.prepare(x, y, tensors)               # once per set of shapes, strides and types
    run.run(x_ptr, y_ptr, tensor_ptrs, packed, workspace, stream)      # as often as you like

All objects may be used by several threads at once. They survive a fork on the CPU: the child makes
its own threads and plans on first use. They cannot be pickled: pickle the text and plan anew.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from ctypes import addressof, byref, c_int64, c_size_t, c_void_p, pointer
from typing import Any, NamedTuple

from . import _library as c
from . import _tuning
from ._errors import (
    DeviceError,
    InvalidArgumentError,
    OutOfMemoryError,
    SizeOverflowError,
    UnsupportedError,
    UpconvError,
)
from ._errors import check as _check
from ._handles import Owner as _Owner
from ._library import lib
from ._prepared import Execution, Packing
from ._problem import Problem, compare, names_of, problem_text, text_of
from ._tensors import (
    ALIGNMENT,
    BF16,
    DTYPE_NAMES,
    DTYPE_SIZES,
    F16,
    F32,
    LAYOUT_NAMES,
    MATH_NAMES,
    Tensor,
    TensorLike,
    arguments_of,
    dense_strides,
    extents,
    parameters_of,
    tensor_array,
)

__all__ = [
    "ALIGNMENT",
    "BF16",
    "DTYPE_NAMES",
    "DTYPE_SIZES",
    "F16",
    "F32",
    "LAYOUT_NAMES",
    "MATH_NAMES",
    "Context",
    "DeviceError",
    "Execution",
    "InvalidArgumentError",
    "OutOfMemoryError",
    "Packing",
    "Parameters",
    "Plan",
    "Problem",
    "SizeOverflowError",
    "Tensor",
    "TensorLike",
    "UnsupportedError",
    "UpconvError",
    "Work",
    "compare",
    "context",
    "dense_strides",
    "problem_text",
]


# ---------------------------------------------------------------- context


class Context(_Owner):
    """A device with its threads and caches: "cpu", "cuda", "cuda:1", or "cuda:sm_90a", an
    architecture to plan for without a device. threads: of the CPU, 0 for as many as the affinity
    mask allows. See also context()."""

    def __init__(self, device: str = "cpu", threads: int = 0) -> None:
        self._device = device
        self._threads = threads
        self._pid = os.getpid()
        self._create()

    def _create(self) -> None:
        if (
            self._pid != os.getpid()
            and self._device.startswith("cuda")
            and "sm_" not in self._device
        ):
            raise DeviceError(
                f"device = {self._device}: CUDA does not survive a fork; start processes with the"
                " method 'spawn'"
            )
        options = c.CContextOptions(self._device.encode(), self._threads)
        handle = c_void_p()
        _check(lib.upconv_context_create(byref(options), byref(handle)))
        self._own(handle.value, lib.upconv_context_destroy)

    @property
    def device(self) -> str:
        """As given."""
        return self._device

    @property
    def threads(self) -> int:
        """How many threads the CPU has; 0 with a GPU."""
        return lib.upconv_context_threads(self.handle)

    @property
    def description(self) -> str:
        """One line, such as "cpu: avx512, 2 threads"."""
        return lib.upconv_context_describe(self.handle).decode()

    def __repr__(self) -> str:
        return f"<upconv.Context {self.description}>"


_contexts: dict[tuple[str, int], Context] = {}


def context(device: str = "cpu", threads: int = 0) -> Context:
    """The context of this process for a device; made on first use, then kept."""
    key = (device, threads)
    # Of two threads that come first at once, one makes a context in vain.
    return _contexts.get(key) or _contexts.setdefault(key, Context(device, threads))


# ---------------------------------------------------------------- plan


class Work(NamedTuple):
    """Of one run at the nominal extents; see upconv_work."""

    source_flop: float
    planned_flop: float
    source_bytes: float
    planned_bytes: float


class Parameters(NamedTuple):
    """Weights, bias and epilogue parameters as tensors, and the objects that own their memory."""

    weight: TensorLike
    bias: TensorLike | None = None
    params: Sequence[TensorLike] = ()
    keep: Any = None


class Plan(_Owner):
    """How to compute a problem on a context's device; immutable, usable by many threads at once.

    problem: text (with its epilogue behind '|') or a Problem. candidate: the name of one to force.
    constants: parameters, in host memory, that will never change: rules may
    then look at their values. no_rewrite leaves the program as written; no_fuse runs operator by
    operator. tuning: "off" (the cost model chooses), "stored" (a measured decision where there is
    one), "measure" (measured now where there is none) or "default" (as UPCONV_TUNE says); None: as
    upconv.tune says.
    """

    def __init__(
        self,
        context: Context,
        problem: str | Problem,
        *,
        candidate: str | None = None,
        constants: Parameters | None = None,
        no_rewrite: bool = False,
        no_fuse: bool = False,
        tuning: str | None = None,
    ) -> None:
        tuning = _tuning.current() if tuning is None else tuning
        if tuning not in _tuning.MODES:
            raise InvalidArgumentError(f"tuning = {tuning!r}: must be one of {_tuning.MODES}")
        self.context = context
        self.problem = problem if isinstance(problem, Problem) else Problem(problem)
        self.text: str = self.problem.text
        self._rank: int = self.problem.spatial_dims + 2
        self._constants = constants
        self._options = (candidate, no_rewrite, no_fuse, _tuning.MODES.index(tuning))
        self._create()
        self.candidate: str = lib.upconv_plan_candidate(self._handle).decode()
        self.rules = names_of(lib.upconv_plan_rule, self._handle)
        self.packed_size: int = lib.upconv_plan_packed_size(self._handle)

    def _create(self) -> None:
        candidate, no_rewrite, no_fuse, tuning = self._options
        options = c.CPlanOptions()
        options.candidate = candidate.encode() if candidate is not None else None
        options.no_rewrite, options.no_fuse, options.tuning = no_rewrite, no_fuse, tuning
        if self._constants is not None:
            weight, bias, params, _ = self._constants
            options.constants = pointer(parameters_of(weight, bias, tensor_array(params)))
        handle = c_void_p()
        _check(
            lib.upconv_plan_create(
                self.context.handle,
                self.problem.handle,
                self.problem._epilogue,
                byref(options),
                byref(handle),
            )
        )
        self._own(handle.value, lib.upconv_plan_destroy, self.context)

    @property
    def candidates(self) -> tuple[str, ...]:
        """Names of all candidates that apply."""
        return names_of(lib.upconv_plan_candidate_name, self.handle)

    @property
    def param_names(self) -> tuple[str, ...]:
        """Of the epilogue's parameters, in the order in which pack wants them."""
        return self.problem.param_names

    @property
    def tensor_names(self) -> tuple[str, ...]:
        """Of the epilogue's extra tensors, in the order in which execute wants them."""
        return self.problem.tensor_names

    def explain(self) -> str:
        """For a person: phases, taps, rules fired, FLOP and bytes, candidates and costs."""
        return text_of(lib.upconv_plan_print, self.handle)

    def source(self) -> str:
        """The generated CUDA program; UnsupportedError on the CPU, whose kernels are built in."""
        return text_of(lib.upconv_plan_source, self.handle)

    def work(self) -> Work:
        """FLOP and bytes of one run, as written and as planned."""
        work = c.CWork()
        _check(lib.upconv_plan_work(self.handle, byref(work)))
        return Work(work.source_flop, work.planned_flop, work.source_bytes, work.planned_bytes)

    def output_shape(self, x_shape: Sequence[int]) -> tuple[int, ...]:
        """Shape of the whole output for an x of that shape."""
        shape = (c_int64 * c.MAX_RANK)()
        _check(
            lib.upconv_plan_output_shape(
                self.handle, extents(x_shape, self._rank, "x_shape"), shape
            )
        )
        return tuple(shape[: self._rank])

    def workspace_size(self, x_shape: Sequence[int]) -> int:
        """Bytes of workspace, aligned to ALIGNMENT, for a whole x of that shape."""
        size = c_size_t()
        _check(
            lib.upconv_plan_workspace_size(
                self.handle, extents(x_shape, self._rank, "x_shape"), byref(size)
            )
        )
        return size.value

    def input_box(
        self, x_shape: Sequence[int], y_offset: Sequence[int], y_shape: Sequence[int]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Offset and shape of the box of x that a box of the output needs; x_shape: the whole x."""
        offset, shape = (c_int64 * c.MAX_RANK)(), (c_int64 * c.MAX_RANK)()
        _check(
            lib.upconv_plan_input_box(
                self.handle,
                extents(x_shape, self._rank, "x_shape"),
                extents(y_offset, self._rank, "y_offset"),
                extents(y_shape, self._rank, "y_shape"),
                offset,
                shape,
            )
        )
        return tuple(offset[: self._rank]), tuple(shape[: self._rank])

    def pack(
        self,
        weight: TensorLike,
        bias: TensorLike | None,
        params: Sequence[TensorLike],
        packed: int,
        stream: int | None = None,
    ) -> None:
        """Packs weights, bias and parameters into packed_size bytes at packed, on the device."""
        parameters = parameters_of(weight, bias, tensor_array(params))
        _check(lib.upconv_plan_pack(self.handle, addressof(parameters), packed, stream))

    def execute(
        self,
        x: TensorLike,
        y: TensorLike,
        tensors: Sequence[TensorLike],
        packed: int,
        workspace: int | None,
        workspace_size: int,
        stream: int | None = None,
        x_shape: Sequence[int] | None = None,
    ) -> None:
        """Runs the plan once. y's shape and offset say which box of the output is wanted; x_shape
        is the shape of the whole x when x is only the part that input_box named."""
        arguments = arguments_of(x, y, tensor_array(tensors), x_shape)
        arguments.packed, arguments.workspace = packed, workspace
        arguments.workspace_size, arguments.stream = workspace_size, stream
        _check(lib.upconv_execute(self.handle, addressof(arguments)))

    def prepare(
        self,
        x: TensorLike,
        y: TensorLike,
        tensors: Sequence[TensorLike] = (),
        x_shape: Sequence[int] | None = None,
    ) -> Execution:
        """execute with everything fixed but the addresses; the pointers given here are not used."""
        return Execution(self, x, y, tensors, x_shape)

    def prepare_pack(
        self, weight: TensorLike, bias: TensorLike | None, params: Sequence[TensorLike] = ()
    ) -> Packing:
        """pack with everything fixed but the addresses; the pointers given here are not used."""
        return Packing(self, weight, bias, params)

    def __repr__(self) -> str:
        return f"<upconv.Plan {self.candidate} on {self.context.device}: {self.text}>"
