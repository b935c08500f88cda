# SPDX-License-Identifier: Apache-2.0
"""Random problems such as networks have them, the same for the same seed. Nothing but Python."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from typing import NamedTuple


class Drawn(NamedTuple):
    family: str
    text: str


class Limits(NamedTuple):
    """What one problem may take; the batch shrinks until it does."""

    macs: float
    elements: int  # of x and of y, each


CPU = Limits(macs=1e9, elements=1 << 23)
GPU = Limits(macs=1e11, elements=1 << 25)

BATCH_NORM = "batch_norm mean=@m var=@v weight=@w bias=@b"
LEAKY = ("leaky_relu 0.01", "leaky_relu 0.1", "leaky_relu 0.2")


class Sketch(NamedTuple):
    """A problem before its batch is known. geometry: kernel and so on, one value for all axes."""

    batch: int
    channels: tuple[int, int]
    groups: int
    size: tuple[int, ...]
    kernel: int
    stride: int
    padding: int
    output_padding: int
    bias: bool
    operators: tuple[str, ...] = ()


def near(r: random.Random, value: int) -> int:
    """Mostly the value, sometimes one that nobody would choose."""
    return value if r.random() < 0.7 else max(1, round(value * r.uniform(0.7, 1.4)))


def cube(r: random.Random, dims: int, extents: tuple[int, ...]) -> tuple[int, ...]:
    """Mostly the same extent along each axis."""
    first = near(r, r.choice(extents))
    if r.random() < 0.7:
        return (first,) * dims
    return tuple(near(r, first) for _ in range(dims))


def unet(r: random.Random) -> Sketch:
    level = r.randrange(5)
    dims = r.choice((2, 3, 3))
    wide = near(r, 32 << level) if r.random() < 0.8 else 320
    size = cube(r, dims, (256 >> level,) if dims == 2 else (64 >> level,))
    return Sketch(r.choice((1, 2, 4)), (2 * wide, wide), 1, size, 2, 2, 0, 0, r.random() < 0.8)


def gan(r: random.Random) -> Sketch:
    level, dims = r.randrange(4), r.choice((2, 3, 3))
    last = level == 3
    wide = near(r, 512 >> level)
    tail = (r.choice(("tanh", "sigmoid")),) if last else (BATCH_NORM, r.choice(("relu", *LEAKY)))
    narrow = r.choice((1, 3)) if last else max(1, wide // 2)
    return Sketch(
        r.choice((8, 16, 32, 64)), (wide, narrow), 1, (4 << level,) * dims, 4, 2, 1, 0, last, tail
    )


def vocoder(r: random.Random) -> Sketch:
    stride = r.choice((2, 2, 4, 5, 8))
    kernel = 2 * stride if r.random() < 0.7 else 2 * stride + 1
    wide = near(r, r.choice((512, 256, 128, 64)))
    length = near(r, 8192 // wide * r.choice((4, 16, 64)))
    return Sketch(
        r.choice((1, 4, 16)),
        (wide, max(1, wide // 2)),
        1,
        (length,),
        kernel,
        stride,
        (kernel - stride) // 2,
        0,
        True,
        (r.choice(LEAKY),),
    )


def image(r: random.Random) -> Sketch:
    kernel, padding, output_padding = r.choice(
        ((4, 1, 0), (3, 1, 1), (3, 0, 0), (2, 0, 0), (5, 2, 1))
    )
    wide = near(r, r.choice((512, 256, 128, 64, 32)))
    tail = r.choice(((), ("relu",), (BATCH_NORM, "relu"), ("silu",), ("add #skip", "relu")))
    return Sketch(
        r.choice((1, 8, 32, 64)),
        (wide, r.choice((wide, max(1, wide // 2)))),
        1,
        cube(r, 2, (14, 28, 32, 56, 64)),
        kernel,
        2,
        padding,
        output_padding,
        r.random() < 0.6,
        tail,
    )


def depthwise(r: random.Random) -> Sketch:
    dims = r.choice((1, 2, 2, 3))
    wide = near(r, r.choice((32, 64, 128, 256)))
    size = cube(r, dims, {1: (512, 4096), 2: (32, 64, 128), 3: (16, 32)}[dims])
    kernel, padding, output_padding = r.choice(((4, 1, 0), (3, 1, 1), (2, 0, 0)))
    tail = r.choice(((), ("relu",), (BATCH_NORM, "hardswish")))
    return Sketch(
        r.choice((1, 4, 16)),
        (wide, wide),
        wide,
        size,
        kernel,
        2,
        padding,
        output_padding,
        False,
        tail,
    )


def grouped(r: random.Random) -> Sketch:
    groups = r.choice((2, 4, 8, 16))
    per_group = r.choice((4, 8, 16, 32))
    dims = r.choice((2, 3))
    kernel, padding, output_padding = r.choice(((3, 1, 1), (4, 1, 0), (5, 2, 1)))
    return Sketch(
        r.choice((1, 8, 16)),
        (groups * per_group, groups * r.choice((per_group, max(1, per_group // 2)))),
        groups,
        cube(r, dims, (32, 56) if dims == 2 else (12, 24)),
        kernel,
        2,
        padding,
        output_padding,
        r.random() < 0.5,
        r.choice(((), ("relu",), ("leaky_relu 0.2", "mul @s"))),
    )


def few_channels(r: random.Random) -> Sketch:
    wide, narrow = near(r, r.choice((8, 16, 32, 64))), r.choice((1, 2, 3, 4))
    channels = (wide, narrow) if r.random() < 0.6 else (narrow, wide)
    dims = r.choice((2, 3))
    kernel, padding, output_padding = r.choice(((3, 1, 1), (3, 1, 0), (4, 1, 0), (2, 0, 0)))
    tails = ((), ("sigmoid",), ("max_pool 2",), ("scale 0.5", "avg_pool 2", "add @b"), ("softmax",))
    return Sketch(
        r.choice((1, 4, 16, 64)),
        channels,
        1,
        cube(r, dims, (64, 128) if dims == 2 else (16, 32)),
        kernel,
        2,
        padding,
        output_padding,
        True,
        r.choice(tails),
    )


FAMILIES: dict[str, Callable[[random.Random], Sketch]] = {
    "U-Net": unet,
    "GAN": gan,
    "vocoder": vocoder,
    "2-D": image,
    "depthwise": depthwise,
    "grouped": grouped,
    "few channels": few_channels,
}


def fits(s: Sketch, batch: int, limits: Limits) -> bool:
    (ci, co), inputs = s.channels, math.prod(s.size)
    outputs = inputs * s.stride ** len(s.size)
    macs = batch * inputs * ci * (co // s.groups) * s.kernel ** len(s.size)
    return macs <= limits.macs and batch * max(ci * inputs, co * outputs) <= limits.elements


def write(s: Sketch, batch: int, mode: str) -> str:
    counts = [f"n{batch}", f"ci{s.channels[0]}", f"co{s.channels[1]}"]
    if s.groups > 1:
        counts.append(f"g{s.groups}")
    counts += ["in" + "x".join(map(str, s.size)), f"k{s.kernel}", f"s{s.stride}"]
    counts += [f"p{s.padding}"] * (s.padding > 0) + [f"op{s.output_padding}"] * (
        s.output_padding > 0
    )
    counts += ["bias"] * s.bias
    if mode:
        counts.append(mode)
    return " | ".join([" ".join(counts), *s.operators])


def draw(seed: int, modes: tuple[str, ...], limits: Limits) -> Iterator[Drawn]:
    """Without end; the families take turns. modes: words such as "dtype=f16", or ""."""
    r = random.Random(seed)
    while True:
        for family, sketch in FAMILIES.items():
            s = sketch(r)
            batch = s.batch
            while batch > 1 and not fits(s, batch, limits):
                batch //= 2
            mode = r.choice(modes)
            if fits(s, batch, limits):
                yield Drawn(family, write(s, batch, mode))
