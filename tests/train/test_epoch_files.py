"""The weights of every epoch, kept on request: a checkpoint for each, and nothing is replaced in silence."""

from __future__ import annotations

import numpy as np
import pytest
from runs import CNN, CONFIG, data, facts

from warpladder.checkpoint import load
from warpladder.errors import CheckpointError, ConfigError
from warpladder.train import train
from warpladder.train.epoch_files import epoch_path


def kept(tmp_path, **more):
    path = tmp_path / "net.safetensors"
    return path, train(CNN, data(), CONFIG, rung="numpy", checkpoint=path, keep_epochs=True, **more)


def test_each_epoch_has_a_file_of_its_own_that_goes_on_bit_for_bit(tmp_path):
    _, run = kept(tmp_path)
    names = [f"net-epoch-00{number}.safetensors" for number in (1, 2, 3)]
    assert sorted(each.name for each in tmp_path.iterdir()) == [*names, "net.safetensors"]
    for number, name in enumerate(names, 1):
        stored = load(tmp_path / name)
        assert (stored.epoch, stored.step, len(stored.history)) == (number, 0, number)
        assert facts(train(CNN, data(), resume=tmp_path / name).checkpoint) == facts(run.checkpoint)
    first, last = load(tmp_path / names[0]), load(tmp_path / names[2])
    assert all(np.array_equal(last.params[name], run.params[name]) for name in run.params)
    assert not all(np.array_equal(first.params[name], run.params[name]) for name in run.params)


@pytest.mark.parametrize("seconds", [None, 1000.0])
def test_epochs_are_kept_also_where_time_decides_about_the_run_s_own_file(tmp_path, seconds):
    kept(tmp_path, checkpoint_seconds=seconds)
    assert len(list(tmp_path.glob("net-epoch-*.safetensors"))) == CONFIG.epochs


def test_a_file_of_an_epoch_is_replaced_only_where_somebody_insists(tmp_path):
    other = tmp_path / "net-epoch-002.safetensors"
    other.write_text("mine")
    with pytest.raises(
        CheckpointError, match=r"net-epoch-002\.safetensors' is there already, and epoch 2 is to be kept there"
    ):
        kept(tmp_path)
    assert other.read_text() == "mine" and sorted(each.name for each in tmp_path.iterdir()) == [other.name]
    kept(tmp_path, overwrite=True)
    assert load(other).epoch == 2


def test_a_resumed_run_keeps_the_epochs_to_come(tmp_path):
    path, run = kept(tmp_path)
    first = epoch_path(path, 1)
    rest = tmp_path / "rest.safetensors"
    train(CNN, data(), resume=first, checkpoint=rest, keep_epochs=True)
    assert sorted(each.name for each in tmp_path.glob("rest*")) == [
        "rest-epoch-002.safetensors",
        "rest-epoch-003.safetensors",
        "rest.safetensors",
    ]
    assert facts(load(rest)) == facts(run.checkpoint)


def test_what_a_killed_process_left_of_an_epoch_is_removed(tmp_path):
    left = tmp_path / ".net-epoch-002.safetensors.0123abcd.tmp"
    left.write_text("half")
    kept(tmp_path)
    assert not left.exists()


def test_epochs_want_a_checkpoint_to_stand_next_to():
    with pytest.raises(ConfigError, match="keep_epochs needs a checkpoint file"):
        train(CNN, data(), CONFIG, keep_epochs=True)


def test_the_command_keeps_them(tmp_path, run):
    path = tmp_path / "net.safetensors"
    words = ("train", "softmax", "--data", "digits", "--epochs", "2", "--keep-epochs")
    code, out, _ = run(*words, "--checkpoint", str(path))
    assert code == 0 and f"Of every epoch: {epoch_path(path, 1)} to net-epoch-002.safetensors" in out
    assert load(epoch_path(path, 1)).epoch == 1
    path.unlink()
    code, _, err = run(*words, "--checkpoint", str(path))
    assert code == 2 and "net-epoch-001.safetensors' is there already" in err and not path.exists()
    code, _, err = run(*words, "--no-checkpoint")
    assert code == 2 and "--keep-epochs" in err
