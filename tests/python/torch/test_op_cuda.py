# SPDX-License-Identifier: Apache-2.0
"""The operator on a GPU: values, streams, graphs, devices, math modes. Run by
scripts/check-gpu-torch; skipped, by name, where there is no GPU."""

import copy
import threading

import pytest
import torch
import torch.nn.functional as F
from torch_programs import CONV, LIBRARY_DTYPES, assert_near, operands_for, programs

import upconv
from upconv._torch.execute import Statistics, allows_tf32

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")

FUNCTION = (None, upconv.conv_transpose1d, upconv.conv_transpose2d, upconv.conv_transpose3d)
SIZES = {1: (11,), 2: (5, 7), 3: (3, 4, 5)}
# Not all ranks and types with every program, each of which is compiled for the device; 2-D programs
# of float32 have their values and gradients compared at once.
CASES = [
    (nd, program, dtype)
    for nd in (1, 2, 3)
    for program in (programs(nd)[0], programs(nd)[-1])
    for dtype in LIBRARY_DTYPES
    if (nd, dtype) != (2, torch.float32)
]
EPILOGUE = ["leaky_relu 0.2", "max_pool 2"]


@pytest.fixture(autouse=True)
def ieee():
    """float32 products are float32 unless a test says otherwise; PyTorch's as well."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before


def tail(y):
    return F.max_pool2d(F.leaky_relu(y, 0.2), 2)


def layer(dtype=torch.float32, batch=2):
    x = torch.randn(batch, 4, 10, 12, device="cuda", dtype=dtype)
    weight = torch.randn(4, 6, 3, 3, device="cuda", dtype=dtype) / 4
    return x, weight, torch.randn(6, device="cuda", dtype=dtype)


def exact(x, weight, bias):
    return tail(F.conv_transpose2d(x.double(), weight.double(), bias.double(), 2))


def fused(x, weight, bias):
    return upconv.conv_transpose2d(x, weight, bias, 2, epilogue=EPILOGUE)


@pytest.mark.parametrize(
    ("nd", "program", "dtype"), CASES, ids=lambda value: str(getattr(value, "name", value))
)
def test_values(nd, program, dtype, library_runs):
    x = torch.randn(2, 4, *SIZES[nd]).to(dtype)
    weight, bias = (torch.randn(4, 6, *[3] * nd) / 3).to(dtype), torch.randn(6).to(dtype)
    true = CONV[nd](x.double(), weight.double(), bias.double(), 2, 1, 1)
    operands = operands_for(program, true.shape, torch.float32)
    on_gpu = [t.cuda() for t in (x, weight, bias)]
    with library_runs(1):
        y = FUNCTION[nd](*on_gpu, 2, 1, 1, epilogue=program.items(*[o.cuda() for o in operands]))
    assert y.is_cuda and y.dtype == dtype
    other = program.plain(CONV[nd](x.float(), weight.float(), bias.float(), 2, 1, 1), *operands)
    assert_near(y.cpu(), program.plain(true, *[o.double() for o in operands]), other, factor=16)


@pytest.mark.parametrize("program", programs(2), ids=lambda program: program.name)
def test_values_and_gradients_of_every_operator(program, library_runs):
    x, weight, bias = torch.randn(2, 4, *SIZES[2]), torch.randn(4, 6, 3, 3) / 3, torch.randn(6)
    shape = F.conv_transpose2d(x, weight, bias, 2, 1, 1).shape
    inputs = [x, weight, bias, *operands_for(program, shape, torch.float32)]
    statistics = range(3, 5) if program.name == "batch_norm" else ()  # PyTorch's have no gradient

    def run(function, dtype):
        given = [
            t.to("cuda", dtype).requires_grad_(i not in statistics) for i, t in enumerate(inputs)
        ]
        y = function(*given)
        mixture = torch.linspace(-1, 1, y.numel(), dtype=torch.float64).reshape(y.shape).to(y)
        return y.detach(), torch.autograd.grad(y, [t for t in given if t.requires_grad], mixture)

    def mine(x, w, b, *rest):
        return upconv.conv_transpose2d(x, w, b, 2, 1, 1, epilogue=program.items(*rest))

    def plain(x, w, b, *rest):
        return program.plain(F.conv_transpose2d(x, w, b, 2, 1, 1), *rest)

    with library_runs(1):
        y, found = run(mine, torch.float32)
    (true_y, wanted), (other_y, alike) = run(plain, torch.float64), run(plain, torch.float32)
    assert_near(y, true_y, other_y, factor=16)
    for one, true, other in zip(found, wanted, alike, strict=True):
        assert one.is_cuda and one.dtype == torch.float32
        assert_near(one, true, other, factor=16)


@pytest.mark.parametrize("nd", [2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_channels_last(nd, dtype, library_runs):
    memory_format = torch.channels_last if nd == 2 else torch.channels_last_3d
    x = torch.randn(2, 8, *SIZES[nd], device="cuda", dtype=dtype)
    weight = torch.randn(8, 6, *[3] * nd, device="cuda", dtype=dtype) / 6
    with library_runs(1):
        y = FUNCTION[nd](x.to(memory_format=memory_format), weight, stride=2, epilogue=["relu"])
    assert y.is_contiguous(memory_format=memory_format)
    assert_near(y, CONV[nd](x.double(), weight.double(), stride=2).relu(), None)


def test_non_contiguous(library_runs):
    x, weight, bias = layer()
    x = x.transpose(2, 3)[:, :, 1::2]
    weight = weight.permute(0, 1, 3, 2)
    with library_runs(1):
        y = fused(x, weight, bias)
    assert_near(y, exact(x, weight, bias))


def test_tf32_follows_pytorchs_switch():
    # so many products that no plan does without the tensor cores where it may use them
    x = torch.randn(8, 256, 32, 32, device="cuda")
    weight = torch.randn(256, 256, 3, 3, device="cuda")
    true = F.conv_transpose2d(x.double(), weight.double(), stride=2)
    errors = []
    for allowed in (False, True):
        torch.backends.cudnn.allow_tf32 = allowed
        assert allows_tf32() == allowed
        y = upconv.conv_transpose2d(x, weight, stride=2)
        errors.append((y - true).abs().max().item() / true.abs().max().item())
    assert errors[0] < 1e-5 and errors[1] < 1e-2
    if torch.cuda.get_device_capability() >= (8, 0):
        assert errors[1] > 10 * errors[0]


def test_gradients(library_runs):
    inputs = [t.requires_grad_() for t in layer()]
    scale = torch.randn(6, 1, 1, device="cuda", requires_grad=True)
    with library_runs(1):
        y = upconv.conv_transpose2d(*inputs, 2, epilogue=["silu", ("mul", scale), "avg_pool 2"])
    grads = torch.autograd.grad(y.square().sum(), [*inputs, scale])
    wide = [t.detach().double().requires_grad_() for t in (*inputs, scale)]
    true = F.avg_pool2d(F.silu(F.conv_transpose2d(*wide[:3], 2)) * wide[3], 2)
    for one, other in zip(grads, torch.autograd.grad(true.square().sum(), wide)):
        assert (one.double() - other).abs().max() < 1e-4 * other.abs().max()


# ---------------------------------------------------------------- streams


def test_current_stream():
    """Work is queued on the current stream: a slow kernel before it there is waited for."""
    x, weight, bias = layer()
    expected = fused(x, weight, bias)
    stream = torch.cuda.Stream()
    late = torch.zeros_like(x)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late.copy_(x)
        y = fused(late, weight, bias)
    assert not stream.query()  # nothing waited for the GPU
    stream.synchronize()
    assert torch.equal(y, expected)


def test_many_streams_and_threads():
    x, weight, bias = layer()
    expected = fused(x, weight, bias)
    torch.cuda.synchronize()
    errors = []

    def work():
        try:
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.default_stream())
            with torch.cuda.stream(stream):
                for _ in range(50):
                    mine = weight.clone()
                    y = fused(x, mine, bias)
                    mine.data.zero_()
                    assert torch.equal(y, expected)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors[0]


def test_no_synchronisation():
    found = layer()
    for _ in range(3):
        fused(*found)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(3):
            fused(*found)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_memory_is_pytorchs():
    """The result, and little beside it: not what the convolution made before the maximum."""
    x = torch.randn(8, 32, 64, 64, device="cuda")
    weight = torch.randn(32, 32, 2, 2, device="cuda")

    def call():
        return upconv.conv_transpose2d(x, weight, stride=2, epilogue=["relu", "max_pool 2"])

    for _ in range(3):
        y = call()
    size, growth = y.numel() * y.element_size(), []
    del y
    for _ in range(50):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before, free = torch.cuda.memory_allocated(), torch.cuda.mem_get_info()[0]
        y = call()
        torch.cuda.synchronize()
        assert size <= torch.cuda.memory_allocated() - before <= size + (1 << 20)
        assert torch.cuda.max_memory_allocated() - before <= size + (2 << 20) < 4 * size
        growth.append(free - torch.cuda.mem_get_info()[0])
        del y
    # Nothing behind PyTorch's back. Other processes may use the device: not during each call.
    assert min(growth) <= 0


# ---------------------------------------------------------------- weights that change


def test_changed_weights_are_never_stale():
    x, weight, bias = layer()
    for _ in range(4):
        weight.data.mul_(-1.25)
        bias.data.add_(1)
        assert_near(fused(x, weight, bias), exact(x, weight, bias))


def test_inference_tensors():
    with torch.inference_mode():
        x, weight, bias = layer()
        for _ in range(4):
            weight.mul_(-1.25)
            assert_near(fused(x, weight, bias), exact(x, weight, bias))


def test_frozen_weights_are_packed_once():
    module = upconv.nn.ConvTranspose2d(4, 6, 3, 2, epilogue=EPILOGUE, frozen=True).cuda()
    x = layer()[0]
    with torch.no_grad():
        y, packs, calls = module(x), Statistics.packs, Statistics.calls
        for _ in range(3):
            assert torch.equal(module(x), y)
        with torch.cuda.stream(torch.cuda.Stream()):
            assert torch.equal(module(x), y)
        assert Statistics.packs == packs and Statistics.calls == calls + 4
        module.weight.mul_(2)
        assert_near(module(x), exact(x, module.weight, module.bias))
        assert Statistics.packs == packs + 1


# ---------------------------------------------------------------- graphs


@pytest.mark.parametrize("frozen", [False, True])
def test_cuda_graph(frozen):
    """Replays read x, and, unless frozen, the weights, as they are then."""
    module = upconv.nn.ConvTranspose2d(4, 6, 3, 2, epilogue=EPILOGUE, frozen=frozen).cuda()
    x = layer()[0]
    with torch.no_grad():
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                module(x)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = module(x)
        for _ in range(3):
            x.normal_()
            if not frozen:
                module.weight.data.mul_(-1.25)
            graph.replay()
            torch.cuda.synchronize()
            assert_near(y, exact(x, module.weight, module.bias))
            # other users of the allocator in between do not disturb it
            torch.randn(1 << 20, device="cuda")
            module(x * 2)


def test_cuda_graph_without_warming_up():
    """The first call that a process makes for a problem may be under capture."""
    x = torch.randn(3, 5, 9, 7, device="cuda")
    module = upconv.nn.ConvTranspose2d(5, 7, 3, 2, epilogue=["tanh"], frozen=True).cuda()
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        y = module(x)
    graph.replay()
    weights = [module.weight.double(), module.bias.double()]
    assert_near(y, F.conv_transpose2d(x.double(), *weights, 2).tanh())
    with torch.no_grad():
        assert torch.equal(module(x), y)


def test_make_graphed_callables():
    module = upconv.nn.ConvTranspose2d(4, 6, 3, 2, epilogue=["silu"]).cuda()
    twin = copy.deepcopy(module)
    x = torch.randn(2, 4, 5, 6, device="cuda", requires_grad=True)
    graphed = torch.cuda.make_graphed_callables(module, (x,))
    y, expected = graphed(x), twin(x)
    torch.testing.assert_close(y, expected)
    y.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(module.weight.grad, twin.weight.grad, rtol=1e-4, atol=1e-4)


# ---------------------------------------------------------------- autocast, compile, devices


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_autocast(dtype):
    inputs = [t.requires_grad_() for t in layer()]
    with torch.autocast("cuda", dtype):
        y = fused(*inputs)
        like = F.conv_transpose2d(*inputs, 2)
    assert y.dtype == like.dtype == dtype
    y.sum().backward()
    assert all(t.grad.dtype == torch.float32 for t in inputs)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["aot_eager", "inductor", "cudagraphs"])
def test_compile(backend):
    if backend == "inductor":
        pytest.importorskip("triton")
    torch._dynamo.reset()
    inputs = layer()
    compiled = torch.compile(fused, fullgraph=True, backend=backend)
    for _ in range(3):
        torch.testing.assert_close(compiled(*inputs), fused(*inputs))


@pytest.mark.filterwarnings("ignore")
def test_opcheck():
    x, weight, bias = layer()
    sizes = ([2, 2], [0, 0], [0, 0], 1, [1, 1])
    scale = torch.randn(6, 1, 1, device="cuda")
    arguments = (x, weight, bias, *sizes, "mul @p0 | relu", [scale], [])
    torch.library.opcheck(torch.ops.upconv.conv_transpose.default, arguments)


@pytest.mark.parametrize("grad", [False, True])
def test_scalars_on_the_cpu(grad):
    """As in PyTorch, a tensor without axes may stay on the CPU; also when a call with one on the
    GPU is prepared."""
    x, weight, _ = layer()
    for device in ("cuda", "cuda", "cuda", "cpu", "cpu"):
        scalar = torch.tensor(3.0, device=device, requires_grad=grad)
        y = upconv.conv_transpose2d(x, weight, epilogue=[("mul", scalar)])
        plain = F.conv_transpose2d(x.double(), weight.double())
        assert_near(y.detach(), plain * 3)
        if grad:
            (found,) = torch.autograd.grad(y.sum(), scalar)
            assert found.device.type == device
            assert abs(found.item() - plain.sum().item()) < 1e-5 * plain.abs().sum().item()


def test_mixed_devices_are_refused():
    """Also when calls of these shapes are prepared."""
    x, weight, bias = layer()
    scale = torch.randn(6, 1, 1, device="cuda")

    def scaled(x, weight, bias, scale):
        return upconv.conv_transpose2d(x, weight, bias, epilogue=[("mul", scale)])

    for inputs in ([x, weight, bias, scale], [t.cpu() for t in (x, weight, bias, scale)]):
        for _ in range(3):
            scaled(*inputs)
        for index, tensor in enumerate(inputs):
            other = tensor.cpu() if tensor.is_cuda else tensor.cuda()
            with pytest.raises(RuntimeError):
                scaled(*inputs[:index], other, *inputs[index + 1 :])
    torch.cuda.synchronize()


def test_out_on_the_current_stream():
    """Into a part of a larger tensor, without waiting."""
    x, weight, bias = layer()
    expected = fused(x, weight, bias)
    both = torch.zeros(2, 9, *expected.shape[2:], device="cuda")
    late, stream = torch.zeros_like(x), torch.cuda.Stream()
    upconv.conv_transpose2d(x, weight, bias, 2, epilogue=EPILOGUE, out=both[:, 3:])
    assert torch.equal(both[:, 3:], expected)
    both.zero_()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late.copy_(x)
        upconv.conv_transpose2d(late, weight, bias, 2, epilogue=EPILOGUE, out=both[:, 3:])
    assert not stream.query()
    stream.synchronize()
    assert torch.equal(both[:, 3:], expected) and both[:, :3].eq(0).all()


def test_out_in_a_cuda_graph():
    x, weight, bias = layer()
    both = torch.zeros(2, 9, *fused(x, weight, bias).shape[2:], device="cuda")

    def call():
        upconv.conv_transpose2d(x, weight, bias, 2, epilogue=EPILOGUE, out=both[:, 3:])

    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    for _ in range(2):
        x.normal_()
        graph.replay()
        assert_near(both[:, 3:], exact(x, weight, bias))
    assert both[:, :3].eq(0).all()


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU")
def test_second_gpu():
    x, weight, bias = [t.to("cuda:1") for t in layer()]
    for _ in range(3):
        y = fused(x, weight, bias)
    assert y.device.index == 1 and torch.cuda.current_device() == 0
    assert_near(y, exact(x, weight, bias))
