# SPDX-License-Identifier: Apache-2.0
"""Measures upconv on a model of yours: `python -m upconv.bench FILE.py`.

    from upconv.bench.run import Options, Runner
    result = Runner(Options(device="cuda"))(Path("model.py"))   # plain data, as in --json

problem.py    reads the file               run.py       one file, from start to result
fusion.py     our side                     sides.py     PyTorch's sides
check.py      is it right?                 reference.py the original in float64, in parts
bound.py      error bounds, carried along  bound_rules.py, rounding.py  by what rules
timing.py     clocks, turns, memory        floor.py     what the machine could do at best
cli.py        the program                  report.py, plot.py           its output

docs/BENCH_TORCH.md is the manual.
"""
