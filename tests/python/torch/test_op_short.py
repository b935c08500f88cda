# SPDX-License-Identifier: Apache-2.0
"""The short ways past the dispatcher: they are taken when they may be, and only then; and the code
for CUDA, as far as it can run without a GPU."""

import gc
import os
import subprocess
import sys
import sysconfig
import types

import pytest
import torch
import torch.nn.functional as F

import upconv
from upconv._torch import autograd, execute, packing, short

needs_c = pytest.mark.skipif(short.module is None, reason="upconv_short was not built")
ITEMS = ["leaky_relu 0.2", "max_pool 2"]


def layer():
    x, weight = torch.randn(2, 4, 5, 6), torch.randn(4, 6, 3, 3)
    return x, weight, torch.randn(6), torch.randn(6, 1, 1), torch.randn(2, 1, 11, 13)


def fused(x, w, b, m, t):
    return upconv.conv_transpose2d(x, w, b, 2, epilogue=[("mul", m), ("add", t), *ITEMS])


def plain(x, w, b, m, t):
    return F.max_pool2d(F.leaky_relu(F.conv_transpose2d(x, w, b, 2) * m + t, 0.2), 2)


def short_calls(function, *inputs):
    before = short.module.calls()
    y = function(*inputs)
    return y, short.module.calls() - before


def warm(function, *inputs):
    for _ in range(3):
        function(*inputs)


def test_it_was_built():
    """Wherever Python's headers are."""
    header = os.path.join(sysconfig.get_path("include"), "Python.h")
    if not os.path.isfile(header) or os.environ.get("UPCONV_SHORT") == "0":
        pytest.skip(f"no {header}, or UPCONV_SHORT=0")
    assert short.module is not None


@needs_c
@pytest.mark.parametrize("grad", [False, True])
def test_small_calls_take_the_short_way(grad):
    found = [t.requires_grad_(grad) for t in layer()]
    warm(fused, *found)
    y, count = short_calls(fused, *found)
    assert count == 1 and y.requires_grad == grad
    torch.testing.assert_close(y, plain(*found))
    if grad:
        grads = [torch.autograd.grad(v.square().sum(), found) for v in (y, plain(*found))]
        for one, other in zip(*grads):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@needs_c
def test_what_is_not_plain_does_not():
    found = layer()
    warm(fused, *found)
    wrong = [
        torch.autocast("cpu", torch.bfloat16),
        torch.autograd.forward_ad.dual_level(),
        torch.overrides.TorchFunctionMode(),
        torch.utils._python_dispatch.TorchDispatchMode(),
    ]
    for context in wrong:
        try:
            with context:
                assert short.module.call(2, *found[:3], 2, 0, 0, 1, 1, "", [], []) is None
        except NotImplementedError:  # the mode itself handles nothing
            pass
    grad = torch.func.grad(lambda x: fused(x, *found[1:]).sum())
    assert short_calls(grad, found[0])[1] == 0
    for name, other in {
        "subclass": type("Other", (torch.Tensor,), {}),
    }.items():
        x = found[0].as_subclass(other)
        assert short_calls(fused, x, *found[1:])[1] == 0, name
    assert short_calls(fused, found[0].double(), *[t.double() for t in found[1:]])[1] == 0


@needs_c
@pytest.mark.parametrize("which", [1, 2, 3])
def test_changed_weights_are_noticed(which):
    found = layer()
    warm(fused, *found)
    for _ in range(4):
        found[which].data.mul_(-1.5)
        for _ in range(3):
            torch.testing.assert_close(fused(*found), plain(*found))
    assert short_calls(fused, *found)[1] == 1


@needs_c
def test_other_memory_behind_the_same_tensors():
    found = list(layer())
    warm(fused, *found)
    for index, other in ((1, torch.randn(4, 6, 3, 3)), (2, torch.randn(6))):
        found[index].data = other
        torch.testing.assert_close(fused(*found), plain(*found))
    found[1].data = torch.randn(4, 6, 3, 6)[..., ::2]
    for _ in range(4):
        torch.testing.assert_close(fused(*found), plain(*found))
    found[2].data = torch.randn(12)[::2]
    for _ in range(4):
        torch.testing.assert_close(fused(*found), plain(*found))
    for index in (0, 1, 2):
        found[index].data = found[index].data.bfloat16()
    assert fused(*found).dtype == torch.bfloat16
    found[2].data = torch.randn(5)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            upconv.conv_transpose2d(*[t.float() for t in found[:3]], 2)


@needs_c
def test_tensors_that_are_not_what_they_seem():
    """Whose elements are negated, lie elsewhere or nowhere: of x's shape, but not for the short
    way."""
    x, weight, bias, param, tensor = layer()
    shape, strides = x.shape, x.stride()
    negated = torch.empty_strided((*shape, 2), (*[2 * s for s in strides], 1))
    negated = torch.view_as_complex(negated.normal_()).conj().imag
    assert negated.is_neg() and negated.shape == shape
    spread = x.new_zeros(*shape, 2)[..., 0].copy_(x)  # the same strides, but not negated
    assert spread.stride() == negated.stride()
    warm(fused, spread, weight, bias, param, tensor)
    assert short_calls(fused, spread, weight, bias, param, tensor)[1] == 1
    y, count = short_calls(fused, negated, weight, bias, param, tensor)
    assert count == 0
    torch.testing.assert_close(y, plain(negated.resolve_neg(), weight, bias, param, tensor))
    warm(fused, x, weight, bias, param, tensor)
    others = {
        "zero": torch._efficientzerotensor(shape),
        "functional": torch._to_functional_tensor(x),
        "meta": x.to("meta"),
        "sparse": x.to_sparse(),
        "mkldnn": x.to_mkldnn(),
        "integer": x.int(),
        "many axes": x[None, None],
        "nested": torch.nested.nested_tensor(list(x)),
    }
    for name, other in others.items():
        for at in range(5):
            tensors = [x, weight, bias, param, tensor]
            tensors[at] = other
            arguments = (*tensors[:3], 2, 0, 0, 1, 1, "", [tensors[3]], [tensors[4]])
            assert short.module.call(2, *arguments) is None, (name, at)


@needs_c
def test_the_result_is_laid_out_as_in_the_long_way():
    for x in (
        torch.randn(2, 4, 5, 6).to(memory_format=torch.channels_last),
        torch.randn(2, 4, 1, 1),
        torch.randn(1, 4, 1, 6).to(memory_format=torch.channels_last),
    ):
        weight = torch.randn(4, 1, 3, 3)
        first = upconv.conv_transpose2d(x, weight)
        warm(upconv.conv_transpose2d, x, weight)
        y, count = short_calls(upconv.conv_transpose2d, x, weight)
        assert count == 1
        assert y.stride() == first.stride() and torch.equal(y, first)
        assert y.untyped_storage().nbytes() == 4 * y.numel()


@needs_c
def test_results_in_and_outside_of_inference_mode():
    found = layer()
    with torch.inference_mode():
        warm(fused, *found)
        assert fused(*found).is_inference()
    y, count = short_calls(fused, *found)
    assert count == 1 and not y.is_inference()


@needs_c
def test_without_the_c_functions_of_dlpack():
    """As with a PyTorch that has none: tensors are asked for their attributes."""
    code = f"""
import sys, torch, pytest
torch._C._dlpack_exchange_api = lambda: None
wanted = "take or plain or changed or memory or seem or laid or inference or promised or wrong"
sys.exit(pytest.main([{__file__!r}, "-q", "-p", "no:cacheprovider", "-k", wanted]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "passed" in done.stdout and "skipped" not in done.stdout


@needs_c
def test_prepared_calls_go_with_the_weight():
    gc.collect()
    before = len(short.module.known)
    found = layer()
    warm(fused, *found)
    assert len(short.module.known) == before + 1
    del found
    gc.collect()
    assert len(short.module.known) == before


@needs_c
def test_large_calls_let_other_threads_run():
    """What would keep Python's lock for long goes the long way."""
    x, weight = torch.randn(1, 64, 8, 8), torch.randn(64, 64, 5, 5)
    call = lambda: upconv.conv_transpose2d(x, weight)  # noqa: E731
    warm(call)
    assert short_calls(call)[1] == 0


@needs_c
@pytest.mark.parametrize("channels", [4, 64])
def test_promised_weights_take_the_short_way(channels):
    x, weight, bias = torch.randn(1, 4, 8, 8), torch.randn(4, channels, 5, 5), torch.randn(channels)
    scale = torch.randn(channels, 1, 1)
    found = (x, weight, bias, scale)

    def function(x, weight, bias, scale):
        return upconv.conv_transpose2d(x, weight, bias, epilogue=[("mul", scale), "mean c"])

    def expected():
        return (F.conv_transpose2d(x, weight, bias) * scale).mean(1, keepdim=True)

    warm(function, *found)
    packing.promise(found[1:])
    warm(function, *found)
    y, count = short_calls(function, *found)
    assert count == 1
    torch.testing.assert_close(y, expected(), rtol=1e-4, atol=1e-4)
    for index in (1, 2, 3):
        found[index].mul_(-2)  # counted
        for _ in range(3):
            y, count = short_calls(function, *found)
            torch.testing.assert_close(y, expected(), rtol=1e-4, atol=1e-4)
        assert count == 1
        found[index].data = torch.randn_like(found[index])  # other memory
        for _ in range(3):
            torch.testing.assert_close(function(*found), expected(), rtol=1e-4, atol=1e-4)


@needs_c
def test_promised_inference_tensors_take_the_long_way():
    with torch.inference_mode():
        found = layer()
        packing.promise(found[1:4])
        warm(fused, *found)
        y, count = short_calls(fused, *found)
        assert count == 0
        torch.testing.assert_close(y, plain(*found))


@needs_c
def test_wrong_arguments_of_the_module():
    for call in (
        lambda: short.module.call(1),
        lambda: short.module.setup(),
        lambda: short.module.Prepared(1),
        lambda: short.module.store(*[1] * 13),
        lambda: short.module.forward(None, None),
        lambda: short.module.forward(None, 1, None, None, None),
    ):
        with pytest.raises(TypeError):
            call()
    assert short.module.call(*[None] * 12) is None
    x = torch.randn(1, 2, 4)
    assert short.module.call(1, x, x, 3, 1, 0, 0, 1, 1, "", [], []) is None
    assert short.module.call(1, x, x, None, 1, 0, 0, 1, 1, "", [3], []) is None
    assert short.module.call(1, x, x, None, [[1]], {}, 0, 1, 1, "", [], []) is None


@needs_c
def test_after_a_fork():
    code = """
import os, torch, upconv
torch.set_num_threads(1)
x, w = torch.randn(1, 2, 5), torch.randn(2, 3, 3)
call = lambda: upconv.conv_transpose1d(x, w)
y = [call() for _ in range(4)][-1]
child = os.fork()
if child == 0:
    os._exit(0 if torch.equal(call(), y) and torch.equal(call(), y) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert torch.equal(call(), y)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)


def test_without_the_module_in_c():
    code = """
import torch, upconv, torch.nn.functional as F
from upconv._torch import short
assert short.module is None
x, w = torch.randn(1, 2, 5), torch.randn(2, 3, 3)
for _ in range(4):
    torch.testing.assert_close(upconv.conv_transpose1d(x, w), F.conv_transpose1d(x, w))
    w.data.neg_()
assert upconv.nn.ConvTranspose1d(2, 3, 3)(x).shape == (1, 3, 7)
"""
    environment = {**os.environ, "UPCONV_SHORT": "0"}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100, env=environment)


# ---------------------------------------------------------------- CUDA's code, on the CPU


def prepared_call():
    x, weight, bias, param, tensor = layer()
    sizes = ((2, 2), (0, 0), (0, 0), 1, (1, 1))
    text = "mul @p0 | add #t0[nhw] | leaky_relu 0.2 | max_pool 2"
    arguments = (x, weight, bias, sizes, text, [param], [tensor])
    return arguments, execute.find(*arguments), plain(x, weight, bias, param, tensor)


def run_in_c(prepared, x, weight, bias, sizes, text, params, tensors):
    context = types.SimpleNamespace()
    y = short.module.forward(context, prepared, x, weight, bias, *params, *tensors)
    assert context.settings.text == text and context.settings.sizes == sizes
    saved = (x, weight, bias, *params, *tensors)
    assert all(one is other for one, other in zip(context.to_save, saved, strict=True))
    return y


@needs_c
def test_packing_at_each_call_in_c():
    arguments, call, expected = prepared_call()
    prepared = short.prepare(
        short.PACKED_ANEW, call, arguments[0], None, autograd.Settings(*arguments[3:5], 1)
    )
    torch.testing.assert_close(run_in_c(prepared, *arguments), expected)
    arguments[1].data.neg_(), arguments[2].data.neg_()
    y, count = short_calls(run_in_c, prepared, *arguments)
    assert count == 1
    torch.testing.assert_close(y, plain(*arguments[:3], *arguments[5], *arguments[6]))


@needs_c
def test_what_is_prepared_does_not_fit_any_more():
    """The forward pass in C then asks Python, with the same arguments."""
    arguments, call, expected = prepared_call()
    for _ in range(2):  # the second packing is kept with copies
        execute.run(*arguments)
    kept = packing.find(arguments[1], call.packing)
    settings = autograd.Settings(*arguments[3:5], 1)
    prepared = short.prepare(short.COMPARED, call, arguments[0], kept, settings)
    assert short_calls(run_in_c, prepared, *arguments)[1] == 1
    arguments[1].data.mul_(2)
    y, count = short_calls(run_in_c, prepared, *arguments)
    assert count == 0
    torch.testing.assert_close(y, plain(*arguments[:3], *arguments[5], *arguments[6]))


def test_tensors_of_other_devices_are_never_run():
    """Also when a call of the same shapes is prepared: its kernels would read foreign memory."""
    arguments, _, _ = prepared_call()
    execute.run(*arguments)
    for index in (1, 2):
        wrong = list(arguments)
        wrong[index] = wrong[index].to("meta")
        with pytest.raises(RuntimeError, match="should be the same"):
            execute.on_one_device(*wrong[:4], *wrong[5:])
    for index in (5, 6):
        wrong = list(arguments)
        wrong[index] = [wrong[index][0].to("meta")]
        with pytest.raises(RuntimeError, match="must be on cpu"):
            execute.on_one_device(*wrong[:4], *wrong[5:])


def test_scalars_of_the_cpu_go_to_the_device():
    x, scalar = torch.empty(2, 3, 4, device="meta"), torch.tensor(2.0)
    weight, vector = torch.empty(3, 4, 2, device="meta"), torch.empty(4, device="meta")
    sizes = ((1,), (0,), (0,), 1, (1,))
    params, _ = execute.on_one_device(x, weight, None, sizes, [scalar, vector], [])
    assert params[0].device == x.device and params[0].shape == () and params[1] is vector


def test_packing_at_each_call_in_python(monkeypatch):
    arguments, call, expected = prepared_call()
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: 0, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 0, raising=False)
    call.device = torch.device("cpu", 0)
    x, weight, bias, _, _, params, tensors = arguments
    packs = packing.Statistics.packs
    for _ in range(3):
        y = execute._run_on_cuda(call, x, weight, bias, params, tensors)
        torch.testing.assert_close(y, expected)
    assert packing.Statistics.packs == packs + 3


def test_promised_weights_and_captures(monkeypatch):
    """What is packed during a capture is of no use outside, and what a graph reads is never
    freed."""
    arguments, call, expected = prepared_call()
    capturing = False
    synchronized = []

    class Stream:
        def synchronize(self):
            synchronized.append(True)

    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capturing)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Stream())
    monkeypatch.setattr(packing, "_captured", [])
    _, weight, bias, _, _, params, _ = arguments

    def packed():
        return packing.packed_on_cuda(call.packing, call.packed_size, True, weight, bias, params, 0)

    capturing = True
    first = packed()
    assert packing.find(weight, call.packing) is None and not synchronized
    capturing = False
    second = packed()
    assert second is not first and synchronized == [True]
    assert packed() is second and packing._captured == []
    capturing = True
    assert packed() is second and packing._captured == [second]
    capturing = False
    weight.add_(1)
    third = packed()
    assert third is not second and packing._captured == [second]
