# SPDX-License-Identifier: Apache-2.0
"""Error bounds of the bench tool: float32 keeps them, and they are tight enough to see an error."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from upconv.bench import rounding
from upconv.bench.bound import carried
from upconv.bench.reference import run_in_double
from upconv.bench.rounding import Rounding


class Function(nn.Module):
    """A function as a module that can be copied in float64."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def in_place(x):
    """Written into slices: a bound has to follow its value there."""
    both = x.new_zeros(x.shape[0], 2 * x.shape[1], *x.shape[2:])
    both[:, : x.shape[1]] = x
    both[:, x.shape[1] :].copy_(x).mul_(0.5).relu_()
    return both


FOLLOWS = {
    "relu in place": nn.ReLU(inplace=True),
    "batch norm": nn.BatchNorm3d(8),
    "group norm": nn.GroupNorm(2, 8),
    "instance norm": nn.InstanceNorm3d(8, affine=True),
    "layer norm": nn.LayerNorm([11, 13, 15]),
    "max pool": nn.MaxPool3d(2),
    "average pool": nn.AvgPool3d(3, 2, 1),
    "adaptive average": nn.AdaptiveAvgPool3d(1),
    "softmax": nn.Softmax(1),
    "log softmax": nn.LogSoftmax(1),
    "logsumexp": Function(lambda x: x.logsumexp(1)),
    "gelu": nn.GELU(),
    "gelu tanh": nn.GELU(approximate="tanh"),
    "silu": nn.SiLU(),
    "mish": nn.Mish(),
    "softplus": nn.Softplus(),
    "hardswish": nn.Hardswish(),
    "hardtanh": nn.Hardtanh(-0.3, 0.2),
    "prelu": nn.PReLU(8),
    "elu": nn.ELU(),
    "sigmoid": nn.Sigmoid(),
    "tanh": nn.Tanh(),
    "upsample": nn.Upsample(scale_factor=2, mode="trilinear"),
    "pad": Function(lambda x: F.pad(x, (1, 2, 0, 1))),
    "linear": nn.Sequential(nn.Flatten(2), nn.Linear(11 * 13 * 15, 7)),
    "convolution": nn.Conv3d(8, 4, 3, groups=2),
    "x sigmoid(x)": Function(lambda x: x * x.sigmoid() + x),
    "division": Function(lambda x: x / (x.abs() + 1)),
    "difference": Function(lambda x: x - x.mean((2, 3, 4), keepdim=True)),
    "minimum": Function(lambda x: torch.minimum(x, 0.1 * x)),
    "matrix product": Function(lambda x: x.flatten(2) @ x.flatten(2).transpose(1, 2)),
    "scale and clamp": Function(lambda x: (2.5 * x + 0.1).clamp(-1, 1)),
    "slices": Function(in_place),
}


def model_of(follows):
    first = nn.ConvTranspose3d(4, 8, 3, stride=2)
    return nn.Sequential(first, copy.deepcopy(follows))


@torch.no_grad()
def both(model, x, how):
    """float32's (or 16-bit) result, and float64's with its bound."""
    done = run_in_double(copy.deepcopy(model).double(), [x], how)
    return model(x.clone()).double(), done


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", FOLLOWS)
def test_float32_keeps_the_bound(name, training):
    model = model_of(FOLLOWS[name]).train(training)
    for _ in range(3):
        y, done = both(model, torch.randn(2, 4, 5, 6, 7), Rounding())
        assert done.lost == ""
        (bound,) = done.bounds
        error = (y - done.outputs).abs()
        assert bound.shape == error.shape
        assert bool((error <= bound).all())
        # no wider than a few thousand roundings of the largest value
        assert float(bound.median()) < 3e-4 * float(done.outputs.abs().max())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_16_bits_keep_the_bound(dtype):
    """Right arithmetic: float32 inside each operator, its result rounded. (PyTorch's own float16 on
    a CPU adds in float16.)"""
    model = nn.Sequential(
        nn.ConvTranspose2d(6, 8, 4, stride=2, padding=1), nn.LeakyReLU(0.2), nn.AvgPool2d(2)
    )
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype).float()
    x = torch.randn(2, 6, 9, 8).to(dtype).float()
    with torch.no_grad():
        done = run_in_double(copy.deepcopy(model).double(), [x], Rounding(dtype))
        for layer in model:
            x = layer(x).to(dtype).float()
    error = (x.double() - done.outputs).abs()
    assert done.lost == ""
    assert bool((error <= done.bounds[0]).all())
    assert float((error / done.bounds[0]).max()) > 0.1


def test_a_missing_tap_is_beyond_the_bound():
    conv = nn.ConvTranspose3d(8, 8, 3, stride=2, padding=1)
    x = torch.rand(2, 8, 6, 6, 6)
    _, done = both(conv, x, Rounding())
    with torch.no_grad():
        conv.weight[3, 5, 1, 1, 1] = 0
        error = (conv(x).double() - done.outputs).abs()
    touched = error[:, 5, ::2, ::2, ::2]  # the phase that this tap alone serves
    assert bool((touched > done.bounds[0][:, 5, ::2, ::2, ::2]).all())


def test_an_unknown_operator_ends_the_bound_but_not_the_run():
    model = nn.Sequential(nn.ConvTranspose1d(3, 4, 3), Function(lambda x: x.cumsum(-1)))
    _, done = both(model, torch.rand(2, 3, 9), Rounding())
    assert "cumsum" in done.lost
    assert done.bounds == [None]
    assert done.outputs.dtype == torch.float64


def test_a_choice_that_depends_on_rounding_ends_the_bound():
    model = nn.Sequential(
        nn.ConvTranspose1d(3, 4, 3), Function(lambda x: torch.where(x > 0, x + 1, x))
    )
    _, done = both(model, torch.rand(2, 3, 9), Rounding())
    assert "gt" in done.lost


def test_what_is_moved_is_exact():
    with torch.no_grad():
        done = carried(
            lambda x: x.transpose(1, 2).flatten(1), [torch.rand(2, 3, 4).double()], Rounding()
        )
    assert done.lost == ""
    assert done.bounds == [None]


def test_the_default_type_is_put_back():
    model = Function(lambda x: x + torch.ones(x.shape[-1]) / 3)
    with torch.no_grad():
        done = run_in_double(model, [torch.rand(2, 3)], Rounding())
    assert torch.get_default_dtype() == torch.float32
    assert done.outputs.dtype == torch.float64


def test_math_modes_of_a_gpu():
    """TF32 is in the bound where PyTorch allows it; the settings need no GPU."""
    convolutions = rounding.convolutions_use_tf32()
    products = rounding.products_use_tf32()
    cuda = torch.device("cuda")
    try:
        rounding.set_math("tf32")
        found = rounding.rounding_of(cuda, torch.float32)
        assert found == Rounding(torch.float32, 2**-11, 2**-11, tensor_core=True)
        assert rounding.rounding_of(cuda, torch.float16) == Rounding(
            torch.float16, tensor_core=True
        )
        assert rounding.rounding_of(torch.device("cpu"), torch.float32) == Rounding()
        rounding.set_math("ieee")
        assert rounding.rounding_of(cuda, torch.float32) == Rounding()
        rounding.set_math(None)
        assert not rounding.convolutions_use_tf32()
    finally:
        torch.backends.cudnn.allow_tf32 = convolutions
        torch.backends.cuda.matmul.allow_tf32 = products
