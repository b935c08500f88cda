# SPDX-License-Identifier: Apache-2.0
"""The examples of examples/torch run, fuse what they say, and compute what PyTorch computes."""

import importlib
import sys
from pathlib import Path

import pytest
import torch

import upconv

FOLDER = Path(__file__).resolve().parents[3] / "examples/torch"


@pytest.fixture(autouse=True)
def folder(monkeypatch):
    """As when they are started as scripts."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    for path in FOLDER.glob("*.py"):
        sys.modules.pop(path.stem, None)


def example(name):
    return importlib.import_module(name)


CPU = ["--device", "cpu"]


def test_unet_decoder(capsys):
    module = example("unet_decoder")
    assert module.main(["--channels", "8", "--size", "4", *CPU]) < 1e-5
    out = capsys.readouterr().out
    assert "decoder step: PyTorch" in out and "written into channels 0 to 3" in out


@torch.no_grad()
def test_the_skip_is_not_touched_and_not_copied():
    module = example("unet_decoder")
    step = module.DecoderStep(8, 6).eval()
    x, skip = torch.rand(2, 8, 3, 4, 5), torch.rand(2, 6, 6, 8, 10)
    both = step.both(skip.shape, x).fill_(torch.nan)
    both[:, 4:] = skip
    address = both.data_ptr()
    y = step.forward_in_place(x, both)
    assert both.data_ptr() == address
    assert torch.equal(both[:, 4:], skip)
    assert torch.allclose(both[:, :4], step.transp_conv(x), atol=1e-6)
    assert torch.allclose(y, step(x, skip), atol=1e-5)


def test_gan3d(capsys):
    assert example("gan3d").main(["--width", "16", "--batch", "1", *CPU]) < 1e-5
    assert "generator: PyTorch" in capsys.readouterr().out


@torch.no_grad()
def test_gan3d_is_fused_whole(library_runs):
    generator = example("gan3d").Generator(16).eval()
    code = torch.randn(1, 200, 1, 1, 1)
    fused = upconv.fuse(generator, code)
    explanation = upconv.explain(fused)
    assert len(explanation.fused) == 5 and not explanation.left
    assert [len(entry.operators) for entry in explanation.fused] == [2, 2, 2, 2, 1]
    with library_runs(5):
        y = fused(code)
    assert y.shape == (1, 1, 64, 64, 64)


def test_hifigan(capsys):
    arguments = ["--channels", "16", "--frames", "5", "8", *CPU]
    assert example("hifigan").main(arguments) < 1e-5
    out = capsys.readouterr().out
    assert "5 frames" in out and "8 frames" in out


@torch.no_grad()
def test_hifigan_upsamples_by_256_for_every_length(library_runs):
    vocoder = example("hifigan").Vocoder(16).eval()
    fused = upconv.fuse(vocoder, torch.randn(1, 80, 4))
    for frames in (4, 7, 9, 12):
        with library_runs(4):
            assert fused(torch.randn(1, 80, frames)).shape == (1, 1, 256 * frames)


def test_train_autocast():
    module = example("train_autocast")
    losses = module.main(["--steps", "12", *CPU])
    for values in losses.values():
        assert values[-1] < 0.7 * values[0]
    theirs, ours = (torch.tensor(losses[name]) for name in ("PyTorch", "upconv"))
    assert torch.allclose(theirs, ours, rtol=0.05)


def test_train_autocast_runs_in_16_bits(library_runs):
    module = example("train_autocast")
    model = module.decoder(module.by_upconv, 0.2)
    with torch.autocast("cpu", torch.bfloat16), library_runs(2):
        y = model(torch.randn(2, 16, 4, 4))
    assert y.dtype == torch.bfloat16
