# SPDX-License-Identifier: Apache-2.0
"""Model C: transposed convolution, leaky ReLU, learned factor, leaky ReLU, max-pool."""

import torch
from torch import nn

BATCH, SIZE = 16, (16, 32, 32)


class Model(nn.Module):
    """The activation stands twice, on both sides of the factor."""

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride,
        padding,
        output_padding,
        multiplier_shape,
    ):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose3d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
        )
        self.multiplier = nn.Parameter(torch.randn(multiplier_shape))
        self.leaky_relu = nn.LeakyReLU(negative_slope=0.2)
        self.max_pool = nn.MaxPool3d(kernel_size=2)

    def forward(self, x):
        x = self.conv_transpose(x)
        x = self.leaky_relu(x)
        x = x * self.multiplier
        x = self.leaky_relu(x)
        return self.max_pool(x)


def get_inputs():
    return [torch.rand(BATCH, 16, *SIZE)]


def get_init_inputs():
    return [16, 32, 3, 2, 1, 1, (32, 1, 1, 1)]
