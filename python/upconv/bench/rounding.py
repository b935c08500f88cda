# SPDX-License-Identifier: Apache-2.0
"""How the arithmetic under test rounds: the numbers that error bounds are made of."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from upconv._torch import execute

FLOAT32 = 2.0**-24  # the largest relative error of one rounding to nearest
STORED = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
# Half of the smallest number: what rounding costs near zero.
SMALLEST = {torch.float32: 2.0**-150, torch.float16: 2.0**-25, torch.bfloat16: 2.0**-134}
# An operator may round a few times inside, and library functions are good to a few units.
STEPS = 4.0


@dataclass(frozen=True)
class Rounding:
    """For one device, data type and math mode."""

    dtype: torch.dtype = torch.float32
    operands: float = 0.0  # of a convolution's factors: 2^-11 for TF32
    matmul_operands: float = 0.0  # the same of a matrix product
    tensor_core: bool = False  # accumulation may truncate

    @property
    def stored(self) -> float:
        return STORED.get(self.dtype, FLOAT32)

    @property
    def smallest(self) -> float:
        return SMALLEST.get(self.dtype, 0.0)

    def of_sum(self, terms: float) -> float:
        """Of a sum of `terms` products, relative to the sum of their magnitudes."""
        chain = 4 + 2 * math.sqrt(terms)
        return FLOAT32 * (max(chain, 4 + terms / 16) if self.tensor_core else chain)


@contextmanager
def quiet() -> Iterator[None]:
    """PyTorch warns of its older switches for TF32, the only ones that all its versions have."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def convolutions_use_tf32() -> bool:
    return execute.allows_tf32()


def products_use_tf32() -> bool:
    with quiet():
        try:
            return torch.backends.cuda.matmul.allow_tf32
        except RuntimeError:  # it was set by the newer switch
            return torch.backends.cuda.matmul.fp32_precision == "tf32"


def set_math(math: str | None) -> None:
    """TF32 for convolutions and matrix products, or for neither; None leaves PyTorch's settings."""
    if math is not None:
        with quiet():
            torch.backends.cudnn.allow_tf32 = math == "tf32"
            torch.backends.cuda.matmul.allow_tf32 = math == "tf32"


def rounding_of(device: torch.device, dtype: torch.dtype) -> Rounding:
    """As PyTorch is set up now: TF32 counts only where the device's float32 may use it."""
    if device.type != "cuda":
        return Rounding(dtype)
    single, tf32 = dtype == torch.float32, 2.0**-11
    conv = tf32 if single and convolutions_use_tf32() else 0.0
    matmul = tf32 if single and products_use_tf32() else 0.0
    return Rounding(dtype, conv, matmul, tensor_core=not single or conv > 0 or matmul > 0)
