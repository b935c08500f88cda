# SPDX-License-Identifier: Apache-2.0
"""What make bench rests on: that the suite's ONNX models are the problems of suite.txt, and that
wrong results do not pass for right ones."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import gpu_program
import gpu_report
import results
import suite

PROGRAM = os.environ["UPCONV_PROGRAM"]


def upconv(*args):
    done = subprocess.run([PROGRAM, *map(os.fspath, args)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


WITH_ONNX = "with ONNX" in upconv("version")
needs_onnx = pytest.mark.skipif(not WITH_ONNX, reason="the program was built without ONNX")


def facts(plan):
    """What a plan says about size and work; the text, but for how exactly it prints numbers."""
    found = {
        key: re.search(rf"^ *{key} +(.*)$", plan, re.MULTILINE)[1]
        for key in ("phases", "arithmetic", "memory", "output", "becomes")
    }
    found["becomes"] = re.sub(r"leaky_relu 0\.1\d*", "leaky_relu 0.1", found["becomes"])
    return found


@needs_onnx
def test_models_of_the_suite_are_its_problems(tmp_path):
    rows = suite.suite_rows(tmp_path, most_macs=5e9)
    assert len(rows) >= 18
    for row in rows:
        of_text = upconv("plan", row.text)
        of_model = upconv("plan", row.path, "--dim", f"N={row.batch}")
        assert facts(of_text) == facts(of_model), row.text


def test_batches_are_cut_to_what_fits():
    problem = suite.parse_problem("n16 ci4 co6 in5x7 k3x2 s2 | relu")
    assert problem.macs == 5 * 7 * 4 * 6 * 3 * 2
    assert suite.cut_batch(problem, 16 * problem.macs) == 16
    assert suite.cut_batch(problem, 15.9 * problem.macs) == 8
    assert suite.cut_batch(problem, 0) == 1


@pytest.mark.parametrize("text", ["ci4 co6 in5 k3 s2 q7", "ci4 co6 in5 s2", "ci4 co6 k3"])
def test_what_it_cannot_read_is_named(text):
    with pytest.raises(suite.SuiteError, match=text):
        suite.parse_problem(text)


def test_agreement():
    theirs = np.linspace(-2, 2, 1000, dtype=np.float32)
    rounding = theirs + np.float32(1e-6)
    assert results.compare(rounding, theirs)["agrees"]
    one_wrong = theirs.copy()
    one_wrong[7] += np.float32(1e-3)
    assert not results.compare(one_wrong, theirs)["agrees"]
    one_wrong[7] = np.nan
    assert not results.compare(one_wrong, theirs)["agrees"]
    assert not results.compare(theirs[:-1], theirs)["agrees"]


def test_one_failed_check_makes_a_row_wrong():
    good, bad = {"agrees": True}, {"agrees": False}
    within, beyond = {"error_over_bound": 1.0}, {"error_over_bound": 1.01}
    assert results.right({"oracle": within, "agreement": {"a": good}})
    assert results.right({"oracle": None, "agreement": {"a": good}})
    assert not results.right({"oracle": beyond, "agreement": {"a": good}})
    assert not results.right({"oracle": {"error_over_bound": np.nan}, "agreement": {"a": good}})
    assert not results.right({"oracle": within, "agreement": {"a": good, "b": bad}})


def test_floors():
    row = {"bytes": 4e9, "flop": 1e9, "median_ms": {"fused": 2000.0, "unfused": 6000.0}}
    results.add_floors([row], copy_rate=4e9, fma_rate=2e9)
    assert (row["floor_ms"], row["floor_reason"]) == (1000.0, "memory")
    assert row["fraction_of_floor"]["fused"] == 0.5
    assert row["speedup"] == {"unfused": 3.0}
    results.add_floors([row], copy_rate=40e9, fma_rate=2e9)
    assert (row["floor_ms"], row["floor_reason"]) == (500.0, "arithmetic")


GPU_RUN = """cuda:0: NVIDIA H200, sm_90
n8 ci32 co32 in12x24x48 k3x5x7 s2 p1x2x3 op1 g4 math=tf32
  the planner's choice: cuda-mma, 5945425920 FLOP, 141582080 bytes
  cuda-ffma  - worst nan of the bound, median 0.2494 ms (min 0.2487 max 0.2507)
  cuda-mma   WRONG worst 2.03e+04 of the bound, median 0.0867 ms (min 0.0853 max 0.0886)
"""


def test_the_planners_choice_is_what_counts_on_a_gpu():
    found = gpu_program.read_upconv(GPU_RUN, "the text")
    assert (found["chosen"], found["ms"], found["bytes"]) == ("cuda-mma", 0.0867, 141582080)
    assert found["candidates"]["cuda-mma"]["verdict"] == "WRONG"
    assert found["candidates"]["cuda-ffma"]["ms"] == 0.2494
    with pytest.raises(SystemExit, match="the text"):
        gpu_program.read_upconv("nothing of use", "the text")


def test_modes_are_words_of_the_convolution():
    assert gpu_program.with_mode("ci4 k3 | relu | tanh", "f16") == "ci4 k3 dtype=f16 | relu | tanh"
    assert gpu_program.with_mode("ci4 k3", "ieee") == "ci4 k3"


def test_the_gpu_report_names_what_is_slower():
    def row(title, ms, eager, with_host):
        ours = {"ms": ms, "chosen": "cuda-mma"}
        return {
            "group": "g",
            "title": title,
            "mode": "f16",
            "upconv": ours,
            "median_ms": {"eager": eager},
            "samples_ms": {"eager": [eager] * 5},
            "samples_with_host": with_host,
            "speed_up": eager / ms,
            "floor_ms": ms / 2,
            "bound_by": "memory",
            "fraction_of_floor": 0.5,
        }

    document = {
        "environment": dict.fromkeys(("gpu", "driver", "torch", "cudnn", "date", "commit"), "?"),
        "rates": dict.fromkeys(("copy", "ieee", "tf32", "f16", "bf16"), 1e12),
        "rows": [row("fast", 1.0, 4.0, {}), row("slow", 2.0, 1.0, {"eager": 2})],
        "left_out": ["late, f16"],
    }
    said = gpu_report.summary(document)
    assert "2.2 times" in said and "0.50 at least" in said
    assert "slow f16" in said and "fast" not in said.split("fastest")[1] and "late, f16" in said
    assert "waited for: slow f16 eager (2 of 5 runs);" in said
    table = gpu_report.markdown(document)
    assert "| fast | f16 | 4.000 | 1.000 | cuda-mma | 4.0 | 0.500, memory | 50 % |" in table
