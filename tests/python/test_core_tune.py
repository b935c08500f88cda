# SPDX-License-Identifier: Apache-2.0
"""upconv.tune: what it turns on and off, and what plans make of it."""

import threading

import numpy as np
import pytest

import upconv
from upconv import _numpy, _tuning

TEXT = "ci3 co5 in7 k3 s2"


@pytest.fixture
def store(tmp_path, monkeypatch):
    """An empty file for decisions, and nothing left on."""
    path = tmp_path / "tuning.txt"
    monkeypatch.setenv("UPCONV_TUNE_FILE", str(path))
    monkeypatch.delenv("UPCONV_TUNE", raising=False)
    monkeypatch.setattr(_tuning, "_mode", "default")
    return path


def lines(path):
    return [line.split("\t") for line in path.read_text().splitlines() if line[0] != "#"]


def plan(**options):
    return upconv.Plan(upconv.Context("cpu", 1), TEXT, **options)


def chosen_by(made):
    found = [line for line in made.explain().splitlines() if line.startswith("chosen")]
    return found[0].split(":")[0].split(None, 1)[1] if found else "the model"


def test_within_with_plans_are_measured(store):
    assert chosen_by(plan()) == "the model"
    assert not store.exists()
    with upconv.tune():
        assert _tuning.current() == "measure"
        assert chosen_by(plan()) == "by measuring now"
        assert chosen_by(plan()) == "by a stored measurement"
    assert _tuning.current() == "default"
    assert chosen_by(plan()) == "by a stored measurement"
    assert chosen_by(plan(tuning="off")) == "the model"
    [(_, problem, rules, candidate, times)] = lines(store)
    assert (problem, rules) == (TEXT, "-")
    assert candidate in plan().candidates
    assert all(name in times for name in plan().candidates)


def test_a_decision_is_followed(store):
    with upconv.tune():
        plan()
    [(device, problem, rules, candidate, times)] = lines(store)
    other = next(name for name in plan().candidates if name != candidate)
    store.write_text("\t".join([device, problem, rules, other, times]) + "\n")
    assert plan().candidate == other


def test_a_call_counts_at_once_and_for_all_threads(store):
    seen = []
    before = upconv.tune()
    thread = threading.Thread(target=lambda: seen.append(_tuning.current()))
    thread.start()
    thread.join()
    assert seen == ["measure"]
    with upconv.tune(False):
        assert _tuning.current() == "stored"
    assert _tuning.current() == "measure"
    with before:
        pass
    assert _tuning.current() == "default"


def test_decorated_functions_are_tuned(store):
    @upconv.tune()
    def mode(value):
        """What it says."""
        return value, _tuning.current()

    assert _tuning.current() == "default"
    assert mode(3) == (3, "measure")
    assert _tuning.current() == "default"
    assert mode.__doc__ == "What it says."


def test_errors_take_it_back(store):
    with pytest.raises(KeyError), upconv.tune():
        raise KeyError
    assert _tuning.current() == "default"


def test_the_environment_turns_it_on(store, monkeypatch):
    monkeypatch.setenv("UPCONV_TUNE", "1")
    with upconv.tune(False):
        assert chosen_by(plan()) == "the model"
    assert chosen_by(plan()) == "by measuring now"


def test_plans_that_were_kept_are_made_anew(store):
    random = np.random.default_rng(1)
    x = random.random((1, 3, 7), np.float32)
    weight = random.random((3, 5, 3), np.float32)
    expected = upconv.conv_transpose1d(x, weight, stride=2)
    assert _numpy._plan.cache_info().currsize > 0
    with upconv.tune():
        assert _numpy._plan.cache_info().currsize == 0
        y = upconv.conv_transpose1d(x, weight, stride=2)
    assert len(lines(store)) == 1
    np.testing.assert_allclose(y, expected, rtol=1e-6)
    assert _numpy._plan.cache_info().currsize == 1


def test_what_is_no_mode_is_refused(store):
    with pytest.raises(upconv.InvalidArgumentError, match="tuning = 'fast'"):
        plan(tuning="fast")
