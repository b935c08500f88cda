# SPDX-License-Identifier: Apache-2.0
"""Training with autocast: a decoder whose layers are upconv's, activation included.

Weights stay float32; autocast hands upconv 16-bit copies, as it does for PyTorch's convolutions.
The weights change at every step, so they are packed at every step.

    python train_autocast.py --steps 50
"""

import argparse

import torch
from common import default_device
from torch import nn

import upconv


def decoder(layer, activation):
    """The same decoder of PyTorch's layers or of upconv's: state_dicts fit both ways."""
    return nn.Sequential(
        *layer(16, 32, activation),
        *layer(32, 16, activation),
        nn.Conv2d(16, 3, 3, padding=1),
    )


def by_torch(inputs, outputs, slope):
    return nn.ConvTranspose2d(inputs, outputs, 4, stride=2, padding=1), nn.LeakyReLU(slope)


def by_upconv(inputs, outputs, slope):
    follows = [f"leaky_relu {slope}"]
    layer = upconv.nn.ConvTranspose2d(inputs, outputs, 4, stride=2, padding=1, epilogue=follows)
    return layer, nn.Identity()  # so that later layers have the same numbers


def train(model, x, target, steps, device):
    """A few steps; returns the loss of each."""
    dtype = torch.float16 if device == "cuda" else torch.bfloat16
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler(device, enabled=dtype == torch.float16)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, dtype):
            loss = nn.functional.mse_loss(model(x), target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(float(loss.detach()))
    return losses


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--device", default=default_device())
    args = parser.parse_args(argv)
    device = torch.device(args.device).type
    torch.manual_seed(0)
    theirs = decoder(by_torch, 0.2).to(args.device)
    ours = decoder(by_upconv, 0.2).to(args.device)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(8, 16, 8, 8, device=args.device)
    target = torch.rand(8, 3, 32, 32, device=args.device)
    losses = {
        name: train(model, x, target, args.steps, device)
        for name, model in (("PyTorch", theirs), ("upconv", ours))
    }
    for name, values in losses.items():
        print(f"{name:8} loss {values[0]:.4f} -> {values[-1]:.4f}")
    return losses


if __name__ == "__main__":
    main()
