# SPDX-License-Identifier: Apache-2.0
"""The bench tool calls wrong what is wrong, and right what is right."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from upconv.bench import check as check_module
from upconv.bench import reference
from upconv.bench.check import Checker
from upconv.bench.rounding import Rounding


def model_2d():
    return nn.Sequential(
        nn.ConvTranspose2d(6, 8, 4, stride=2, padding=1), nn.LeakyReLU(0.2), nn.MaxPool2d(2)
    )


def inputs_2d(seed, batch=3):
    torch.manual_seed(seed)
    return [torch.rand(batch, 6, 7, 9)]


@torch.no_grad()
def verdict_on(model, ours, inputs=inputs_2d, count=2, dtype=torch.float32, seconds=60):
    sets = [lambda n=n: [t.to(dtype) for t in inputs(n)] for n in range(count)]
    return Checker(model, ours, Rounding(dtype), seconds).run(sets)


class Changed(nn.Module):
    """A model whose result is changed afterwards."""

    def __init__(self, model, change):
        super().__init__()
        self.model, self.change = model, change

    def forward(self, *inputs):
        y = self.model(*inputs).clone()
        replaced = self.change(y)
        return y if replaced is None else replaced


def put(index, value):
    def change(y):
        y[index] = value

    return change


def test_a_copy_is_right():
    model = model_2d()
    verdict = verdict_on(model, copy.deepcopy(model))
    assert verdict.right
    assert verdict.inputs == 2
    assert verdict.elements == verdict.elements_float64 == 2 * 3 * 8 * 7 * 9
    assert verdict.difference == 0
    assert verdict.bound == "element by element"
    assert 1e-3 < verdict.error_over_bound <= 1
    assert verdict.error == verdict.original_error > 0


def nudge(y):
    y[1, 2, 3, 4] += 2e-5


@pytest.mark.parametrize(
    "change",
    [
        put((0, 0, 0, 0), float("nan")),
        put((2, 7, 6, 8), float("inf")),
        put((1, 2, 3, 4), 0.0),
        nudge,
        lambda y: y * 1.0001,
        lambda y: y[:, :, :-1],
        lambda y: y.double(),
        lambda y: y.flip(0),
    ],
    ids=["nan", "inf", "zero", "nudge", "scale", "shape", "dtype", "order"],
)
def test_a_change_is_wrong(change):
    model = model_2d()
    verdict = verdict_on(model, Changed(model, change))
    assert not verdict.right
    assert verdict.problems


def test_the_place_is_named():
    model = model_2d()
    verdict = verdict_on(model, Changed(model, put((1, 2, 3, 4), 9.0)))
    assert "9 instead of" in verdict.problems[0]
    assert "[1, 2, 3, 4]" in verdict.problems[0]


def test_nan_where_the_original_has_it_is_right():
    model = nn.Sequential(nn.ConvTranspose1d(2, 3, 3, stride=2), nn.LeakyReLU(0.1))

    def inputs(seed):
        x = torch.rand(2, 2, 9)
        x[0, 0, 4], x[1, 1, 2] = float("nan"), float("inf")
        return [x]

    assert verdict_on(model, copy.deepcopy(model), inputs).right
    hidden = Changed(model, lambda y: y.nan_to_num(nan=0.0))
    assert not verdict_on(model, hidden, inputs).right


def test_overflow_of_16_bits_is_not_held_against_the_better():
    """The original overflows between two operators; a fused one need not."""
    conv = nn.ConvTranspose1d(1, 1, 1, bias=False).half()
    with torch.no_grad():
        conv.weight.fill_(60000.0)
    model = nn.Sequential(conv, Scale(0.001))

    class Wide(nn.Module):
        def forward(self, x):
            return (F.conv_transpose1d(x.float(), conv.weight.float()) * 0.001).half()

    def inputs(seed):
        return [torch.tensor([[[0.5, 2.0, 3.0]]])]

    assert verdict_on(model, Wide(), inputs, dtype=torch.float16).right


class Scale(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor


def test_a_model_that_fails_is_wrong():
    def fails(x):
        raise RuntimeError("no kernel")

    verdict = verdict_on(model_2d(), fails)
    assert not verdict.right
    assert "no kernel" in verdict.problems[0]


def test_dropout_is_compared_with_the_original():
    """float64 draws other masks, or the same: a copy is right and another mask is not."""
    model = nn.Sequential(nn.ConvTranspose1d(3, 4, 3), nn.Dropout(0.5)).train()

    def inputs(seed):
        return [torch.rand(4, 3, 50)]

    assert verdict_on(model, copy.deepcopy(model), inputs).right

    def other(x):
        torch.manual_seed(99)
        return model(x)

    assert not verdict_on(model, other, inputs).right


def test_without_a_rule_the_norm_decides():
    class Cumulative(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.ConvTranspose1d(3, 4, 3)

        def forward(self, x):
            return self.conv(x).cumsum(-1)

    def inputs(seed):
        return [torch.rand(4, 3, 50)]

    model = Cumulative()
    verdict = verdict_on(model, copy.deepcopy(model), inputs)
    assert verdict.right
    assert "cumsum" in verdict.bound
    assert not verdict_on(model, Changed(model, put((1, 2, 3), 0.0)), inputs).right


def test_integers_are_compared():
    class Largest(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.ConvTranspose1d(3, 4, 3)

        def forward(self, x):
            y = self.conv(x)
            return y, y.argmax(1)

    def inputs(seed):
        return [torch.rand(4, 3, 50)]

    model = Largest()
    assert verdict_on(model, copy.deepcopy(model), inputs).right

    def wrong(x):
        y, index = model(x)
        return y, (index + 1) % 4

    assert not verdict_on(model, wrong, inputs).right


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setitem(reference.PART, "cpu", 6000)


def test_parts_of_the_batch_are_the_whole(small_parts):
    model = model_2d()
    parts = reference.parts_of(model, inputs_2d(0, batch=8))
    assert len(parts) > 2
    assert [i for part in parts for i in range(part.start, part.stop)] == list(range(8))
    verdict = verdict_on(model, copy.deepcopy(model), lambda seed: inputs_2d(seed, batch=8))
    assert verdict.right
    assert verdict.elements_float64 == verdict.elements
    assert verdict.bound == "element by element"
    for sample in range(8):
        wrong = Changed(model, put((sample, 7, 6, 8), 5.0))
        assert not verdict_on(model, wrong, lambda seed: inputs_2d(seed, batch=8)).right


def test_out_of_time_the_rest_is_compared_with_the_original(small_parts, monkeypatch):
    now = iter(range(0, 10**9, 100))
    monkeypatch.setattr(check_module.time, "monotonic", lambda: float(next(now)))
    model = model_2d()

    def inputs(seed):
        return inputs_2d(seed, batch=8)

    verdict = verdict_on(model, copy.deepcopy(model), inputs, seconds=1)
    assert verdict.right
    assert 0 < verdict.elements_float64 < verdict.elements
    assert any("not the whole batch" in note for note in verdict.notes)
    for sample in range(8):
        wrong = Changed(model, put((sample, 7, 6, 8), 5.0))
        assert not verdict_on(model, wrong, inputs, seconds=1).right


def test_a_batch_that_hangs_together_is_compared_with_the_original(small_parts):
    class Centred(nn.Module):
        """Every sample depends on all: parts of the batch are no part of the result."""

        def __init__(self):
            super().__init__()
            self.conv = nn.ConvTranspose2d(6, 8, 4, stride=2, padding=1)

        def forward(self, x):
            y = self.conv(x)
            return y - y.mean(0, keepdim=True)

    def inputs(seed):
        return inputs_2d(seed, batch=8)

    model = Centred()
    verdict = verdict_on(model, copy.deepcopy(model), inputs)
    assert verdict.right
    assert any("no reference" in note for note in verdict.notes)
    assert not verdict_on(model, Changed(model, nudge_much), inputs).right


def nudge_much(y):
    y[3, 2, 3, 4] += 1e-3


def test_plain_tensors_become_float64():
    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.ConvTranspose1d(3, 4, 3)
            self.kernel = torch.rand(2, 4, 3)  # neither parameter nor buffer

        def forward(self, x):
            return F.conv1d(self.conv(x), self.kernel)

    def inputs(seed):
        return [torch.rand(4, 3, 50)]

    model = Plain()
    verdict = verdict_on(model, copy.deepcopy(model), inputs)
    assert verdict.right
    assert verdict.elements_float64 == verdict.elements
    assert model.kernel.dtype == torch.float32


def test_without_a_float64_run_the_original_decides():
    class Single(nn.Module):
        """Insists on float32."""

        def __init__(self):
            super().__init__()
            self.conv = nn.ConvTranspose1d(3, 4, 3)

        def forward(self, x):
            if x.dtype != torch.float32:
                raise TypeError("float32 only")
            return self.conv(x)

    def inputs(seed):
        return [torch.rand(4, 3, 50)]

    model = Single()
    verdict = verdict_on(model, copy.deepcopy(model), inputs)
    assert verdict.right
    assert verdict.elements_float64 == 0
    assert any("float32 only" in note for note in verdict.notes)
    assert not verdict_on(model, Changed(model, put((1, 2, 3), 9.0)), inputs).right


def test_numbers_are_compared_as_tensors():
    class Mean(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.ConvTranspose1d(3, 4, 3)

        def forward(self, x):
            y = self.conv(x)
            return [y, {"mean": y.mean().item()}]

    def inputs(seed):
        return [torch.rand(4, 3, 50)]

    model = Mean()
    verdict = verdict_on(model, copy.deepcopy(model), inputs)
    assert verdict.right
    assert verdict.elements_float64 == 2 * (4 * 4 * 52 + 1)

    def wrong(x):
        y, numbers = model(x)
        return [y, {"mean": numbers["mean"] + 0.01}]

    assert not verdict_on(model, wrong, inputs).right


def test_an_empty_result_is_right():
    model = nn.ConvTranspose1d(3, 4, 3)
    assert verdict_on(model, copy.deepcopy(model), lambda seed: [torch.rand(0, 3, 5)]).right
