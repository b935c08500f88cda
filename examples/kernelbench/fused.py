# SPDX-License-Identifier: Apache-2.0
"""A problem as it is, in one line: upconv.fuse. No forward is rewritten.

python fused.py problems/double_leaky_max.py
"""

import runpy
import sys
import time

import torch

import upconv


def milliseconds(model, inputs):
    model(*inputs)  # the first call plans and packs
    start = time.perf_counter()
    model(*inputs)
    return (time.perf_counter() - start) * 1e3


@torch.no_grad()
def main(path):
    problem = runpy.run_path(path)
    model = problem["Model"](*problem["get_init_inputs"]()).eval()
    inputs = problem["get_inputs"]()
    fused = upconv.fuse(model, tuple(inputs))
    print(upconv.explain(fused))
    difference = (model(*inputs) - fused(*inputs)).abs().max()
    print(f"{milliseconds(model, inputs):.1f} ms eager, {milliseconds(fused, inputs):.1f} ms fused")
    print(f"largest difference {difference:.1e}")


if __name__ == "__main__":
    main(*sys.argv[1:])
