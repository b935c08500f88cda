# SPDX-License-Identifier: Apache-2.0
"""What counts as an array, and what is refused, in the NumPy interface."""

import ml_dtypes
import numpy as np
import numpy_reference as reference
import pytest

import upconv

RANDOM = np.random.default_rng(3)


def array(*shape, dtype=np.float32):
    return RANDOM.uniform(-1, 1, shape).astype(dtype)


X, W = array(2, 3, 4, 5), array(3, 2, 3, 3)
ONE, TWO = (1, 1), (2, 2)
PLAIN = upconv.conv_transpose2d(X, W)


class Speaker:
    """Speaks DLPack and nothing else."""

    def __init__(self, memory, device=None):
        self.memory, self.device = memory, device

    def __dlpack__(self, **options):
        return self.memory.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device or self.memory.__dlpack_device__()


def test_defaults_are_pytorchs():
    reference.check(PLAIN, reference.conv_transpose(X, W, None, ONE, (0, 0), (0, 0), 1, ONE))
    positional = upconv.conv_transpose2d(X, W, None, 1, 0, 0, 1, 1)
    assert np.array_equal(positional, PLAIN)
    by_name = upconv.conv_transpose2d(
        x=X, weight=W, bias=None, stride=(1,), padding=[0], output_padding=0, groups=1, dilation=1
    )
    assert np.array_equal(by_name, PLAIN)


def test_one_integer_is_for_all_axes():
    a = upconv.conv_transpose2d(X, W, stride=2, padding=1, output_padding=1, dilation=2)
    b = upconv.conv_transpose2d(
        X, W, stride=[2, 2], padding=(1, 1), output_padding=np.array([1, 1]).tolist(), dilation=TWO
    )
    assert np.array_equal(a, b)
    wide = upconv.conv_transpose2d(X, W, stride=(np.int64(3), 1))
    expected = reference.conv_transpose(X, W, None, (3, 1), (0, 0), (0, 0), 1, ONE)
    reference.check(wide, expected)


def test_unbatched():
    for tail in ((), ["relu", ("max_pool", 2), ("add", array(2, 3, 3)), "softmax"]):
        whole = upconv.conv_transpose2d(X[:1], W, epilogue=tail)
        alone = upconv.conv_transpose2d(X[0], W, epilogue=tail)
        assert alone.shape == whole.shape[1:] and np.array_equal(alone, whole[0])


def test_empty():
    assert upconv.conv_transpose2d(X[:0], W).shape == (0, 2, 6, 7)
    assert upconv.conv_transpose2d(X, W, padding=(3, 0)).shape == (2, 2, 0, 7)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_sixteen_bits(dtype):
    x, w, b = X.astype(dtype), W.astype(dtype), array(2, dtype=dtype)
    y = upconv.conv_transpose2d(x, w, b)
    assert y.dtype == dtype
    expected = reference.conv_transpose(x, w, b, ONE, (0, 0), (0, 0), 1, ONE)
    reference.check(y, expected)
    wide = np.empty(y.shape, np.float32)
    upconv.conv_transpose2d(x, w, b, out=wide)
    reference.check(wide, expected)
    mixed = [("mul", array(2)), ("add", array(6, 7, dtype=np.float16))]
    column = mixed[0][1].reshape(-1, 1, 1)
    expected = reference.add(reference.scale(expected, column), mixed[1][1])
    reference.check(upconv.conv_transpose2d(x, w, b, epilogue=mixed), expected)


def test_dlpack():
    for kind in (np.float32, np.float16):
        x, w, b = X.astype(kind), W.astype(kind), array(2, dtype=kind)
        y = upconv.conv_transpose2d(Speaker(x), Speaker(w), Speaker(b))
        assert type(y) is np.ndarray and y.dtype == kind
        assert np.array_equal(y, upconv.conv_transpose2d(x, w, b))
    strided = Speaker(np.repeat(X, 2, axis=3)[..., ::2])
    assert np.array_equal(upconv.conv_transpose2d(strided, W), PLAIN)


def test_dlpack_of_bfloat16():
    """NumPy's DLPack has no such type; who also offers an array is read through it."""

    class Both(Speaker):
        def __array__(self, dtype=None, copy=None):
            return self.memory

    x, w = X.astype(ml_dtypes.bfloat16), W.astype(ml_dtypes.bfloat16)
    y = upconv.conv_transpose2d(Both(x), Both(w))
    assert y.dtype == x.dtype and np.array_equal(y, upconv.conv_transpose2d(x, w))
    with pytest.raises(upconv.UnsupportedError, match="x: NumPy cannot take this Speaker"):
        upconv.conv_transpose2d(Speaker(x), w)


def test_dlpack_elsewhere_is_refused():
    with pytest.raises(upconv.UnsupportedError, match=r"x is on DLPack device \(2, 0\)"):
        upconv.conv_transpose2d(Speaker(X, (2, 0)), W)
    with pytest.raises(upconv.UnsupportedError, match="weight has dtype float64"):
        upconv.conv_transpose2d(X, Speaker(W.astype(np.float64)))


@pytest.mark.parametrize("dtype", [np.float64, np.complex64, np.int32, bool, object, "U4"])
def test_other_types_are_refused(dtype):
    odd = np.zeros(X.shape, dtype)
    with pytest.raises(upconv.UnsupportedError, match="x has dtype .* must be float32, float16"):
        upconv.conv_transpose2d(odd, W)
    with pytest.raises(NotImplementedError, match="weight has dtype"):
        upconv.conv_transpose2d(X, np.zeros(W.shape, dtype))
    with pytest.raises(upconv.UnsupportedError, match="bias has dtype"):
        upconv.conv_transpose2d(X, W, np.zeros(2, dtype))
    with pytest.raises(upconv.UnsupportedError, match=r"epilogue\[1\] = \('add', <array \[2\]>\)"):
        upconv.conv_transpose2d(X, W, epilogue=["relu", ("add", np.zeros(2, dtype))])
    with pytest.raises(upconv.UnsupportedError, match="out has dtype"):
        upconv.conv_transpose2d(X, W, out=np.zeros(PLAIN.shape, dtype))


def test_what_is_no_array_is_refused():
    for odd in (X.tolist(), None, 1.0, "x"):
        with pytest.raises(TypeError, match="x is .* must be a NumPy array"):
            upconv.conv_transpose2d(odd, W)
    with pytest.raises(TypeError, match="out is list: must be a NumPy array"):
        upconv.conv_transpose2d(X, W, out=[1])
    with pytest.raises(TypeError, match="masked"):
        upconv.conv_transpose2d(np.ma.masked_array(X, X > 0), W)


def test_strides_and_bytes():
    swapped = X.astype(X.dtype.newbyteorder())
    assert np.array_equal(upconv.conv_transpose2d(swapped, W), PLAIN)
    raw = np.zeros(X.nbytes + 1, np.uint8)
    odd = raw[1:].view(np.float32).reshape(X.shape)
    odd[...] = X
    assert not odd.flags.aligned
    assert np.array_equal(upconv.conv_transpose2d(odd, W), PLAIN)
    record = np.zeros(X.shape, np.dtype([("tag", "u1"), ("x", "f4")]))
    record["x"] = X
    assert np.array_equal(upconv.conv_transpose2d(record["x"], W), PLAIN)
    spread = np.broadcast_to(X[:, :, :1, :1], X.shape)
    assert np.array_equal(
        upconv.conv_transpose2d(spread, W), upconv.conv_transpose2d(spread.copy(), W)
    )
    channels_last = np.ascontiguousarray(X.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    reference.check(
        upconv.conv_transpose2d(channels_last, W),
        reference.conv_transpose(X, W, None, ONE, (0, 0), (0, 0), 1, ONE),
    )


def test_odd_outputs():
    swapped = np.empty(PLAIN.shape, PLAIN.dtype.newbyteorder())
    upconv.conv_transpose2d(X, W, out=swapped)
    assert np.array_equal(swapped, PLAIN)
    record = np.zeros(PLAIN.shape, np.dtype([("tag", "u1"), ("x", "f4")]))
    upconv.conv_transpose2d(X, W, out=record["x"])
    assert np.array_equal(record["x"], PLAIN) and not record["tag"].any()
    half = np.empty(PLAIN.shape, np.float16)
    upconv.conv_transpose2d(X, W, out=half)
    assert np.array_equal(half, PLAIN.astype(np.float16))


def test_an_output_that_overlaps_what_is_read():
    """As in NumPy: the result is that of arrays apart."""
    w = array(3, 3, 1, 1)
    expected = upconv.conv_transpose2d(X, w)
    memory = X.copy()
    upconv.conv_transpose2d(memory, w, out=memory)
    assert np.array_equal(memory, expected)
    memory = X.copy()
    upconv.conv_transpose2d(memory, w, out=memory[:, :, ::-1])
    assert np.array_equal(memory[:, :, ::-1], expected)
    skip = array(2, 3, 4, 5)
    expected = upconv.conv_transpose2d(X, w, epilogue=[("add", skip)])
    upconv.conv_transpose2d(X, w, epilogue=[("add", skip)], out=skip)
    assert np.array_equal(skip, expected)


def test_concatenation_costs_no_copy():
    """The skip connection of a U-Net: both halves in one array, one of them also read."""
    both = np.zeros((2, 4, 6, 7), np.float32)
    both[:, 2:] = array(2, 2, 6, 7)
    skip = both[:, 2:].copy()
    upconv.conv_transpose2d(X, W, epilogue=[("add", both[:, 2:])], out=both[:, :2])
    assert np.array_equal(both[:, :2], upconv.conv_transpose2d(X, W, epilogue=[("add", skip)]))
    assert np.array_equal(both[:, 2:], skip)


@pytest.mark.parametrize(
    "message, arguments",
    [
        (r"stride = 0: must be at least 1", {"stride": 0}),
        (r"dilation = \(1, 0\): must be at least 1", {"dilation": (1, 0)}),
        (r"padding = -1: must be at least 0", {"padding": -1}),
        (r"output_padding = -1: must be at least 0", {"output_padding": -1}),
        (r"stride = \(1, 2, 3\): must be one integer or 2", {"stride": (1, 2, 3)}),
        (r"stride = '2': must be one integer or 2", {"stride": "2"}),
        (r"groups = 0: must be at least 1", {"groups": 0}),
        (r"groups is 2; it must divide", {"groups": 2}),
        (r"output_padding along height is 2; allowed: 0 to 1", {"stride": 2, "output_padding": 2}),
        (r"the output size along height would be", {"padding": 9}),
        (r"x has 2 channels, but weight.* is for 3", {"x": X[:, :2]}),
        (r"x has shape .* must have 4 axes, or 3 without", {"x": X[None]}),
        (r"weight has shape .* must have 4 axes", {"weight": W[0]}),
        (r"weight is float16, x is float32", {"weight": W.astype(np.float16)}),
        (r"bias has shape \(3,\): must have \(2,\)", {"bias": array(3)}),
        (r"bias is float16, x is float32", {"bias": array(2, dtype=np.float16)}),
        (r"out has shape .* must have \(2, 2, 6, 7\)", {"out": PLAIN[0]}),
        (r"out is read-only", {"out": np.broadcast_to(PLAIN[:1], PLAIN.shape)}),
    ],
)
def test_bad_values(message, arguments):
    with pytest.raises(upconv.InvalidArgumentError, match=message):
        upconv.conv_transpose2d(**{"x": X, "weight": W, **arguments})


@pytest.mark.parametrize("value", [1.0, True, None, (1, 1.5), {}])
def test_bad_types(value):
    with pytest.raises((TypeError, upconv.InvalidArgumentError), match="stride = .* one integer"):
        upconv.conv_transpose2d(X, W, stride=value)


def test_nothing_is_written_on_an_error():
    out = np.full(PLAIN.shape, 7, np.float32)
    with pytest.raises(upconv.InvalidArgumentError):
        upconv.conv_transpose2d(X, W, epilogue=[("add", array(5, 5))], out=out)
    assert (out == 7).all()


@pytest.mark.parametrize(
    ("before", "shape", "message"),
    [
        ("min c", (2, 3, 7, 8), "axis C, where the value that it is combined with has 1"),
        ("mean hw", (7, 8), "axis H, where the value that it is combined with has 1"),
        ("max_pool 2", (2, 3, 7, 8), "axis H, where the value that it is combined with has 3"),
        ("relu", (3, 3, 7, 8), "axis N, where the value that it is combined with has 2"),
        ("relu", (2, 3, 7, 9), "axis W, where the value that it is combined with has 8"),
    ],
)
def test_operands_larger_than_the_value(before: str, shape: tuple[int, ...], message: str) -> None:
    x, weight = np.ones((2, 4, 5, 6), np.float32), np.ones((4, 3, 3, 3), np.float32)
    operand = np.ones(shape, np.float32)
    with pytest.raises(upconv.InvalidArgumentError, match=message):
        upconv.conv_transpose2d(x, weight, epilogue=[before, ("add", operand)])
    with pytest.raises(upconv.InvalidArgumentError, match=message):
        upconv.conv_transpose2d(x, weight, epilogue=["relu", before, ("mul", operand)])
