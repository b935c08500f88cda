# SPDX-License-Identifier: Apache-2.0
"""out=: values, strides, memory that is shared, what is refused. On the CPU, and on a GPU if there
is one."""

from contextlib import contextmanager

import pytest
import torch
import torch.nn.functional as F
from torch_programs import CONV, LIBRARY_DTYPES, assert_near

import upconv
from upconv._torch import functional, into

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
    return torch.randn(*shape, dtype=dtype if dtype.is_complex else None).to(dtype=dtype, **where)


def layer(nd=2, dtype=torch.float32):
    x, weight = randn(2, 4, *SIZES[nd], dtype=dtype), randn(4, 6, *[3] * nd, dtype=dtype) / 3
    return x, weight, randn(6, dtype=dtype)


def exact(nd, x, weight, bias):
    return CONV[nd](x.double(), weight.double(), bias.double(), 2)


def layouts(shape, dtype):
    """Tensors of a shape: dense, channels last, slices of larger ones along each axis, permuted."""

    def full(shape):
        return torch.full(shape, float("nan"), dtype=dtype, **where)

    yield full(shape)
    for axis in range(len(shape)):
        yield full([e + 3 * (a == axis) for a, e in enumerate(shape)]).narrow(axis, 1, shape[axis])
        wide = full([extent * (1 + (a == axis)) for a, extent in enumerate(shape)])
        yield wide[tuple(slice(None, None, 1 + (a == axis)) for a in range(len(shape)))]
    yield full(shape[::-1]).permute(*reversed(range(len(shape))))
    yield full((shape[0], *shape[2:], shape[1] + 2)).movedim(-1, 1)[:, 1:-1]


@contextmanager
def no_copies():
    """The result is written at once into its place."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(functional, "call", None)
        yield


@pytest.mark.parametrize(
    ("nd", "dtype"),
    [(2, d) for d in LIBRARY_DTYPES] + [(nd, torch.float32) for nd in (1, 3)],
    ids=str,
)
def test_any_strides(nd, dtype, library_runs):
    inputs = layer(nd, dtype)
    true = exact(nd, *inputs)
    for out in layouts(true.shape, dtype):
        base = out._base if out._base is not None else out
        outside = base.isnan().sum() - out.numel()
        address, version = out.data_ptr(), base._version
        with library_runs(1), no_copies():
            y = FUNCTION[nd](*inputs, 2, out=out)
        assert y is out and out.data_ptr() == address and base._version > version
        assert base.isnan().sum() == outside, "written beside"
        assert_near(out, true, CONV[nd](*[t.float() for t in inputs], 2), 16)


def test_into_a_part_of_a_larger_tensor(library_runs):
    """As for a skip connection; nothing is copied."""
    x, weight, bias = layer(3)
    scale = randn(6, 1, 1, 1)
    true = exact(3, x, weight, bias) * scale
    both = torch.zeros(2, 9, *true.shape[2:], **where)
    both[:, 6:] = 1
    for _ in range(3):
        with library_runs(1), no_copies():
            upconv.conv_transpose3d(
                x,
                weight,
                bias,
                2,
                epilogue=[("mul", scale), ("add", both[:, 6:7])],
                out=both[:, :6],
            )
        assert_near(both[:, :6], true + 1)
        assert both[:, 6:].eq(1).all()
        weight.data.mul_(-1)
        true = exact(3, x, weight, bias) * scale


def test_unbatched_and_empty():
    x, weight, bias = layer()
    for source in (x[0], x[:0]):
        expected = upconv.conv_transpose2d(source, weight, bias, 2)
        out = torch.empty_like(expected)
        assert upconv.conv_transpose2d(source, weight, bias, 2, out=out) is out
        assert torch.equal(out, expected)


def test_memory_that_is_shared_with_what_is_read():
    x = randn(2, 6, 9, 11)
    weight, bias = randn(6, 6, 3, 3) / 5, randn(6)

    def call(x, weight, bias, skip, out=None):
        return upconv.conv_transpose2d(x, weight, bias, 1, 1, epilogue=[("add", skip)], out=out)

    for name in ("x", "skip", "weight", "bias", "shifted"):
        memory = randn(4096)
        inputs = [x.clone(), weight.clone(), bias.clone(), torch.randn_like(x)]
        out = memory[: x.numel()].view_as(x)
        if name == "shifted":
            inputs[0] = memory[100 : 100 + x.numel()].view_as(x)
        else:
            index = ["x", "weight", "bias", "skip"].index(name)
            start = 7 if name in ("weight", "bias") else 0
            part = memory[start : start + inputs[index].numel()].view_as(inputs[index])
            part.copy_(inputs[index])
            inputs[index] = part
        for _ in range(2):  # packed weights that were overwritten do not serve again
            expected = call(*[t.clone() for t in inputs])
            call(*inputs, out=out)
            torch.testing.assert_close(out, expected)


def test_what_surely_lies_apart():
    both = torch.zeros(3, 8, 5, **where)
    assert into.is_apart(both[:, :4], [both[:, 4:], torch.zeros(3, **where)])
    assert into.is_apart(both[..., ::2], []) and into.is_apart(both.permute(2, 0, 1), [])
    assert not into.is_apart(both[:, :4], [both[:, 3:]])
    assert not into.is_apart(both[:, :4], [both[1:2, 4:], both[1:, 2, 4:]])
    assert not into.is_apart(both.as_strided((3, 4), (2, 1)), [])
    assert not into.is_apart(both, [both[0, 0].expand(4, 5)])
    other = both.view(-1).view(torch.float16)  # another type, behind the first half
    assert into.is_apart(both.view(-1)[:60], [other[120:]])
    assert not into.is_apart(both.view(-1)[:60], [other[119:]])


def test_elements_that_share_memory():
    """Strides for which the library might write an element twice: as PyTorch's copy does."""
    x, weight = randn(1, 1, 3), torch.eye(2, **where)[:1].unsqueeze(-1)
    memory = torch.zeros(16, **where)
    out = memory.as_strided((1, 2, 3), (16, 2, 3))  # 0 3 6 and 2 5 8: apart, but not nested
    upconv.conv_transpose1d(x, weight, out=out)
    assert torch.equal(out, F.conv_transpose1d(x, weight))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64], ids=str)
def test_other_types_are_copied(dtype):
    x, weight = randn(2, 4, 5, dtype=dtype), randn(4, 6, 3, dtype=dtype)
    both = torch.zeros(2, 7, 7, dtype=dtype, **where)
    y = upconv.conv_transpose1d(x, weight, out=both[:, 1:])
    torch.testing.assert_close(y, F.conv_transpose1d(x, weight))
    assert both[:, 0].eq(0).all()


def test_modes():
    """Inference, autocast, tracing: the same, and the type is that of the result."""
    inputs = layer()
    expected = upconv.conv_transpose2d(*inputs, 2)
    with torch.inference_mode():
        out = torch.empty_like(expected)
        assert torch.equal(upconv.conv_transpose2d(*inputs, 2, out=out), expected)
    with pytest.raises(RuntimeError, match="inference tensor"):
        upconv.conv_transpose2d(*inputs, 2, out=out)
    with torch.inference_mode():
        assert torch.equal(upconv.conv_transpose2d(*inputs, 2, out=expected), out)
    kind = expected.device.type
    with torch.autocast(kind, torch.bfloat16):
        out = torch.empty_like(expected, dtype=torch.bfloat16)
        upconv.conv_transpose2d(*inputs, 2, out=out)
        assert torch.equal(out, upconv.conv_transpose2d(*inputs, 2))
        with pytest.raises(ValueError, match="out has type torch.float32: must have torch.bfloat1"):
            upconv.conv_transpose2d(*inputs, 2, out=expected)


def test_gradients_are_refused_where_they_would_be_lost():
    x, weight, bias = layer()
    out = torch.empty_like(upconv.conv_transpose2d(x, weight, bias, 2))
    scale = torch.ones(6, 1, 1, **where).requires_grad_()
    calls = [
        lambda: upconv.conv_transpose2d(x, weight.clone().requires_grad_(), bias, 2, out=out),
        lambda: upconv.conv_transpose2d(x, weight, bias, 2, epilogue=[("mul", scale)], out=out),
        lambda: upconv.conv_transpose2d(x, weight, bias, 2, out=out.clone().requires_grad_()),
        lambda: upconv.conv_transpose2d(x.double(), scale.double(), out=out),
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match="does not support automatic differentiation"):
            call()
    with torch.no_grad():
        for call in calls[:3]:
            assert not call().isnan().any()


def test_autograd_notices_that_saved_values_were_overwritten():
    x, weight, bias = layer()
    expected = upconv.conv_transpose2d(x, weight, bias, 2)
    leaf = torch.ones_like(expected).requires_grad_()
    saved = torch.ones_like(expected)
    product = (leaf * saved).sum()
    upconv.conv_transpose2d(x, weight, bias, 2, out=saved)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


WRONG = {
    "shape": (lambda out: out[:, :, :-1], ValueError, r"out has shape \[2, 6, 10, 15\]: must have"),
    "rank": (lambda out: out[0], ValueError, "must have"),
    "broadcast": (lambda out: out[:1], ValueError, r"must have \[2, 6, 11, 15\]"),
    "type": (lambda out: out.half(), ValueError, "out has type torch.float16: must have torch.fl"),
    "device": (lambda out: out.to("meta"), ValueError, "out is on meta: must be on"),
    "kind": (lambda out: out.cpu().numpy(), TypeError, "out is ndarray: must be a tensor"),
    "expanded": (lambda out: out[:1].expand_as(out), ValueError, "must not share memory"),
    "layout": (lambda out: out.to_sparse(), RuntimeError, None),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_refusals(name, dtype):
    if name == "type" and dtype == torch.float64:
        pytest.skip("names another type")
    x, weight, bias = layer()
    change, error, message = WRONG[name]
    right = torch.zeros(2, 6, 11, 15, dtype=dtype, **where)
    with pytest.raises(error, match=message):
        inputs = [t.to(dtype) for t in (x, weight, bias)]
        upconv.conv_transpose2d(*inputs, 2, out=change(right))
    assert right.eq(0).all()


def test_what_pytorch_refuses_is_refused():
    x, weight, _ = layer()
    with pytest.raises(RuntimeError, match="channels"):
        upconv.conv_transpose2d(x[:, :3], weight, out=torch.empty(2, 6, 7, 9, **where))


@pytest.mark.filterwarnings("ignore")
def test_compiled():
    """The compiler sees the operator and a copy, also into a part of an input."""
    torch._dynamo.reset()
    inputs = layer()
    expected = upconv.conv_transpose2d(*inputs, 2)

    def function(both, *inputs):
        upconv.conv_transpose2d(*inputs, 2, out=both[:, 1:])
        return both * 2

    both = torch.zeros(2, 7, *expected.shape[2:], **where)
    twice = torch.compile(function, fullgraph=True, backend="aot_eager")(both, *inputs)
    assert torch.equal(both[:, 1:], expected) and both[:, 0].eq(0).all()
    assert torch.equal(twice, 2 * both)


def test_the_copy_gives_the_same_bits(monkeypatch):
    inputs = layer()
    outs = [torch.empty(2, 6, 11, 15, **where) for _ in range(2)]
    upconv.conv_transpose2d(*inputs, 2, epilogue=["silu"], out=outs[0])
    monkeypatch.setattr(functional.fast, "call_into", lambda *arguments: False)
    upconv.conv_transpose2d(*inputs, 2, epilogue=["silu"], out=outs[1])
    assert torch.equal(*outs)
