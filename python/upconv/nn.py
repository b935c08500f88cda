# SPDX-License-Identifier: Apache-2.0
"""Modules for PyTorch: torch.nn's transposed convolutions with an epilogue."""

from ._torch.nn import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d

__all__ = ["ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]
