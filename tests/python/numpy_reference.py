# SPDX-License-Identifier: Apache-2.0
"""Transposed convolution and a few operators by their definitions, in float64, each with a bound on
the error that float32 arithmetic may have. Shares nothing with the library."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

EPSILON = 2.0**-24


class Value(NamedTuple):
    """What an array should hold, and how far from it right arithmetic may be."""

    value: np.ndarray
    bound: np.ndarray


def conv_transpose(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    output_padding: tuple[int, ...],
    groups: int,
    dilation: tuple[int, ...],
) -> Value:
    """Every x is spread over the outputs that it reaches; then the padding is cut off."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    value = _spread(x, w, stride, padding, output_padding, groups, dilation)
    size = _spread(abs(x), abs(w), stride, padding, output_padding, groups, dilation)
    if bias is not None:
        column = bias.astype(np.float64).reshape(-1, *[1] * len(stride))
        value, size = value + column, size + abs(column)
    terms = w.shape[0] // groups * np.prod(w.shape[2:])
    return Value(value, (4 + 2 * np.sqrt(terms)) * EPSILON * size)


def _spread(x, w, stride, padding, output_padding, groups, dilation):
    axes = range(len(stride))
    in_size, kernel = x.shape[2:], w.shape[2:]
    reach = [
        (in_size[a] - 1) * stride[a] + dilation[a] * (kernel[a] - 1) + 1 + output_padding[a]
        for a in axes
    ]
    channels = w.shape[1]
    full = np.zeros((x.shape[0], groups * channels, *(max(r, 0) for r in reach)))
    each = x.shape[1] // groups
    for g, taps in itertools.product(range(groups), itertools.product(*map(range, kernel))):
        some, weights = x[:, g * each : (g + 1) * each], w[g * each : (g + 1) * each]
        product = np.einsum("nc...,ce->ne...", some, weights[(slice(None), slice(None), *taps)])
        target = full[:, g * channels : (g + 1) * channels]
        where = tuple(
            slice(dilation[a] * taps[a], dilation[a] * taps[a] + in_size[a] * stride[a], stride[a])
            for a in axes
        )
        target[(slice(None), slice(None), *where)][tuple(slice(n) for n in product.shape)] += (
            product
        )
    inside = tuple(slice(padding[a], reach[a] - padding[a]) for a in axes)
    return full[(slice(None), slice(None), *inside)]


def elementwise(function, slope: float, v: Value) -> Value:
    """function, which is monotone or has at most this slope, applied to v."""
    value = function(v.value)
    return Value(value, slope * v.bound + EPSILON * abs(value))


def scale(v: Value, factor: np.ndarray) -> Value:
    factor = factor.astype(np.float64)
    value = v.value * factor
    return Value(value, v.bound * abs(factor) + 4 * EPSILON * abs(value))


def add(v: Value, other: np.ndarray) -> Value:
    value = v.value + other.astype(np.float64)
    return Value(value, v.bound + EPSILON * (abs(value) + abs(other)))


def max_pool(v: Value, window: int) -> Value:
    """Windows of that size and stride along every axis, whole ones only."""
    dims = v.value.ndim - 2
    parts = [
        (..., *(slice(i, None if n % window == 0 else n - n % window, window)
                for i, n in zip(corner, v.value.shape[2:])))
        for corner in itertools.product(range(window), repeat=dims)
    ]  # fmt: skip
    return Value(
        np.max([v.value[part] for part in parts], axis=0),
        np.max([v.bound[part] for part in parts], axis=0),
    )


_STORAGE = {"float32": (2.0**-24, 2.0**-150), "float16": (2.0**-11, 2.0**-25),
            "bfloat16": (2.0**-8, 2.0**-134)}  # fmt: skip


def check(y: np.ndarray, expected: Value) -> None:
    """Fails unless each element of y is where right arithmetic, stored as y's type, can be."""
    assert y.shape == expected.value.shape
    relative, smallest = _STORAGE[y.dtype.name]
    bound = expected.bound + relative * (abs(expected.value) + expected.bound) + smallest
    off = abs(y.astype(np.float64) - expected.value)
    worst = np.max(off / bound, initial=0.0)
    assert np.all(off <= bound), f"{worst:.3g} times the error that is allowed"
