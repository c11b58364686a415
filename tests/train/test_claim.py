"""Two runs never share a checkpoint, and a callback that raises loses nothing of its run."""

import importlib
import subprocess
import sys
import threading

import pytest

import warpladder as wl
from warpladder.errors import CheckpointError
from warpladder.files.claim import claimed

SETTINGS = wl.TrainConfig(epochs=3)


@pytest.fixture(scope="module")
def data():
    return wl.data.load("digits", limit=64)


def test_a_claimed_file_is_nobody_elses_until_the_block_ends(tmp_path):
    file = tmp_path / "a.safetensors"
    with claimed(file) as first, claimed(file) as second, claimed(tmp_path / "b.safetensors") as other:
        assert (first, second, other) == (True, False, True)
    with claimed(file) as again:
        assert again
    assert list(tmp_path.iterdir()) == []


def test_a_killed_process_leaves_no_claim(tmp_path):
    program = "import os, sys; from warpladder.files.claim import claimed; c = claimed(sys.argv[1]); c.__enter__(); os._exit(9)"
    assert subprocess.run([sys.executable, "-c", program, str(tmp_path / "a")], check=False).returncode == 9
    assert [path.name for path in tmp_path.iterdir()] == [".a.lock"]
    with claimed(tmp_path / "a") as ours:
        assert ours
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("overwrite", [False, True])
def test_of_two_new_runs_with_one_checkpoint_one_is_refused(data, tmp_path, overwrite):
    file = tmp_path / "run.safetensors"
    under_way, refused = threading.Event(), threading.Event()
    found = {}

    def first():
        def wait(log):
            under_way.set()
            assert refused.wait(60)

        found["run"] = wl.train("softmax", data, SETTINGS, checkpoint=file, each_epoch=wait)

    thread = threading.Thread(target=first)
    thread.start()
    assert under_way.wait(60)
    file.unlink()  # the second has looked before the first wrote
    try:
        with pytest.raises(CheckpointError, match="is the checkpoint of a run that is under way: name another file"):
            wl.train("softmax", data, SETTINGS.but(seed=1), checkpoint=file, overwrite=overwrite)
    finally:
        refused.set()
        thread.join()
    assert wl.load(file).config.seed == 0 and found["run"].history[-1].epoch == 3
    assert [path.name for path in tmp_path.iterdir()] == ["run.safetensors"]


def test_a_run_that_began_before_another_ended_does_not_replace_its_weights(data, tmp_path, monkeypatch):
    file = tmp_path / "run.safetensors"
    resolve = importlib.import_module("warpladder.train.loop").resolve

    def slow(request):
        monkeypatch.setattr("warpladder.train.loop.resolve", resolve)
        wl.train("softmax", data, SETTINGS, checkpoint=file)
        return resolve(request)

    monkeypatch.setattr("warpladder.train.loop.resolve", slow)
    with pytest.raises(CheckpointError, match="is there already"):
        wl.train("softmax", data, SETTINGS.but(seed=1), checkpoint=file)
    assert wl.load(file).config.seed == 0


def test_what_is_saved_from_python_replaces_nothing_unless_that_is_wanted(data, tmp_path):
    run, file = wl.train("softmax", data, SETTINGS.but(epochs=1)), tmp_path / "run.safetensors"
    run.save(file)
    before = file.read_bytes()
    with pytest.raises(CheckpointError, match=r"is there already: .* or insist \(overwrite\)"):
        wl.train("softmax", data, SETTINGS).save(file)
    assert file.read_bytes() == before
    wl.train("softmax", data, SETTINGS).save(file, overwrite=True)
    assert wl.load(file).config.epochs == 3


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("seconds", [None, 1000.0])
def test_a_callback_that_raises_loses_nothing(data, tmp_path, error, seconds):
    def breaks(log):
        if log.epoch == 2:
            raise error("mine")

    file = tmp_path / "run.safetensors"
    with pytest.raises(error, match="mine") as raised:
        wl.train("softmax", data, SETTINGS, checkpoint=file, checkpoint_seconds=seconds, each_epoch=breaks)
    assert f"each_epoch raised this after epoch 2: resume from '{file}'" in raised.value.__notes__
    kept = [log.epoch for log in wl.load(file).history]
    assert kept[:2] == [1, 2] and kept == [log.epoch for log in raised.value.run.history]
    assert kept == [1, 2] or seconds, "epochs that were trained in one call are kept together"
    whole = wl.train("softmax", data, SETTINGS)
    resumed = wl.train("softmax", data, resume=file)
    assert all((resumed.params[name] == whole.params[name]).all() for name in whole.params)


def test_a_callback_that_raises_without_a_checkpoint_leaves_the_run_in_the_error(data):
    def breaks(log):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as raised:
        wl.train("softmax", data, SETTINGS.but(epochs=40), each_epoch=breaks)
    run = vars(raised.value)["run"]
    assert run.history and run.predict(data.test_x).shape == (len(data.test_x),)
    assert len(raised.value.__notes__) == 1
