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
