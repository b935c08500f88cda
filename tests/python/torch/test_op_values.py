# SPDX-License-Identifier: Apache-2.0
"""The function: every operator after it, on the CPU. test_op_cuda.py has a selection on a GPU."""

import pytest
import torch
from torch_programs import CONV, LIBRARY_DTYPES, assert_near, operands_for, programs

import upconv

FUNCTION = (None, upconv.conv_transpose1d, upconv.conv_transpose2d, upconv.conv_transpose3d)
SIZES = {1: (11,), 2: (5, 7), 3: (3, 4, 5)}

# float32 in all ranks, the others in one
CASES = [
    (nd, program, dtype)
    for nd in (1, 2, 3)
    for program in programs(nd)
    for dtype in LIBRARY_DTYPES
    if nd == 2 or dtype == torch.float32
]


@pytest.mark.parametrize(
    ("nd", "program", "dtype"), CASES, ids=lambda value: str(getattr(value, "name", value))
)
def test_values(nd, program, dtype, library_runs):
    x = torch.randn(2, 4, *SIZES[nd]).to(dtype)
    weight, bias = (torch.randn(4, 6, *[3] * nd) / 3).to(dtype), torch.randn(6).to(dtype)
    arguments = (2, 1, 1)
    exact = CONV[nd](x.double(), weight.double(), bias.double(), *arguments)
    operands = operands_for(program, exact.shape, torch.float32)
    with library_runs(1):
        y = FUNCTION[nd](x, weight, bias, *arguments, epilogue=program.items(*operands))
    assert y.dtype == dtype
    wide = [operand.double() for operand in operands]
    other = program.plain(CONV[nd](x.float(), weight.float(), bias.float(), *arguments), *operands)
    assert_near(y, program.plain(exact, *wide), other)
