# SPDX-License-Identifier: Apache-2.0
"""upconv.tune with PyTorch: modules that ran before are planned anew, and give the same results."""

import pytest
import torch

import upconv
from upconv import _tuning
from upconv._torch import execute, plans


@pytest.fixture
def store(tmp_path, monkeypatch):
    path = tmp_path / "tuning.txt"
    monkeypatch.setenv("UPCONV_TUNE_FILE", str(path))
    monkeypatch.setattr(_tuning, "_mode", "default")
    return path


def test_layers_that_ran_before_are_tuned(store):
    torch.manual_seed(1)
    layer = upconv.nn.ConvTranspose2d(4, 6, 3, stride=2, epilogue=["relu"])
    x = torch.randn(2, 4, 7, 9)
    with torch.no_grad():
        for _ in range(3):  # the third takes the short way
            before = layer(x)
        assert not store.exists()
        with upconv.tune():
            assert not plans._plans and not execute._calls
            inside = layer(x)
        for _ in range(3):
            after = layer(x)
    assert "relu" in store.read_text()
    assert any("chosen" in kept.plan.explain() for kept in plans._plans.values())
    torch.testing.assert_close(inside, before)
    assert torch.equal(inside, after)


def test_gradients_under_tuning(store):
    layer = upconv.nn.ConvTranspose1d(3, 2, 4, stride=2, epilogue=[("leaky_relu", 0.1)])
    x = torch.randn(2, 3, 5, requires_grad=True)
    with upconv.tune():
        layer(x).sum().backward()
    tuned, x.grad = x.grad, None
    layer(x).sum().backward()
    torch.testing.assert_close(tuned, x.grad)
