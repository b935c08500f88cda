# SPDX-License-Identifier: Apache-2.0
"""Transposed convolution fused with what follows it."""
