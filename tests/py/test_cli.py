# SPDX-License-Identifier: Apache-2.0
"""The program from outside: what people type, what it prints, what it writes, how it fails.

Every failure must be one line on stderr that names the thing, exit code 2, no output file, no
signal. Under a sanitizer a leak shows as well: it spoils the exit code and the one line.
"""

import io
import json
import os
import random
import re
import resource
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import TensorProto, helper, numpy_helper

PROGRAM = os.environ["UPCONV_PROGRAM"]
WITH_ONNX = (
    "with ONNX" in subprocess.run([PROGRAM, "version"], capture_output=True, text=True).stdout
)
SANITIZED = bool(os.environ.get("UPCONV_SANITIZE"))
MODELS = Path(__file__).resolve().parents[2] / "models"

needs_onnx = pytest.mark.skipif(not WITH_ONNX, reason="the program was built without ONNX")
EXAMPLES = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def upconv(*args, cwd=None, limit_file_size=None, stdout=subprocess.PIPE):
    def limits():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if limit_file_size is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit_file_size, limit_file_size))

    done = subprocess.run(
        [PROGRAM, *map(os.fspath, args)],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        cwd=cwd,
        timeout=120,
        preexec_fn=limits,
    )
    done.out = (done.stdout or b"").decode()
    done.err = done.stderr.decode()
    assert done.returncode >= 0, f"signal {-done.returncode}: {done.err}"
    return done


def succeeds(*args, **how):
    done = upconv(*args, **how)
    assert done.returncode == 0, done.err + done.out
    assert done.err == ""
    return done.out


def fails(*args, says, code=2, **how):
    """One line that has all of `says` in it."""
    done = upconv(*args, **how)
    assert done.returncode == code, f"exit code {done.returncode}: {done.err}{done.out}"
    assert done.err.startswith("upconv: "), done.err
    assert done.err.endswith("\n") and done.err.count("\n") == 1, done.err
    assert done.err[:-1].isprintable(), done.err
    for text in [says] if isinstance(says, str) else says:
        assert text in done.err, f"{text!r} is not in: {done.err}"
    return done


def save(path, array, **how):
    np.save(path, array, **how)
    return path


# ---------------------------------------------------------------- models made here


def tensor(name, array):
    return numpy_helper.from_array(np.ascontiguousarray(array), name)


def make_model(nodes, inputs, outputs, initializers=(), opset=13):
    def infos(values):
        return [helper.make_tensor_value_info(k, t, s) for k, (t, s) in values.items()]

    graph = helper.make_graph(nodes, "g", infos(inputs), infos(outputs), list(initializers))
    return helper.make_model(graph, ir_version=7, opset_imports=[helper.make_opsetid("", opset)])


def conv_model(weight=None, x_shape=("N", 2, "H", "W"), **attributes):
    """y = ConvTranspose(x, w): 2 channels to 3, kernel 3, stride 2."""
    if weight is None:
        weight = np.random.RandomState(7).rand(2, 3, 3, 3).astype(np.float32) - 0.5
    attributes = {"strides": [2, 2], "pads": [1, 1, 1, 1], **attributes}
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], name="up", **attributes)
    model = make_model(
        [node],
        {"x": (TensorProto.FLOAT, list(x_shape))},
        {"y": (TensorProto.FLOAT, ["N", 3, "OH", "OW"])},
        [tensor("w", weight)],
    )
    return model, weight


def conv_transpose(x, w, stride, pad):
    """The definition, for 2-D without groups."""
    n, c_in, h, width = x.shape
    _, c_out, kh, kw = w.shape
    full = np.zeros((n, c_out, (h - 1) * stride + kh, (width - 1) * stride + kw))
    for i in range(h):
        for j in range(width):
            patch = np.einsum("nc,cokl->nokl", x[:, :, i, j].astype(float), w.astype(float))
            full[:, :, i * stride : i * stride + kh, j * stride : j * stride + kw] += patch
    return full[:, :, pad : full.shape[2] - pad, pad : full.shape[3] - pad]


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "up.onnx"
    onnx.save(conv_model()[0], path)
    return path


@pytest.fixture
def x_npy(tmp_path):
    x = np.random.RandomState(8).rand(2, 2, 4, 5).astype(np.float32)
    return save(tmp_path / "x.npy", x)


def leaves(folder, *names):
    """The folder holds exactly these files: no output in part, no temporary file."""
    assert sorted(os.listdir(folder)) == sorted(names)


# ---------------------------------------------------------------- usage

COMMANDS = ["run", "test", "plan", "bench", "demo", "devices", "cache", "version"]


def test_help_names_every_command():
    text = succeeds("--help")
    for command in COMMANDS:
        assert re.search(rf"^  {command} ", text, re.M)
    assert succeeds("help") == text
    assert upconv().returncode == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command(command):
    text = succeeds(command, "--help")
    assert text.startswith(f"usage: upconv {command}")
    assert max(map(len, text.splitlines())) <= 80
    assert succeeds("help", command) == text
    if command not in ("devices", "version"):
        assert "\nexamples:\n  upconv " + command in text


def test_version_and_devices():
    assert re.fullmatch(r"upconv \d+\.\d+\.\d+ \((with|without) ONNX\)\n", succeeds("version"))
    assert succeeds("--version") == succeeds("version")
    assert re.match(r"cpu: \w+, \d+ threads?\n(no )?cuda.*: .+\n", succeeds("devices"))


def test_devices_says_why_there_is_no_gpu(monkeypatch):
    monkeypatch.setenv("UPCONV_LIBCUDA", "/no/such/libcuda.so.1")
    says = 'no cuda: UPCONV_LIBCUDA = "/no/such/libcuda.so.1" is not the NVIDIA driver library: '
    assert succeeds("devices").splitlines()[1].startswith(says)


def test_cache(monkeypatch, tmp_path):
    folder = tmp_path / "kernels"
    monkeypatch.setenv("UPCONV_CACHE_DIR", str(folder))
    monkeypatch.setenv("UPCONV_CACHE_MAX_MB", "7")
    assert succeeds("cache") == f"{folder}: nothing of at most 7.00 MB\n"
    folder.mkdir()
    (folder / ("0" * 64 + ".bin")).write_bytes(bytes(1200))
    (folder / ("0" * 64 + ".cu")).write_bytes(bytes(300))
    (folder / "notes").write_text("mine")
    assert succeeds("cache") == f"{folder}: 1 kernel, 1.50 kB of at most 7.00 MB\n"
    assert succeeds("cache", "--clear") == f"{folder}: removed 1 kernel, 1.50 kB\n"
    leaves(folder, "notes")
    assert succeeds("cache", "--clear") == f"{folder}: removed nothing\n"
    monkeypatch.setenv("UPCONV_CACHE_DIR", str(folder / "notes"))
    fails("cache", says=["cache: kernel cache ", "notes: Not a directory"])
    monkeypatch.setenv("UPCONV_CACHE_DIR", "")
    assert succeeds("cache").startswith("no cache: UPCONV_CACHE_DIR is empty")


@pytest.mark.parametrize(
    "args, says",
    [
        (["bnech"], ["'bnech'", "did you mean 'bench'"]),
        (["frobnicate"], ["'frobnicate'", "upconv --help"]),
        (["plan"], "no problem or model given"),
        (["bench"], "no problem or model given"),
        (["run"], "no model given"),
        (["test"], "no folder given"),
        (["demo"], "no model given"),
        (["version", "more"], "unexpected argument 'more'"),
        (["plan", "ci1 co1 in1 k1", "--tehn", "relu"], ["--tehn", "did you mean --then"]),
        (["plan", "ci1 co1 in1 k1", "--zzz"], ["--zzz", "plan --help"]),
        (["plan", "ci1 co1 in1 k1", "-t"], "two dashes"),
        (["plan", "ci1 co1 in1 k1", "--then"], "--then needs a value"),
        (["plan", "ci1 co1 in1 k1", "--no-fuse=1"], "--no-fuse takes no value"),
        (["bench", "ci1 co1 in1 k1", "--repeat", "0"], ["--repeat 0", "from 1 to"]),
        (["bench", "ci1 co1 in1 k1", "--threads", "two"], ["--threads two", "whole number"]),
        (["bench", "ci1 co1 in1 k1", "--threads", "99999999999999999999"], "--threads 9999"),
        (["bench", "ci1 co1 in1 k1", "--math", "exact"], ["--math exact", "ieee|tf32"]),
        (["bench", "--from", "/no/such/file"], "/no/such/file: No such file"),
        (["plan", "ci1 co1 in1 k1", "--device", "tpu"], "tpu"),
        (["plan", "ci1 co1 in1 k1", "--candidate", "magic"], "magic"),
        (["plan", "ci1 co1 in1 k1", "--shape", "x=1"], "--shape"),
        (["bench", "ci1 co1 in1 k1", "--dim", "N=1"], "--dim"),
        (["plan", "ci1 co1 in1 k1", "--math", "tf32"], "--math"),
        (["bench", "ci1 co1 in1 k1", "--math", "tf32"], "--math"),
        (["plan", "ci1 co1 in1 k1 | relu", "--then", "relu"], "--then"),
    ],
)
def test_bad_usage(args, says):
    fails(*args, says=says)


@pytest.mark.parametrize(
    "text, says",
    [
        ("ci4 co4 in4x4 k3 s0", "stride"),
        ("ci4 co4 in4x4 k3 s2x-1", "stride along width is -1"),
        ("ci4 co4 in4x4 k3 g0", "groups is 0"),
        ("ci4 co4 in4x4 k3 g3", ["groups is 3", "in_channels (4)"]),
        ("ci4 co6 in4x4 k3 g4", ["groups is 4", "out_channels (6)"]),
        ("ci0 co4 in4x4 k3", "in_channels is 0"),
        ("ci4 co4 in4x4 k0", "kernel"),
        ("ci4 co4 in4x4 k3 d0", "dilation"),
        ("ci4 co4 in4x4 k3 s2 op2", "output_padding"),
        ("ci4 co4 in4x4 k3 op-1", "output_padding along height is -1"),
        ("ci4 co4 in4x4x4x4 k3", "in4x4x4x4"),
        ("ci4 co4 in4x4 k3x3x3", "k3x3x3"),
        ("ci4 co4 k3", "'in' is missing"),
        ("co4 in4 k3", "'ci' is missing"),
        ("ci4 ci4 co4 in4 k3", "given twice"),
        ("ci4 co4 in4 k3 banana", "banana"),
        ("ci4 co4 in4 k3 dtype=f64", "f64"),
        ("ci4 co4 in4 k3 math=fast", "math=fast"),
        ("ci4 co4 in99999999999999999999 k3", "in99999999999999999999"),
        ("ci4 co4 in9223372036854775807 k3", "does not fit 64 bits"),
        ("n4000000000 ci4 co4 in4000000000 k3", "64 bits"),
        ("n9223372036854775807 ci9223372036854775807 co1 in1 k1", "64 bits"),
        ("ci4 co4 in4 k3 p4", "output"),
        ("ci4 co4 in4 k3 | explode", "explode"),
        ("ci4 co4 in4 k3 | max_pool 99", "max_pool"),
        ("ci4 co4 in4 k3 | add %5", "%5"),
        ("ci4 co4 in4 k3 | leaky_relu what", "what"),
        ("\n\x1b[31mred", "red"),
    ],
)
@pytest.mark.parametrize("command", ["plan", "bench"])
def test_bad_problems(command, text, says):
    fails(command, text, says=says)


@pytest.mark.parametrize(
    "what", ["n1000000 ci64 co64 in512x512x512 k3", "ci1000000 co1000000 in4 k99"]
)
def test_more_memory_than_there_is(what):
    fails("bench", what, says="out of memory")


def test_lost_output_is_an_error():
    with open("/dev/full", "w") as full:
        for args in (["version"], ["plan", "ci1 co1 in4 k2"], ["--help"], ["bench", "--help"]):
            fails(*args, says="standard output: No space left", stdout=full)


# ---------------------------------------------------------------- problems in text form


def test_plan_explains():
    text = succeeds("plan", "n8 ci32 co32 in12x24x48 k3x5x7 s2 p1x2x3 op1 g4")
    assert "n8 ci32 co32 g4 in12x24x48 k3x5x7 s2 p1x2x3 op1" in text
    assert "8x32x24x48x96" in text


@pytest.fixture
def fake_compiler(monkeypatch):
    """A stand-in for NVRTC: plans for CUDA are made, and nothing is compiled."""
    folder = os.path.join(os.environ["UPCONV_BINARY_DIR"], "tests", "fakes")
    monkeypatch.setenv("UPCONV_NVRTC", os.path.join(folder, "fake_nvrtc.so"))
    monkeypatch.setenv("UPCONV_CACHE_DIR", "")


def test_plan_for_an_architecture(fake_compiler):
    text = "ci4 co8 in8x8 k3 s2 | tanh"
    plan = succeeds("plan", text, "--device", "cuda:sm_90a")
    assert re.search(r"^  \* cuda-ffma ", plan, re.M)
    source = succeeds("plan", text, "--device", "cuda:sm_90a", "--source")
    assert source.startswith(f"// {text}\n// value %1, for sm_90a\n")
    assert "\n#define TAPS 9\n" in source
    assert "upconv_value1" in source and "pack_weights" in source
    fails("plan", text, "--device", "cuda:sm_60", says="sm_75 or later")
    far = "ci4 co4 in200x200 k3 d150 p150"
    fails("plan", far, "--device", "cuda:sm_90a", says=["cuda-ffma", "does not fit shared memory"])


def test_source_needs_an_architecture(model):
    fails("plan", "ci4 co8 in8x8 k3", "--source", says="a plan for CUDA has a source")
    fails("plan", model, "--source", says="--source goes with a problem in text form")


def test_plan_takes_words_without_quotes():
    assert succeeds("plan", "ci4", "co4", "in8", "k3") == succeeds("plan", "ci4 co4 in8 k3")


def test_then_is_the_epilogue():
    joined = succeeds("plan", "ci4 co4 in8x8 k3 | leaky_relu 0.2 | max_pool 2")
    assert joined == succeeds("plan", "ci4 co4 in8x8 k3", "--then", "leaky_relu 0.2 | max_pool 2")
    assert joined == succeeds("plan", "ci4 co4 in8x8 k3", "--then=leaky_relu 0.2 | max_pool 2")


def test_no_rewrite_shows():
    text = "ci4 co4 in8x8 k3 | scale 2 | relu"
    assert succeeds("plan", text) != succeeds("plan", text, "--no-rewrite")


EPILOGUES = [
    "",
    "leaky_relu 0.2 | mul @m | leaky_relu 0.2 | max_pool 2",
    "add #skip | prelu @s[] | avg_pool 2",
    "batch_norm mean=@m var=@v weight=@w bias=@b | mul #mask[nhw] | softmax",
    "mean hw | sigmoid",
]


@pytest.mark.parametrize("then", EPILOGUES)
@pytest.mark.parametrize("more", ["", "bias dtype=f16 layout=ndhwc", "x=bf16 g2 d2"])
def test_bench_verifies_and_prints_json(then, more):
    problem = f"n2 ci4 co6 in5x7 k3 s2 p1 op1 {more}"
    out = succeeds("bench", problem, "--then", then, "--verify", "--repeat", "2", "--json")
    data = json.loads(out)
    assert data["copy_bytes_per_s"] > 1e8
    assert data["fma_flop_per_s"] > 1e8
    (result,) = data["results"]
    assert result["right"] is True
    assert 0 <= result["error_over_bound"] <= 1
    assert result["runs"] == 2
    assert 0 < result["fastest_s"] <= result["median_s"] <= result["slowest_s"]
    assert result["fraction_of_floor"] == pytest.approx(result["floor_s"] / result["median_s"])
    # The text reproduces: it is read back to the same thing.
    again = succeeds("bench", result["text"], "--repeat", "1", "--json")
    assert json.loads(again)["results"][0]["text"] == result["text"]


def test_bench_prints_for_people(tmp_path):
    listing = tmp_path / "list.txt"
    listing.write_text("# two problems\n\nci4 co4 in8 k3\n  n2 ci4 co4 in8x8 k3 s2\n")
    out = succeeds("bench", "--from", listing, "--repeat", "2", "--warm", "--no-fuse")
    assert "warm caches" in out
    assert "ci4 co4 in8 k3\n" in out and "n2 ci4 co4 in8x8 k3 s2\n" in out
    assert out.count("% of the floor") == 2
    assert max(map(len, out.splitlines())) <= 100


def test_empty_batch():
    out = succeeds("bench", "n0 ci4 co4 in8 k3", "--repeat", "1", "--json", "--verify")
    assert json.loads(out)["results"][0]["right"] is True


# ---------------------------------------------------------------- running models


@needs_onnx
def test_run_computes_the_definition(tmp_path, model, x_npy):
    y_npy = tmp_path / "y.npy"
    out = succeeds("run", model, "--input", f"x={x_npy}", "--output", f"y={y_npy}", "--verify")
    assert "y: largest error" in out and "right" in out
    assert f"y: float [2, 3, 7, 9] -> {y_npy}" in out
    y = np.load(y_npy)
    assert y.dtype == np.dtype("<f4")
    wanted = conv_transpose(np.load(x_npy), conv_model()[1], 2, 1)
    assert y.shape == wanted.shape
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-6)
    leaves(tmp_path, "up.onnx", "x.npy", "y.npy")


@needs_onnx
def test_threads_give_the_same_bits(tmp_path, model, x_npy):
    for threads in ("1", "2", "3"):
        y = tmp_path / f"y{threads}.npy"
        succeeds("run", model, "--input", f"x={x_npy}", "--output", f"y={y}", "--threads", threads)
    first = (tmp_path / "y1.npy").read_bytes()
    assert (tmp_path / "y2.npy").read_bytes() == first == (tmp_path / "y3.npy").read_bytes()


@needs_onnx
def test_run_without_output_files(model, x_npy):
    assert "y: float [2, 3, 7, 9]\n" in succeeds("run", model, "--input", f"x={x_npy}")


@needs_onnx
@pytest.mark.parametrize(
    "args, says",
    [
        ([], ["input x (float [N, 2, H, W]) is missing", "--input x=FILE.npy"]),
        (["--input", "z={x}"], ["no input 'z'", "its inputs: x"]),
        (["--input", "x={x}", "--output", "z={y}"], ["no output 'z'", "its outputs: y"]),
        (["--input", "x={x}", "--input", "x={x}"], "x is given twice"),
        (["--input", "{x}"], "must be NAME=FILE.npy"),
        (["--input", "x="], "must be NAME=FILE.npy"),
        (["--input", "x=/no/such.npy"], "/no/such.npy: No such file"),
        (["--input", "x={dir}"], "Is a directory"),
        (["--input", "x={x}", "--output", "y=/no/such/y.npy"], "/no/such/y.npy: No such file"),
        (["--input", "x={x}", "--output", "y={dir}"], "Is a directory"),
        (["--input", "x={x}", "--output", "y={x}/y.npy"], "Not a directory"),
        (["--input", "x={x}", "--output", "y={y}", "--output", "y={y}"], "two outputs"),
        (["--input", "x={x}", "--output", "y={y}", "--device", "tpu"], '"tpu"'),
        (["--input", "x={x}", "--math", "fp8"], "--math fp8"),
    ],
)
def test_run_refuses(tmp_path, model, x_npy, args, says):
    (tmp_path / "dir").mkdir()
    places = {"x": x_npy, "y": tmp_path / "y.npy", "dir": tmp_path / "dir"}
    fails("run", model, *(a.format(**places) for a in args), says=says)
    leaves(tmp_path, "up.onnx", "x.npy", "dir")
    leaves(tmp_path / "dir")


@needs_onnx
@pytest.mark.parametrize(
    "array, says",
    [
        (np.zeros((2, 2, 4), np.float32), ["x", "3"]),
        (np.zeros((2, 3, 4, 5), np.float32), ["x", "3", "2"]),
        (np.zeros((1,) * 9, np.float32), "9 dimensions"),
        (np.zeros((2, 2, 4, 5), np.complex64), "complex"),
        (np.array([["a"]]), "strings"),
        (np.zeros(3, "M8[s]"), "dates"),
        (np.zeros(3, [("a", "<f4")]), "structured"),
        (np.zeros(3, "V2"), "V2 is read as bfloat16"),
        (np.zeros(3, "V5"), "raw bytes"),
    ],
)
def test_run_refuses_arrays(tmp_path, model, array, says):
    x = save(tmp_path / "x.npy", array)
    says = [says] if isinstance(says, str) else says
    fails("run", model, "--input", f"x={x}", "--output", f"y={tmp_path / 'y.npy'}", says=says)
    leaves(tmp_path, "up.onnx", "x.npy")


@needs_onnx
def test_run_refuses_objects(tmp_path, model):
    x = save(tmp_path / "x.npy", np.array([None]), allow_pickle=True)
    fails("run", model, "--input", f"x={x}", says=[str(x), "Python objects"])


@needs_onnx
def test_run_refuses_damaged_npy(tmp_path, model, x_npy):
    whole = x_npy.read_bytes()
    for size in [0, 1, 5, 6, 7, 8, 9, 10, 40, 127, 128, 129, len(whole) - 1]:
        x_npy.write_bytes(whole[:size])
        fails("run", model, "--input", f"x={x_npy}", says=[str(x_npy)])
    huge = whole.replace(b"(2, 2, 4, 5), }", b"(2, 2, 4, 99999999), }")[: len(whole)]
    x_npy.write_bytes(huge)
    fails("run", model, "--input", f"x={x_npy}", says=["cut off", str(x_npy)])
    overflow = whole.replace(b"(2, 2, 4, 5), }   ", b"(4294967296, 4294967296), }")
    x_npy.write_bytes(overflow)
    fails("run", model, "--input", f"x={x_npy}", says="2^63")


@needs_onnx
def test_full_disk_leaves_nothing(tmp_path, model, x_npy):
    x = f"x={x_npy}"
    fails("run", model, "--input", x, "--output", "y=/dev/full", says="/dev/full: No space left")
    y = tmp_path / "y.npy"
    y.write_bytes(b"old")
    fails(
        "run",
        model,
        "--input",
        x,
        "--output",
        f"y={y}",
        limit_file_size=256,
        says="y.npy: File too",
    )
    assert y.read_bytes() == b"old"
    leaves(tmp_path, "up.onnx", "x.npy", "y.npy")


@needs_onnx
@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_unwritable_folder(tmp_path, model, x_npy):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    y = closed / "y.npy"
    fails("run", model, "--input", f"x={x_npy}", "--output", f"y={y}", says="Permission denied")


@needs_onnx
def test_two_outputs_are_written_together(tmp_path):
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Neg", ["x"], ["b"]),
    ]
    kind = (TensorProto.FLOAT, ["N"])
    path, x = tmp_path / "two.onnx", np.array([-1, 2], np.float32)
    onnx.save(make_model(nodes, {"x": kind}, {"a": kind, "b": kind}), path)
    save(tmp_path / "x.npy", x)
    args = [
        "run",
        path,
        "--input",
        f"x={tmp_path / 'x.npy'}",
        "--output",
        f"a={tmp_path / 'a.npy'}",
    ]
    # The second one cannot be written: the first must not appear either.
    fails(*args, "--output", "b=/dev/full", says=["output b", "No space"])
    leaves(tmp_path, "two.onnx", "x.npy")
    succeeds(*args, "--output", f"b={tmp_path / 'b.npy'}")
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), np.maximum(x, 0))
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), -x)


# ---------------------------------------------------------------- npy round trips

KINDS = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
DTYPES = st.one_of(
    st.builds(
        lambda order, kind: np.dtype(order + kind), st.sampled_from("<>"), st.sampled_from(KINDS)
    ),
    st.just(np.dtype(bool)),
)
IDENTITY_RANK = 3


@pytest.fixture(scope="module")
def identity(tmp_path_factory):
    """Models whose output is their input, by ONNX type."""
    folder = tmp_path_factory.mktemp("identity")
    paths = {}
    for kind in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64):
        for rank in range(IDENTITY_RANK + 1):
            sizes = [f"D{i}" for i in range(rank)]
            node = helper.make_node("Identity", ["x"], ["y"])
            path = folder / f"identity_{kind}_{rank}.onnx"
            onnx.save(make_model([node], {"x": (kind, sizes)}, {"y": (kind, sizes)}), path)
            paths[kind, rank] = path
    return folder, paths


def through(identity, kind, array, version=None):
    folder, paths = identity
    x, y = folder / "x.npy", folder / "y.npy"
    y.unlink(missing_ok=True)
    with open(x, "wb") as file:
        np.lib.format.write_array(file, array, version=version)
    succeeds("run", paths[kind, array.ndim], "--input", f"x={x}", "--output", f"y={y}")
    return np.load(y)


def same_bits(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape
    nan = np.isnan(b) if b.dtype.kind == "f" else np.zeros(b.shape, bool)
    assert np.array_equal(np.isnan(a), nan) if b.dtype.kind == "f" else True
    assert a[~nan].tobytes() == b[~nan].tobytes()


ARRAYS = DTYPES.flatmap(
    lambda dtype: hnp.arrays(
        dtype, hnp.array_shapes(min_dims=0, max_dims=IDENTITY_RANK, min_side=0)
    )
)


@needs_onnx
@EXAMPLES
@given(
    array=ARRAYS,
    fortran=st.booleans(),
    version=st.sampled_from([(1, 0), (2, 0), (3, 0)]),
)
def test_any_array_becomes_float32(identity, array, fortran, version):
    if fortran:
        array = np.asfortranarray(array)
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = array.astype(np.float32)
    same_bits(through(identity, TensorProto.FLOAT, array, version), wanted)


@needs_onnx
@EXAMPLES
@given(
    array=hnp.arrays(st.sampled_from(["<f2", ">f2", "<f4", ">f8"]), hnp.array_shapes(max_dims=3))
)
def test_any_float_becomes_float16(identity, array):
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = array.astype(np.float16)
    same_bits(through(identity, TensorProto.FLOAT16, array), wanted)


@needs_onnx
@EXAMPLES
@given(array=ARRAYS.filter(lambda a: a.dtype.kind in "biu" and a.dtype.itemsize < 8))
def test_whole_numbers_stay_whole(identity, array):
    same_bits(through(identity, TensorProto.INT64, array), array.astype(np.int64))


@needs_onnx
def test_whole_numbers_must_fit(identity, tmp_path):
    _, paths = identity
    x = save(tmp_path / "x.npy", np.array([2**63], np.uint64))
    fails("run", paths[TensorProto.INT64, 1], "--input", f"x={x}", says="9223372036854775808")
    x = save(tmp_path / "x.npy", np.array([1.0]))
    fails("run", paths[TensorProto.INT64, 1], "--input", f"x={x}", says="float64 given where int64")


# ---------------------------------------------------------------- hostile models


def refuse_model(path, says):
    fails("plan", path, says=[path.name, *([says] if isinstance(says, str) else says)])


@needs_onnx
def test_files_that_are_no_models(tmp_path):
    path = tmp_path / "m.onnx"
    fails("plan", path, says=["m.onnx", "No such file"])
    path.mkdir()
    fails("plan", path, says="m.onnx")
    path.rmdir()
    for junk in (b"", b"hello, world\n", b"\x00" * 100, b"\xff" * 100, os.urandom(0) + b"\x08\x07"):
        path.write_bytes(junk)
        refuse_model(path, "")


@needs_onnx
def test_cut_off_models(tmp_path, model):
    whole = model.read_bytes()
    path = tmp_path / "cut.onnx"
    for size in range(0, len(whole), max(1, len(whole) // 60)):
        path.write_bytes(whole[:size])
        done = upconv("plan", path)
        # Where a field ends, what is left is a model again; all else is an error.
        assert done.returncode in (0, 2)
        assert done.err.count("\n") == (1 if done.returncode else 0)


@needs_onnx
@pytest.mark.parametrize("seed", range(4))
def test_damaged_models(tmp_path, seed):
    rng = random.Random(seed)
    source = [conv_model()[0].SerializeToString(), (MODELS / "a_scale_pool.onnx").read_bytes()]
    path = tmp_path / "damaged.onnx"
    for _ in range(40):
        data = bytearray(rng.choice(source))
        for _ in range(rng.randint(1, 4)):
            place = (
                rng.randrange(min(len(data), 400))
                if rng.random() < 0.5
                else rng.randrange(len(data))
            )
            if rng.random() < 0.3:
                del data[place : place + rng.randint(1, 8)]
            else:
                data[place] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        path.write_bytes(data)
        done = upconv("plan", path, "--dim", "N=1")
        assert done.returncode in (0, 2), done.err
        assert done.err.count("\n") == (1 if done.returncode else 0), done.err
        if done.returncode:
            assert done.err.startswith("upconv: ")


def broken(change):
    model = conv_model()[0]
    change(model)
    return model


def set_attribute(name, value):
    def change(model):
        node = model.graph.node[0]
        kept = [a for a in node.attribute if a.name != name]
        del node.attribute[:]
        node.attribute.extend([*kept, helper.make_attribute(name, value)])

    return change


def set_weight(array):
    return lambda m: m.graph.initializer[0].CopyFrom(tensor("w", array))


def set_dims(*dims):
    def change(model):
        del model.graph.initializer[0].dims[:]
        model.graph.initializer[0].dims.extend(dims)

    return change


def external(location):
    def change(model):
        w = model.graph.initializer[0]
        w.ClearField("raw_data")
        w.data_location = TensorProto.EXTERNAL
        w.external_data.add(key="location", value=location)

    return change


def cyclic(model):
    model.graph.node[0].input[0] = "b"
    model.graph.node.append(helper.make_node("Relu", ["y"], ["b"]))


def add_node(*args, **more):
    def change(model):
        model.graph.node.append(helper.make_node(*args, **more))
        model.graph.output[0].name = args[2][0]

    return change


@needs_onnx
@pytest.mark.parametrize(
    "change, says",
    [
        (set_attribute("strides", [0, 0]), ["up", "stride"]),
        (set_attribute("strides", [-1, 2]), ["up", "stride"]),
        (set_attribute("strides", [2]), ["up", "strides"]),
        (set_attribute("group", 0), ["up", "group"]),
        (set_attribute("group", 3), ["up", "group"]),
        (set_attribute("dilations", [0, 0]), ["up", "dilation"]),
        (set_attribute("pads", [1, 1, 1]), ["up", "pads"]),
        (set_attribute("pads", [2**62] * 4), "up"),
        (set_attribute("strides", [2**62] * 2), "up"),
        (set_attribute("output_padding", [5, 5]), ["up", "output_padding"]),
        (set_attribute("kernel_shape", [5, 5]), ["up", "kernel_shape"]),
        (set_attribute("auto_pad", "SIDEWAYS"), ["up", "SIDEWAYS"]),
        (set_weight(np.zeros((5, 3, 3, 3), np.float32)), ["up", "5"]),
        (set_weight(np.zeros((2, 3, 3), np.float32)), "up"),
        (set_weight(np.zeros((2, 3, 3, 3), np.int32)), ["up", "int32"]),
        (set_weight(np.zeros((2, 3, 3, 3), np.float64)), ["up", "double"]),
        (set_dims(2, 3, 3, 4), "w"),
        (set_dims(2, 3, 3, 2**40), "w"),
        (set_dims(2**32, 2**32, 3, 3), "w"),
        (set_dims(-2, 3, 3, -3), "w"),
        (set_dims(*[1] * 100), "w"),
        (external("/etc/passwd"), "/etc/passwd"),
        (external("../up.bin"), "../up.bin"),
        (external("missing.bin"), "missing.bin"),
        (cyclic, "cycl"),
        (lambda m: m.graph.node[0].input.__setitem__(0, "nowhere"), "nowhere"),
        (lambda m: m.graph.node.append(m.graph.node[0]), "y"),
        (lambda m: m.graph.node[0].__setattr__("op_type", "Explode"), ["up", "Explode"]),
        (lambda m: m.graph.output[0].__setattr__("name", "nothing"), "nothing"),
        (lambda m: m.opset_import[0].__setattr__("version", 9999), "9999"),
        (lambda m: m.graph.initializer.append(m.graph.initializer[0]), "w"),
        (add_node("MaxPool", ["y"], ["z"], name="pool", kernel_shape=[0, 0]), "pool"),
        (add_node("Reshape", ["y"], ["z"], name="shape"), "shape"),
    ],
)
def test_wrong_models(tmp_path, change, says):
    path = tmp_path / "wrong.onnx"
    path.write_bytes(broken(change).SerializeToString())
    x = save(tmp_path / "x.npy", np.zeros((1, 2, 4, 5), np.float32))
    args = ["run", path, "--input", f"x={x}"]
    done = fails(*args, "--output", f"y={tmp_path / 'y.npy'}", says=["wrong.onnx"])
    if "no output 'y'" not in done.err:
        for text in [says] if isinstance(says, str) else says:
            assert text in done.err
    leaves(tmp_path, "wrong.onnx", "x.npy")


@needs_onnx
def test_sizes_beyond_all_memory(tmp_path, model):
    for size in ("H=4611686018427387904", "H=9223372036854775807", "N=3037000500"):
        done = upconv("bench", model, "--dim", size, "--dim", "W=3037000500", "--repeat", "1")
        assert done.returncode == 2 and done.err.count("\n") == 1, done.err


@needs_onnx
@pytest.mark.parametrize(
    "args, says",
    [
        (["--shape", "x"], "NAME=SIZES"),
        (["--shape", "z=1"], "no input 'z'"),
        (["--shape", "x=1,2,-3,4"], "NAME=SIZES"),
        (["--shape", "x=1,2,3,"], "NAME=SIZES"),
        (["--shape", "x=1,2,3,99999999999999999999"], "NAME=SIZES"),
        (["--shape", "x=1,2,3"], "x"),
        (["--shape", "x=1,5,3,3"], "x"),
        (["--dim", "Q=3"], "no input of"),
        (["--dim", "N"], "NAME=SIZE"),
        (["--dim", "N=-3"], "NAME=SIZE"),
        (["--then", "relu"], "--then"),
    ],
)
def test_plan_of_a_model_refuses(model, args, says):
    fails("plan", model, *args, says=says)


@needs_onnx
def test_plan_of_a_model(model):
    text = succeeds("plan", model, "--shape", "x=1,2,4,5")
    assert "ci2 co3 in4x5 k3 s2 p1" in text
    assert text == succeeds("plan", model, "--dim", "N=1", "--dim", "H=4", "--dim", "W=5")


# ---------------------------------------------------------------- test, bench, demo


def make_test(folder, model, inputs, outputs):
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    for kind, arrays in (("input", inputs), ("output", outputs)):
        for i, array in enumerate(arrays):
            (data / f"{kind}_{i}.pb").write_bytes(tensor("", array).SerializeToString())


@needs_onnx
def test_backend_tests(tmp_path):
    model, weight = conv_model()
    x = np.random.RandomState(3).rand(1, 2, 3, 4).astype(np.float32)
    y = conv_transpose(x, weight, 2, 1).astype(np.float32)
    make_test(tmp_path / "right", model, [x], [y])
    y_wrong = y.copy()
    y_wrong[0, 1, 2, 3] += 1
    make_test(tmp_path / "wrong", model, [x], [y_wrong])
    make_test(tmp_path / "shape", model, [x], [y[:, :, 1:]])
    make_test(tmp_path / "type", model, [x], [y.astype(np.float64)])
    make_test(tmp_path / "nan", model, [x], [np.full_like(y, np.nan)])
    make_test(tmp_path / "many", model, [x, x], [y])
    make_test(tmp_path / "empty", model, [x], [])
    assert succeeds("test", tmp_path / "right") == "1 passed, 0 failed\n"
    done = upconv("test", tmp_path, "--verbose")
    assert done.returncode == 1
    lines = dict(re.findall(r"^FAIL \S*/(\w+): (.*)$", done.out, re.M))
    assert "1 of 105 elements are wrong, the first at [0, 1, 2, 3]" in lines["wrong"]
    assert "shape [1, 3, 5, 7] instead of [1, 3, 4, 7]" in lines["shape"]
    assert "type float instead of double" in lines["type"]
    assert "105 of 105 elements" in lines["nan"]
    assert "only 1 input" in lines["many"]
    assert "output_0.pb" in lines["empty"]
    assert f"pass {tmp_path / 'right'}\n" in done.out
    assert done.out.endswith("\n1 passed, 6 failed\n")


@needs_onnx
def test_backend_tests_that_are_not_there(tmp_path):
    fails("test", tmp_path, says=[str(tmp_path), "holds no model.onnx"])
    fails("test", tmp_path / "no", says="No such file")
    (tmp_path / "a").mkdir()
    onnx.save(conv_model()[0], tmp_path / "a" / "model.onnx")
    done = upconv("test", tmp_path)
    assert done.returncode == 1 and "no test_data_set_0" in done.out


@needs_onnx
@pytest.mark.skipif("UPCONV_ONNX_TESTDATA" not in os.environ, reason="needs libonnx-testdata")
def test_official_backend_tests():
    folders = sorted(Path(os.environ["UPCONV_ONNX_TESTDATA"], "node").glob("test_convtranspose*"))
    assert len(folders) >= 8
    assert succeeds("test", *folders) == f"{len(folders)} passed, 0 failed\n"


@needs_onnx
def test_bench_of_a_model(model):
    args = ["--dim", "N=2", "--dim", "H=6", "--dim", "W=7", "--repeat", "2", "--verify", "--json"]
    (result,) = json.loads(succeeds("bench", model, *args))["results"]
    assert result["right"] is True
    # x, y and the weights, once each.
    assert result["bytes"] == 4 * (2 * 2 * 6 * 7 + 2 * 3 * 11 * 13 + 2 * 3 * 3 * 3)


@needs_onnx
def test_demo(tmp_path, model):
    out = succeeds("demo", model, "--batch", "5", "--repeat", "2")
    (row,) = re.findall(r"^up .*$", out, re.M)
    assert re.search(r" cpu +5 .*x +[\d.e-]+ +all +ok$", row)
    assert max(map(len, out.splitlines())) <= 80
    named = conv_model()[0]
    helper.set_model_props(named, {"upconv.demo_batch": "3"})
    onnx.save(named, model)
    assert re.search(r"^up +cpu +3 ", succeeds("demo", model, "--repeat", "1"), re.M)
    helper.set_model_props(named, {"upconv.demo_batch": "many"})
    onnx.save(named, model)
    fails("demo", model, says=["upconv.demo_batch", "'many'"])


@needs_onnx
def test_demo_refuses(tmp_path):
    fails("demo", tmp_path / "no.onnx", says="no.onnx")
    node = helper.make_node("Identity", ["x"], ["y"])
    kind = (TensorProto.INT64, [2])
    onnx.save(make_model([node], {"x": kind}, {"y": kind}), tmp_path / "int.onnx")
    fails("demo", tmp_path / "int.onnx", says=["int.onnx", "int64"])


# ---------------------------------------------------------------- on a GPU


def on_device(command, device, model, x_npy):
    """A whole command line for each of the commands that run something."""
    what = {
        "run": [model, "--input", f"x={x_npy}"],
        "test": [model.parent],
        "bench": ["ci2 co3 in5x6 k3 s2"],
        "demo": [model],
    }
    return [command, *what[command], "--device", device]


RUNNING = ["run", "test", "bench", "demo"]


@pytest.fixture
def fake_gpu(fake_compiler, monkeypatch):
    """A stand-in for the driver: two devices whose memory works and whose kernels do nothing."""
    folder = os.path.join(os.environ["UPCONV_BINARY_DIR"], "tests", "fakes")
    monkeypatch.setenv("UPCONV_LIBCUDA", os.path.join(folder, "fake_driver.so"))


@needs_onnx
@pytest.mark.parametrize("command", RUNNING)
def test_devices_that_cannot_run(command, model, x_npy, fake_gpu, monkeypatch):
    args = on_device(command, "cuda:sm_90a", model, x_npy)
    fails(*args, says=[f"{command}: --device cuda:sm_90a", "nothing runs there"])
    fails(*on_device(command, "cuda:2", model, x_npy), says="device cuda:2: there are 2")
    monkeypatch.setenv("FAKE_DRIVER", "nodevice")
    fails(*on_device(command, "cuda", model, x_npy), says="no CUDA device")
    monkeypatch.setenv("UPCONV_LIBCUDA", "/no/such/libcuda.so.1")
    fails(*on_device(command, "cuda:0", model, x_npy), says="is not the NVIDIA driver library")


@needs_onnx
def test_run_on_a_gpu(tmp_path, model, x_npy, fake_gpu):
    args = [*on_device("run", "cuda:1", model, x_npy), "--output", f"y={tmp_path / 'y.npy'}"]
    assert succeeds(*args) == f"y: float [2, 3, 7, 9] -> {tmp_path / 'y.npy'}\n"
    # What a device's memory holds that no kernel wrote to.
    assert set(np.load(tmp_path / "y.npy").tobytes()) == {0xA5}
    (tmp_path / "y.npy").unlink()
    done = upconv(*args, "--verify", "--math", "tf32")
    assert done.returncode == 1 and "WRONG" in done.out
    leaves(tmp_path, "up.onnx", "x.npy")


@needs_onnx
def test_errors_of_a_gpu(tmp_path, model, x_npy, fake_gpu, monkeypatch):
    args = [*on_device("run", "cuda", model, x_npy), "--output", f"y={tmp_path / 'y.npy'}"]
    monkeypatch.setenv("FAKE_MEMORY", "1000")
    fails(*args, says=["intermediate results, inputs and outputs", "CUDA_ERROR_OUT_OF_MEMORY"])
    monkeypatch.delenv("FAKE_MEMORY")
    monkeypatch.setenv("FAKE_DRIVER", "launch")
    fails(*args, says=["node 'up' (ConvTranspose)", "CUDA_ERROR_UNKNOWN"])
    leaves(tmp_path, "up.onnx", "x.npy")


@needs_onnx
def test_bench_and_demo_on_a_gpu(model, fake_gpu):
    text = "n2 ci16 co16 in5x6 k3 s2 bias math=tf32 | add #r | mul @m | relu"
    bench = json.loads(succeeds("bench", text, "--repeat", "3", "--json", "--device", "cuda"))
    assert bench["device"] == "cuda:0: Fake 0, sm_90a" and bench["caches"] == "cold"
    assert bench["tf32_flop_per_s"] > bench["fma_flop_per_s"] > 0
    (result,) = bench["results"]
    assert result["candidate"].startswith("cuda-") and result["median_s"] == 0.001
    done = upconv("bench", text, "--repeat", "1", "--verify", "--device", "cuda")
    assert done.returncode == 1 and "error inf of its bound: WRONG" in done.out
    args = ["--dim", "N=2", "--dim", "H=6", "--dim", "W=7", "--repeat", "2", "--json"]
    (result,) = json.loads(succeeds("bench", model, *args, "--device", "cuda"))["results"]
    assert result["median_s"] == 0.001
    done = upconv("demo", model, "--repeat", "2", "--device", "cuda:1")
    assert done.returncode == 1
    assert re.search(r"^up +cuda:1 +1 +1.00 ms +1.00 ms +1.00x .* WRONG$", done.out, re.M)
    assert max(map(len, done.out.splitlines())) <= 80


@needs_onnx
@pytest.mark.skipif("UPCONV_ONNX_TESTDATA" not in os.environ, reason="needs libonnx-testdata")
def test_a_gpu_takes_what_the_cpu_takes(fake_gpu):
    """Every operator in every form: planned, prepared, launched. Nothing is computed."""
    folder = os.path.join(os.environ["UPCONV_ONNX_TESTDATA"], "node")
    folders = re.findall(r"^pass (.*)$", upconv("test", folder, "--verbose").out, re.M)
    assert len(folders) > 450
    done = upconv("test", *folders, "--device", "cuda", "--verbose")
    assert done.err == ""
    lines = done.out.splitlines()[:-1]
    assert len(lines) == len(folders)
    assert [x for x in lines if x.startswith("FAIL") and "elements are wrong" not in x] == []


@pytest.mark.skipif(WITH_ONNX, reason="the program was built with ONNX")
@pytest.mark.parametrize("command", ["run", "test", "demo", "plan", "bench"])
def test_without_onnx(command):
    fails(command, "m.onnx", says=["without ONNX", "protobuf-c-compiler"])


def test_npy_header_of_numpy_is_ours():
    """The constants that the C tests assume of NumPy."""
    file = io.BytesIO()
    np.save(file, np.zeros((1, 2), np.float32))
    assert file.getvalue().startswith(b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order'")
