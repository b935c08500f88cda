# SPDX-License-Identifier: Apache-2.0
"""The upsampler of a HiFi-GAN vocoder, in 1-D: mel frames become samples, 256 for each frame.

Speech has any length. Nothing is compiled for a new one: a plan serves changing extents.

    python hifigan.py --channels 512 --frames 32 100 257
"""

import argparse

import torch
from common import compare, default_device
from torch import nn
from torch.nn import functional as F

import upconv


class Residual(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.conv = nn.Conv1d(channels, channels, 3, padding=dilation, dilation=dilation)

    def forward(self, x):
        return x + self.conv(F.leaky_relu(x, 0.1))


class Stage(nn.Module):
    """Upsamples by the stride and halves the channels."""

    def __init__(self, channels, stride):
        super().__init__()
        kernel, padding = 2 * stride, stride // 2
        self.up = nn.ConvTranspose1d(channels, channels // 2, kernel, stride, padding)
        self.residuals = nn.Sequential(*[Residual(channels // 2, d) for d in (1, 3)])

    def forward(self, x):
        return F.leaky_relu(self.residuals(F.leaky_relu(self.up(x), 0.1)), 0.1)


class Vocoder(nn.Module):
    def __init__(self, channels=512, mels=80):
        super().__init__()
        self.pre = nn.Conv1d(mels, channels, 7, padding=3)
        strides = (8, 8, 2, 2)
        self.stages = nn.Sequential(*[Stage(channels >> i, s) for i, s in enumerate(strides)])
        self.post = nn.Conv1d(channels >> len(strides), 1, 7, padding=3)

    def forward(self, mel):
        return torch.tanh(self.post(self.stages(F.leaky_relu(self.pre(mel), 0.1))))


@torch.no_grad()
def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--frames", type=int, nargs="+", default=[32, 45])
    parser.add_argument("--device", default=default_device())
    args = parser.parse_args(argv)
    torch.manual_seed(0)
    vocoder = Vocoder(args.channels).eval().to(args.device)
    mels = [torch.randn(1, 80, frames, device=args.device) for frames in args.frames]
    fused = upconv.fuse(vocoder, mels[0])
    print(upconv.explain(fused))
    return max(
        compare(f"{mel.shape[-1]} frames", lambda x=mel: vocoder(x), lambda x=mel: fused(x))
        for mel in mels
    )


if __name__ == "__main__":
    main()
