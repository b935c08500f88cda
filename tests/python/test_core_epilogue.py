# SPDX-License-Identifier: Apache-2.0
"""Epilogues from Python values to text."""

import numpy as np
import pytest

import upconv
from upconv._epilogue import full_shape, parse


def a(*shape):
    return np.zeros(shape, np.float32)


def text_of(epilogue, dims=3):
    return parse(epilogue, dims, lambda array: {4: "f32", 2: "f16"}[array.itemsize]).text


@pytest.mark.parametrize(
    "epilogue, text",
    [
        (None, ""),
        ("", ""),
        ((), ""),
        ([], ""),
        ("relu | max_pool 2", "relu | max_pool 2"),
        (["relu", " leaky_relu 0.2 ", "max_pool 2"], "relu | leaky_relu 0.2 | max_pool 2"),
        ([("leaky_relu", 0.2), ("clamp", 0, 6.5)], "leaky_relu 0.2 | clamp 0 6.5"),
        ([("clamp", -float("inf"), np.float32(0.5))], "clamp -inf 0.5"),
        ([("softmax",), ("mean", "dhw")], "softmax | mean dhw"),
        (["relu", ("mul", "%0"), ("sub", 1, "%1")], "relu | mul %0 | sub 1 %1"),
        (
            [("max_pool", 2, {"stride": 2, "padding": 1, "dilation": (1, 1, 2)})],
            "max_pool 2 s2 p1 d1x1x2",
        ),
        ([("max_pool", np.int64(2), {"stride": None, "ceil_mode": True})], "max_pool 2 ceil"),
        (
            [("avg_pool", (2, 3, 3), {"count_include_pad": False, "divisor_override": 4})],
            "avg_pool 2x3x3 exclude_pad div=4",
        ),
        ([("avg_pool", 2, {"count_include_pad": True, "ceil_mode": False})], "avg_pool 2"),
        ([("max_pool", 3, {"padding": 0, "padding_end": 1})], "max_pool 3 p0 pe1"),
        ([("batch_norm", a(4), a(4))], "batch_norm mean=@p0 var=@p0.2"),
        (
            ["relu", ("batch_norm", a(4), a(4), None, a(4), 1e-3)],
            "relu | batch_norm mean=@p1 var=@p1.2 bias=@p1.3 eps=0.001",
        ),
        (
            [("batch_norm", a(4), a(4), a(4), {"eps": 0.5})],
            "batch_norm mean=@p0 var=@p0.2 weight=@p0.3 eps=0.5",
        ),
        ([("prelu", a(1)), ("prelu", a(4))], "prelu @p0[] | prelu @p1"),
    ],
)
def test_text(epilogue, text):
    assert text_of(epilogue) == text


@pytest.mark.parametrize(
    "shape, dims, name",
    [
        ((), 3, "@p0[]"),
        ((1,), 3, "@p0[]"),
        ((1, 1, 1, 1, 1), 3, "@p0[]"),
        ((4,), 3, "@p0"),
        ((4, 1, 1, 1), 3, "@p0"),
        ((1, 4, 1, 1, 1), 3, "@p0"),
        ((4, 1), 1, "@p0"),
        ((1, 4, 1), 1, "@p0"),
        ((1, 4), 1, "#t0[w]:f32"),
        ((4, 4), 1, "#t0[cw]:f32"),
        ((4, 1, 1), 1, "#t0[n]:f32"),
        ((5, 6), 3, "#t0[hw]:f32"),
        ((4, 1, 6), 3, "#t0[dw]:f32"),
        ((4, 1, 1), 3, "#t0[d]:f32"),
        ((2, 4, 5, 6, 7), 3, "#t0[ncdhw]:f32"),
        ((0, 4, 5, 6), 2, "#t0[nchw]:f32"),
        ((2, 1, 5, 6), 2, "#t0[nhw]:f32"),
    ],
)
def test_parameter_or_tensor(shape, dims, name):
    array = a(*shape)
    parsed = parse([("add", array)], dims, lambda _: "f32")
    assert parsed.text == "add " + name
    assert [*parsed.params, *parsed.tensors] == [array] or (parsed.params or parsed.tensors)[
        0
    ] is array
    assert bool(parsed.params) == name.startswith("@")


def test_order_and_types():
    m, v, r, s = a(4), a(4), a(2, 4, 5, 6), a(5, 6).astype(np.float16)
    parsed = parse(
        [("add", r), ("batch_norm", m, v), ("mul", s)], 2, lambda x: f"f{x.itemsize * 8}"
    )
    assert parsed.text == "add #t0[nchw]:f32 | batch_norm mean=@p1 var=@p1.2 | mul #t2[hw]:f16"
    assert parsed.params[0] is m and parsed.params[1] is v
    assert parsed.tensors[0] is r and parsed.tensors[1] is s
    assert full_shape(s.shape, 2) == (1, 1, 5, 6)


@pytest.mark.parametrize(
    "epilogue, where, why",
    [
        (5, "epilogue of type int", "text, or a list"),
        ({"relu"}, "epilogue of type set", "text, or a list"),
        ("add @x", 'epilogue = "add @x"', "has no array"),
        (["relu", 3], r"epilogue\[1\] = 3", "must be the text of an operator, or a tuple"),
        (["relu", ()], r"epilogue\[1\] = \(\)", "must be the text of an operator, or a tuple"),
        (["relu", "nonsense"], r"epilogue\[1\] = 'nonsense'", "expected an operator"),
        (["relu | relu"], r"epilogue\[0\]", "must be one operator"),
        (["mul #x"], r"epilogue\[0\]", "has no array"),
        ([("relu | relu",)], r"epilogue\[0\]", "must be one operator"),
        ([("add",)], r"epilogue\[0\] = \('add',\)", "an operand is missing"),
        ([("add", [1.0])], r"epilogue\[0\] = \('add', \(1.0,\)\)", "must be a number, an array"),
        ([("add", None)], r"epilogue\[0\] = \('add', None\)", "must be a number, an array"),
        ([("add", True)], r"epilogue\[0\]", "True: must be a number"),
        ([("add", a(1, 1, 1, 1, 2, 2))], r"epilogue\[0\]", "more axes than the value"),
        ([("relu", {"slope": 1})], r"epilogue\[0\]", "takes no options"),
        ([("max_pool", 2, {"strides": 2})], r"epilogue\[0\]", 'option "strides"'),
        ([("max_pool", 2, {"count_include_pad": True})], r"epilogue\[0\]", "count_include_pad"),
        ([("max_pool", 2.0)], r"epilogue\[0\] = \('max_pool', 2.0\)", "must be an integer"),
        ([("max_pool", True)], r"epilogue\[0\]", "must be an integer"),
        (["relu", ("max_pool", 2, {"padding": 2})], r"epilogue\[1\]", "pad"),
        (["relu", ("max_pool", (2, 2))], r"epilogue\[1\]", ""),
        (["relu", "mul %2"], r"epilogue\[1\] = 'mul %2'", "no such value"),
        ([("batch_norm", a(4))], r"epilogue\[0\]", "takes mean, variance"),
        ([("batch_norm", None, a(4))], r"epilogue\[0\]", "must be a number, an array"),
        ([("batch_norm", a(4, 4), a(4))], r"epilogue\[0\]", "must have one element per channel"),
        ([("batch_norm", a(4), a(4), {"epsilon": 1})], r"epilogue\[0\]", 'must be "eps"'),
        ([("batch_norm", a(4), a(4), None, None, "1")], r"epilogue\[0\]", "must be a number"),
        ([("leaky_relu", float("nan"))], r"epilogue\[0\]", ""),
    ],
)
def test_errors_name_the_item(epilogue, where, why):
    with pytest.raises(upconv.InvalidArgumentError, match=f"^{where}.*: .*{why}"):
        text_of(epilogue)


def test_shape_errors_name_the_item_too():
    """Found when the parameter meets its channels: @p1 belongs to item 1."""
    x, w = np.ones((1, 2, 4), np.float32), np.ones((2, 3, 2), np.float32)
    with pytest.raises(upconv.InvalidArgumentError, match="@p1"):
        upconv.conv_transpose1d(x, w, epilogue=["relu", ("mul", np.ones(4, np.float32))])
    with pytest.raises(upconv.InvalidArgumentError, match="t1"):
        upconv.conv_transpose1d(x, w, epilogue=["relu", ("mul", np.ones((3, 4), np.float32))])
