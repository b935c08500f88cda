# SPDX-License-Identifier: Apache-2.0
"""The operator among PyTorch's other features: opcheck, torch.compile, autocast, vmap, modes,
threads, and weights that change behind PyTorch's back."""

import gc
import threading
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch.profiler import profile
from torch.utils._python_dispatch import TorchDispatchMode

import upconv
from upconv._torch import functional, packing
from upconv._torch.execute import Statistics

OP = torch.ops.upconv.conv_transpose.default


def arguments(dtype=torch.float32, grad=False, layout=torch.contiguous_format):
    x = torch.randn(2, 4, 5, 6).to(dtype=dtype, memory_format=layout)
    weight, bias = torch.randn(4, 6, 3, 3).to(dtype), torch.randn(6).to(dtype)
    param, tensor = torch.randn(6, 1, 1), torch.randn(2, 1, 5, 1)
    found = [t.requires_grad_(grad) for t in (x, weight, bias, param, tensor)]
    text = "leaky_relu 0.2 | mul @p0 | max_pool 2 | add #t0[nh]"
    sizes = ([2, 2], [1, 1], [1, 1], 1, [1, 1])
    return (*found[:3], *sizes, text, [found[3]], [found[4]])


def fused(x, w, b, m, t):
    items = ["leaky_relu 0.2", ("mul", m), ("max_pool", 2), ("add", t)]
    return upconv.conv_transpose2d(x, w, b, 2, 1, 1, epilogue=items)


def plain(x, w, b, m, t):
    return F.max_pool2d(F.leaky_relu(F.conv_transpose2d(x, w, b, 2, 1, 1), 0.2) * m, 2) + t


def inputs(**options):
    found = arguments(**options)
    return [*found[:3], found[9][0], found[10][0]]


# ---------------------------------------------------------------- registration


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.filterwarnings("ignore")
def test_opcheck(dtype, grad, layout):
    torch.library.opcheck(OP, arguments(dtype, grad, layout))


@pytest.mark.filterwarnings("ignore")
def test_opcheck_of_strided_and_plain_inputs():
    found = arguments()
    x = torch.randn(2, 4, 6, 5).transpose(2, 3)
    torch.library.opcheck(OP, (x, *found[1:]))
    torch.library.opcheck(OP, (*found[:2], None, *found[3:8], "", [], []))


def test_fake_tensors_have_the_shapes_of_real_ones():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        fake = fused(*[mode.from_tensor(t) for t in inputs()])
    real = fused(*inputs())
    assert (fake.shape, fake.stride(), fake.dtype) == (real.shape, real.stride(), real.dtype)


def test_raw_operator_refuses():
    found = arguments()
    with pytest.raises(RuntimeError, match="one per channel along one axis"):
        OP(*found[:9], [torch.randn(2, 3)], found[10])
    with pytest.raises(RuntimeError):
        OP(*found[:8], "mul @a | add @b", [torch.randn(6)], [])
    with pytest.raises(RuntimeError):
        OP(*found[:8], "no_such_operator", [], [])


def test_vmap_is_refused():
    x, *rest = inputs()
    with pytest.raises(NotImplementedError, match="vmap"):
        torch.vmap(lambda x: fused(x, *rest))(x.expand(3, *x.shape))


def test_dispatch_modes_see_the_operator(library_runs):
    class Recorder(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.seen = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen.append(func)
            return func(*args, **(kwargs or {}))

    with Recorder() as recorder, library_runs(1):
        fused(*inputs())
    assert OP in recorder.seen


def test_subclasses_go_through_the_operator():
    class Named(torch.Tensor):
        pass

    x, *rest = inputs()
    y = fused(x.as_subclass(Named), *rest)
    torch.testing.assert_close(y.as_subclass(torch.Tensor), fused(x, *rest))


def test_the_profiler_sees_the_operator():
    with profile() as found:
        fused(*inputs())
    assert any(event.name == "upconv::conv_transpose" for event in found.events())


def test_tracing():
    found = inputs()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(lambda *i: fused(*i), tuple(found), check_trace=False)
    again = inputs()
    torch.testing.assert_close(traced(*again), fused(*again))


def test_the_short_way_gives_the_same_bits(monkeypatch):
    found = inputs()
    quick = fused(*found)
    monkeypatch.setattr(functional, "_short", None)
    assert torch.equal(fused(*found), quick)
    monkeypatch.setattr(functional.fast, "call", lambda *arguments: None)
    assert torch.equal(fused(*found), quick)


# ---------------------------------------------------------------- torch.compile


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("grad", [False, True])
def test_compile_without_graph_breaks(grad, library_runs):
    torch._dynamo.reset()
    compiled = torch.compile(fused, fullgraph=True, backend="aot_eager")
    found = inputs(grad=grad)
    with library_runs(2):
        y, expected = compiled(*found), fused(*found)
    assert torch.equal(y, expected)
    if grad:
        grads = [torch.autograd.grad(v.square().sum(), found) for v in (y, expected)]
        for one, other in zip(*grads):
            torch.testing.assert_close(one, other)


@pytest.mark.filterwarnings("ignore")
def test_compile_with_changing_sizes(library_runs):
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda x, w: upconv.conv_transpose1d(x, w, None, 2, epilogue=["relu", ("max_pool", 2)]),
        fullgraph=True,
        backend="aot_eager",
        dynamic=True,
    )
    weight = torch.randn(3, 4, 5)
    for length in (7, 12, 31):
        x = torch.randn(2, 3, length)
        with library_runs(1):
            y = compiled(x, weight)
        expected = F.max_pool1d(F.conv_transpose1d(x, weight, None, 2).relu(), 2)
        torch.testing.assert_close(y, expected)


@pytest.mark.filterwarnings("ignore")
def test_compile_with_inductor(library_runs):
    """Also behind an operator whose result the compiler would like to lay out in its own way."""
    torch._dynamo.reset()
    before = torch.randn(4, 4, 1, 1)

    def model(x, w, b, m, t):
        y = fused(F.conv2d(x, before).relu(), w, b, m, t)
        return y.sigmoid(), y.is_contiguous(memory_format=torch.channels_last)

    compiled = torch.compile(model, fullgraph=True)
    for layout in (torch.contiguous_format, torch.channels_last):
        found = inputs(layout=layout)
        expected = model(*found)
        with library_runs(1):
            y = compiled(*found)
        torch.testing.assert_close(y[0], expected[0])
        assert y[0].stride() == expected[0].stride() and y[1] == expected[1]


@pytest.mark.filterwarnings("ignore")
def test_export():
    class Model(torch.nn.Module):
        def forward(self, *found):
            return fused(*found)

    found = tuple(inputs())
    exported = torch.export.export(Model(), found)
    assert any(node.target is OP for node in exported.graph.nodes)
    torch.testing.assert_close(exported.module()(*found), fused(*found))


# ---------------------------------------------------------------- autocast


def test_autocast(library_runs):
    found = inputs(grad=True)
    with torch.autocast("cpu", torch.bfloat16), library_runs(1):
        y = fused(*found)
        like = F.conv_transpose2d(*found[:3], 2, 1, 1)
    assert y.dtype == like.dtype == torch.bfloat16
    half = [t.detach().bfloat16() for t in found[:3]]
    assert torch.equal(y, fused(*half, *[t.detach() for t in found[3:]]))
    y.sum().backward()
    assert all(t.grad is not None and t.grad.dtype == torch.float32 for t in found)


def test_autocast_leaves_float64_alone():
    x, weight = torch.randn(1, 2, 4).double(), torch.randn(2, 3, 3).double()
    with torch.autocast("cpu", torch.bfloat16):
        y = upconv.conv_transpose1d(x, weight)
    assert y.dtype == F.conv_transpose1d(x, weight).dtype == torch.float64


def test_backward_inside_autocast_has_the_types_of_forward():
    found = inputs(grad=True)
    fused(*found).sum().backward()
    expected = [t.grad.clone() for t in found]
    for t in found:
        t.grad = None
    y = fused(*found)
    with torch.autocast("cpu", torch.bfloat16):
        y.sum().backward()
    for t, grad in zip(found, expected):
        torch.testing.assert_close(t.grad, grad)


# ---------------------------------------------------------------- weights that change


def test_unchanged_weights_are_packed_twice_at_most():
    found = inputs()
    packs = Statistics.packs
    results = [fused(*found) for _ in range(5)]
    assert Statistics.packs - packs <= 2
    assert all(torch.equal(r, results[0]) for r in results)


@pytest.mark.parametrize("which", [1, 2, 3], ids=["weight", "bias", "param"])
@pytest.mark.parametrize("how", ["data", "inplace", "set_data", "numpy", "inference"])
def test_changed_weights_are_never_stale(which, how):
    with torch.inference_mode(how == "inference"):
        found = inputs()
    for _ in range(3):
        fused(*found)
    changed = found[which]
    with torch.inference_mode(how == "inference"):
        if how == "data":
            changed.data.mul_(-2)
        elif how == "inplace":
            changed.mul_(-2)
        elif how == "set_data":
            changed.data = changed.data * -2
        elif how == "numpy":
            changed.numpy()[...] *= -2
        else:
            changed.mul_(-2)
        torch.testing.assert_close(fused(*found), plain(*found))


def test_strided_weights_that_change():
    wide = torch.randn(4, 6, 3, 6)
    weight = wide[..., ::2]
    x = torch.randn(2, 4, 5, 6)
    for _ in range(3):
        torch.testing.assert_close(
            upconv.conv_transpose2d(x, weight), F.conv_transpose2d(x, weight)
        )
        wide.data.mul_(-1.5)


def test_promised_weights_are_packed_once_and_counted_changes_noticed():
    found = inputs()
    packing.promise(found[1:4])
    packs = Statistics.packs
    for _ in range(4):
        fused(*found)
    assert Statistics.packs - packs == 1
    found[1].mul_(2)
    torch.testing.assert_close(fused(*found), plain(*found))
    found[3].data = torch.randn(6, 1, 1)
    torch.testing.assert_close(fused(*found), plain(*found))
    assert Statistics.packs - packs == 3


def test_inference_tensors_under_a_promise():
    with torch.inference_mode():
        found = inputs()
        packing.promise(found[1:4])
        for _ in range(3):
            torch.testing.assert_close(fused(*found), plain(*found))


def test_packed_weights_go_with_the_weight():
    gc.collect()
    before = len(packing._entries)
    for _ in range(20):
        found = inputs()
        for _ in range(3):
            fused(*found)
    assert len(packing._entries) > before
    del found
    gc.collect()
    assert len(packing._entries) <= before


# ---------------------------------------------------------------- threads and processes


def test_threads():
    """Many threads, shared and own weights, and one that changes its weights all the time."""
    shared = inputs()
    expected = fused(*shared)
    errors = []

    def work(seed):
        try:
            generator = torch.Generator().manual_seed(seed)
            x = torch.randn(2, 4, 5, 6, generator=generator)
            weight = torch.randn(4, 6, 3, 3, generator=generator)
            for _ in range(30):
                assert torch.equal(fused(*shared), expected)
                weight.data.mul_(-1)
                one = fused(x, weight, *shared[2:])
                torch.testing.assert_close(one, plain(x, weight, *shared[2:]))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors[0]


def test_number_of_threads_does_not_change_bits():
    x, weight = torch.randn(4, 8, 6, 20, 20), torch.randn(8, 8, 3, 3, 3)
    threads = torch.get_num_threads()
    try:
        results = []
        for count in (1, 2):
            torch.set_num_threads(count)
            results.append(upconv.conv_transpose3d(x, weight, stride=2, epilogue=["silu"]))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*results)


def test_inference_mode(library_runs):
    found = inputs(grad=True)
    with torch.inference_mode(), library_runs(1):
        y = fused(*found)
    assert y.is_inference()
    torch.testing.assert_close(y, plain(*found).detach())
