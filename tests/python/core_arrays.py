# SPDX-License-Identifier: Apache-2.0
"""NumPy arrays as what upconv._core takes, and a plan with arrays to try it on."""

from __future__ import annotations

import numpy as np
import numpy_reference as reference

from upconv import _core as core

TEXT = "n2 ci3 co4 in5x6x7 k3 s2 p1 op1 bias | leaky_relu 0.25 | mul @m | add #r | max_pool 2"


def tensor(array: np.ndarray, offset: tuple[int, ...] = ()) -> core.Tensor:
    steps = [step // array.itemsize for step in array.strides]
    code = {"float32": core.F32, "float16": core.F16}[array.dtype.name]
    return core.Tensor(array.ctypes.data, code, array.shape, steps, offset)


def aligned(size: int) -> np.ndarray:
    """Bytes whose first one lies as packed buffers and workspaces must."""
    memory = np.empty(size + core.ALIGNMENT, np.uint8)
    return memory[-memory.ctypes.data % core.ALIGNMENT :][:size]


class Trial:
    """A plan for TEXT with arrays for everything that it reads, and what the result should be."""

    def __init__(self, text: str = TEXT, seed: int = 1, **options) -> None:
        random = np.random.default_rng(seed)
        self.plan = core.Plan(core.context("cpu"), text, **options)
        self.problem = self.plan.problem

        def array(*shape):
            return random.uniform(-1, 1, shape).astype(np.float32)

        self.x = array(*self.problem.x_shape)
        self.weight = array(*self.problem.weight_shape)
        self.bias = array(self.problem.out_channels)
        self.params = [array(self.problem.out_channels) for _ in self.plan.param_names]
        self.tensors = [array(*self.problem.conv_shape()) for _ in self.plan.tensor_names]
        self.y = np.full(self.plan.output_shape(self.x.shape), np.nan, np.float32)
        self.packed = aligned(self.plan.packed_size)
        self.workspace = aligned(self.plan.workspace_size(self.x.shape))

    def pack(self) -> None:
        self.plan.pack(
            tensor(self.weight),
            tensor(self.bias),
            [tensor(param) for param in self.params],
            self.packed.ctypes.data,
        )

    def execute(self) -> np.ndarray:
        self.plan.execute(
            tensor(self.x),
            tensor(self.y),
            [tensor(extra) for extra in self.tensors],
            self.packed.ctypes.data,
            self.workspace.ctypes.data,
            self.workspace.size,
        )
        return self.y

    def expected(self) -> reference.Value:
        """Of TEXT."""
        value = reference.conv_transpose(
            self.x, self.weight, self.bias, (2,) * 3, (1,) * 3, (1,) * 3, 1, (1,) * 3
        )
        value = reference.elementwise(lambda v: np.where(v > 0, v, v / 4), 1.0, value)
        value = reference.scale(value, self.params[0].reshape(-1, 1, 1, 1))
        return reference.max_pool(reference.add(value, self.tensors[0]), 2)

    def prepare(self) -> tuple[core.Execution, core.Packing]:
        execution = self.plan.prepare(
            tensor(self.x), tensor(self.y), list(map(tensor, self.tensors))
        )
        packing = self.plan.prepare_pack(
            tensor(self.weight), tensor(self.bias), list(map(tensor, self.params))
        )
        return execution, packing
