"""A kernel of one's own in training by one command: from `new kernel` to a climb with a right and a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpladder.device.emulator import why_not
from warpladder.results import load as load_results

pytestmark = [
    pytest.mark.usefixtures("small_climbs"),
    pytest.mark.skipif(why_not() is not None, reason="the emulator needs g++"),
]

SMALL = ["mlp10", "--data", "digits", "--limit", "70", "--epochs", "1", "--batch-size", "64", "--device", "emulated"]


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_a_new_kernel_climbs_next_to_ours_and_a_wrong_one_is_a_row(run):
    assert run("new", "kernel", "linear.forward", "--out", "mine.cu")[0] == 0
    text = Path("mine.cu").read_text()
    assert len(text.splitlines()) <= 14
    code, _, err = run("new", "kernel", "linear.forward", "--out", "mine.cu")
    assert code == 2 and "is there already" in err and Path("mine.cu").read_text() == text
    Path("wrong.cu").write_text(text.replace("sum +=", "sum -="))
    words = ("--op", "linear.forward=mine.cu", "--op", "linear.forward=wrong.cu", "--repeats", "1", "--out", "found")
    code, out, err = run("climb", *SMALL, *words)
    assert code == 1, out + err
    ours, mine, wrong = load_results("found/results.json").rungs
    assert (ours.name, ours.status, mine.status, wrong.status) == ("naive:device=emulated", "timed", "timed", "failed")
    assert mine.check is not None and mine.check.passed and "each access and each result checked" in mine.reason
    assert "mine.cu" in load_results("found/results.json").sources
    assert "should be" in wrong.reason and "to run it alone: `warpladder check wrong.cu" in wrong.reason
    assert "mine.cu" in out and "wrong.cu" in out


@pytest.mark.slow
def test_a_python_file_climbs_next_to_numpy(run):
    Path("mine.py").write_text("def forward(layer, x, w, b):\n    return x @ w.T + b\n")
    Path("wrong.py").write_text("def forward(layer, x, w, b):\n    return (x @ w.T + b)[:, 1:]\n")
    words = ("--op", "linear.forward=mine.py", "--op", "linear.forward=wrong.py", "--repeats", "1", "--out", "found")
    code, out, err = run("climb", *SMALL[:-2], *words)
    assert code == 1, out + err
    rungs = load_results("found/results.json").rungs
    assert [(rung.name, rung.status) for rung in rungs] == [
        ("numpy", "timed"), ("linear.forward=mine.py", "timed"), ("linear.forward=wrong.py", "failed"),
    ]  # fmt: skip
    assert "y wants the shape" in rungs[2].reason


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["linear.forward"], "--op wants an operation and a file"),
        (["linear.forward=gone.cu"], "warpladder new kernel linear.forward --out gone.cu writes one"),
        (["linear.sideways=mine.cu"], "linear has linear.forward and linear.backward"),
        (["conv2d.forward=mine.cu"], "no kernel writes y"),
    ],
)
def test_what_is_no_operation_is_one_line(run, words, message):
    Path("mine.cu").write_text("__global__ void f(float* x) {}")
    code, _, err = run("climb", *SMALL, *(word for each in words for word in ("--op", each)))
    assert code == 2 and message in err and err.count("\n") == 1


@pytest.mark.slow
def test_every_operation_of_a_net_in_one_rung_trains(run):
    ops = ("conv2d", "linear", "relu", "maxpool2d", "sgd.update")
    for op in ops:
        assert run("new", "kernel", op)[0] == 0
    spec = "+".join(f"{op}={op.replace('.', '_')}.cu" for op in ops)
    words = ("cnn", "--data", "digits", "--limit", "40", "--epochs", "1", "--batch-size", "32", "--repeats", "1")
    code, out, err = run("climb", *words, "--op", spec, "--device", "emulated", "--out", "found")
    assert code == 0, out + err
