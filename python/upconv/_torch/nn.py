# SPDX-License-Identifier: Apache-2.0
"""ConvTranspose1d, ConvTranspose2d, ConvTranspose3d: PyTorch's modules with an epilogue.

They are subclasses of PyTorch's, with the same arguments, initial values and state_dict keys, so
that trained weights load. Two arguments are new, by keyword only:

  epilogue   what follows, in the same pass: items of upconv.conv_transpose3d, and modules such as
             nn.LeakyReLU(0.2). Modules, parameters and tensors become part of this module, named
             epilogue.0, epilogue.1.operand0, ...: they are trained, moved and saved with it. A
             string "#name" stands for a tensor that is given with each call: ("add", "#skip") and
             module(x, skip=tensor).
  frozen     a promise that parameters will not change any more; see frozen().

Batch norm and dropout in training mode look at the whole batch or at chance: then they, and what
follows them, run one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from . import packing, short
from .functional import Size, call
from .items import EpilogueModule
from .program import Epilogue, build

_M = TypeVar("_M", bound=torch.nn.Module)


class _WithEpilogue(torch.nn.Module):
    """What the three modules share."""

    epilogue: EpilogueModule | None
    frozen: bool

    def _set(self, epilogue: Epilogue, frozen: bool) -> None:
        self.epilogue = EpilogueModule(epilogue) if epilogue else None
        self.frozen = frozen

    def forward(
        self, input: Tensor, output_size: Sequence[int] | None = None, **tensors: Tensor
    ) -> Tensor:
        """output_size as in PyTorch; tensors: those that the epilogue calls "#name"."""
        nd = len(self.kernel_size)
        output_padding = self.output_padding
        if output_size is not None:
            output_padding = tuple(
                self._output_padding(
                    input,
                    list(output_size),
                    self.stride,
                    self.padding,
                    self.kernel_size,
                    nd,
                    self.dilation,
                )
            )
        if self.epilogue is None:
            if tensors:
                raise TypeError(
                    f"tensors {', '.join(tensors)}: there is no epilogue that uses them"
                )
            text, params, operands, rest = "", [], [], []
        else:
            items, rest = self.epilogue.split(tensors)
            text, params, operands = build(nd, items)
        if self.frozen and not torch.compiler.is_compiling():
            packing.promise((self.weight, self.bias, *params))
        arguments = (
            nd,
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            output_padding,
            self.groups,
            self.dilation,
            text,
            params,
            operands,
        )
        y = None
        if short.module is not None and not is_dynamo_compiling():
            y = short.module.call(*arguments)
        if y is None:
            y = call(*arguments)
        return self.epilogue.run_rest(nd, y, rest) if rest else y

    def extra_repr(self) -> str:
        text = super().extra_repr()
        return text + ", frozen=True" if self.frozen else text


class ConvTranspose1d(_WithEpilogue, torch.nn.ConvTranspose1d):
    """torch.nn.ConvTranspose1d, then epilogue."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
        *,
        epilogue: Epilogue = None,
        frozen: bool = False,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            bias,
            dilation,
            padding_mode,
            device,
            dtype,
        )
        self._set(epilogue, frozen)


class ConvTranspose2d(_WithEpilogue, torch.nn.ConvTranspose2d):
    """torch.nn.ConvTranspose2d, then epilogue."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
        *,
        epilogue: Epilogue = None,
        frozen: bool = False,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            bias,
            dilation,
            padding_mode,
            device,
            dtype,
        )
        self._set(epilogue, frozen)


class ConvTranspose3d(_WithEpilogue, torch.nn.ConvTranspose3d):
    """torch.nn.ConvTranspose3d, then epilogue."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
        *,
        epilogue: Epilogue = None,
        frozen: bool = False,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            bias,
            dilation,
            padding_mode,
            device,
            dtype,
        )
        self._set(epilogue, frozen)


def frozen(module: _M) -> _M:
    """Promises that the parameters and buffers of the upconv modules in module will not change any
    more; returns it.

    Without the promise weights are packed at each call on CUDA, and compared with those of the last
    call on the CPU, since PyTorch does not count writes through .data. With it they are packed
    once. What PyTorch does count, such as an optimizer's step or load_state_dict, is noticed even
    so; writes through .data or to inference tensors are not."""
    for part in module.modules():
        if isinstance(part, _WithEpilogue):
            part.frozen = True
    return module
