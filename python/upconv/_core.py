# SPDX-License-Identifier: Apache-2.0
"""The C interface as Python objects: contexts, problems, plans. No arrays: memory is passed as addresses.

A tensor is described by a Tensor, or any tuple of its fields:

    Tensor(pointer, dtype, shape, stride, offset=())

pointer is an address (0 or None: no memory), dtype one of F32, F16, BF16, strides count elements, and offset, if not
empty, holds the coordinates of the view's first element in the whole tensor (sub-volumes). Who passes an address keeps
the memory alive until the call returns; on a GPU, until the stream has passed it.

Life of a computation:

    plan = Plan(context("cpu"), problem_text(...))     # once per problem: planning, on CUDA compiling
    plan.pack(weight, bias, params, packed)            # once per change of the weights
    run = plan.prepare(x, y, tensors)                  # once per set of shapes, strides and types
    run.run(x_ptr, y_ptr, tensor_ptrs, packed, workspace, stream)      # as often as you like

All objects may be used by several threads at once. They survive a fork on the CPU (the child makes its own threads and
plans on first use). They cannot be pickled: pickle the text and plan anew.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from ctypes import addressof, byref, c_double, c_int64, c_size_t, c_void_p, pointer
from typing import Any, NamedTuple, NoReturn

from . import _library as c
from ._library import lib

F32, F16, BF16 = 0, 1, 2
DTYPE_NAMES = ("f32", "f16", "bf16")
DTYPE_SIZES = (4, 2, 2)
LAYOUT_NAMES = ("ncdhw", "ndhwc")
MATH_NAMES = ("ieee", "tf32")
ALIGNMENT = 64  # of packed buffers and workspaces, in bytes


# ---------------------------------------------------------------- errors


class UpconvError(RuntimeError):
    """What the library refuses or fails at. The message names the argument, its value, and what is allowed."""


class InvalidArgumentError(UpconvError, ValueError):
    """A value that can never be right."""


class UnsupportedError(UpconvError, NotImplementedError):
    """Meaningful, but not offered."""


class SizeOverflowError(UpconvError, OverflowError):
    """A size, or a product of sizes, that does not fit 64 bits."""


class OutOfMemoryError(UpconvError, MemoryError):
    """No memory, on the host or on the device."""


class DeviceError(UpconvError):
    """The device or its driver is missing or failed."""


_ERRORS: dict[int, type[UpconvError]] = {
    c.INVALID_ARGUMENT: InvalidArgumentError,
    c.UNSUPPORTED: UnsupportedError,
    c.OVERFLOW: SizeOverflowError,
    c.OUT_OF_MEMORY: OutOfMemoryError,
    c.DEVICE_ERROR: DeviceError,
}


def _fail(status: int) -> NoReturn:
    message = lib.upconv_last_error().decode(errors="replace")
    raise _ERRORS.get(status, UpconvError)(message)


def _check(status: int) -> None:
    if status:
        _fail(status)


# ---------------------------------------------------------------- tensors


class Tensor(NamedTuple):
    """A view of memory; see the top of this module."""

    pointer: int | None
    dtype: int
    shape: Sequence[int]
    stride: Sequence[int]
    offset: Sequence[int] = ()


TensorLike = Tensor | tuple[Any, ...]


def dense_strides(shape: Sequence[int], layout: str = "ncdhw") -> tuple[int, ...]:
    """Strides in elements of a dense tensor; "ndhwc" for channels last (rank 3 to 5, in the order N, C, spatial)."""
    order = list(range(len(shape)))
    if layout == "ndhwc" and len(shape) >= 3:
        order = [0, *order[2:], 1]
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(int(shape[axis]), 1)
    return tuple(strides)


def _fill(target: c.CTensor, tensor: TensorLike | None) -> None:
    """Writes tensor into an empty C structure; None leaves it empty: no data."""
    if tensor is None:
        return
    address, dtype, shape, stride, *rest = tensor
    rank = len(shape)
    if rank > c.MAX_RANK or len(stride) != rank:
        raise InvalidArgumentError(
            f"tensor with shape {tuple(shape)} and strides {tuple(stride)}: both must have the same length,"
            f" at most {c.MAX_RANK}"
        )
    target.data = address or None
    target.dtype = dtype
    target.rank = rank
    target.shape[:rank] = list(shape)
    target.stride[:rank] = list(stride)
    if rest and rest[0]:
        target.offset[:rank] = list(rest[0])


def _tensor_array(tensors: Sequence[TensorLike]) -> ctypes.Array[c.CTensor] | None:
    if not tensors:
        return None
    array = (c.CTensor * len(tensors))()
    for target, tensor in zip(array, tensors):
        _fill(target, tensor)
    return array


def _parameters(
    weight: TensorLike, bias: TensorLike | None, params: Sequence[TensorLike]
) -> c.CParameters:
    result = c.CParameters()
    _fill(result.weight, weight)
    _fill(result.bias, bias)
    array = _tensor_array(params)
    if array is not None:
        result.params = array  # ctypes keeps the array alive with the structure
        result.param_count = len(params)
    return result


def _extents(shape: Iterable[int], rank: int, name: str) -> ctypes.Array[c_int64]:
    values = [int(extent) for extent in shape]
    if len(values) != rank:
        raise InvalidArgumentError(f"{name} = {tuple(values)}: must have {rank} entries")
    return (c_int64 * rank)(*values)


def _text_of(function: Callable[..., int], *handles: Any) -> str:
    """What a printing function of the library writes."""
    length = c_size_t()
    _check(function(*handles, None, 0, byref(length)))
    buffer = ctypes.create_string_buffer(length.value + 1)
    _check(function(*handles, buffer, len(buffer), None))
    return buffer.value.decode()


def _names(function: Callable[[Any, int], bytes | None], handle: Any) -> tuple[str, ...]:
    names: list[str] = []
    while (name := function(handle, len(names))) is not None:
        names.append(name.decode())
    return tuple(names)


# ---------------------------------------------------------------- objects that own a handle of the library

_rebuilding = threading.RLock()


class _Owner:
    """An object that owns a C object. In a forked child the C object is abandoned (its threads are gone, its locks may
    be held for ever) and made anew on first use."""

    _handle: int | None
    _finalizer: weakref.finalize[Any, Any]

    def _own(self, handle: int | None, destroy: Callable[..., object], *keep: object) -> None:
        """keep: what must live until the handle is destroyed. Nothing is destroyed at exit: the system does it."""
        self._handle = handle
        self._finalizer = weakref.finalize(self, _destroy, destroy, handle, keep)
        self._finalizer.atexit = False
        _owners.add(self)

    def _create(self) -> None:
        raise NotImplementedError

    @property
    def handle(self) -> int:
        """The address of the C object."""
        handle = self._handle
        if handle is None:
            with _rebuilding:
                if self._handle is None:
                    self._create()
                handle = self._handle
        assert handle is not None
        return handle

    def __copy__(self) -> _Owner:
        return self  # immutable

    def __deepcopy__(self, memo: object) -> _Owner:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"upconv: a {type(self).__name__} cannot be pickled, as it holds memory, threads or a device of this"
            " process; pickle its text and make it anew"
        )


def _destroy(destroy: Callable[..., object], handle: int, keep: object) -> None:
    destroy(handle)


_owners: weakref.WeakSet[_Owner] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    global _rebuilding, _contexts_lock
    _rebuilding, _contexts_lock = threading.RLock(), threading.Lock()
    for owner in list(_owners):
        if isinstance(owner, (Context, Plan)):
            owner._finalizer.detach()
            owner._handle = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


# ---------------------------------------------------------------- context


class Context(_Owner):
    """A device with its threads and caches: "cpu", "cuda", "cuda:1", or "cuda:sm_90a", an architecture to plan for
    without a device. threads: of the CPU, 0 for as many as the affinity mask allows. See also context()."""

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
                f"device = {self._device}: CUDA does not survive a fork; start processes with the method 'spawn'"
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
_contexts_lock = threading.Lock()


def context(device: str = "cpu", threads: int = 0) -> Context:
    """The context of this process for a device; made on first use, then kept."""
    key = (device, threads)
    found = _contexts.get(key)
    if found is None:
        with _contexts_lock:
            found = _contexts.get(key)
            if found is None:
                found = _contexts[key] = Context(device, threads)
    return found


# ---------------------------------------------------------------- problem


def _axes(value: int | Sequence[int]) -> str:
    return (
        str(int(value)) if not isinstance(value, Sequence) else "x".join(str(int(v)) for v in value)
    )


def problem_text(
    *,
    in_channels: int,
    out_channels: int,
    kernel: Sequence[int],
    in_size: Sequence[int],
    batch: int = 1,
    groups: int = 1,
    stride: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    padding_end: int | Sequence[int] | None = None,
    output_padding: int | Sequence[int] = 0,
    bias: bool = False,
    x: str = "f32",
    w: str = "f32",
    y: str = "f32",
    math: str = "ieee",
    x_layout: str = "ncdhw",
    y_layout: str = "ncdhw",
    epilogue: str = "",
) -> str:
    """The text form of a problem. The lengths of in_size and kernel are the number of spatial axes; padding is that at
    the beginning and, unless padding_end says otherwise, at the end. Nothing is checked here."""
    words = [
        f"n{batch} ci{in_channels} co{out_channels} g{groups} in{_axes(in_size)} k{_axes(kernel)}",
        f"s{_axes(stride)} d{_axes(dilation)} p{_axes(padding)}",
        f"op{_axes(output_padding)}",
    ]
    if padding_end is not None:
        words.append(f"pe{_axes(padding_end)}")
    if bias:
        words.append("bias")
    words.append(f"x={x} w={w} y={y} math={math} xlayout={x_layout} ylayout={y_layout}")
    if epilogue:
        words.append("| " + epilogue)
    return " ".join(words)


class Problem(_Owner):
    """A transposed convolution and what follows it, read from text (see problem_text); immutable."""

    def __init__(self, text: str) -> None:
        if "\0" in text:
            raise InvalidArgumentError("text: must not contain a zero character")
        problem, epilogue = c_void_p(), c_void_p()
        _check(lib.upconv_problem_parse(text.encode(), byref(problem), byref(epilogue)))
        self._own(problem.value, lib.upconv_problem_destroy)
        self._epilogue = epilogue.value
        weakref.finalize(self, lib.upconv_epilogue_destroy, self._epilogue).atexit = False
        self._desc = c.CProblemDesc()
        _check(lib.upconv_problem_get_desc(self._handle, byref(self._desc)))
        self.text: str = _text_of(lib.upconv_problem_print, self._handle, self._epilogue)
        self.param_names = _names(lib.upconv_epilogue_param_name, self._epilogue)
        self.tensor_names = _names(lib.upconv_epilogue_tensor_name, self._epilogue)

    @classmethod
    def from_fields(cls, **fields: Any) -> Problem:
        """From the arguments of problem_text."""
        return cls(problem_text(**fields))

    def _per_axis(self, name: str) -> tuple[int, ...]:
        return tuple(getattr(self._desc, name)[: self.spatial_dims])

    # Named as the fields of upconv_problem_desc.
    spatial_dims = property(lambda self: int(self._desc.spatial_dims))
    batch = property(lambda self: int(self._desc.batch))
    in_channels = property(lambda self: int(self._desc.in_channels))
    out_channels = property(lambda self: int(self._desc.out_channels))
    groups = property(lambda self: int(self._desc.groups))
    in_size = property(lambda self: self._per_axis("in_size"))
    kernel = property(lambda self: self._per_axis("kernel"))
    stride = property(lambda self: self._per_axis("stride"))
    dilation = property(lambda self: self._per_axis("dilation"))
    pad_begin = property(lambda self: self._per_axis("pad_begin"))
    pad_end = property(lambda self: self._per_axis("pad_end"))
    output_padding = property(lambda self: self._per_axis("output_padding"))
    bias = property(lambda self: bool(self._desc.bias))
    x_dtype = property(lambda self: int(self._desc.x_dtype))
    w_dtype = property(lambda self: int(self._desc.w_dtype))
    y_dtype = property(lambda self: int(self._desc.y_dtype))
    x_layout = property(lambda self: LAYOUT_NAMES[self._desc.x_layout])
    y_layout = property(lambda self: LAYOUT_NAMES[self._desc.y_layout])
    math = property(lambda self: MATH_NAMES[self._desc.math])

    @property
    def x_shape(self) -> tuple[int, ...]:
        """Shape of x at the nominal extents."""
        return (self.batch, self.in_channels, *self.in_size)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """[in_channels, out_channels / groups, kernel...]"""
        return (self.in_channels, self.out_channels // self.groups, *self.kernel)

    def conv_shape(self) -> tuple[int, ...]:
        """Shape of the convolution's output at the nominal extents."""
        shape = (c_int64 * c.MAX_RANK)()
        _check(lib.upconv_problem_conv_shape(self.handle, shape))
        return tuple(shape[: self.spatial_dims + 2])

    def output_shape(self) -> tuple[int, ...]:
        """Shape of the result at the nominal extents."""
        shape = (c_int64 * c.MAX_RANK)()
        _check(lib.upconv_output_shape(self.handle, self._epilogue, shape))
        return tuple(shape[: self.spatial_dims + 2])

    def reference(
        self,
        weight: TensorLike,
        bias: TensorLike | None,
        params: Sequence[TensorLike],
        x: TensorLike,
        tensors: Sequence[TensorLike],
        value: int,
        bound: int,
        *,
        y_dtype: int | None = None,
        operand_rounding: float = 0.0,
        tensor_core: bool = False,
    ) -> None:
        """The float64 oracle: fills two dense float64 arrays of the output's shape, given by address, with the values
        and the errors that correct arithmetic may have."""
        parameters = _parameters(weight, bias, params)
        arguments = _arguments(x, None, tensors)
        arguments.y.dtype = self.y_dtype if y_dtype is None else y_dtype
        model = c.CErrorModel(operand_rounding, tensor_core)
        _check(
            lib.upconv_reference(
                self.handle,
                self._epilogue,
                byref(parameters),
                byref(arguments),
                byref(model),
                value,
                bound,
            )
        )

    def __repr__(self) -> str:
        return f"<upconv.Problem {self.text}>"


def compare(y: TensorLike, value: int, bound: int) -> tuple[float, int]:
    """The largest |y - value| / bound over all elements (right if at most 1), and its index in dense order."""
    tensor, worst, where = c.CTensor(), c_double(), c_int64()
    _fill(tensor, y)
    _check(lib.upconv_compare(byref(tensor), value, bound, byref(worst), byref(where)))
    return worst.value, where.value


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


def _arguments(
    x: TensorLike,
    y: TensorLike | None,
    tensors: Sequence[TensorLike],
    x_shape: Sequence[int] | None = None,
) -> c.CArguments:
    result = c.CArguments()
    _fill(result.x, x)
    _fill(result.y, y)
    array = _tensor_array(tensors)
    if array is not None:
        result.tensors = array
        result.tensor_count = len(tensors)
    if x_shape is not None:
        result.x_shape = _extents(x_shape, len(x[2]), "x_shape")
    return result


class Plan(_Owner):
    """How to compute a problem on a context's device; immutable, usable by many threads at once.

    problem: text (with its epilogue behind '|') or a Problem. candidate: the name of one to force. constants:
    parameters, in host memory, that will never change: rules may then look at their values. no_rewrite leaves the
    program as written; no_fuse runs operator by operator.
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
    ) -> None:
        self.context = context
        self.problem = problem if isinstance(problem, Problem) else Problem(problem)
        self.text: str = self.problem.text
        self._rank: int = self.problem.spatial_dims + 2
        self._constants = constants
        self._options = (candidate, no_rewrite, no_fuse)
        self._create()
        self.candidate: str = lib.upconv_plan_candidate(self._handle).decode()
        self.rules = _names(lib.upconv_plan_rule, self._handle)
        self.packed_size: int = lib.upconv_plan_packed_size(self._handle)

    def _create(self) -> None:
        candidate, no_rewrite, no_fuse = self._options
        options = c.CPlanOptions()
        options.candidate = candidate.encode() if candidate is not None else None
        options.no_rewrite, options.no_fuse = no_rewrite, no_fuse
        if self._constants is not None:
            weight, bias, params, _ = self._constants
            options.constants = pointer(_parameters(weight, bias, params))
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
        return _names(lib.upconv_plan_candidate_name, self.handle)

    @property
    def param_names(self) -> tuple[str, ...]:
        """Of the epilogue's parameters, in the order in which pack wants them."""
        return self.problem.param_names

    @property
    def tensor_names(self) -> tuple[str, ...]:
        """Of the epilogue's extra tensors, in the order in which execute wants them."""
        return self.problem.tensor_names

    def explain(self) -> str:
        """For a person: phases, taps, rules fired, FLOP and bytes before and after, candidates and costs."""
        return _text_of(lib.upconv_plan_print, self.handle)

    def source(self) -> str:
        """The generated CUDA program; UnsupportedError on the CPU, whose kernels come with the library."""
        return _text_of(lib.upconv_plan_source, self.handle)

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
                self.handle, _extents(x_shape, self._rank, "x_shape"), shape
            )
        )
        return tuple(shape[: self._rank])

    def workspace_size(self, x_shape: Sequence[int]) -> int:
        """Bytes of workspace, aligned to ALIGNMENT, for a whole x of that shape."""
        size = c_size_t()
        _check(
            lib.upconv_plan_workspace_size(
                self.handle, _extents(x_shape, self._rank, "x_shape"), byref(size)
            )
        )
        return size.value

    def input_box(
        self, x_shape: Sequence[int], y_offset: Sequence[int], y_shape: Sequence[int]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Offset and shape of the box of x that a box of the output needs, for a whole x of x_shape."""
        offset, shape = (c_int64 * c.MAX_RANK)(), (c_int64 * c.MAX_RANK)()
        _check(
            lib.upconv_plan_input_box(
                self.handle,
                _extents(x_shape, self._rank, "x_shape"),
                _extents(y_offset, self._rank, "y_offset"),
                _extents(y_shape, self._rank, "y_shape"),
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
        """Packs weights, bias and parameters, in the device's memory, into packed_size bytes at packed."""
        parameters = _parameters(weight, bias, params)
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
        """Runs the plan once. y's shape and offset say which box of the output is wanted; x_shape is the shape of the
        whole x when x is only the part that input_box named."""
        arguments = _arguments(x, y, tensors, x_shape)
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


# ---------------------------------------------------------------- repeated calls

_WORD = ctypes.sizeof(c_void_p)
_TENSOR_WORDS = ctypes.sizeof(c.CTensor) // _WORD


def _word(structure: type[ctypes.Structure], *path: str) -> int:
    """Index of a pointer field among the machine words of a structure."""
    return getattr(structure, path[0]).offset // _WORD


_Y = _word(c.CArguments, "y")
_PACKED = _word(c.CArguments, "packed")
_WORKSPACE = _word(c.CArguments, "workspace")
_STREAM = _word(c.CArguments, "stream")
_BIAS = _word(c.CParameters, "bias")


class _Frame:
    """One call's C structures, and their memory seen as machine words: writing a word is cheaper than a field."""

    __slots__ = ("address", "extra", "keep", "words")

    def __init__(self, structure: ctypes.Structure, array: ctypes.Array[c.CTensor] | None) -> None:
        self.address = addressof(structure)
        self.words = (c_size_t * (ctypes.sizeof(structure) // _WORD)).from_buffer(structure)
        self.extra = None
        if array is not None:
            self.extra = (c_size_t * (_TENSOR_WORDS * len(array))).from_buffer(array)
        self.keep = (structure, array)


class _Prepared:
    """What Execution and Packing share: a stack of frames. A call takes one, or makes one, and puts it back, so that
    threads never share one (pop and append of a list are atomic)."""

    __slots__ = ("__weakref__", "_count", "_frames", "plan")

    plan: Plan
    _frames: list[_Frame]

    def _make_frame(self) -> _Frame:
        raise NotImplementedError

    def _take(self) -> _Frame:
        try:
            return self._frames.pop()
        except IndexError:
            return self._make_frame()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"upconv: a {type(self).__name__} cannot be pickled: prepare it anew")


def _set_extra(frame: _Frame, pointers: Sequence[int], count: int, what: str) -> None:
    if len(pointers) != count:
        raise InvalidArgumentError(f"{len(pointers)} addresses of {what}: must be {count}")
    extra = frame.extra
    for index, address in enumerate(pointers):
        extra[index * _TENSOR_WORDS] = address  # type: ignore[index]


class Execution(_Prepared):
    """A plan with the shapes, strides and types of its arguments, made by Plan.prepare. run costs about a microsecond of
    Python."""

    __slots__ = ("_tensors", "_x", "_x_shape", "_y", "workspace_size")

    def __init__(
        self,
        plan: Plan,
        x: TensorLike,
        y: TensorLike,
        tensors: Sequence[TensorLike],
        x_shape: Sequence[int] | None,
    ) -> None:
        self.plan = plan
        self._x, self._y, self._tensors, self._x_shape = x, y, tuple(tensors), x_shape
        self._count = len(self._tensors)
        self.workspace_size = plan.workspace_size(x[2] if x_shape is None else x_shape)
        self._frames = [self._make_frame()]

    def _make_frame(self) -> _Frame:
        array = _tensor_array(self._tensors)
        arguments = _arguments(self._x, self._y, (), self._x_shape)
        if array is not None:
            arguments.tensors = array
            arguments.tensor_count = len(array)
        arguments.workspace_size = self.workspace_size
        return _Frame(arguments, array)

    def run(
        self,
        x: int,
        y: int,
        tensors: Sequence[int] = (),
        packed: int = 0,
        workspace: int = 0,
        stream: int = 0,
    ) -> None:
        """Executes with these addresses (0: none). workspace_size is an attribute."""
        frame = self._take()
        words = frame.words
        words[0] = x
        words[_Y] = y
        words[_PACKED] = packed
        words[_WORKSPACE] = workspace
        words[_STREAM] = stream
        if tensors or self._count:
            _set_extra(frame, tensors, self._count, "tensors")
        plan = self.plan
        status = lib.upconv_execute(plan._handle or plan.handle, frame.address)
        if status:
            _fail(status)
        self._frames.append(frame)


class Packing(_Prepared):
    """A plan with the shapes, strides and types of its parameters, made by Plan.prepare_pack."""

    __slots__ = ("_bias", "_params", "_weight")

    def __init__(
        self,
        plan: Plan,
        weight: TensorLike,
        bias: TensorLike | None,
        params: Sequence[TensorLike],
    ) -> None:
        self.plan = plan
        self._weight, self._bias, self._params = weight, bias, tuple(params)
        self._count = len(self._params)
        self._frames = [self._make_frame()]

    def _make_frame(self) -> _Frame:
        array = _tensor_array(self._params)
        parameters = _parameters(self._weight, self._bias, ())
        if array is not None:
            parameters.params = array
            parameters.param_count = len(array)
        return _Frame(parameters, array)

    def run(
        self,
        weight: int,
        bias: int = 0,
        params: Sequence[int] = (),
        packed: int = 0,
        stream: int = 0,
    ) -> None:
        """Packs from these addresses (bias 0: none) into packed."""
        frame = self._take()
        words = frame.words
        words[0] = weight
        words[_BIAS] = bias
        if params or self._count:
            _set_extra(frame, params, self._count, "parameters")
        plan = self.plan
        status = lib.upconv_plan_pack(
            plan._handle or plan.handle, frame.address, packed, stream or None
        )
        if status:
            _fail(status)
        self._frames.append(frame)
