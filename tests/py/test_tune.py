# SPDX-License-Identifier: Apache-2.0
"""upconv tune from outside: what it measures, prints and keeps, and who follows."""

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from test_cli import MODELS, PROGRAM, fails, needs_onnx, succeeds

TEXT = "ci3 co5 in7x9 k3 s2"
QUICK = ("--milliseconds", "10", "--threads", "1")


@pytest.fixture
def store(tmp_path, monkeypatch):
    path = tmp_path / "decisions" / "tuning.txt"
    monkeypatch.setenv("UPCONV_TUNE_FILE", str(path))
    monkeypatch.delenv("UPCONV_TUNE", raising=False)
    return path


def lines(path):
    return [line.split("\t") for line in path.read_text().splitlines() if line[0] != "#"]


def test_table_and_decision(store):
    out = succeeds("tune", TEXT, "--then", "relu", *QUICK)
    rows = [line.split() for line in out.splitlines() if "cpu-" in line and "; " not in line]
    names = [row[0] if row[0] != "*" else row[1] for row in rows]
    assert sorted(names) == ["cpu-direct", "cpu-panels", "cpu-products", "cpu-tiled"]
    [chosen] = [row[1] for row in rows if row[0] == "*"]
    assert f"kept in {store}" in out
    [(_, problem, _, candidate, times)] = lines(store)
    assert (problem, candidate) == (TEXT + " | relu", chosen)
    assert all(name in times for name in names)


def test_plans_follow(store):
    plan = ("plan", TEXT + " | add @b", "--threads", "1")
    assert "chosen" not in succeeds(*plan)
    succeeds("tune", TEXT + " | add @other", *QUICK)
    [decision] = lines(store)
    for name in ("cpu-direct", "cpu-panels"):
        decision[3] = name
        store.write_text("\t".join(decision) + "\n")
        out = succeeds(*plan)
        assert f"  * {name}" in out and "chosen      by a stored measurement: " in out
    assert "chosen" not in succeeds("plan", TEXT + " | add 1", "--threads", "1")
    assert "chosen" not in succeeds(*plan, "--candidate", "cpu-tiled")
    store.write_bytes(b"\0\xff\n" + store.read_bytes()[:-1])
    assert "chosen" not in succeeds(*plan)


def test_dry_run_keeps_nothing(store):
    out = succeeds("tune", TEXT, "--dry-run", *QUICK)
    assert "not kept: --dry-run" in out
    assert not store.parent.exists()


def test_json(store):
    document = json.loads(succeeds("tune", TEXT, "ci1 co1 in4 k2", "--json", *QUICK))
    assert document["threads"] == 1
    assert [result["text"] for result in document["results"]] == [TEXT, "ci1 co1 in4 k2"]
    for result in document["results"]:
        estimates = [candidate["estimated_s"] for candidate in result["candidates"]]
        assert estimates == sorted(estimates)
        assert result["model_choice"] == result["candidates"][0]["name"]
        assert result["chosen"] in [candidate["name"] for candidate in result["candidates"]]
        assert result["stored"] is True
        for candidate in result["candidates"]:
            assert 0 < candidate["fastest_s"] <= candidate["quartile_s"] <= candidate["median_s"]


def test_show_and_clear(store):
    assert succeeds("tune", "--show") == f"{store}: 0 decisions\n"
    succeeds("tune", TEXT, *QUICK)
    shown = succeeds("tune", "--show").splitlines()
    assert shown[0] == f"{store}: 1 decision"
    assert shown[1].startswith(f"{TEXT}: cpu-")
    assert succeeds("tune", "--clear") == f"{store}: removed\n"
    assert os.listdir(store.parent) == []
    assert succeeds("tune", "--clear") == f"{store}: nothing to remove\n"


def test_from_a_file(store, tmp_path):
    listed = tmp_path / "list.txt"
    listed.write_text(f"# two\n{TEXT}\n\n  ci1 co1 in4 k2\n")
    succeeds("tune", "--from", listed, *QUICK)
    assert [line[1] for line in lines(store)] == [TEXT, "ci1 co1 in4 k2"]


def test_where_nothing_can_be_kept(store, monkeypatch):
    monkeypatch.setenv("UPCONV_TUNE_FILE", "")
    assert "not kept: UPCONV_TUNE_FILE is empty" in succeeds("tune", TEXT, *QUICK)
    fails("tune", "--show", says="nothing is kept")
    monkeypatch.setenv("UPCONV_TUNE_FILE", "/proc/none/tuning.txt")
    assert "/proc/none/tuning.txt cannot be written" in succeeds("tune", TEXT, *QUICK)


def test_the_environment_tunes_by_itself(store, monkeypatch):
    monkeypatch.setenv("UPCONV_TUNE", "1")
    assert "by measuring now" in succeeds("plan", TEXT)
    assert "by a stored measurement" in succeeds("plan", TEXT)


def test_processes_at_once_lose_nothing(store):
    texts = [f"ci{number} co1 in4 k2" for number in range(1, 9)]

    def tune(text):
        return subprocess.run([PROGRAM, "tune", text, *QUICK], capture_output=True, timeout=120)

    with ThreadPoolExecutor(4) as pool:
        assert [done.returncode for done in pool.map(tune, texts)] == [0] * len(texts)
    assert sorted(line[1] for line in lines(store)) == sorted(texts)


@needs_onnx
def test_segments_of_a_model(store):
    model = MODELS / "gan3d.onnx"
    out = succeeds("tune", model, *QUICK)
    assert len(lines(store)) == 5 and out.count("kept in") == 5
    assert succeeds("plan", model, "--threads", "1").count("by a stored measurement") == 5


def test_bad_usage(store):
    fails("tune", says="no problem or model given")
    fails("tune", "ci3 co5 in7 k3 frob", says="frob")
    fails("tune", TEXT, "--show", says="--show takes no problem")
    fails("tune", "--show", "--clear", says="two things")
    fails("tune", TEXT, "--math", "tf32", says="--math")
    fails("tune", TEXT, "--dim", "N=2", says="--dim")
    fails("tune", TEXT, "--device", "cuda:sm_90a", says="nothing runs there")
    fails("tune", "none.onnx", says="none.onnx")
    fails("tune", "n0 " + TEXT, says=["n0", "empty"])
    fails("tune", "n9000000 ci900 co1 in999x999 k2", says="bytes are wanted")
    fails("tune", TEXT, "--milliseconds", "0", says="--milliseconds")
    assert not store.exists()
