# SPDX-License-Identifier: Apache-2.0
"""problems/double_leaky_max.py with its whole forward in one pass over memory."""

import torch
from torch import nn

import upconv


class ModelNew(nn.Module):
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
            in_channels, out_channels, kernel_size, stride, padding, output_padding
        )
        self.multiplier = nn.Parameter(torch.randn(multiplier_shape))

    def forward(self, x):
        conv, leaky = self.conv_transpose, "leaky_relu 0.2"
        geometry = (conv.stride, conv.padding, conv.output_padding)
        follows = [leaky, ("mul", self.multiplier), leaky, ("max_pool", 2)]
        return upconv.conv_transpose3d(x, conv.weight, conv.bias, *geometry, epilogue=follows)
