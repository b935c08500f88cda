# SPDX-License-Identifier: Apache-2.0
"""upconv for PyTorch: the operator torch.ops.upconv.conv_transpose, functions and modules on top.

functional.py   what users call        nn.py          modules
into.py         out=
program.py      epilogue= -> text      modules.py     nn.Module -> items of an epilogue
operator.py     registration           autograd.py    gradients
execute.py      one call               packing.py     packed weights, kept or made anew
plans.py        plans, kept            items.py       the epilogue of a module
fast.py         past the dispatcher    short.py       the same in C (python/csrc)
interpret.py    the text as PyTorch's own operators: gradients, fallbacks, shapes
"""

from .functional import conv_transpose1d, conv_transpose2d, conv_transpose3d
from .nn import frozen

__all__ = ["conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "frozen"]
