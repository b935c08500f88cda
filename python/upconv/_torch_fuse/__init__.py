# SPDX-License-Identifier: Apache-2.0
"""upconv.fuse, upconv.explain and the backend of torch.compile: transposed convolutions of a model
with their tails.

model.py      fuse() and explain()              backend.py    torch.compile(backend="upconv")
rewrite.py    puts the operator into a graph    segment.py    the longest tail of one convolution
recorder.py   what a node does, in ATen         rules.py      one rule for each ATen operator
tail.py       the program as it grows           effects.py    nodes that nothing may be moved past
report.py     explanations                   untraced.py    what could not be traced
"""

from .backend import backend, register
from .model import explain, fuse
from .report import Explanation, Fused, Left, Report

register()

__all__ = ["Explanation", "Fused", "Left", "Report", "backend", "explain", "fuse"]
