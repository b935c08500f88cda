# SPDX-License-Identifier: Apache-2.0
"""A transposed convolution that writes its result into a part of a larger tensor.

This is the package's lower level: a plan is made once, weights are packed when they change, and an
execution is given nothing but tensors with their strides. Without gradients.
"""

import torch

import upconv

NAMES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
CODES = {dtype: code for code, dtype in enumerate(NAMES)}


def described(tensor):
    return (tensor.data_ptr(), CODES[tensor.dtype], tuple(tensor.shape), tensor.stride())


class Into:
    """conv: a torch.nn.ConvTranspose1d, 2d or 3d. epilogue: what follows, as upconv's text."""

    def __init__(self, conv, like, epilogue=""):
        name = NAMES[like.dtype]
        problem = upconv.problem_text(
            batch=like.shape[0],
            in_size=like.shape[2:],
            in_channels=conv.in_channels,
            out_channels=conv.out_channels,
            kernel=conv.kernel_size,
            groups=conv.groups,
            stride=conv.stride,
            dilation=conv.dilation,
            padding=conv.padding,
            output_padding=conv.output_padding,
            bias=conv.bias is not None,
            x=name,
            w=name,
            y=name,
            epilogue=epilogue,
        )
        self.plan = upconv.Plan(upconv.context(str(like.device)), problem)
        self.packed = torch.empty(self.plan.packed_size, dtype=torch.uint8, device=like.device)
        self.pack(conv)

    def stream(self):
        return torch.cuda.current_stream().cuda_stream if self.packed.is_cuda else None

    def pack(self, conv):
        """After every change of the weights."""
        bias = None if conv.bias is None else described(conv.bias)
        packed, stream = self.packed.data_ptr(), self.stream()
        self.plan.pack(described(conv.weight), bias, [], packed, stream)

    def __call__(self, x, out):
        """Writes the result for x into out, a tensor of the right shape with any strides."""
        shape = self.plan.output_shape(x.shape)
        if tuple(out.shape) != shape or out.dtype != x.dtype or out.device != x.device:
            raise ValueError(f"out must be {shape}, {x.dtype}, on {x.device}")
        size = self.plan.workspace_size(x.shape)
        work = torch.empty(max(size, 1), dtype=torch.uint8, device=x.device)
        packed, stream = self.packed.data_ptr(), self.stream()
        self.plan.execute(described(x), described(out), [], packed, work.data_ptr(), size, stream)
        return out
