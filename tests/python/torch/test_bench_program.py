# SPDX-License-Identifier: Apache-2.0
"""`python -m upconv.bench` from outside: files, exit codes, what it says and writes."""

import json
import subprocess
import sys
import textwrap

import pytest
import torch

from upconv.bench import cli, fusion, report, sides, timing
from upconv.bench.problem import UsageError, load
from upconv.bench.run import Options, Runner

FUSED = """
    import torch
    from torch import nn
    class Model(nn.Module):
        def __init__(self, a, b):
            super().__init__()
            self.conv = nn.ConvTranspose2d(a, b, 4, stride=2, padding=1)
            self.scale = nn.Parameter(torch.rand(b, 1, 1))
        def forward(self, x):
            return torch.relu(self.conv(x)) * self.scale
    def get_inputs():
        return [torch.rand(2, 3, 8, 9)]
    def get_init_inputs():
        return [3, 5]
"""
NOTHING = """
    import torch
    class Model(torch.nn.Module):
        def forward(self, x, power):
            return x.abs() ** power
    def get_inputs():
        return [torch.rand(40, 50), 1.5]
    def get_init_inputs():
        return []
"""
PARTLY = """
    import torch
    from torch import nn
    class Model(nn.Module):
        def __init__(self, *, width):
            super().__init__()
            self.first = nn.ConvTranspose1d(4, width, 4, stride=2)
            self.second = nn.ConvTranspose1d(width, 2, 3)
            self.dropout = nn.Dropout(0.5)
        def forward(self, x, other):
            y = self.dropout(self.first(x).tanh())
            if float(y.sum()) > 1e9:  # depends on data
                y = y * 2
            return {"y": self.second(y).cumsum(-1), "other": other + 1}
    def get_inputs():
        return (torch.rand(2, 4, 11), torch.arange(6))
    def get_init_inputs():
        return {"width": 6}
"""
QUICK = ["--device", "cpu", "--quick"]


@pytest.fixture
def make(tmp_path):
    def write(text, name="model.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        return path

    return write


@pytest.fixture(autouse=True)
def cheap_rates(monkeypatch):
    """The machine's rates take seconds and are not what is tested."""
    monkeypatch.setattr("upconv.bench.floor.copy_rate", lambda *_: 1e10)
    monkeypatch.setattr("upconv.bench.floor.matrix_rate", lambda *_: 1e11)


def run(capsys, *arguments):
    code = cli.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_fused_model(make, capsys, tmp_path):
    code, out, _ = run(capsys, make(FUSED), *QUICK, "--json", tmp_path / "out.json")
    assert code == 0
    assert "right on 1 fresh input," in out
    assert "relu" in out
    assert "eager, channels-last" in out
    document = json.loads((tmp_path / "out.json").read_text())
    (result,) = document["results"]
    assert result["convolutions_by_upconv"] == 1
    assert result["inputs"] == [[2, 3, 8, 9]]
    check = result["check"]
    assert check["right"] and check["elements_float64"] == check["elements"] == 2 * 5 * 16 * 18
    assert 0 < check["error_over_bound"] <= 1
    names = [side["name"] for side in result["sides"]]
    assert names == ["upconv", "eager", "eager, channels-last"]
    for side in result["sides"]:
        assert len(side["samples_ms"]) >= 3
        assert side["median_ms"] == pytest.approx(
            torch.tensor(side["samples_ms"], dtype=torch.float64).quantile(0.5).item(), rel=1e-4
        )
    assert result["floor"]["bytes"] == 4 * (2 * 3 * 8 * 9 + 2 * 5 * 16 * 18 + 3 * 5 * 16 + 5 + 5)
    assert document["environment"]["torch"] == torch.__version__


def test_a_model_without_convolution(make, capsys, tmp_path):
    code, out, _ = run(capsys, make(NOTHING), *QUICK, "--json", tmp_path / "out.json")
    assert code == 0
    assert "right on 1 fresh input," in out
    (result,) = json.loads((tmp_path / "out.json").read_text())["results"]
    assert result["convolutions_by_upconv"] == 0
    assert result["floor"]["reason"] == "copy"


def test_a_model_that_is_fused_in_part(make, capsys):
    code, out, _ = run(capsys, make(PARTLY), "--device", "cpu", "--runs", "3", "--no-compile")
    assert code == 0
    assert "right on 5 fresh inputs," in out


def test_training_mode_with_dropout(make, capsys):
    code, out, _ = run(capsys, make(PARTLY), *QUICK, "--train")
    assert code == 0
    assert "right on 1 fresh input," in out


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bits(make, capsys, tmp_path, dtype):
    arguments = [make(FUSED), *QUICK, "--dtype", dtype, "--json", tmp_path / "out.json"]
    assert run(capsys, *arguments)[0] == 0
    (result,) = json.loads((tmp_path / "out.json").read_text())["results"]
    assert result["dtype"] == dtype
    assert result["convolutions_by_upconv"] == 1


def test_float64_stays_with_pytorch(make, capsys, tmp_path):
    text = FUSED + "\n    torch.set_default_dtype(torch.float32)\n"
    text = text.replace("4, stride=2, padding=1)", "4, stride=2, padding=1).double()")
    text = text.replace("torch.rand(2, 3, 8, 9)", "torch.rand(2, 3, 8, 9).double()")
    code, out, _ = run(capsys, make(text), *QUICK, "--json", tmp_path / "out.json")
    assert code == 0
    (result,) = json.loads((tmp_path / "out.json").read_text())["results"]
    assert result["dtype"] == "float64" or result["convolutions_by_upconv"] == 0


DROP_IN = FUSED.replace("class Model", "class ModelNew")


def test_a_drop_in(make, capsys):
    arguments = [make(FUSED), "--drop-in", make(DROP_IN, "new.py"), *QUICK]
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert "drop-in" in out


@pytest.mark.parametrize(
    "wrong",
    [
        DROP_IN.replace("torch.relu", "torch.abs"),
        DROP_IN.replace("* self.scale", "* self.scale * 1.001"),
        DROP_IN.replace("* self.scale", "* self.scale / (x.sum() > 0) * float('nan')"),
        DROP_IN.replace("* self.scale", "* self.scale[0:4]"),
        DROP_IN.replace("* self.scale", "* self.scale,"),
    ],
    ids=["relu", "scale", "nan", "fails", "structure"],
)
def test_a_wrong_drop_in_exits_with_1(make, capsys, wrong):
    arguments = [make(FUSED), "--drop-in", make(wrong, "new.py"), *QUICK]
    code, out, _ = run(capsys, *arguments)
    assert code == 1
    assert "WRONG" in out
    assert "peak memory" not in out  # what is wrong is not timed


def test_one_wrong_result_decides_about_several_files(make, capsys, monkeypatch):
    """The other files are still measured."""
    fused = fusion.fused

    def sometimes(model, inputs):
        ours = fused(model, inputs)
        if not list(model.parameters()):
            return ours
        return fusion.Ours(torch.nn.Identity(), "stub")

    monkeypatch.setattr(fusion, "fused", sometimes)
    code, out, _ = run(capsys, make(FUSED, "a.py"), make(NOTHING, "b.py"), *QUICK)
    assert code == 1
    assert out.index("WRONG") < out.index("right on 1")


def test_when_fuse_fails_the_report_says_so(make, capsys, monkeypatch):
    def fails(*_):
        raise RuntimeError("cannot")

    monkeypatch.setattr(fusion.upconv, "fuse", fails, raising=False)
    code, out, _ = run(capsys, make(FUSED), *QUICK)
    assert code == 0
    assert "nothing was fused: RuntimeError: cannot" in out


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (FUSED.replace("class Model", "class Other"), "no Model."),
        (FUSED.replace("def get_inputs", "def inputs"), "no get_inputs."),
        ("x = (", "SyntaxError"),
        ("import no_such_module_here", "no_such_module_here"),
        (FUSED.replace("[3, 5]", "[3]"), "Model(...): TypeError"),
        (FUSED.replace("[3, 5]", "1 / 0"), "get_init_inputs: ZeroDivisionError"),
        (FUSED.replace("[torch.rand(2, 3, 8, 9)]", "7"), "get_inputs() gives a int"),
        (FUSED.replace("(2, 3, 8, 9)", "(2, 4, 8, 9)"), "Model.forward: RuntimeError"),
        (FUSED.replace("class Model(nn.Module)", "class Model(list)"), "Model"),
        ("raise SystemExit(0)", "SystemExit"),
    ],
)
def test_a_bad_file_exits_with_2(make, capsys, text, says):
    code, out, err = run(capsys, make(text), *QUICK)
    assert code == 2
    assert says in out + err
    assert "Traceback" not in out + err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["none.py"], "there is no such file"),
        (["--device", "cpux", "none.py"], "--device cpux"),
        (["--device", "meta", "none.py"], "--device meta"),
        (["--drop-in", "none.py", "a.py", "b.py"], "one problem at a time"),
    ],
)
def test_bad_usage_exits_with_2(capsys, arguments, says):
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert says in out + err


@pytest.mark.parametrize(
    "arguments",
    [[], ["a.py", "--runs", "0"], ["a.py", "--plot", "a.txt"], ["a.py", "--math", "fp8"]],
)
def test_bad_options_exit_with_2(capsys, arguments):
    with pytest.raises(SystemExit) as stopped:
        cli.main(arguments)
    assert stopped.value.code == 2


def test_table_and_picture(make, capsys, tmp_path):
    files = [tmp_path / "out.md", tmp_path / "out.svg"]
    code, out, _ = run(
        capsys,
        make(FUSED, "a.py"),
        make(NOTHING, "b.py"),
        *QUICK,
        "--markdown",
        files[0],
        "--plot",
        files[1],
    )
    assert code == 0
    table = files[0].read_text()
    assert table.count("\n| ") == 2 and "| a |" in table and "| b |" in table
    picture = files[1].read_text()
    assert picture.startswith("<?xml") and "upconv" in picture
    assert (tmp_path / "out.svg").stat().st_size > 5000


def test_without_matplotlib_it_says_what_to_install(make, capsys, monkeypatch):
    monkeypatch.setattr(cli.importlib.util, "find_spec", lambda name: None)
    code, _, err = run(capsys, make(FUSED), *QUICK, "--plot", "a.svg")
    assert code == 2
    assert "pip install matplotlib" in err


def test_as_a_program(make):
    """In a process of its own, as users start it."""
    done = subprocess.run(
        [sys.executable, "-m", "upconv.bench", "--help"], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "exit codes: 0 right, 1 a result is wrong" in done.stdout
    code = (
        "import sys; sys.modules['rich'] = None; import importlib.util as u; f = u.find_spec\n"
        "u.find_spec = lambda n, *a: None if n == 'rich' else f(n, *a)\n"
        "import runpy; runpy.run_module('upconv.bench', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert "pip install rich" in done.stderr


def test_a_compiler_that_fails_is_left_out(make, capsys, monkeypatch):
    def broken(model, **_):
        def call(*inputs):
            raise RuntimeError("no compiler here\nand more")

        return call

    monkeypatch.setattr(sides.torch, "compile", broken)
    monkeypatch.setattr(fusion, "fused", lambda model, inputs: fusion.Ours(model, "stub"))
    code, out, _ = run(capsys, make(FUSED), "--device", "cpu", "--inputs", "1", "--runs", "3")
    assert code == 0
    assert "not measured: RuntimeError: no compiler here" in out


def test_the_same_seed_makes_the_same_model_and_inputs(make):
    problem = load(make(FUSED))
    one, two, other = problem.model(3), problem.model(3), problem.model(4)
    assert torch.equal(one.conv.weight, two.conv.weight)
    assert not torch.equal(one.conv.weight, other.conv.weight)
    device = torch.device("cpu")
    assert torch.equal(problem.inputs(1, device, None)[0], problem.inputs(1, device, None)[0])
    assert not torch.equal(problem.inputs(1, device, None)[0], problem.inputs(2, device, None)[0])


def test_files_of_one_name_do_not_meet(make, tmp_path):
    (tmp_path / "a").mkdir()
    first, second = make(FUSED, "a/model.py"), make(NOTHING, "model.py")
    assert load(first).model_class is not load(second).model_class


def test_a_helper_beside_the_file_is_found(make):
    make("SIZE = 7", "beside_the_file.py")
    problem = load(make("from beside_the_file import SIZE\n" + textwrap.dedent(FUSED)))
    assert problem.name == "model"
    assert not any(str(problem.path.parent) == entry for entry in sys.path)


def test_a_drop_in_without_the_weights_is_an_error(make):
    other = make(DROP_IN.replace("self.scale", "self.factor"), "new.py")
    runner = Runner(Options(inputs=1, runs=3, compiles=False, drop_in=other))
    with pytest.raises(UsageError, match="state_dict"):
        runner(make(FUSED))


def test_turns_are_taken():
    order = []
    calls = {name: (lambda n=name: order.append(n)) for name in "abc"}
    leads = {name: timing.Lead() for name in calls}
    samples = timing.take_turns(lambda call, lead: call() or 1.0, calls, 4, 60, leads)
    assert "".join(order) == "abcbcacababc"
    assert {name: len(values) for name, values in samples.items()} == {"a": 4, "b": 4, "c": 4}
    few = timing.take_turns(lambda call, lead: call() or 1.0, calls, 40, 0, leads)
    assert {len(values) for values in few.values()} == {3}


class Device:
    """Events as a GPU has them, and a buffer that it reads: time passes where the host queues."""

    READ = 0.25

    def __init__(self, monkeypatch):
        self.host = self.busy_until = 0.0
        self.reads = []
        monkeypatch.setattr(timing.torch.cuda, "Event", lambda enable_timing: Event(self))
        self.clock = timing.Clock(torch.device("cpu"))
        self.clock.cuda, self.clock.flush = True, self

    def queue(self, length):
        self.busy_until = max(self.busy_until, self.host) + length

    def sum(self):
        self.queue(self.READ)
        self.reads[-1] += 1

    def samples(self, call, lead, count):
        found = []
        for _ in range(count):
            self.reads.append(0)
            found.append(self.clock(call, lead))
        return found


class Event:
    def __init__(self, device):
        self.device = device

    def record(self):
        self.at = max(self.device.busy_until, self.device.host)

    def query(self):
        return self.device.host >= self.at

    def synchronize(self):
        self.device.host = max(self.device.host, self.at)

    def elapsed_time(self, end):
        return end.at - self.at


def test_the_device_is_kept_busy_until_all_is_queued(monkeypatch):
    device, lead = Device(monkeypatch), timing.Lead()

    def call():
        device.host += 0.6  # milliseconds in which the host queues, and then what it has queued
        device.queue(0.1)

    assert device.samples(call, lead, 3) == pytest.approx([0.1] * 3)
    assert device.reads == [1 + 2 + 4, 4, 4]  # 0.6 are in four reads; found once
    assert (lead.reads, lead.late) == (4, 0)


def test_one_read_is_enough_for_a_quick_host(monkeypatch):
    device, lead = Device(monkeypatch), timing.Lead()
    assert device.samples(lambda: device.queue(0.1), lead, 2) == pytest.approx([0.1] * 2)
    assert (device.reads, lead.reads, lead.late) == ([1, 1], 1, 0)


def test_a_model_that_waits_for_the_device_ends_and_is_told(monkeypatch):
    device, lead = Device(monkeypatch), timing.Lead()

    def call():
        device.queue(0.1)
        device.host = device.busy_until + 0.05
        device.queue(0.1)

    assert device.samples(call, lead, 2) == pytest.approx([0.25] * 2)
    assert device.reads == [127, 64]
    assert (lead.reads, lead.late) == (timing.MOST_READS, 2)


def test_the_report_names_sides_with_the_hosts_time():
    def side(name, late):
        return {"name": name, "median_ms": 1.0, "samples_ms": [1.0] * 5, "samples_with_host": late}

    result = {"sides": [side("upconv", 0), side("eager", 2), {"name": "x", "skipped": "why"}]}
    assert report.host_line(result).endswith(": eager (2 of 5 runs)")
    result["sides"][1]["samples_with_host"] = 0
    assert report.host_line(result) == ""


def test_peak_memory_of_a_run():
    device = torch.device("cpu")
    size = 64 << 20

    def call():
        a = torch.ones(size // 4)
        return a * 2

    peak = timing.peak_memory(device, call)
    assert peak is None or 1.9 * size < peak < 2.5 * size
