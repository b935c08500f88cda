# SPDX-License-Identifier: Apache-2.0
"""fuse() and explain() as functions: what is shared, what is kept, what is said."""

from __future__ import annotations

import copy
import io
import pickle
import threading
from typing import Any

import pytest
import torch
from fuse_support import Executed, Tail, close
from torch import Tensor, nn

import upconv


class Decoder(nn.Module):
    """At the top of a module, so that it can be pickled."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(4, 6, 3, stride=2)
        self.norm = nn.BatchNorm2d(6)
        self.scale = nn.Parameter(torch.tensor(0.5))

    def forward(self, x: Tensor) -> Tensor:
        """Documented."""
        return torch.relu(self.norm(self.up(x))) * self.scale

    def double(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return self(x) * 2


def _decoder() -> Decoder:
    torch.manual_seed(21)
    return Decoder().eval()


def _x() -> Tensor:
    torch.manual_seed(22)
    return torch.randn(2, 4, 3, 5)


def test_result_is_the_model_in_every_other_respect() -> None:
    model = _decoder()
    fused = upconv.fuse(model)
    assert isinstance(fused, Decoder)
    assert type(fused).__name__ == "Decoder" and repr(fused) == repr(model)
    assert list(fused.state_dict()) == list(model.state_dict())
    parameters = zip(fused.parameters(), model.parameters(), strict=True)
    assert all(a is b for a, b in parameters)
    assert [name for name, _ in fused.named_modules()] == [n for n, _ in model.named_modules()]
    assert fused.forward.__doc__ == "Documented."
    close(fused.double(_x()), model.double(_x()))
    fused.eval()
    assert not model.training


def test_model_itself_stays_unfused() -> None:
    model = _decoder()
    upconv.fuse(model)(_x())
    with Executed() as executed:
        model(_x())
    assert executed.calls == 0
    assert type(model) is Decoder


def test_fusing_again() -> None:
    fused = upconv.fuse(upconv.fuse(_decoder()))
    with torch.no_grad(), Executed() as executed:
        close(fused(_x()), _decoder()(_x()))
    assert executed.calls == 1


def test_many_models_of_one_class_do_not_crowd_each_other_out() -> None:
    for index in range(20):
        model = nn.Sequential(nn.ConvTranspose2d(4, 2 + index, 3), nn.LeakyReLU(0.01 * index))
        fused = upconv.fuse(model)
        with torch.no_grad(), Executed() as executed:
            close(fused(_x()), model(_x()))
        assert executed.calls == 1
        assert upconv.explain(fused).fused[0].epilogue.startswith("leaky_relu")


def test_parameters_that_change_are_picked_up() -> None:
    model = _decoder()
    fused = upconv.fuse(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.no_grad():
        before = fused(_x())
        model.up.weight.mul_(-2)
        model.norm.running_mean.add_(1)
        changed = fused(_x())
        close(changed, model(_x()))
    assert not torch.allclose(before, changed)
    fused(_x()).sum().backward()
    optimiser.step()
    with torch.no_grad():
        close(fused(_x()), model(_x()))
        model.up.weight = nn.Parameter(torch.ones_like(model.up.weight))
        close(fused(_x()), model(_x()))
        model.load_state_dict({name: 0.3 * t for name, t in _decoder().state_dict().items()})
        close(fused(_x()), model(_x()))


def test_deepcopy_and_pickle() -> None:
    model = _decoder()
    fused = upconv.fuse(model)
    buffer = io.BytesIO()
    torch.save(fused, buffer)
    buffer.seek(0)
    copies = [
        copy.deepcopy(fused),
        pickle.loads(pickle.dumps(fused)),
        torch.load(buffer, weights_only=False),
        copy.deepcopy(nn.ModuleList([fused]))[0],
    ]
    with torch.no_grad():
        expected = model(_x())
        model.up.weight.zero_()  # the copies have weights of their own
        for each in copies:
            with Executed() as executed:
                close(each(_x()), expected)
            assert executed.calls == 1


def test_copy_of_the_attributes_runs_unfused() -> None:
    fused = upconv.fuse(_decoder())
    replica = type(fused).__new__(type(fused))
    replica.__dict__ = dict(fused.__dict__)
    with torch.no_grad():
        close(replica(_x()), fused(_x()))


def test_part_of_a_model() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.decoder = upconv.fuse(_decoder())
            self.head = nn.Conv2d(6, 1, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.decoder(x))

    torch.manual_seed(23)
    model = Model()
    with torch.no_grad(), Executed() as executed:
        result = model.eval()(_x())
    assert executed.calls == 1
    with torch.no_grad():
        close(result, model.head(_decoder()(_x())))


@pytest.mark.parametrize("form", ["tensor", "tuple", "mapping"])
def test_example_inputs_leave_no_trace(form: str) -> None:
    model = _decoder().train()
    buffers = {name: b.clone() for name, b in model.named_buffers()}
    x = _x()
    inputs: Any = {"tensor": x, "tuple": (x,), "mapping": {"x": x}}[form]
    torch.manual_seed(24)
    expected = torch.rand(1)
    torch.manual_seed(24)
    fused = upconv.fuse(model, inputs)
    assert torch.equal(torch.rand(1), expected)
    for name, buffer in model.named_buffers():
        assert torch.equal(buffer, buffers[name])
    assert all(p.grad is None for p in model.parameters())
    (entry,) = upconv.explain(fused).fused
    assert entry.convolution == "up (ConvTranspose2d)"
    assert "statistics of the batch" in entry.stop


def test_explanation() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.decoder = _decoder()
            self.wide = nn.ConvTranspose2d(6, 2, 3, dtype=torch.float64)
            self.idle = nn.ConvTranspose2d(6, 2, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.wide(self.decoder(x).sin().double())

    fused = upconv.fuse(Model().eval())
    assert "not traced yet" in str(upconv.explain(fused))
    with torch.no_grad():
        fused(_x())
        fused(_x()[:1])
    explanation = upconv.explain(fused)
    assert len(explanation.graphs) == 2
    text = str(explanation)
    assert "Model: 1 of 3 transposed convolutions fused" in text
    line = "fused  decoder.up (ConvTranspose2d) + decoder.norm (BatchNorm2d) + relu of decoder"
    assert text.count(line) == 1  # both graphs say the same
    assert "| batch_norm mean=@p0" in text
    assert "ends sin: sin is not an operator of an epilogue" in text
    assert "left   wide (ConvTranspose2d): float64 is left to PyTorch" in text
    assert "in no graph yet" in text and "left   idle (ConvTranspose2d)" in text


def test_explanation_of_what_is_no_fused_model() -> None:
    assert "no result of fuse()" in str(upconv.explain(_decoder()))
    assert "not traced yet; call it" in str(upconv.explain(upconv.fuse(_decoder())))
    for function in (upconv.fuse, upconv.explain):
        with pytest.raises(TypeError, match="torch.nn.Module"):
            function(lambda x: x)


def test_models_that_cannot_be_traced_are_returned_as_they_are() -> None:
    scripted = torch.jit.script(nn.Sequential(nn.ConvTranspose2d(4, 2, 3)))
    assert upconv.fuse(scripted) is scripted
    assert "TorchScript" in str(upconv.explain(scripted))
    model = _decoder()
    model.forward = lambda x: x + 1  # type: ignore[method-assign]
    assert upconv.fuse(model) is model
    assert "replaced on the instance" in str(upconv.explain(model))


def test_without_transposed_convolutions() -> None:
    model = nn.Sequential(nn.Conv2d(4, 2, 3), nn.ReLU())
    fused = upconv.fuse(model, _x())
    close(fused(_x()), model(_x()))
    assert str(upconv.explain(fused)).startswith("Sequential: 0 of 0")


def test_nothing_else_is_touched() -> None:
    names = ("suppress_errors", "cache_size_limit", "skip_nnmodule_hook_guards")
    config = {name: getattr(torch._dynamo.config, name) for name in names}
    forwards = (nn.Module.__call__, nn.ConvTranspose2d.forward, nn.ReLU.forward)
    model = _decoder()
    before = dict(model.__dict__)
    upconv.fuse(model)(_x())
    assert model.__dict__ == before
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert forwards == (nn.Module.__call__, nn.ConvTranspose2d.forward, nn.ReLU.forward)
    assert config == {name: getattr(torch._dynamo.config, name) for name in config}


def test_several_threads() -> None:
    model = _decoder()
    fused = upconv.fuse(model)
    x = _x()  # once: threads that seed the same generator draw each other's numbers
    with torch.no_grad():
        expected = model(x)
    results: list[Any] = []

    def work() -> None:
        with torch.no_grad():
            results.extend(fused(x) for _ in range(5))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 20
    for result in results:
        close(result, expected)


# ---- others that trace or transform


def test_functional_transforms() -> None:
    model = _decoder()
    fused = upconv.fuse(model)
    parameters = {name: 1.1 * p.detach() for name, p in model.named_parameters()}

    def loss(module: nn.Module, values: dict[str, Tensor], x: Tensor) -> Tensor:
        return torch.func.functional_call(module, values, (x,)).sin().sum()

    close(loss(fused, parameters, _x()), loss(model, parameters, _x()))
    gradients = torch.func.grad(lambda v: loss(fused, v, _x()))(parameters)
    expected = torch.func.grad(lambda v: loss(model, v, _x()))(parameters)
    torch.testing.assert_close(gradients, expected, rtol=1e-4, atol=1e-4)
    mapped = torch.func.vmap(lambda x: fused(x))(torch.stack([_x(), 2 * _x()]))
    close(mapped, torch.stack([model(_x()), model(2 * _x())]))


def test_forward_mode_derivative() -> None:
    model = _decoder()
    fused = upconv.fuse(model)
    for_each = []
    for each in (model, fused):
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(_x(), torch.ones(2, 4, 3, 5))
            for_each.append(torch.autograd.forward_ad.unpack_dual(each(dual)).tangent)
    close(for_each[1], for_each[0])


def test_second_derivative() -> None:
    found = []
    for each in (_decoder(), upconv.fuse(_decoder())):
        x = _x().requires_grad_()
        (gradient,) = torch.autograd.grad(each(x).square().sum(), x, create_graph=True)
        found.append(torch.autograd.grad(gradient.square().sum(), x)[0])
    torch.testing.assert_close(found[1], found[0], rtol=1e-3, atol=1e-3)


@pytest.mark.filterwarnings("ignore")
def test_exports_of_a_fused_model() -> None:
    model = _decoder()
    fused = upconv.fuse(model)
    with torch.no_grad():
        fused(_x())
        traced = torch.jit.trace(fused, _x())
        close(traced(_x()), model(_x()))
        exported = torch.export.export(fused, (_x(),))
        close(exported.module()(_x()), model(_x()))
        close(torch.fx.symbolic_trace(fused)(_x()), model(_x()))
        graph = torch.fx.experimental.proxy_tensor.make_fx(fused)(_x())
        close(graph(_x()), model(_x()))
        compiled = torch.compile(fused, backend="eager")
        close(compiled(_x()), model(_x()))
        with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True) as mode:
            assert fused(mode.from_tensor(_x())).shape == (2, 6, 7, 11)


def test_module_with_an_attribute_of_the_same_name() -> None:
    class Odd(Tail):
        original = 3

    model = Odd(nn.ConvTranspose2d(4, 2, 3), lambda m, y: y.relu() + m.original)
    with torch.no_grad():
        close(upconv.fuse(model)(_x()), model(_x()))
