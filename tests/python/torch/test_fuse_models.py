# SPDX-License-Identifier: Apache-2.0
"""Models that are hard to rewrite: what they return and change must stay what it was."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fuse_support import Executed, Tail, check, close, operators
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import upconv


def _up(channels: int = 6) -> nn.ConvTranspose2d:
    torch.manual_seed(11)
    return nn.ConvTranspose2d(4, channels, 3, stride=2, padding=1)


def _x(*more: int) -> Tensor:
    torch.manual_seed(12)
    return torch.randn(*(more or (2,)), 4, 3, 5)


def _run(model: nn.Module, *inputs: Any, grad: bool = False) -> tuple[Any, Any, int]:
    """What the model returns, what the fused one returns, and how many calls the library carried
    out."""
    with torch.set_grad_enabled(grad):
        expected = model(*(i.clone() for i in inputs))
        with Executed() as executed:
            result = upconv.fuse(model)(*(i.clone() for i in inputs))
    return expected, result, executed.calls


class Shared(nn.Module):
    """One convolution, called twice, with different tails."""

    def __init__(self) -> None:
        super().__init__()
        self.up = _up(4)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.up(torch.tanh(self.up(x))) + 1)


def test_shared_convolution() -> None:
    first, second = check(Shared(), _x(), calls=2)
    assert operators(first) == ["tanh"]
    assert operators(second) == ["add 1", "relu"]


IN_PLACE: dict[str, tuple[Any, list[str]]] = {
    "alias is read": (lambda m, y: F.relu_(y) + y, ["relu", "add %1"]),
    "both names are returned": (lambda m, y: (y.mul_(2), y), ["mul 2"]),
    "read before the change": (lambda m, y: y * 2 + y.add_(1), ["mul 2", "add %0 1", "add %1 %2"]),
    "operator": (
        lambda m, y: _operators_in_place(y),
        ["sub 1", "mul 2", "div 3", "leaky_relu 0.01"],
    ),
    "an element": (lambda m, y: _zero_first_channel(y), []),
    "through a view": (lambda m, y: _through_view(y), []),
    "after a clone": (lambda m, y: y.clone().mul_(3) + y, ["mul 3", "add %0"]),
    "unsupported, in place": (lambda m, y: (y + 1).sin_() * 2, ["add 1"]),
}


def _operators_in_place(y: Tensor) -> Tensor:
    y -= 1
    y *= 2
    y /= 3
    return F.leaky_relu(y, inplace=True)


def _zero_first_channel(y: Tensor) -> Tensor:
    y[:, 0] = 0
    return y.relu()


def _through_view(y: Tensor) -> Tensor:
    y.view(-1).mul_(2)
    return y.relu()


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name: str) -> None:
    function, expected = IN_PLACE[name]
    (entry,) = check(Tail(_up(), function), _x())
    assert operators(entry) == expected


RESIDUALS: dict[str, tuple[Any, list[str]]] = {
    "added": (lambda m, y, r: F.relu(y + r), ["add #t0:f32", "relu"]),
    "before": (lambda m, y, r: F.relu(r - y), ["sub #t0:f32 %0", "relu"]),
    "computed in between": (lambda m, y, r: y.relu() + r.sin(), ["relu", "add #t0:f32"]),
    "twice": (lambda m, y, r: (y + r) * r, ["add #t0:f32", "mul #t0:f32"]),
    "in place on y": (lambda m, y, r: y.add_(r).relu_(), ["add #t0:f32", "relu"]),
    "in place on r": (lambda m, y, r: F.relu(r.add_(y)) + r, []),
    "changed before it is read": (lambda m, y, r: (r.mul_(2), y.relu() + r)[1], []),
    "changed afterwards": (
        lambda m, y, r: (y.relu() + 1) * 1 + r.mul_(2),
        ["relu", "add 1", "mul 1"],
    ),
    "gated": (lambda m, y, r: y * torch.sigmoid(y.mean((2, 3), keepdim=True)) + r, None),
}


@pytest.mark.parametrize("name", RESIDUALS)
def test_residual(name: str) -> None:
    function, expected = RESIDUALS[name]
    (entry,) = check(Tail(_up(), function), _x(), torch.randn(2, 6, 5, 9))
    if expected is None:
        expected = ["mean hw", "sigmoid", "mul %0 %2", "add #t0:f32"]
    assert operators(entry) == expected


def test_two_convolutions_added() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = _up(), _up()

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(self.a(x) + self.b(x).tanh())

    first, second = check(Model(), _x(), calls=2)
    assert operators(first) == ["add #t0:f32", "relu"]
    assert operators(second) == ["tanh"]


def test_input_that_changes_between_convolution_and_tail() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = _up()

        def forward(self, x: Tensor) -> Tensor:
            y = self.up(x)
            x.zero_()
            return y.relu()

    expected, result, calls = _run(Model(), _x())
    close(result, expected)
    assert calls == 1


def test_value_that_is_read_elsewhere_too() -> None:
    model = Tail(_up(), lambda m, y: (F.relu(y + 1), (y + 1).sin()))
    expected, result, _ = _run(model, _x())
    close(result, expected)
    kept = Tail(_up(), lambda m, y: (lambda z: (z * 2, z))(F.relu(y)))
    (entry,) = check(kept, _x())
    assert operators(entry) == ["relu"]
    assert "read elsewhere" in entry.stop or "returns" in entry.stop or "could" in entry.stop


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = _up()
        self.other = _up()

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.up(x))
        if y.sum() > x.abs().sum() * 100:
            return y.exp()
        return torch.tanh(self.other(x) + 1) - y


def test_branch_on_data() -> None:
    torch.manual_seed(13)
    model = Branch()
    fused = upconv.fuse(model)
    with torch.no_grad():
        for scale in (1.0, 1e-6, 3.0):
            x = scale * _x()
            with Executed() as executed:
                result = fused(x)
            close(result, model(x))
            assert executed.calls == (1 if scale < 1 else 2)
        model.up.bias.fill_(1e4)
        close(fused(_x()), model(_x()))
    names = {entry.convolution for entry in upconv.explain(fused).fused}
    assert names == {"up (ConvTranspose2d)", "other (ConvTranspose2d)"}


def test_branch_on_shape_and_on_an_argument() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = _up()

        def forward(self, x: Tensor, double: bool = False) -> Tensor:
            y = self.up(x)
            y = y.relu() if x.shape[0] > 2 else y.tanh()
            return y * 2 if double else y

    model = Model()
    fused = upconv.fuse(model)
    with torch.no_grad():
        for batch in (1, 2, 3, 4, 2):
            for double in (False, True):
                x = torch.randn(batch, 4, 3, 5)
                close(fused(x, double=double), model(x, double=double))


def test_modes_of_the_caller() -> None:
    model = Tail(_up(), lambda m, y: y.relu() * 2)
    fused = upconv.fuse(model)
    x = _x()
    for mode in (torch.no_grad(), torch.inference_mode(), torch.enable_grad(), torch.no_grad()):
        with mode, Executed() as executed:
            result = fused(x)
            expected = model(x)
        close(result, expected)
        assert executed.calls == 1
        assert result.requires_grad == expected.requires_grad
        assert result.is_inference() == expected.is_inference()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_modes_inside_the_model(mode: Any) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = _up()

        def forward(self, x: Tensor) -> Tensor:
            y = self.up(x)
            with mode():
                z = y.relu() if mode is not torch.inference_mode else y.detach().relu()
            return z * 2 + y.sum()

    model = Model()
    for outer in (torch.no_grad(), torch.enable_grad()):
        with outer:
            expected, result, _ = _run(model, _x(), grad=torch.is_grad_enabled())
        close(result, expected)
        assert result.requires_grad == expected.requires_grad


def test_graph_is_cut_where_the_model_cuts_it() -> None:
    model = Tail(_up(), lambda m, y: (y.relu().detach() * y.relu()).tanh())
    check(model, _x())


def test_training_flag_at_call_time() -> None:
    torch.manual_seed(14)
    model = nn.Sequential(_up(), nn.BatchNorm2d(6), nn.ReLU(), nn.Dropout(0.5))
    plain = nn.Sequential(_up(), nn.BatchNorm2d(6), nn.ReLU(), nn.Dropout(0.5))
    plain.load_state_dict(model.state_dict())
    fused = upconv.fuse(model)
    for training in (True, False, True, False):
        fused.train(training)
        plain.train(training)
        torch.manual_seed(15)
        result = fused(_x())
        torch.manual_seed(15)
        close(result, plain(_x()))
        close(model[1].running_var, plain[1].running_var)
        assert model[1].num_batches_tracked == plain[1].num_batches_tracked
    tails = {operators(entry)[0] if entry.epilogue else "" for entry in upconv.explain(fused).fused}
    assert tails == {"", "batch_norm mean=@p0 var=@p1 weight=@p2 bias=@p3 eps=1e-05"}
    model[1].eval()  # of one module alone
    fused.train(True)
    model[1].eval()
    torch.manual_seed(15)
    result = fused(_x())
    plain.train(True)
    plain[1].eval()
    torch.manual_seed(15)
    close(result, plain(_x()))


def test_hooks() -> None:
    model = nn.Sequential(_up(), nn.ReLU(), nn.Tanh())
    fused = upconv.fuse(model)
    x = _x()
    seen: list[Tensor] = []
    with torch.no_grad():
        close(fused(x), model(x))
        handle = model[1].register_forward_hook(lambda module, args, result: seen.append(result))
        close(fused(x), model(x))
        assert len(seen) == 2
        close(seen[0], seen[1])
        handle.remove()
        close(fused(x), model(x))
        assert len(seen) == 2
        model[0].register_forward_hook(lambda module, args, result: result * 3)
        close(fused(x), model(x))
        model.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
        close(fused(x), model(x))
        calls = []
        fused.register_forward_hook(lambda module, args, result: calls.append(1))
        fused(x)
        assert calls == [1]


def test_hook_of_all_modules() -> None:
    model = nn.Sequential(_up(), nn.ReLU(), nn.Tanh())
    fused = upconv.fuse(model)
    with torch.no_grad():
        fused(_x())
        seen = []
        handle = nn.modules.module.register_module_forward_hook(
            lambda module, args, result: seen.append(type(module).__name__)
        )
        try:
            close(fused(_x()), model(_x()))
        finally:
            handle.remove()
        assert seen == 2 * ["ConvTranspose2d", "ReLU", "Tanh", "Sequential"]
        with Executed() as executed:
            fused(_x())
        assert executed.calls == 1


def test_backward_hooks() -> None:
    model = nn.Sequential(_up(), nn.ReLU(), nn.Tanh())
    fused = upconv.fuse(model)
    gradients: list[Tensor] = []
    fused(_x()).sum().backward()
    model[1].register_full_backward_hook(lambda module, gi, go: gradients.append(go[0]))
    for each in (model, fused):
        each(_x().requires_grad_()).sum().backward()
    assert len(gradients) == 2
    close(gradients[0], gradients[1])


def test_hook_of_a_tensor_in_the_tail() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = _up()
            self.seen: list[Tensor] = []

        def forward(self, x: Tensor) -> Tensor:
            y = self.up(x)
            if y.requires_grad:
                y.register_hook(lambda g: g * 2)
            return y.relu()

    model = Model()
    found = []
    for each in (model, upconv.fuse(model)):
        model.zero_grad()
        each(_x()).sum().backward()
        found.append(model.up.weight.grad.clone())
    close(found[1], found[0])


def test_python_state() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = _up()
            self.count = 0
            self.factor = 2.0
            self.register_buffer("steps", torch.zeros((), dtype=torch.long))
            self.register_buffer("average", torch.zeros(6))

        def forward(self, x: Tensor) -> Tensor:
            self.count += 1
            self.steps += 1
            y = self.up(x) * self.factor
            self.average = 0.9 * self.average + 0.1 * y.detach().mean((0, 2, 3))
            return y.relu() + self.average[:, None, None]

    model, twin = Model(), Model()
    fused = upconv.fuse(model)
    with torch.no_grad():
        for step in range(4):
            fused.factor = twin.factor = 2.0 + step
            close(fused(_x()), twin(_x()))
            assert fused.count == model.count == twin.count == step + 1
            assert fused.steps == twin.steps
            close(model.average, twin.average)


def test_random_numbers_are_drawn_anew() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = _up()

        def forward(self, x: Tensor) -> Tensor:
            y = self.up(x) * torch.rand(6, 1, 1)
            return y + torch.randn_like(y)

    model = Model()
    fused = upconv.fuse(model)
    with torch.no_grad():
        for seed in (1, 2, 1):
            torch.manual_seed(seed)
            expected = model(_x())
            torch.manual_seed(seed)
            close(fused(_x()), expected)


@pytest.mark.parametrize("kind", ["weight_norm", "spectral_norm"])
def test_parametrised_weight(kind: str) -> None:
    model = nn.Sequential(getattr(nn.utils.parametrizations, kind)(_up()), nn.ReLU()).eval()
    (entry,) = check(model, _x())
    assert operators(entry) == ["relu"]


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_weight_norm_by_hooks() -> None:
    model = nn.Sequential(nn.utils.weight_norm(_up()), nn.ReLU())
    expected, result, _ = _run(model, _x())
    close(result, expected)


@pytest.mark.parametrize("place", ["outside", "inside"])
def test_autocast(place: str) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = _up()
            self.scale = nn.Parameter(torch.rand(6, 1, 1))

        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cpu", torch.bfloat16, enabled=place == "inside"):
                y = F.relu(self.up(x)) * 2
            return y.float() * self.scale if place == "inside" else y * self.scale

    model = Model()
    fused = upconv.fuse(model)
    for _ in range(2):
        with torch.autocast("cpu", torch.bfloat16, enabled=place == "outside"):
            expected = model(_x())
            with Executed() as executed:
                result = fused(_x())
        assert result.dtype == expected.dtype
        close(result.float(), expected.float(), torch.bfloat16)
    close(fused(_x()), model(_x()), torch.bfloat16 if place == "inside" else torch.float32)
    result.float().sum().backward()
    assert model.up.weight.grad.dtype == torch.float32
    fusions = upconv.explain(fused).fused
    assert fusions and (place == "outside" or executed.calls == 1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sixteen_bits(dtype: torch.dtype) -> None:
    model = Tail(_up(), lambda m, y: F.gelu(y) * m.p, p=nn.Parameter(torch.rand(6, 1, 1))).to(dtype)
    with torch.no_grad():
        expected, result, calls = _run(model, _x().to(dtype))
    assert result.dtype == dtype
    close(result, expected, dtype)
    assert calls == 1


def test_type_changes_afterwards() -> None:
    model = Tail(_up(), lambda m, y: (y + m.p).relu(), p=nn.Parameter(torch.rand(6, 1, 1)))
    fused = upconv.fuse(model)
    with torch.no_grad():
        close(fused(_x()), model(_x()))
        fused.double()
        x = _x().double()
        torch.testing.assert_close(fused(x), model(x))
        fused.to(torch.bfloat16)
        x = _x().bfloat16()
        close(fused(x), model(x), torch.bfloat16)
        fused.float()
        close(fused(_x()), model(_x()))
    reasons = [entry.reason for entry in upconv.explain(fused).left]
    assert reasons == ["float64 is left to PyTorch"]


def test_mixed_types_end_the_tail() -> None:
    model = Tail(_up(), lambda m, y: y.relu() * m.p, p=torch.rand(6, 1, 1, dtype=torch.float64))
    (entry,) = check(model, _x())
    assert operators(entry) == ["relu"]
    assert "float32 to float64" in entry.stop


def test_checkpoint() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = nn.Sequential(_up(), nn.ReLU(), nn.Tanh())

        def forward(self, x: Tensor) -> Tensor:
            return checkpoint(self.block, x, use_reentrant=False) * 2

    (entry,) = check(Model(), _x())
    assert operators(entry) == ["relu", "tanh"]


def test_sizes_that_change() -> None:
    model = nn.Sequential(_up(), nn.ReLU(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    fused = upconv.fuse(model)
    torch.manual_seed(16)
    with torch.no_grad():
        for batch, height, width in ((2, 3, 5), (3, 4, 5), (1, 3, 7), (5, 9, 2), (2, 3, 5)):
            x = torch.randn(batch, 4, height, width)
            with Executed() as executed:
                result = fused(x)
            close(result, model(x))
            assert executed.calls == 1
        assert fused(torch.randn(0, 4, 3, 5)).shape == (0, 6)


@pytest.mark.parametrize("rank", [2, 3])
def test_memory_formats(rank: int) -> None:
    layout = (torch.channels_last, torch.channels_last_3d)[rank - 2]
    kind = (nn.ConvTranspose2d, nn.ConvTranspose3d)[rank - 2]
    pool = (nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)[rank - 2](1)
    model = nn.Sequential(kind(4, 6, 3, stride=2), nn.ReLU())
    x = torch.randn(2, 4, *(3, 4, 5)[:rank]).contiguous(memory_format=layout)
    for weights_last in (False, True):
        model = model.to(memory_format=layout) if weights_last else model
        expected, result, calls = _run(model, x.clone(memory_format=torch.preserve_format))
        close(result, expected)
        assert calls == 1
        assert result.stride() == expected.stride()
        expected, result, calls = _run(nn.Sequential(*model, pool, nn.Flatten()), x)
        close(result, expected)
        assert calls == 1


def test_channels_last_is_asked_for_in_the_tail() -> None:
    model = Tail(_up(), lambda m, y: y.relu().contiguous(memory_format=torch.channels_last))
    expected, result, _ = _run(model, _x())
    close(result, expected)
    assert result.stride() == expected.stride()


def test_requested_output_size() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = _up()

        def forward(self, x: Tensor) -> Tensor:
            return F.relu(self.up(x, output_size=(2 * x.shape[2], 2 * x.shape[3])))

    (entry,) = check(Model(), _x())
    assert operators(entry) == ["relu"]
    fused = upconv.fuse(Model())
    for sizes in ((3, 5), (4, 6)):
        x = torch.randn(2, 4, *sizes)
        close(fused(x), Model()(x))


def test_structured_arguments_and_results() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = _up()

        def forward(self, batch: dict[str, Any], *, scale: float | None = None) -> dict[str, Any]:
            y = F.relu(self.up(batch["x"]))
            return {"y": y if scale is None else y * scale, "rest": [batch["name"], batch["x"]]}

    model = Model()
    fused = upconv.fuse(model)
    x = _x()
    with torch.no_grad():
        for scale in (None, 2.0):
            result = fused({"x": x, "name": "n"}, scale=scale)
            close(result["y"], model({"x": x, "name": "n"}, scale=scale)["y"])
            assert result["rest"][0] == "n" and result["rest"][1] is x


def test_modules_kept_in_a_list_and_in_a_closure() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.norm = _up(), nn.BatchNorm2d(6)
            self.steps = [self.up, self.norm]
            self.last = lambda y: self.norm(y) + int(self.training)

        def forward(self, x: Tensor) -> Tensor:
            for step in self.steps:
                x = step(x)
            return self.last(x)

    model, twin = Model(), Model()
    fused = upconv.fuse(model)
    for training in (True, False, True):
        fused.train(training)
        twin.train(training)
        close(fused(_x()), twin(_x()))


def test_submodule_is_replaced_later() -> None:
    model = nn.Sequential(_up(), nn.ReLU())
    fused = upconv.fuse(model)
    with torch.no_grad():
        close(fused(_x()), model(_x()))
        fused[1] = nn.Tanh()
        close(fused(_x()), model(_x()))
        assert fused(_x()).min() < 0
        model.append(nn.Softmax(dim=1))
        close(fused(_x()), model(_x()))


def test_errors_are_the_models_own() -> None:
    fused = upconv.fuse(nn.Sequential(_up(), nn.ReLU()))
    with pytest.raises(RuntimeError, match="channels"):
        fused(torch.randn(2, 5, 3, 3))

    class Strict(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = _up()

        def forward(self, x: Tensor) -> Tensor:
            if x.dim() != 4:
                raise ValueError("four dimensions, please")
            return self.up(x)

    with pytest.raises(ValueError, match="four dimensions"):
        upconv.fuse(Strict())(torch.randn(4, 3, 3))


def test_code_that_cannot_be_traced() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.other = _up(), _up(4)

        def forward(self, x: Tensor) -> Tensor:
            y = F.relu(self.up(x))
            print(end="")
            z = torch.from_numpy(y.detach().numpy() * 2)
            generator = (part for part in z.split(1))
            return torch.cat(list(generator)) + F.relu(self.up(x) + self.other(x).mean())

    expected, result, _ = _run(Model(), _x())
    close(result, expected)


def test_copies_are_told_apart() -> None:
    function = lambda m, y: (lambda a: (lambda b: a + b.sin_())(a.clone()))(y + 1)  # noqa: E731
    model = Tail(_up(), function)
    (entry,) = check(model, _x())
    assert operators(entry) == ["add 1"]


def test_operand_that_is_changed_after_it_was_read() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = _up()

        def forward(self, x: Tensor, r: Tensor) -> Tensor:
            y = torch.tanh(self.up(x) + r[:, :, 1:])
            r.mul_(2)
            return y.sin() + r[:, :, 1:]

    x, r = _x(), torch.randn(2, 6, 6, 9)
    fused = upconv.fuse(Model())
    with torch.no_grad():
        close(fused(x, r.clone()), Model()(x, r.clone()))
    close(fused(x, r.clone()), Model()(x, r.clone()))
    fused(x, r.clone()).sum().backward()
    without, with_gradients = upconv.explain(fused).fused
    assert operators(without) == ["add #t0:f32", "tanh"]
    assert operators(with_gradients) == []
    assert "changed in place later, by mul_" in with_gradients.stop
