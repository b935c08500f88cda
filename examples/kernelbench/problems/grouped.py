# SPDX-License-Identifier: Apache-2.0
"""Model B: a grouped transposed convolution with another kernel, padding and size on each axis."""

import torch
from torch import nn

BATCH, SIZE = 8, (12, 24, 48)


class Model(nn.Module):
    """The convolution alone: nothing follows it."""

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride=(1, 1, 1),
        padding=(0, 0, 0),
        output_padding=(0, 0, 0),
        groups=1,
        bias=False,
    ):
        super().__init__()
        self.conv_transpose3d = nn.ConvTranspose3d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
            groups=groups,
            bias=bias,
        )

    def forward(self, x):
        return self.conv_transpose3d(x)


def get_inputs():
    return [torch.rand(BATCH, 32, *SIZE)]


def get_init_inputs():
    return [32, 32, (3, 5, 7), (2, 2, 2), (1, 2, 3), (1, 1, 1), 4]
