# SPDX-License-Identifier: Apache-2.0
"""The samples on which PyTorch tests its own conv_transpose: values, gradients, types, errors; on
the CPU, and on a GPU if there is one."""

import pytest
import torch
from torch_programs import LIBRARY_DTYPES, assert_near

import upconv
from upconv._torch.execute import Statistics

pytest.importorskip("expecttest", reason="PyTorch's own tests need expecttest")
common = pytest.importorskip("torch.testing._internal.common_methods_invocations")

INFOS = {
    info.name[-2:]: info
    for info in common.op_db
    if info.name.startswith("nn.functional.conv_transpose")
}
FUNCTIONS = {
    "1d": upconv.conv_transpose1d,
    "2d": upconv.conv_transpose2d,
    "3d": upconv.conv_transpose3d,
}
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
CASES = pytest.mark.parametrize("rank", sorted(FUNCTIONS))


@pytest.fixture(params=DEVICES)
def device(request):
    """float32 products are float32, and PyTorch gives the same bits twice."""
    cudnn = torch.backends.cudnn
    before = cudnn.allow_tf32, cudnn.deterministic
    cudnn.allow_tf32, cudnn.deterministic = False, True
    yield request.param
    cudnn.allow_tf32, cudnn.deterministic = before


def test_there_are_samples():
    assert sorted(INFOS) == ["1d", "2d", "3d"]


@CASES
@pytest.mark.parametrize("dtype", LIBRARY_DTYPES, ids=str)
def test_values(rank, dtype, device):
    count = 0
    for sample in INFOS[rank].sample_inputs(device, dtype):
        calls = Statistics.calls
        y = FUNCTIONS[rank](sample.input, *sample.args, **sample.kwargs)
        assert Statistics.calls == calls + (y.numel() > 0)
        wide = [a.double() if isinstance(a, torch.Tensor) else a for a in sample.args]
        exact = INFOS[rank].op(sample.input.double(), *wide, **sample.kwargs)
        single = [a.float() if isinstance(a, torch.Tensor) else a for a in sample.args]
        other = INFOS[rank].op(sample.input.float(), *single, **sample.kwargs)
        assert y.dtype == dtype
        assert_near(y, exact, other, factor=4 if device == "cpu" else 16)
        count += 1
    assert count >= 5


@CASES
def test_gradients(rank, device):
    def gradients(function, sample, dtype):
        given = [
            t.detach().to(dtype).requires_grad_() if isinstance(t, torch.Tensor) else t
            for t in (sample.input, *sample.args)
        ]
        y = function(*given, **sample.kwargs)
        return torch.autograd.grad(
            y.square().sum(), [t for t in given if isinstance(t, torch.Tensor)]
        )

    for sample in INFOS[rank].sample_inputs(device, torch.float32):
        found = gradients(FUNCTIONS[rank], sample, torch.float32)
        exact = gradients(INFOS[rank].op, sample, torch.float64)
        other = gradients(INFOS[rank].op, sample, torch.float32)
        for one, true, alike in zip(found, exact, other, strict=True):
            assert_near(one, true, alike, factor=16)


@CASES
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64, torch.int64], ids=str)
def test_other_types_are_pytorchs(rank, dtype, device):
    for sample in INFOS[rank].sample_inputs(device, dtype):
        arguments = (sample.input, *sample.args)
        try:
            expected = INFOS[rank].op(*arguments, **sample.kwargs)
        except RuntimeError as error:
            with pytest.raises(RuntimeError) as mine:
                FUNCTIONS[rank](*arguments, **sample.kwargs)
            assert str(mine.value) == str(error)
        else:
            torch.testing.assert_close(FUNCTIONS[rank](*arguments, **sample.kwargs), expected)


@CASES
def test_errors(rank, device):
    if INFOS[rank].error_inputs_func is None:
        return
    for wrong in INFOS[rank].error_inputs(device):
        sample = wrong.sample_input
        with pytest.raises(wrong.error_type):
            FUNCTIONS[rank](sample.input, *sample.args, **sample.kwargs)
