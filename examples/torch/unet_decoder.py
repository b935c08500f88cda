# SPDX-License-Identifier: Apache-2.0
"""A decoder step of a 3-D U-Net, as MONAI's: upsample, concatenate with the skip, convolve.

torch.cat reads both halves and writes them again. Here the encoder puts the skip where the
concatenation wants it, and the transposed convolution writes beside it: nothing is copied.

    python unet_decoder.py --size 32
"""

import argparse

import torch
from common import compare, default_device
from torch import nn

import upconv


class DecoderStep(nn.Module):
    """transp_conv doubles the size; the two convolutions see its result and the skip."""

    def __init__(self, channels, skip_channels):
        super().__init__()
        self.channels = channels // 2
        self.transp_conv = nn.ConvTranspose3d(channels, self.channels, 2, stride=2, bias=False)
        self.conv_block = nn.Sequential(
            nn.Conv3d(self.channels + skip_channels, self.channels, 3, padding=1),
            nn.InstanceNorm3d(self.channels),
            nn.LeakyReLU(0.01),
        )

    def forward(self, x, skip):
        return self.conv_block(torch.cat((self.transp_conv(x), skip), dim=1))

    def both(self, skip_shape, like):
        """Memory for the concatenation. The encoder writes its skip into the second part."""
        n, skip_channels, *size = skip_shape
        return like.new_empty(n, self.channels + skip_channels, *size)

    def upsample_into(self, both, x):
        """both: as made by both(), with the skip in its place. Without gradients."""
        weight = self.transp_conv.weight
        upconv.conv_transpose3d(x, weight, stride=2, out=both[:, : self.channels])
        return both

    def forward_in_place(self, x, both):
        return self.conv_block(self.upsample_into(both, x))


@torch.no_grad()
def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--size", type=int, default=16, help="of the input, per axis")
    parser.add_argument("--device", default=default_device())
    args = parser.parse_args(argv)
    torch.manual_seed(0)
    step = DecoderStep(args.channels, args.channels // 2).eval().to(args.device)
    x = torch.rand(2, args.channels, *[args.size] * 3, device=args.device)
    skip = torch.rand(2, args.channels // 2, *[2 * args.size] * 3, device=args.device)
    both = step.both(skip.shape, x)
    both[:, step.channels :] = skip  # what an encoder would do with the result of its last layer

    def concatenated():
        return torch.cat((step.transp_conv(x), skip), dim=1)

    differences = [
        compare("decoder step", lambda: step(x, skip), lambda: step.forward_in_place(x, both)),
        compare("upsampling and concatenation", concatenated, lambda: step.upsample_into(both, x)),
    ]
    print(f"written into channels 0 to {step.channels - 1}")
    return max(differences)


if __name__ == "__main__":
    main()
