# SPDX-License-Identifier: Apache-2.0
"""Contexts, problems, plans and prepared calls of upconv._core."""

import ctypes

import numpy as np
import numpy_reference as reference
import pytest
from core_arrays import TEXT, Trial, aligned, tensor

import upconv
from upconv import _core as core
from upconv import _library


def test_structures_are_laid_out_as_in_c():
    """Every field of the problem comes back where C wrote it; a dense tensor too."""
    problem = core.Problem(
        "n7 ci6 co10 g2 in11x12x13 k2x3x4 s5x6x7 d8x9x10 p1x2x3 pe4x5x6 op3x4x5 bias"
        " x=f16 w=bf16 y=f32 math=tf32 xlayout=ndhwc"
    )
    names = "spatial_dims batch in_channels out_channels groups bias x_dtype w_dtype y_dtype"
    assert [getattr(problem, name) for name in names.split()] == [3, 7, 6, 10, 2, True, 1, 2, 0]
    assert (problem.in_size, problem.kernel) == ((11, 12, 13), (2, 3, 4))
    assert (problem.stride, problem.dilation) == ((5, 6, 7), (8, 9, 10))
    assert (problem.pad_begin, problem.pad_end) == ((1, 2, 3), (4, 5, 6))
    assert problem.output_padding == (3, 4, 5)
    assert (problem.x_layout, problem.y_layout, problem.math) == ("ndhwc", "ncdhw", "tf32")
    assert problem.weight_shape == (6, 5, 2, 3, 4)
    assert problem.x_shape == (7, 6, 11, 12, 13)

    dense = _library.lib.upconv_tensor_dense
    dense.restype = _library.CTensor
    dense.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
    shape = (ctypes.c_int64 * 5)(2, 3, 4, 5, 6)
    for code, layout in enumerate(core.LAYOUT_NAMES):
        c = dense(64, core.F16, 5, shape, code)
        assert (c.data, c.dtype, c.rank, list(c.shape)) == (64, core.F16, 5, [2, 3, 4, 5, 6])
        assert tuple(c.stride) == core.dense_strides((2, 3, 4, 5, 6), layout)
        assert list(c.offset) == [0] * 5


def test_problem_text_reads_back():
    fields = {
        "batch": 3,
        "in_channels": 4,
        "out_channels": 6,
        "groups": 2,
        "in_size": (5, 7),
        "kernel": (3, 2),
        "stride": (2, 1),
        "dilation": 2,
        "padding": (1, 0),
        "padding_end": 1,
        "output_padding": (1, 0),
        "bias": True,
        "x": "f16",
        "w": "f16",
        "y": "bf16",
        "math": "tf32",
        "x_layout": "ndhwc",
        "epilogue": "relu | sum c",
    }
    problem = core.Problem.from_fields(**fields)
    assert core.Problem(problem.text).text == problem.text
    assert (problem.padding_end if hasattr(problem, "padding_end") else problem.pad_end) == (1, 1)
    assert problem.conv_shape() == (3, 6, 12, 8)
    assert problem.output_shape() == (3, 1, 12, 8)
    assert "relu | sum c" in problem.text


def test_plan_describes_itself():
    plan = Trial().plan
    assert core.Problem(plan.text).text == plan.text
    assert plan.candidate in plan.candidates and len(plan.candidates) > 1
    assert plan.param_names == ("m",) and plan.tensor_names == ("r",)
    assert plan.candidate in plan.explain()
    assert plan.work().source_bytes > plan.work().planned_bytes > 0
    assert plan.output_shape((5, 3, 1, 2, 3)) == (5, 4, 1, 2, 3)
    with pytest.raises(upconv.UnsupportedError):
        plan.source()
    assert "cpu" in repr(plan) and plan.context.description.startswith("cpu")


def test_cuda_source_without_a_gpu():
    plan = core.Plan(core.context("cuda:sm_90a"), "ci4 co4 in8x8 k3 s2 p1")
    assert "__global__" in plan.source()


@pytest.mark.parametrize(
    "options", [{}, {"candidate": "cpu-direct"}, {"no_rewrite": True}, {"no_fuse": True}]
)
def test_execute(options):
    trial = Trial(**options)
    if "candidate" in options:
        assert trial.plan.candidate == options["candidate"]
    if "no_rewrite" in options:
        assert trial.plan.rules == ()
    trial.pack()
    reference.check(trial.execute(), trial.expected())


def test_oracle_agrees_with_the_definition():
    trial = Trial()
    trial.pack()
    expected, shape = trial.expected(), trial.y.shape
    value, bound = np.empty(shape), np.empty(shape)
    trial.problem.reference(
        tensor(trial.weight),
        tensor(trial.bias),
        [tensor(trial.params[0])],
        tensor(trial.x),
        [tensor(trial.tensors[0])],
        value.ctypes.data,
        bound.ctypes.data,
    )
    assert np.allclose(value, expected.value, rtol=1e-12, atol=1e-12)
    assert (bound > 0).all() and bound.max() < 1e-4
    y = trial.execute()
    worst, _ = core.compare(tensor(y), value.ctypes.data, bound.ctypes.data)
    assert worst <= 1
    y[1, 2, 3, 4, 5] += 1e-3
    worst, where = core.compare(tensor(y), value.ctypes.data, bound.ctypes.data)
    assert worst > 1 and where == np.ravel_multi_index((1, 2, 3, 4, 5), shape)


def test_constants_let_rules_look_at_values():
    text = "ci2 co2 in5 k3 s2 | mul @m | relu"
    plain = Trial(text)
    ones = np.ones(2, np.float32)
    constants = core.Parameters(tensor(plain.weight), None, [tensor(ones)], keep=(plain, ones))
    plan = core.Plan(core.context(), text, constants=constants)
    assert "drop-identity" in plan.rules and "drop-identity" not in plain.plan.rules


def test_box_of_the_output():
    """A box computed from the part of x that it needs has the bits of the whole."""
    trial = Trial(TEXT.replace(" | add #r", ""))
    trial.pack()
    whole = trial.execute().copy()
    offset, shape = (1, 0, 2, 1, 3), (1, 4, 2, 3, 4)
    x_offset, x_shape = trial.plan.input_box(trial.x.shape, offset, shape)
    assert x_shape != trial.x.shape
    part = trial.x[tuple(slice(o, o + n) for o, n in zip(x_offset, x_shape))].copy()
    y = np.empty(shape, np.float32)
    trial.plan.execute(
        tensor(part, x_offset),
        tensor(y, offset),
        [],
        trial.packed.ctypes.data,
        trial.workspace.ctypes.data,
        trial.workspace.size,
        x_shape=trial.x.shape,
    )
    assert np.array_equal(y, whole[tuple(slice(o, o + n) for o, n in zip(offset, shape))])
    run = trial.plan.prepare(tensor(part, x_offset), tensor(y, offset), x_shape=trial.x.shape)
    again = np.zeros_like(y)
    memory = aligned(run.workspace_size)
    run.run(part.ctypes.data, again.ctypes.data, (), trial.packed.ctypes.data, memory.ctypes.data)
    assert np.array_equal(again, y)


def test_prepared_calls_take_new_addresses():
    trial = Trial()
    execution, packing = trial.prepare()
    for seed in (2, 3):
        other = Trial(seed=seed)
        packing.run(
            other.weight.ctypes.data,
            other.bias.ctypes.data,
            [other.params[0].ctypes.data],
            trial.packed.ctypes.data,
        )
        execution.run(
            other.x.ctypes.data,
            other.y.ctypes.data,
            [other.tensors[0].ctypes.data],
            trial.packed.ctypes.data,
            trial.workspace.ctypes.data,
        )
        reference.check(other.y, other.expected())
    with pytest.raises(upconv.InvalidArgumentError, match="2 addresses of tensors: must be 1"):
        execution.run(1, 1, (1, 1))
    with pytest.raises(upconv.InvalidArgumentError, match="0 addresses of parameters: must be 1"):
        packing.run(1, 1)


def test_prepared_call_reports_errors_and_goes_on():
    trial = Trial()
    trial.pack()
    execution, _ = trial.prepare()
    addresses = [trial.x, trial.y, trial.tensors[0], trial.packed, trial.workspace]
    x, y, extra, packed, workspace = [array.ctypes.data for array in addresses]
    for bad in ((0, y, packed), (x, 0, packed), (x, y, 0), (x, y, packed + 4)):
        with pytest.raises(upconv.InvalidArgumentError):
            execution.run(bad[0], bad[1], (extra,), bad[2], workspace)
    execution.run(x, y, (extra,), packed, workspace)
    reference.check(trial.y, trial.expected())


def test_errors_have_the_classes_of_python():
    context = core.context()
    for error in (upconv.UpconvError, ValueError, RuntimeError):
        with pytest.raises(error, match="stride"):
            core.Plan(context, "ci1 co1 in4 k3 s0")
    with pytest.raises(upconv.InvalidArgumentError, match="candidate"):
        core.Plan(context, "ci1 co1 in4 k3", candidate="none")
    with pytest.raises(upconv.InvalidArgumentError, match="device"):
        core.Context("tpu")
    with pytest.raises(upconv.InvalidArgumentError, match="threads"):
        core.Context("cpu", threads=-1)
    with pytest.raises(upconv.InvalidArgumentError, match="zero character"):
        core.Problem("ci1 co1 in4 k3\0")
    with pytest.raises(OverflowError):
        core.Problem(f"n{2**62} ci1 co1 in9223372036 k3 s2000000000").conv_shape()
    trial = Trial()
    with pytest.raises(upconv.InvalidArgumentError, match="x_shape .* must have 5 entries"):
        trial.plan.output_shape((1, 2))
    with pytest.raises(upconv.InvalidArgumentError, match="same length"):
        trial.plan.pack(core.Tensor(64, 0, (1, 2), (1,)), None, [], 64)
    for status, error in ((2, NotImplementedError), (4, MemoryError), (5, upconv.DeviceError)):
        with pytest.raises(error):
            upconv._errors.check(status)


def test_contexts_are_kept():
    assert core.context("cpu") is core.context("cpu")
    assert core.context("cpu", 1).threads == 1
    assert core.context("cpu", 1) is not core.context("cpu")
