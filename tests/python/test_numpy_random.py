# SPDX-License-Identifier: Apache-2.0
"""Random transposed convolutions of NumPy arrays against their definition."""

import ml_dtypes
import numpy as np
import numpy_reference as reference
from hypothesis import given, settings
from hypothesis import strategies as st

import upconv

FUNCTIONS = {1: upconv.conv_transpose1d, 2: upconv.conv_transpose2d, 3: upconv.conv_transpose3d}
DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16]


class Problem:
    """A random problem with its arrays."""

    def __init__(self, draw):
        def number(low, high):
            return draw(st.integers(low, high))

        def axes(low, high):
            return tuple(number(low, high) for _ in range(dims))

        dims = self.dims = number(1, 3)
        self.groups = number(1, 3)
        channels_in, channels_out = number(1, 4), number(1, 4)
        self.stride, self.dilation = axes(1, 4), axes(1, 3)
        kernel, in_size = axes(1, 4), axes(1, 5)
        natural = [
            (i - 1) * s + d * (k - 1) + 1
            for i, s, d, k in zip(in_size, self.stride, self.dilation, kernel)
        ]
        self.padding = tuple(number(0, min(3, (n - 1) // 2)) for n in natural)
        self.output_padding = tuple(
            number(0, max(s, d) - 1) for s, d in zip(self.stride, self.dilation)
        )
        self.random = np.random.default_rng(number(0, 2**32 - 1))
        self.dtype = draw(st.sampled_from(DTYPES))
        self.x = self.array((number(1, 3), self.groups * channels_in, *in_size), draw)
        self.w = self.array((self.groups * channels_in, channels_out, *kernel), draw)
        self.bias = self.array((self.groups * channels_out,), draw) if number(0, 1) else None
        self.channels = self.groups * channels_out

    def array(self, shape, draw):
        """Numbers from -1 to 1; in memory the axes may be in any order, backwards, with gaps."""
        order = draw(st.permutations(range(len(shape))))
        steps = draw(st.lists(st.sampled_from([1, 1, 2, -1]), min_size=len(shape), max_size=99))
        wide = [shape[axis] * abs(steps[axis]) for axis in order]
        memory = self.random.uniform(-1, 1, wide).astype(self.dtype)
        back = memory.transpose(np.argsort(order))
        view = back[tuple(slice(None, None, step) for step in steps[: len(shape)])]
        assert view.shape == shape
        return view

    def arguments(self):
        return {
            "stride": self.stride,
            "padding": self.padding,
            "output_padding": self.output_padding,
            "groups": self.groups,
            "dilation": self.dilation,
        }

    def reference(self):
        return reference.conv_transpose(self.x, self.w, self.bias, **self.arguments())

    def run(self, **more):
        return FUNCTIONS[self.dims](self.x, self.w, self.bias, **self.arguments(), **more)


@st.composite
def problems(draw):
    return Problem(draw)


@settings(max_examples=150)
@given(problems())
def test_convolution(problem):
    y = problem.run()
    assert y.dtype == problem.dtype
    reference.check(y, problem.reference())


@settings(max_examples=100)
@given(problems(), st.data())
def test_with_epilogue(problem, data):
    expected, items = problem.reference(), []
    column = (-1, *[1] * problem.dims)
    for kind in data.draw(st.lists(st.sampled_from(["leaky", "scale", "add", "pool"]), max_size=4)):
        if kind == "leaky":
            items.append(("leaky_relu", 0.25))
            expected = reference.elementwise(lambda v: np.where(v > 0, v, 0.25 * v), 1.0, expected)
        elif kind == "scale":
            factor = problem.array((problem.channels,), data.draw)
            items.append(("mul", data.draw(st.sampled_from([factor, factor.reshape(column)]))))
            expected = reference.scale(expected, factor.reshape(column))
        elif kind == "add":
            shape = [data.draw(st.sampled_from([1, n])) for n in expected.value.shape]
            shape = tuple(shape[data.draw(st.integers(0, 2)) :])
            if len(shape) == 1 and shape[0] > 1:
                shape = (1, *shape) if problem.dims > 1 else (1, 1, *shape)
            extra = problem.array(shape, data.draw)
            items.append(("add", extra))
            if extra.size == problem.channels and extra.shape[:1] == extra.size:
                extra = extra.reshape(column)
            expected = reference.add(expected, _aligned(extra, problem))
        elif min(expected.value.shape[2:]) >= 2:
            items.append(("max_pool", 2))
            expected = reference.max_pool(expected, 2)
    reference.check(problem.run(epilogue=items), expected)


def _aligned(extra, problem):
    """[C, 1, ...] is one number a channel; else NumPy's own alignment is meant."""
    if extra.ndim == problem.dims + 1 and extra.size == extra.shape[0]:
        return extra[None]
    return extra


@settings(max_examples=60)
@given(problems(), st.booleans())
def test_out_inside_a_larger_array(problem, batched):
    """The result lands in a slice, and nothing around it is touched."""
    expected = problem.reference()
    shape = expected.value.shape
    poison = problem.random.uniform(-1, 1, [n * 2 + 2 for n in shape]).astype(problem.dtype)
    if problem.random.integers(2):
        poison = np.moveaxis(np.ascontiguousarray(np.moveaxis(poison, 1, -1)), -1, 1)
    before = poison.copy()
    inside = tuple(
        slice(1, 1 + n) if problem.random.integers(2) else slice(2 * n, 0, -2) for n in shape
    )
    out = poison[inside]
    assert problem.run(out=out) is out
    reference.check(out, expected)
    mask = np.ones(poison.shape, bool)
    mask[inside] = False
    assert np.array_equal(poison[mask], before[mask])
    if shape[0] == 1:
        alone = np.empty(shape[1:], problem.dtype)
        problem.x = problem.x[0]
        assert problem.run(out=alone) is alone
        assert np.array_equal(alone, out[0])
