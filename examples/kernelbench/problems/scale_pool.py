# SPDX-License-Identifier: Apache-2.0
"""Model A: transposed convolution, scale, average pool, bias, scale."""

import torch
from torch import nn

BATCH, SIZE = 128, (16, 32, 32)


class Model(nn.Module):
    """x * scale1, AvgPool3d(2), + bias, * scale2 behind the convolution."""

    def __init__(
        self, in_channels, out_channels, kernel_size, stride, padding, scale1, scale2, bias_shape
    ):
        super().__init__()
        self.conv_transpose = nn.ConvTranspose3d(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding
        )
        self.scale1 = nn.Parameter(torch.tensor(scale1))
        self.avg_pool = nn.AvgPool3d(kernel_size=2)
        self.bias = nn.Parameter(torch.randn(bias_shape))
        self.scale2 = nn.Parameter(torch.tensor(scale2))

    def forward(self, x):
        x = self.conv_transpose(x)
        x = x * self.scale1
        x = self.avg_pool(x)
        x = x + self.bias
        return x * self.scale2


def get_inputs():
    return [torch.rand(BATCH, 3, *SIZE)]


def get_init_inputs():
    return [3, 16, 3, 2, 1, 0.5, 1.0, (16, 1, 1, 1)]
