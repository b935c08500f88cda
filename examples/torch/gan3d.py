# SPDX-License-Identifier: Apache-2.0
"""The generator of a 3D-GAN: five transposed convolutions, each fused with its norm and activation.

python gan3d.py --width 512 --batch 16
"""

import argparse

import torch
from common import compare, default_device
from torch import nn

import upconv


def layer(inputs, outputs, stride, padding):
    return [
        nn.ConvTranspose3d(inputs, outputs, 4, stride, padding, bias=False),
        nn.BatchNorm3d(outputs),
        nn.ReLU(inplace=True),
    ]


class Generator(nn.Sequential):
    """A code of 200 numbers becomes occupancies of 64 x 64 x 64 cells."""

    def __init__(self, width=512, code=200):
        super().__init__(
            *layer(code, width, 1, 0),
            *layer(width, width // 2, 2, 1),
            *layer(width // 2, width // 4, 2, 1),
            *layer(width // 4, width // 8, 2, 1),
            nn.ConvTranspose3d(width // 8, 1, 4, 2, 1),
            nn.Sigmoid(),
        )


@torch.no_grad()
def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=64, help="channels of the first layer")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--device", default=default_device())
    args = parser.parse_args(argv)
    torch.manual_seed(0)
    generator = Generator(args.width).eval().to(args.device)
    code = torch.randn(args.batch, 200, 1, 1, 1, device=args.device)
    fused = upconv.fuse(generator, code)
    print(upconv.explain(fused))
    return compare("generator", lambda: generator(code), lambda: fused(code))


if __name__ == "__main__":
    main()
