# SPDX-License-Identifier: Apache-2.0
"""problems/grouped.py with upconv's layer in the place of PyTorch's."""

from torch import nn

import upconv


class ModelNew(nn.Module):
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
        self.conv_transpose3d = upconv.nn.ConvTranspose3d(
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
