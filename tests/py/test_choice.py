# SPDX-License-Identifier: Apache-2.0
"""bench/choice.py: the problems that it draws, and what it makes of measurements."""

import argparse
import itertools
import json
import sys
from pathlib import Path

import pytest
from test_cli import PROGRAM, succeeds

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import choice
import choice_problems


def drawn(count, seed=1, modes=("",), limits=choice_problems.CPU):
    return list(itertools.islice(choice_problems.draw(seed, modes, limits), count))


def test_problems_are_the_same_for_the_same_seed():
    assert drawn(50) == drawn(50)
    assert drawn(50) != drawn(50, seed=2)
    assert {problem.family for problem in drawn(50)} == set(choice_problems.FAMILIES)


@pytest.mark.parametrize(
    ("limits", "modes"),
    [(choice_problems.CPU, ("",)), (choice_problems.GPU, choice.GPU_MODES)],
    ids=["cpu", "gpu"],
)
def test_the_program_takes_them_all(limits, modes):
    for problem in drawn(42, modes=modes, limits=limits):
        assert "candidates" in succeeds("plan", problem.text)


GPU_RUN = """cuda:0: A GPU, sm_90a
one
  the planner's choice: cuda-mma, 5 FLOP, 6 bytes
  cuda-ffma  - worst nan of the bound, median 0.2000 ms (min 0.1 max 0.3), 1 TFLOP/s, 2 GB/s
  cuda-mma   - worst nan of the bound, median 0.2100 ms (min 0.1 max 0.3), 1 TFLOP/s, 2 GB/s
two
  the planner's choice: cuda-mma, 5 FLOP, 6 bytes
  cuda-mma: no memory
  cuda-ffma  - worst nan of the bound, median 0.2000 ms (min 0.1 max 0.3), 1 TFLOP/s, 2 GB/s
three
  plan: nothing applies
"""


def test_what_gpu_run_says_is_told_apart():
    chunk = [choice_problems.Drawn("2-D", text) for text in ("one", "two", "three")]
    device, rows = choice.read_chunk(GPU_RUN, chunk)
    assert device == "cuda:0: A GPU, sm_90a"
    assert [row["ratio"] for row in rows] == [pytest.approx(1.05), None, None]
    assert [row["best"] for row in rows] == ["cuda-ffma", "cuda-ffma", ""]
    found = choice.summary(rows)
    assert (found["problems"], found["contested"]) == (3, 1)
    assert found["share"] == pytest.approx(1 / 3)
    assert found["share_contested"] == 1
    assert found["by_family"]["2-D"] == pytest.approx(1 / 3)
    assert found["by_family"]["GAN"] is None


def test_it_measures_on_the_cpu(monkeypatch, tmp_path, capsys):
    out = tmp_path / "choice.json"
    words = f"choice --program {PROGRAM} --count 3 --milliseconds 10 --threads 1 --out {out}"
    monkeypatch.setattr(sys, "argv", words.split())
    code = choice.main()
    document = json.loads(out.read_text())
    assert [row["text"] for row in document["rows"]] == [problem.text for problem in drawn(3)]
    assert all(row["ratio"] >= 1 for row in document["rows"])
    assert code == (0 if document["summary"]["share"] >= choice.WANTED else 1)
    assert document["left_out"] == 0
    assert capsys.readouterr().out.count("\n") > 3


def test_it_stops_in_time():
    options = argparse.Namespace(program=PROGRAM, gpu_run=None, seconds=-1)
    assert choice.measure(options, drawn(3)) == ("", [])


def test_a_program_that_fails_costs_its_problems_alone(tmp_path, capsys):
    program = tmp_path / "gpu_run"
    program.write_text("#!/bin/sh\necho broken\nexit 3\n")
    program.chmod(0o755)
    options = argparse.Namespace(gpu_run=program, seconds=60, jobs=2, runs=1)
    _, rows = choice.measure(options, drawn(10))
    assert [row["ratio"] for row in rows] == [None] * 10
    assert choice.summary(rows)["share"] == 0
    assert "broken" in capsys.readouterr().err
