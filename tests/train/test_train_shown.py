"""What `train` shows besides its table: a curve in the terminal, and event files for TensorBoard."""

import io
import math
import re
import struct
import sys
from pathlib import Path

import pytest

import warpladder as wl
from warpladder.cli import main
from warpladder.results.report.terminal import curve

TRAIN = ["train", "softmax", "--data", "digits", "--limit", "64", "--no-checkpoint", "--no-progress"]


def test_a_curve_falls_from_its_first_epoch_to_its_last():
    lines = curve("Loss by epoch", [4.0, 3.0, 2.0, 1.0], height=4)
    places = [line.index("o") for line in lines[1:5]]
    assert places == sorted(places) and lines[1].startswith("4 |o") and lines[4].startswith("1 |")
    assert lines[-1].split() == ["1", "4"]


@pytest.mark.parametrize("width", [60, 72, 80])
@pytest.mark.parametrize("count", [3, 100, 5000])
def test_a_curve_is_no_wider_than_asked_and_leaves_gaps(width, count):
    values = [None if at % 7 == 3 else math.nan if at % 7 == 5 else 1e-5 * (at + 1) for at in range(count)]
    lines = curve("loss", values, width)
    assert lines or count == 3
    assert all(len(line) <= width and line.isascii() for line in lines)
    assert curve("loss", [None, 1.0, math.inf, 2.0]) == []
    assert len(curve("loss", [2.0] * count, width)) == 11


def test_train_ends_with_a_curve_where_there_is_one(capsys):
    assert main([*TRAIN, "--epochs", "4"]) == 0
    assert "Loss by epoch\n" in capsys.readouterr().out
    assert main([*TRAIN, "--epochs", "2"]) == 0
    assert "Loss by epoch" not in capsys.readouterr().out


def test_each_epoch_is_told_as_soon_as_it_is_trained():
    told: list[object] = []
    run = wl.train("softmax", wl.data.load("digits", limit=64), wl.TrainConfig(epochs=3), each_epoch=told.append)
    assert told == run.history and len(told) == 3


def test_event_files_hold_every_epoch(tmp_path, capsys):
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed: pip install tensorboard")
    from tensorboard.compat.proto.event_pb2 import Event

    assert main([*TRAIN, "--epochs", "3", "--validation", "16", "--log-dir", str(tmp_path / "logs" / "one")]) == 0
    (file,) = (tmp_path / "logs" / "one").iterdir()
    raw, events = file.read_bytes(), []
    while raw:  # a record: its length, a checksum of that, the record, a checksum of it
        size = struct.unpack("<Q", raw[:8])[0]
        events.append(Event.FromString(raw[12 : 12 + size]))
        raw = raw[16 + size :]
    found = {(event.step, value.tag): value.simple_value for event in events for value in event.summary.value}
    assert {step for step, _ in found} == {1, 2, 3}
    assert {tag for _, tag in found} == {
        "loss/train",
        "accuracy/train",
        "loss/valid",
        "accuracy/valid",
        "seconds/epoch",
    }
    assert found[3, "loss/train"] < found[1, "loss/train"] and 0 <= found[3, "accuracy/valid"] <= 1


def test_what_log_dir_cannot_do_is_one_line_before_anything_is_trained(tmp_path, capsys, monkeypatch):
    (tmp_path / "file").write_text("mine")
    monkeypatch.chdir(tmp_path)
    if "tensorboard" in sys.modules or _installed():
        assert main([*TRAIN, "--log-dir", "file"]) == 2
        assert capsys.readouterr().err.startswith("warpladder: file: event files cannot be written there (")
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto.event_pb2", None)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    assert main([*TRAIN, "--log-dir", "logs"]) == 2
    out = capsys.readouterr()
    assert out.out == "" and out.err.startswith(
        "warpladder: --log-dir wants TensorBoard's package, which cannot be imported ("
    )
    assert (
        out.err.endswith("pip install 'warpladder[tensorboard]'\n")
        and out.err.count("\n") == 1
        and not Path("logs").exists()
    )


def _installed() -> bool:
    from importlib.util import find_spec

    return find_spec("tensorboard") is not None


@pytest.mark.parametrize("signum", [None, 2])
@pytest.mark.parametrize("width", [50, 60, 72, 80, 120])
def test_the_bar_stays_on_one_line_also_while_it_stops(width, signum, monkeypatch):
    from rich.console import Console

    from warpladder.checkpoint import EpochSums
    from warpladder.train import progress
    from warpladder.train.interrupt import Interrupt

    file, interrupt = io.StringIO(), Interrupt()
    console = Console(file=file, width=width, force_terminal=True, color_system=None)
    monkeypatch.setattr(progress, "Console", lambda stderr: console)
    interrupt.signum = signum
    with progress.bar(True, interrupt, 500, 469, accuracy=True) as show:
        show.steps(123, 100, EpochSums(loss=123.4, correct=1234, samples=2000, seconds=0.01))
        show.progress.refresh()
    written = file.getvalue()
    assert "\x1b[1A" not in written, "no line above is drawn again: the bar has one"
    last = re.sub(r"\x1b\[[\d?]*[A-Za-z]", "", written.replace("\r", "\n")).strip().splitlines()[-1]
    assert len(last) <= width and ("stopping (again: at once)" if signum else "epoch 123/500  loss 0.0617") in last
    assert ("accuracy 61.70%" in last) == (signum is None and width >= 72)
