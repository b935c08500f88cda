# SPDX-License-Identifier: Apache-2.0
"""The function: arguments, types, layouts, and what it refuses. On the CPU, and on a GPU if there
is one."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch_programs import assert_near

import upconv
from upconv._torch.execute import Statistics

FUNCTION = (None, upconv.conv_transpose1d, upconv.conv_transpose2d, upconv.conv_transpose3d)
SIZES = {1: (11,), 2: (5, 7), 3: (3, 4, 5)}


DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
where = {"device": "cpu"}  # of the test that runs; torch.device() as a context is a mode


@pytest.fixture(params=DEVICES, autouse=True)
def device(request):
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    where["device"] = request.param
    yield request.param
    torch.backends.cudnn.allow_tf32 = before


def randn(*shape, dtype=torch.float32):
    """The same numbers on each device."""
    return torch.randn(*shape, dtype=dtype if dtype.is_complex else None).to(dtype=dtype, **where)


def problem(nd, channels=4, out=6):
    x, weight = randn(2, channels, *SIZES[nd]), randn(channels, out, *[3] * nd) / 3
    return x, weight, randn(out)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"stride": 3},
        {"stride": (2, 3), "padding": (1, 2), "output_padding": (1, 0)},
        {"stride": 2, "dilation": 3, "output_padding": 2, "padding": 2},
        {"groups": 2, "stride": 2},
        {"groups": 4, "stride": [4], "padding": (0,)},
    ],
    ids=str,
)
@pytest.mark.parametrize("bias", [True, False])
def test_arguments(arguments, bias, library_runs):
    groups = arguments.get("groups", 1)
    x, weight, b = problem(2, out=8 // groups)
    b = randn(8) if bias else None
    with library_runs(1):
        y = upconv.conv_transpose2d(x, weight, b, **arguments)
    exact = F.conv_transpose2d(
        x.double(), weight.double(), None if b is None else b.double(), **arguments
    )
    assert_near(y, exact, F.conv_transpose2d(x, weight, b, **arguments))


@pytest.mark.parametrize("nd", [1, 2, 3])
def test_unbatched(nd, library_runs):
    x, weight, bias = problem(nd)
    with library_runs(2):
        batched = FUNCTION[nd](x[:1], weight, bias, 2, epilogue=["relu", "max_pool 2"])
        single = FUNCTION[nd](x[0], weight, bias, 2, epilogue=["relu", "max_pool 2"])
    assert torch.equal(single, batched[0])
    assert single.dim() == nd + 1


@pytest.mark.parametrize("nd", [2, 3])
def test_channels_last_is_kept(nd, library_runs):
    memory_format = torch.channels_last if nd == 2 else torch.channels_last_3d
    x, weight, bias = problem(nd)
    last = x.to(memory_format=memory_format)
    epilogue = ["leaky_relu 0.2", "max_pool 2"]
    with library_runs(3):
        y = FUNCTION[nd](x, weight, bias, 2, epilogue=epilogue)
        z = FUNCTION[nd](last, weight, bias, 2, epilogue=epilogue)
        both = FUNCTION[nd](
            last, weight.to(memory_format=memory_format), bias, 2, epilogue=epilogue
        )
    assert y.is_contiguous()
    assert z.is_contiguous(memory_format=memory_format) and not z.is_contiguous()
    assert both.is_contiguous(memory_format=memory_format)
    torch.testing.assert_close(y, z)
    assert torch.equal(z, both)


def test_layout_of_slices_of_channels_last(library_runs):
    x = randn(2, 4, 6, 8).to(memory_format=torch.channels_last)[:, :, 1:5, ::2]
    weight = randn(4, 3, 2, 2)
    with library_runs(1):
        y = upconv.conv_transpose2d(x, weight)
    assert y.is_contiguous(memory_format=torch.channels_last)
    assert_near(y, F.conv_transpose2d(x.double(), weight.double()))


@pytest.mark.parametrize("which", ["x", "weight", "bias", "param", "tensor"])
def test_non_contiguous_inputs(which, library_runs):
    inputs = {
        "x": randn(2, 4, 5, 7),
        "weight": randn(4, 6, 3, 3),
        "bias": randn(6),
        "param": randn(6, 1, 1),
        "tensor": randn(2, 6, 11, 15),
    }

    def call(i):
        epilogue = [("mul", i["param"]), ("add", i["tensor"])]
        return upconv.conv_transpose2d(i["x"], i["weight"], i["bias"], 2, epilogue=epilogue)

    expected = call(inputs)
    dense = inputs[which]
    wider = dense.new_empty(*dense.shape, 3)
    wider[..., 1] = dense
    turned = (
        dense.permute(*reversed(range(dense.dim())))
        .contiguous()
        .permute(*reversed(range(dense.dim())))
    )
    for strided in (wider[..., 1], turned):
        with library_runs(1):
            y = call({**inputs, which: strided})
        torch.testing.assert_close(y, expected)


def test_expanded_and_overlapping_inputs(library_runs):
    x = randn(1, 4, 1, 7).expand(2, 4, 5, 7)
    weight = randn(1, 6, 3, 3).expand(4, 6, 3, 3)
    param = randn(1, 1, 1).expand(6, 1, 1)
    with library_runs(1):
        y = upconv.conv_transpose2d(x, weight, epilogue=[("mul", param)])
    assert_near(y, F.conv_transpose2d(x.double(), weight.double()) * param.double())


def test_negative_bit(library_runs):
    z = randn(2, 4, 5, dtype=torch.complex64)
    x = z.conj().imag
    assert x.is_neg()
    weight = randn(4, 3, 2)
    with library_runs(1):
        y = upconv.conv_transpose1d(x, weight)
    assert_near(y, F.conv_transpose1d(x.resolve_neg().double(), weight.double()))


@pytest.mark.parametrize("shape", [(0, 4, 5, 7), (2, 4, 1, 1)])
def test_empty_and_tiny(shape):
    x, weight = randn(*shape), randn(4, 6, 3, 3)
    y = upconv.conv_transpose2d(x, weight, padding=1, epilogue=["relu"])
    assert y.shape == F.conv_transpose2d(x, weight, padding=1).shape
    torch.testing.assert_close(y, F.conv_transpose2d(x, weight, padding=1).relu())


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64])
def test_other_types_go_to_pytorch(dtype):
    x, weight = randn(2, 4, 5, dtype=dtype), randn(4, 6, 3, dtype=dtype)
    scale = randn(6, 1, dtype=dtype)
    calls, fallbacks = Statistics.calls, Statistics.fallbacks
    y = upconv.conv_transpose1d(x, weight, stride=2, epilogue=[("mul", scale)])
    assert (Statistics.calls, Statistics.fallbacks) == (calls, fallbacks + 1)
    assert y.dtype == dtype
    torch.testing.assert_close(y, F.conv_transpose1d(x, weight, stride=2) * scale)


def test_other_devices_go_to_pytorch():
    x, weight = torch.empty(2, 4, 5, device="meta"), torch.empty(4, 6, 3, device="meta")
    y = upconv.conv_transpose1d(x, weight, stride=2, epilogue=["relu", "max_pool 2"])
    assert y.device.type == "meta" and y.shape == (2, 6, 5)


def test_operands_of_other_types(library_runs):
    x, weight, _ = problem(2)
    for dtype in (torch.float64, torch.int64, torch.float16):
        scale = torch.full((6, 1, 1), 3).to(dtype=dtype, **where)
        rest = torch.full((2, 6, 7, 9), 5).to(dtype=dtype, **where)
        with library_runs(1):
            y = upconv.conv_transpose2d(x, weight, epilogue=[("mul", scale), ("add", rest)])
        assert_near(y, F.conv_transpose2d(x.double(), weight.double()) * 3 + 5)


def test_items_that_are_modules(library_runs):
    x, weight, bias = problem(2)
    norm = torch.nn.BatchNorm2d(6).eval().to(**where)
    norm.running_mean.normal_()
    prelu = torch.nn.PReLU(6).to(**where)
    tail = torch.nn.Sequential(
        torch.nn.LeakyReLU(0.1), norm, torch.nn.Dropout(), torch.nn.MaxPool2d(2)
    )
    with torch.no_grad(), library_runs(1):
        y = upconv.conv_transpose2d(x, weight, bias, 2, epilogue=[tail.eval(), prelu])
    plain = torch.nn.Sequential(tail, prelu).eval()
    assert_near(
        y, plain.double()(F.conv_transpose2d(x.double(), weight.double(), bias.double(), 2))
    )


def test_numpy_scalars_and_torch_sizes(library_runs):
    x, weight, _ = problem(2)
    with library_runs(1):
        y = upconv.conv_transpose2d(x, weight, None, torch.Size([2, 2]), np.int64(1))
    torch.testing.assert_close(y, F.conv_transpose2d(x, weight, None, 2, 1))


# ---------------------------------------------------------------- refusals

REFUSED = {
    "channels": lambda f: f(randn(2, 3, 5, 5), randn(4, 6, 3, 3)),
    "rank": lambda f: f(randn(5, 5), randn(4, 6, 3, 3)),
    "bias": lambda f: f(randn(2, 4, 5, 5), randn(4, 6, 3, 3), randn(5)),
    "stride": lambda f: f(randn(2, 4, 5, 5), randn(4, 6, 3, 3), None, 0),
    "sizes": lambda f: f(randn(2, 4, 5, 5), randn(4, 6, 3, 3), None, (1, 2, 3)),
    "output_padding": lambda f: f(randn(2, 4, 5, 5), randn(4, 6, 3, 3), None, 2, 0, 2),
    "groups": lambda f: f(randn(2, 4, 5, 5), randn(4, 6, 3, 3), None, 1, 0, 0, 3),
    "padding": lambda f: f(randn(2, 4, 2, 2), randn(4, 6, 1, 1), None, 1, 3),
    "types": lambda f: f(randn(2, 4, 5, 5), randn(4, 6, 3, 3).half()),
    "bias type": lambda f: f(randn(2, 4, 5, 5), randn(4, 6, 3, 3), randn(6).half()),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_is_refused(name):
    with pytest.raises((RuntimeError, ValueError)):
        REFUSED[name](F.conv_transpose2d)
    with pytest.raises((RuntimeError, ValueError)):
        REFUSED[name](upconv.conv_transpose2d)


WRONG_EPILOGUES = {
    "name": (["no_such_operator"], "no_such_operator"),
    "attribute": ([("leaky_relu", "x")], "leaky_relu"),
    "channels": ([("mul", torch.ones(5, 1, 1))], "5"),
    "tensor": ([("add", torch.ones(2, 6, 7, 5))], "t0"),
    "complex": ([("mul", torch.ones(6, 1, 1, dtype=torch.complex64))], "real"),
    "device": ([("mul", torch.ones(6, 1, 1, device="meta"))], "device"),
    "module": ([torch.nn.Conv2d(1, 1, 1)], "Conv2d"),
    "training": ([torch.nn.BatchNorm2d(6)], "eval"),
    "rank": ([torch.nn.MaxPool3d(2)], "2 spatial"),
    "no array": ("relu | mul @scale", "scale"),
}


def on_device(item):
    if isinstance(item, tuple):
        return tuple(on_device(part) for part in item)
    return item.to(**where) if isinstance(item, torch.Tensor) and item.is_cpu else item


@pytest.mark.parametrize("name", WRONG_EPILOGUES)
def test_wrong_epilogues(name):
    items, message = WRONG_EPILOGUES[name]
    epilogue = items if isinstance(items, str) else [on_device(item) for item in items]
    x, weight, _ = problem(2)
    with pytest.raises((RuntimeError, ValueError, TypeError), match=message):
        upconv.conv_transpose2d(x, weight, epilogue=epilogue)


def test_many_lengths_share_plans():
    from upconv._torch import plans

    weight = randn(4, 3, 5)
    upconv.conv_transpose1d(randn(1, 4, 65), weight)
    before = len(plans._plans)
    for length in range(66, 129, 7):
        x = randn(1, 4, length)
        torch.testing.assert_close(
            upconv.conv_transpose1d(x, weight), F.conv_transpose1d(x, weight)
        )
    assert len(plans._plans) == before


def test_nan_and_infinity_are_kept(library_runs):
    x = torch.zeros(1, 1, 4, **where)
    x[0, 0, 1], x[0, 0, 3] = math.nan, math.inf
    with library_runs(1):
        y = upconv.conv_transpose1d(x, torch.ones(1, 1, 1, **where), stride=2, epilogue=["relu"])
    assert y[0, 0, 2].isnan() and y[0, 0, 6].isinf()
    assert y[0, 0, [0, 1, 3, 4, 5]].eq(0).all()


@pytest.mark.parametrize("shape", [(3,), (2, 3, 7, 8)])
def test_operands_of_numpy_are_refused_by_name(shape: tuple[int, ...]) -> None:
    x, weight = torch.randn(2, 4, 5, 6), torch.randn(4, 3, 3, 3)
    with pytest.raises(TypeError, match=r"numpy\.ndarray: must be a PyTorch tensor"):
        upconv.conv_transpose2d(x, weight, epilogue=[("mul", np.ones(shape, np.float32))])
