# SPDX-License-Identifier: Apache-2.0
"""The drop-ins of examples/kernelbench: constructor, weights, initial values, results."""

import inspect
import runpy
from pathlib import Path

import pytest
import torch

from upconv.bench.check import Checker
from upconv.bench.problem import load, load_drop_in
from upconv.bench.rounding import Rounding

FOLDER = Path(__file__).resolve().parents[3] / "examples/kernelbench"
NAMES = ["scale_pool", "grouped", "double_leaky_max"]
# Smaller inputs: the same channels, taps and operators.
SIZES = {"BATCH": 2, "SIZE": (5, 6, 7)}


def problem_of(name):
    problem = load(FOLDER / f"problems/{name}.py")
    problem.get_inputs.__globals__.update(SIZES)
    return problem


def drop_in_of(name):
    return load_drop_in(FOLDER / f"{name}.py")


@pytest.mark.parametrize("name", NAMES)
def test_every_drop_in_has_its_problem_and_is_short(name):
    lines = (FOLDER / f"{name}.py").read_text().splitlines()
    assert len(lines) < 40
    assert len((FOLDER / "fused.py").read_text().splitlines()) < 40


def test_no_drop_in_is_forgotten():
    found = {path.stem for path in FOLDER.glob("problems/*.py")}
    assert found == set(NAMES)
    assert {path.stem for path in FOLDER.glob("*.py")} == {*NAMES, "fused"}


@pytest.mark.parametrize("name", NAMES)
def test_full_size_is_that_of_the_tables(name):
    """The problems' own sizes, before this file makes them small."""
    shapes = {
        "scale_pool": (128, 3, 16, 32, 32),
        "grouped": (8, 32, 12, 24, 48),
        "double_leaky_max": (16, 16, 16, 32, 32),
    }
    (x,) = load(FOLDER / f"problems/{name}.py").get_inputs()
    assert tuple(x.shape) == shapes[name]
    assert 0 <= float(x.min()) and float(x.max()) < 1


@pytest.mark.parametrize("name", NAMES)
def test_constructor(name):
    original, new = problem_of(name).model_class, drop_in_of(name)
    assert inspect.signature(original) == inspect.signature(new)


@pytest.mark.parametrize("name", NAMES)
def test_a_common_seed_gives_the_same_weights(name):
    problem, new = problem_of(name), drop_in_of(name)
    for seed in (0, 7):
        theirs, ours = problem.model(seed).state_dict(), problem.model(seed, new).state_dict()
        assert list(theirs) == list(ours)
        for key, value in theirs.items():
            assert ours[key].shape == value.shape and ours[key].dtype == value.dtype
            assert torch.equal(ours[key], value)


@pytest.mark.parametrize("name", NAMES)
def test_weights_load_both_ways(name):
    problem, new = problem_of(name), drop_in_of(name)
    theirs, ours = problem.model(1), problem.model(2, new)
    ours.load_state_dict(theirs.state_dict())
    problem.model(3).load_state_dict(ours.state_dict())


@pytest.mark.parametrize("name", NAMES)
def test_results(name, library_runs):
    problem = problem_of(name)
    theirs, ours = problem.model(5), problem.model(6, drop_in_of(name))
    ours.load_state_dict(theirs.state_dict())
    sets = [lambda n=n: problem.inputs(n, torch.device("cpu"), None) for n in range(3)]
    with torch.no_grad(), library_runs(3):
        verdict = Checker(theirs, ours, Rounding(), 60).run(sets)
    assert verdict.right, verdict.problems
    assert verdict.bound == "element by element"
    assert verdict.elements_float64 == verdict.elements > 0


@pytest.mark.parametrize("name", NAMES)
def test_trained_weights_are_used(name):
    """Parameters that change after the first call, as in training, change the result."""
    problem = problem_of(name)
    theirs, ours = problem.model(5), problem.model(5, drop_in_of(name))
    inputs = problem.inputs(1, torch.device("cpu"), None)
    with torch.no_grad():
        ours(*inputs)
        for model in (theirs, ours):
            for number, parameter in enumerate(model.parameters()):
                parameter.mul_(-1.5).add_(0.01 * number)
        verdict = Checker(theirs, ours, Rounding(), 60).run([lambda: inputs])
    assert verdict.right, verdict.problems


@pytest.mark.parametrize("name", NAMES)
def test_gradients(name):
    problem = problem_of(name)
    theirs, ours = problem.model(5), problem.model(5, drop_in_of(name))
    inputs = problem.inputs(1, torch.device("cpu"), None)
    for model in (theirs, ours):
        model(*inputs).square().sum().backward()
    for (key, a), (_, b) in zip(theirs.named_parameters(), ours.named_parameters()):
        scale = float(a.grad.abs().max())
        assert torch.allclose(a.grad, b.grad, rtol=1e-4, atol=1e-5 * scale), key


@pytest.mark.parametrize("name", NAMES)
def test_fused_prints_what_it_did(name, monkeypatch, capsys):
    module = runpy.run_path(str(FOLDER / "fused.py"))
    path = str(FOLDER / f"problems/{name}.py")
    run_path = runpy.run_path

    def small(path):
        found = run_path(path)
        found["get_inputs"].__globals__.update(SIZES)
        return found

    monkeypatch.setattr(runpy, "run_path", small)
    module["main"](path)
    out = capsys.readouterr().out
    assert "fused" in out and "ms eager" in out
    assert float(out.split()[-1]) < 1e-5
