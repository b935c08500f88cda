# SPDX-License-Identifier: Apache-2.0
"""Gradients: of every operator with respect to everything, of gradients, and of torch.func."""

import pytest
import torch
import torch.nn.functional as F
from torch_programs import CONV, assert_near, operands_for, programs

import upconv

FUNCTION = (None, upconv.conv_transpose1d, upconv.conv_transpose2d, upconv.conv_transpose3d)
SIZES = {1: (9,), 2: (4, 5), 3: (3, 3, 4)}
CASES = [(nd, program) for nd in (1, 2, 3) for program in programs(nd)]


def gradients(function, inputs, dtype):
    """The result, and the gradients of a fixed mixture of its elements."""
    inputs = [i.to(dtype).detach().requires_grad_() for i in inputs]
    y = function(*inputs)
    mixture = torch.linspace(-1, 1, y.numel(), dtype=torch.float64).reshape(y.shape).to(dtype)
    return y, torch.autograd.grad(y, inputs, mixture)


@pytest.mark.parametrize(("nd", "program"), CASES, ids=lambda value: getattr(value, "name", value))
def test_gradients_of_every_operator(nd, program, library_runs):
    x, weight = torch.randn(2, 3, *SIZES[nd]), torch.randn(3, 4, *[3] * nd) / 3
    bias = torch.randn(4)
    shape = CONV[nd](x, weight, bias, 2, 1, 1).shape
    inputs = [x, weight, bias, *operands_for(program, shape, torch.float32)]

    def fused(x, w, b, *operands):
        return FUNCTION[nd](x, w, b, 2, 1, 1, epilogue=program.items(*operands))

    def plain(x, w, b, *operands):
        return program.plain(CONV[nd](x, w, b, 2, 1, 1), *operands)

    if program.name == "batch_norm":  # PyTorch has no gradient of the running statistics
        named = inputs[3:5]
        inputs = inputs[:3] + inputs[5:]
        fused_all, plain_all = fused, plain

        def fused(x, w, b, *rest):
            return fused_all(x, w, b, *named, *rest)

        def plain(x, w, b, *rest):
            return plain_all(x, w, b, *[n.to(x.dtype) for n in named], *rest)

    with library_runs(1):
        y, found = gradients(fused, inputs, torch.float32)
    exact, wanted = gradients(plain, inputs, torch.float64)
    _, other = gradients(plain, inputs, torch.float32)
    assert_near(y.detach(), exact.detach())
    for one, true, alike in zip(found, wanted, other):
        assert one.dtype == torch.float32
        assert_near(one, true, alike)


def test_gradients_of_batch_norm_statistics():
    x, weight = torch.randn(2, 3, 4, 5), torch.randn(3, 4, 3, 3)
    inputs = [torch.randn(4), torch.rand(4) + 0.5]

    def fused(mean, var):
        return upconv.conv_transpose2d(x, weight, epilogue=[("batch_norm", mean, var)])

    def plain(mean, var):
        y = F.conv_transpose2d(x.to(mean.dtype), weight.to(mean.dtype))
        return (y - mean.view(-1, 1, 1)) / (var.view(-1, 1, 1) + 1e-5).sqrt()

    for one, true in zip(
        gradients(fused, inputs, torch.float32)[1], gradients(plain, inputs, torch.float64)[1]
    ):
        assert_near(one, true)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("epilogue", [[], ["silu", "avg_pool 2"]], ids=["none", "silu"])
def test_gradients_of_16_bits(dtype, epilogue, library_runs):
    x, weight, bias = torch.randn(2, 4, 5, 6), torch.randn(4, 3, 3, 3) / 4, torch.randn(3)
    inputs = [i.to(dtype).requires_grad_() for i in (x, weight, bias)]
    with library_runs(1):
        y = upconv.conv_transpose2d(*inputs, 2, epilogue=epilogue)
    y.sum().backward()
    wide = [i.detach().double().requires_grad_() for i in inputs]
    z = F.conv_transpose2d(*wide, 2)
    (F.avg_pool2d(F.silu(z), 2) if epilogue else z).sum().backward()
    for mine, true in zip(inputs, wide):
        assert mine.grad.dtype == dtype
        scale = true.grad.abs().max()
        assert (mine.grad.double() - true.grad).abs().max() < 4 * torch.finfo(dtype).eps * scale


@pytest.mark.parametrize("which", range(5))
def test_only_wanted_gradients_are_made(which, library_runs):
    inputs = [
        torch.randn(2, 3, 6),
        torch.randn(3, 4, 3),
        torch.randn(4),
        torch.randn(4, 1),
        torch.randn(2, 4, 8),
    ]
    inputs[which].requires_grad_()
    x, w, b, m, t = inputs
    with library_runs(1):
        y = upconv.conv_transpose1d(x, w, b, epilogue=["tanh", ("mul", m), ("add", t)])
    y.sum().backward()
    assert [i.grad is not None for i in inputs] == [i == which for i in range(5)]


@pytest.mark.parametrize("epilogue", [False, True])
def test_gradients_of_gradients(epilogue):
    """A penalty on the gradient, as generative models have it."""
    x, weight, scale = torch.randn(2, 3, 5), torch.randn(3, 4, 3), torch.randn(4, 1)

    def fused(x, w, m):
        items = ["softplus", ("mul", m), "softmax"] if epilogue else []
        return upconv.conv_transpose1d(x, w, None, 2, epilogue=items)

    def plain(x, w, m):
        y = F.conv_transpose1d(x, w, None, 2)
        return (F.softplus(y) * m).softmax(1) if epilogue else y

    def penalty(function, dtype):
        inputs = [t.to(dtype).requires_grad_() for t in (x.clone(), weight.clone(), scale.clone())]
        y = function(*inputs).pow(3).sum()
        grads = torch.autograd.grad(y, inputs[:2], create_graph=True)
        sum(g.square().sum() for g in grads).backward()
        return [t.grad for t in inputs[: 3 if epilogue else 2]]

    for one, true in zip(penalty(fused, torch.float32), penalty(plain, torch.float64)):
        assert (one.double() - true).abs().max() < 2e-5 * true.abs().max()


def test_gradgradcheck_of_float64():
    x = torch.randn(1, 2, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(2, 3, 3, dtype=torch.float64, requires_grad=True)
    scale = torch.randn(3, 1, dtype=torch.float64, requires_grad=True)

    def function(x, w, m):
        return upconv.conv_transpose1d(x, w, None, 2, epilogue=["tanh", ("mul", m), "avg_pool 2"])

    assert torch.autograd.gradcheck(function, (x, weight, scale))
    assert torch.autograd.gradgradcheck(function, (x, weight, scale))


def test_inputs_that_depend_on_each_other():
    """One tensor twice, and a weight made from x: each path counts once, also with create_graph."""
    x = torch.randn(4, 4, 4, dtype=torch.float32)

    def fused(x):
        return upconv.conv_transpose1d(x, x, None, 1, 1, epilogue=[("add", x[:, :, :1]), "tanh"])

    def plain(x):
        return (F.conv_transpose1d(x, x, None, 1, 1) + x[:, :, :1]).tanh()

    for create_graph in (False, True):
        found = []
        for function, dtype in ((fused, torch.float32), (plain, torch.float64)):
            leaf = x.to(dtype).clone().requires_grad_()
            made = leaf * 0.5
            found += torch.autograd.grad(function(made).sum(), leaf, create_graph=create_graph)
        assert_near(found[0].detach(), found[1].detach())


def test_backward_twice_and_freed_graph():
    x, weight = torch.randn(1, 2, 5), torch.randn(2, 3, 3, requires_grad=True)
    loss = upconv.conv_transpose1d(x, weight, epilogue=["relu"]).sum()
    loss.backward(retain_graph=True)
    first = weight.grad.clone()
    loss.backward()
    assert torch.equal(weight.grad, 2 * first)
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_changed_inputs_are_noticed():
    x, weight = torch.randn(1, 2, 5), torch.randn(2, 3, 3, requires_grad=True)
    loss = upconv.conv_transpose1d(x, weight, epilogue=["relu"]).sum()
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_torch_func():
    """Transforms nest: gradients, gradients of gradients, and derivatives along a direction."""
    x, weight, scale = torch.randn(2, 3, 5), torch.randn(3, 4, 3), torch.randn(4, 1)

    def fused(m):
        return upconv.conv_transpose1d(x, weight, epilogue=["tanh", ("mul", m)]).pow(3).sum()

    def plain(m):
        return (F.conv_transpose1d(x, weight).tanh() * m).pow(3).sum()

    grad = torch.func.grad
    torch.testing.assert_close(grad(fused)(scale), grad(plain)(scale))
    twice = [grad(lambda m, f=f: grad(f)(m).square().sum())(scale) for f in (fused, plain)]
    torch.testing.assert_close(*twice)
    along = [torch.func.jvp(f, (scale,), (torch.ones_like(scale),)) for f in (fused, plain)]
    torch.testing.assert_close(*along)


def test_forward_mode():
    x, weight = torch.randn(2, 3, 5), torch.randn(3, 4, 3)
    tangents = []
    for function in (upconv.conv_transpose1d, F.conv_transpose1d):
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
            y = function(dual, weight)
            tangents.append(torch.autograd.forward_ad.unpack_dual(y).tangent)
    torch.testing.assert_close(*tangents)


def test_checkpoint():
    from torch.utils.checkpoint import checkpoint

    x, weight = torch.randn(2, 3, 5), torch.randn(3, 4, 3, requires_grad=True)

    def block(x):
        return upconv.conv_transpose1d(x, weight, epilogue=["silu"]).sum()

    block(x).backward()
    expected, weight.grad = weight.grad, None
    checkpoint(block, x, use_reentrant=False).backward()
    assert torch.equal(weight.grad, expected)
