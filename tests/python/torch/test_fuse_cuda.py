# SPDX-License-Identifier: Apache-2.0
"""fuse on a GPU: the same models, what is fused there, memory, CUDA graphs, training under
autocast."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fuse_support import Executed, operators
from torch import Tensor, nn

import upconv

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DEVICE = "cuda"


class ScalePool(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv_transpose = nn.ConvTranspose3d(3, 16, 3, stride=2, padding=1)
        self.scale1 = nn.Parameter(torch.tensor(0.5))
        self.avg_pool = nn.AvgPool3d(2)
        self.bias = nn.Parameter(torch.randn(16, 1, 1, 1))
        self.scale2 = nn.Parameter(torch.tensor(1.0))

    def forward(self, x: Tensor) -> Tensor:
        x = self.avg_pool(self.conv_transpose(x) * self.scale1)
        return (x + self.bias) * self.scale2


class DoubleLeaky(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv_transpose = nn.ConvTranspose3d(16, 32, 3, 2, 1, output_padding=1)
        self.multiplier = nn.Parameter(torch.randn(32, 1, 1, 1))
        self.leaky_relu = nn.LeakyReLU(0.2, inplace=True)
        self.max_pool = nn.MaxPool3d(2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.leaky_relu(self.conv_transpose(x))
        return self.max_pool(self.leaky_relu(x * self.multiplier))


class Normalised(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose3d(16, 8, 4, 2, 1)
        self.norm = nn.BatchNorm3d(8)
        self.gate = nn.Conv3d(8, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.silu(self.norm(self.up(x)))
        return y * torch.sigmoid(self.gate(y))


CASES: dict[str, tuple[Any, int, list[str]]] = {
    "scale-pool": (ScalePool, 3, ["mul @p0[]", "avg_pool", "add @p1", "mul @p2[]"]),
    "double-leaky": (
        DoubleLeaky,
        16,
        ["leaky_relu 0.2", "mul @p0", "leaky_relu 0.2", "max_pool"],
    ),
    "normalised": (Normalised, 16, ["batch_norm", "silu"]),
}


def _case(name: str) -> tuple[nn.Module, Tensor, list[str]]:
    torch.manual_seed(51)
    kind, channels, expected = CASES[name]
    return kind().to(DEVICE).eval(), torch.rand(2, channels, 6, 7, 8, device=DEVICE), expected


def _close(a: Tensor, b: Tensor) -> None:
    """TF32 and 16 bits round alike, as far as this tolerance goes."""
    torch.testing.assert_close(a.float(), b.float(), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("setting", ["float32", "float16", "bfloat16", "autocast", "channels_last"])
@pytest.mark.parametrize("name", CASES)
def test_model(name: str, setting: str) -> None:
    model, x, expected = _case(name)
    if setting in ("float16", "bfloat16"):
        dtype = getattr(torch, setting)
        model, x = model.to(dtype), x.to(dtype)
    if setting == "channels_last":
        x = x.contiguous(memory_format=torch.channels_last_3d)
    fused = upconv.fuse(model)
    with torch.no_grad(), torch.autocast(DEVICE, torch.float16, enabled=setting == "autocast"):
        wanted = model(x)
        with Executed() as executed:
            result = fused(x)
    assert executed.calls == 1
    assert result.dtype == wanted.dtype
    if setting != "channels_last":
        assert result.stride() == wanted.stride()
    _close(result, wanted)
    (entry,) = upconv.explain(fused).fused
    found = operators(entry)
    if setting != "autocast":  # there, operators with parameters of 32 bits leave the 16-bit tail
        assert len(found) == len(expected)
        assert all(a.startswith(b) for a, b in zip(found, expected))


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    model, x, _ = _case(name)
    found = []
    allowed = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        for each in (model, upconv.fuse(model)):
            model.zero_grad()
            leaf = x.clone().requires_grad_()
            each(leaf).square().mean().backward()
            found.append([leaf.grad, *(p.grad.clone() for p in model.parameters())])
    finally:
        torch.backends.cudnn.allow_tf32 = allowed
    torch.testing.assert_close(found[1], found[0], rtol=1e-3, atol=1e-4)


def test_training_under_autocast() -> None:
    torch.manual_seed(52)
    plain = Normalised().to(DEVICE)
    model = copy.deepcopy(plain)
    losses = []
    for module, parameters in ((plain, plain), (upconv.fuse(model), model)):
        optimiser = torch.optim.Adam(parameters.parameters(), lr=1e-3)
        scaler = torch.amp.GradScaler(DEVICE, enabled=DEVICE == "cuda")
        curve = []
        generator = torch.Generator().manual_seed(53)
        for _ in range(20):
            x = torch.rand(2, 16, 4, 4, 4, generator=generator).to(DEVICE)
            optimiser.zero_grad()
            with torch.autocast(DEVICE, torch.float16):
                loss = (module(x).float() - 0.5).square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimiser)
            scaler.update()
            curve.append(loss.item())
        losses.append(curve)
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-2, atol=1e-3)


@pytest.mark.skipif(DEVICE != "cuda", reason="CUDA graphs")
def test_cuda_graph() -> None:
    model, x, _ = _case("double-leaky")
    fused = upconv.fuse(model)
    static = x.clone()
    with torch.no_grad():
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                fused(static)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = fused(static)
        for factor in (1.0, -0.5):
            static.copy_(factor * x)
            graph.replay()
            _close(result, model(factor * x))


def test_compile() -> None:
    torch._dynamo.reset()
    model, x, _ = _case("scale-pool")
    for inner in ("aot_eager", "inductor"):
        compiled = torch.compile(model, backend="upconv", options={"backend": inner})
        with torch.no_grad(), Executed() as executed:
            _close(compiled(x), model(x))
        assert executed.calls == 1
        torch._dynamo.reset()
