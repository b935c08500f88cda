# SPDX-License-Identifier: Apache-2.0
"""Life and death: threads, forks, copies, pickles, memory."""

import copy
import gc
import os
import pickle
import subprocess
import sys
import threading
import weakref

import numpy as np
import numpy_reference as reference
import pytest
from core_arrays import Trial, aligned

import upconv
from upconv import _core as core


def test_one_prepared_call_from_many_threads():
    """Each thread has addresses of its own; a mix-up would give another thread's numbers."""
    trials = [Trial(seed=seed) for seed in range(6)]
    execution, packing = trials[0].prepare()
    wanted = [trial.expected() for trial in trials]
    failures = []

    def work(trial, expected):
        try:
            for _ in range(40):
                trial.y[...] = np.nan
                packing.run(
                    trial.weight.ctypes.data,
                    trial.bias.ctypes.data,
                    [trial.params[0].ctypes.data],
                    trial.packed.ctypes.data,
                )
                execution.run(
                    trial.x.ctypes.data,
                    trial.y.ctypes.data,
                    [trial.tensors[0].ctypes.data],
                    trial.packed.ctypes.data,
                    trial.workspace.ctypes.data,
                )
                reference.check(trial.y, expected)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(trials, wanted)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_functions_from_many_threads():
    x = np.linspace(-1, 1, 2 * 3 * 50, dtype=np.float32).reshape(2, 3, 50)
    w = np.linspace(-1, 1, 3 * 4 * 5, dtype=np.float32).reshape(3, 4, 5)
    expected = [upconv.conv_transpose1d(x[..., :n], w, stride=2) for n in range(1, 50)]
    equal = []

    def work():
        results = [upconv.conv_transpose1d(x[..., :n], w, stride=2) for n in range(1, 50)]
        equal.append(all(map(np.array_equal, results, expected)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert equal == [True] * 4


FORK = """
import os, sys, threading
import numpy as np, upconv
from core_arrays import Trial
import numpy_reference as reference
trial = Trial()
trial.pack()
execution, packing = trial.prepare()
x = np.ones((1, 64, 64, 64), np.float32)
w = np.ones((64, 16, 3, 3), np.float32)
whole = upconv.conv_transpose2d(x, w)
stop = False
def busy():
    while not stop:
        upconv.conv_transpose2d(x, w)
thread = threading.Thread(target=busy)
thread.start()
codes = []
for _ in range(5):
    child = os.fork()
    if child == 0:
        reference.check(trial.execute(), trial.expected())
        assert np.array_equal(upconv.conv_transpose2d(x, w), whole)
        assert upconv.context().threads == THREADS
        execution.run(trial.x.ctypes.data, trial.y.ctypes.data, [trial.tensors[0].ctypes.data],
                      trial.packed.ctypes.data, trial.workspace.ctypes.data)
        del trial, execution, packing
        os._exit(0)
    codes.append(os.waitpid(child, 0)[1])
stop = True
thread.join()
reference.check(trial.execute(), trial.expected())
print(codes)
"""


def test_children_of_a_fork_have_threads_of_their_own():
    code = FORK.replace("THREADS", str(core.context().threads))
    folder = os.path.dirname(__file__)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout.strip(), done.returncode) == ("[0, 0, 0, 0, 0]", 0), done.stderr


def test_a_child_refuses_the_parents_gpu():
    context = core.Context("cuda:sm_90a")
    context._device = "cuda:0"  # as if there was one
    context._pid = -1
    context._handle = None
    with pytest.raises(upconv.DeviceError, match="does not survive a fork"):
        _ = context.description


def test_pickling_is_refused_and_copies_are_the_same():
    trial = Trial()
    objects = [trial.plan, trial.plan.problem, trial.plan.context]
    for thing in [*objects, *trial.prepare()]:
        with pytest.raises(TypeError, match=f"a {type(thing).__name__} cannot be pickled"):
            pickle.dumps(thing)
    for thing in objects:
        assert copy.copy(thing) is thing and copy.deepcopy([thing])[0] is thing


def test_contexts_outlive_their_plans():
    context = core.Context("cpu", 1)
    plan = core.Plan(context, "ci1 co1 in4 k3")
    context_is_there, plan_is_there = weakref.ref(context), weakref.ref(plan)
    execution = plan.prepare(
        core.Tensor(0, 0, (1, 1, 4), (4, 4, 1)), core.Tensor(0, 0, (1, 1, 6), (6, 6, 1))
    )
    del context, plan
    gc.collect()
    assert context_is_there() and plan_is_there()
    del execution
    gc.collect()
    assert not context_is_there() and not plan_is_there()


def _resident() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no /proc")
@pytest.mark.skipif(os.environ.get("UPCONV_SANITIZE", "") != "", reason="a sanitizer keeps memory")
def test_nothing_leaks():
    """A thousand plans, problems, calls and errors: each would leave kilobytes behind."""
    x = np.ones((1, 8, 16, 16), np.float32)
    w = np.ones((8, 8, 3, 3), np.float32)
    context = core.Context("cpu", 1)

    def work(count):
        for _ in range(count):
            plan = core.Plan(
                context, "ci8 co8 in16x16 k3 s2 | mul @m | leaky_relu 0.2 | max_pool 2"
            )
            execution = plan.prepare(
                core.Tensor(0, 0, x.shape, (1,) * 4), core.Tensor(0, 0, (1, 8, 16, 16), (1,) * 4)
            )
            with pytest.raises(upconv.InvalidArgumentError):
                execution.run(0, 0)
            with pytest.raises(upconv.InvalidArgumentError):
                core.Plan(context, "ci8 co8 in16x16 k3 s0")
            upconv.conv_transpose2d(x, w, epilogue=["relu", ("add", x[..., :1, :1])])

    work(200)
    gc.collect()
    before = _resident()
    work(1000)
    gc.collect()
    assert _resident() - before < 1 << 20


def test_contexts_end_their_threads():
    before = len(os.listdir("/proc/self/task"))
    for _ in range(20):
        core.Context("cpu", 4)
    gc.collect()
    assert len(os.listdir("/proc/self/task")) == before


def test_a_workspace_may_be_anywhere_aligned():
    trial = Trial()
    trial.pack()
    once = trial.execute().copy()
    trial.workspace = aligned(trial.workspace.size)
    assert np.array_equal(trial.execute(), once)
