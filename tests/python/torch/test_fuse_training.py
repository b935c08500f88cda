# SPDX-License-Identifier: Apache-2.0
"""Training: the loss of a fused 3-D U-Net is that of PyTorch's, step by step; and what memory a
fused model takes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fuse_support import Executed, operators
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

import upconv


def _block(channels_in: int, channels_out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv3d(channels_in, channels_out, 3, padding=1),
        nn.BatchNorm3d(channels_out),
        nn.LeakyReLU(0.1, inplace=True),
    )


class Up(nn.Module):
    """Upsampling of a U-Net: normalised by the batch, or with a learned scale and a residual of the
    skip connection."""

    def __init__(self, channels_in: int, channels_out: int, normalise: bool) -> None:
        super().__init__()
        self.up = nn.ConvTranspose3d(channels_in, channels_out, 2, stride=2)
        self.norm = nn.BatchNorm3d(channels_out) if normalise else None
        self.scale = nn.Parameter(torch.ones(channels_out, 1, 1, 1))
        self.act = nn.ReLU(inplace=True)
        self.block = _block(2 * channels_out, channels_out)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        y = self.up(x)
        y = self.norm(y) if self.norm is not None else F.silu(y) * self.scale + skip
        return self.block(torch.cat([self.act(y), skip], 1))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = _block(1, 4), _block(4, 8), _block(8, 12)
        self.up2 = Up(12, 8, normalise=False)
        self.up1 = Up(8, 4, normalise=True)
        self.head = nn.Conv3d(4, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = self.first(x)
        b = self.second(F.max_pool3d(a, 2))
        c = self.third(F.max_pool3d(b, 2))
        return self.head(self.up1(self.up2(c, b), a))


def _batch(step: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(2, 1, 8, 8, 8, generator=generator)
    return x, (x.abs() > 0.7).long().squeeze(1)


def _train(model: nn.Module, reference: nn.Module, steps: int) -> list[float]:
    optimiser = torch.optim.Adam(reference.parameters(), lr=3e-3)
    losses = []
    for step in range(steps):
        x, target = _batch(step)
        optimiser.zero_grad()
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(("way", "steps"), [("fuse", 50), ("compile", 10)])
def test_training_of_a_unet(way: str, steps: int) -> None:
    torch.manual_seed(31)
    plain = UNet()
    model = copy.deepcopy(plain)
    if way == "fuse":
        fast = upconv.fuse(model)
    else:
        fast = torch.compile(model, backend="upconv", options={"backend": "aot_eager"})
    expected = _train(plain, plain, steps)
    with Executed() as executed:
        losses = _train(fast, model, steps)
    assert executed.calls == 2 * steps
    assert steps < 50 or expected[-1] < 0.95 * expected[0]
    for step, (a, b) in enumerate(zip(losses, expected, strict=True)):
        assert abs(a - b) <= 5e-6, (step, a, b)
    fused = upconv.explain(fast).fused
    assert [entry.convolution for entry in fused] == [
        "up2.up (ConvTranspose3d)",
        "up1.up (ConvTranspose3d)",
    ]
    assert operators(fused[0]) == ["silu", "mul @p0", "add #t0:f32", "relu"]
    assert operators(fused[1]) == [] and "statistics of the batch" in fused[1].stop
    plain.eval()
    fast.eval()
    with torch.no_grad():
        x, _ = _batch(99)
        torch.testing.assert_close(fast(x), plain(x), rtol=1e-2, atol=1e-2)
    in_eval = upconv.explain(fast).graphs[-1].fused
    assert [len(operators(entry)) for entry in in_eval] == [4, 2]


# ---- memory


class Pooled(nn.Module):
    """The convolution's result has 512 times as many elements as the model's."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose3d(4, 8, 2, stride=2)
        self.pool = nn.MaxPool3d(4)

    def forward(self, x: Tensor) -> Tensor:
        y = F.leaky_relu(self.up(x), 0.2)
        return self.pool(y * 2 + 1).mean(1, keepdim=True)


def _peak(function: Any) -> int:
    """The most bytes that PyTorch's CPU allocator had given out at once while function ran."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        function()
    held = peak = 0
    events = profiler.profiler.kineto_results.events()
    for event in sorted(events, key=lambda e: e.start_ns()):
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    return peak


def test_peak_memory_without_gradients() -> None:
    model = Pooled()
    fused = upconv.fuse(model)
    x = torch.randn(1, 4, 16, 16, 16)
    intermediate = 8 * 32**3 * 4
    with torch.no_grad():
        fused(x)  # traces, plans
        assert _peak(lambda: model(x)) >= intermediate
        assert _peak(lambda: fused(x)) < intermediate / 20


def test_memory_kept_for_the_backward_pass() -> None:
    model = Pooled()
    fused = upconv.fuse(model)
    x = torch.randn(1, 4, 16, 16, 16)
    intermediate = 8 * 32**3 * 4
    fused(x)
    assert _peak(lambda: model(x)) >= 2 * intermediate
    assert _peak(lambda: fused(x)) < intermediate / 20


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_peak_memory_on_a_gpu() -> None:
    model = Pooled().cuda()
    fused = upconv.fuse(model)
    x = torch.randn(4, 4, 32, 32, 32, device="cuda")
    intermediate = 4 * 8 * 64**3 * 4
    peaks = []
    with torch.no_grad():
        for each in (fused, model):
            torch.testing.assert_close(each(x), model(x), rtol=1e-2, atol=1e-2)
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            each(x)
            torch.cuda.synchronize()
            peaks.append(torch.cuda.max_memory_allocated() - before)
    assert peaks[0] < intermediate / 20
    assert peaks[1] >= intermediate
