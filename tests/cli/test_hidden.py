"""--hidden: a perceptron by its widths, in place of a net or of a net's own widths."""

import shlex
import signal
from pathlib import Path

import pytest
from runs import hooked

import warpladder as wl
from warpladder import ladder

SMALL = ("--data", "digits", "--limit", "60", "--epochs", "1")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def widths(path):
    return [layer.out_features for layer in wl.load(path).net.layers if isinstance(layer, wl.Linear)]


def test_widths_take_the_place_of_a_net_or_of_its_own(run):
    for words, wanted in (
        (["--hidden", "12,6,5"], [12, 6, 5, 10]),
        (["mlp", "--hidden", "12,6"], [12, 6, 10]),
        (["mlp10", "--hidden", " 4"], [4, 10]),
    ):
        code, out, _ = run("train", *words, *SMALL, "--checkpoint", "w.safetensors", "--overwrite")
        assert code == 0 and "-".join(map(str, wanted[:-1])) in out
        assert widths("w.safetensors") == wanted
    assert wl.load("w.safetensors").config.learning_rate == wl.config.DIGITS["mlp10"].learning_rate


def test_a_file_of_a_net_takes_as_many_widths_as_it_has_hidden_layers(run):
    Path("mine.toml").write_text(
        'loss = "CrossEntropyLoss"\nlayers = [{type = "Flatten"}, {type = "Linear", out_features = 8}, '
        '{type = "Linear", out_features = 9}, {type = "Linear", out_features = 10}]'
    )
    assert run("train", "--net", "mine.toml", "--hidden", "3,4", *SMALL, "--checkpoint", "m.safetensors")[0] == 0
    assert widths("m.safetensors") == [3, 4, 10]
    code, _, err = run("train", "--net", "mine.toml", "--hidden", "3,4,5", *SMALL, "--no-checkpoint")
    assert code == 2 and "has 2 hidden Linear layers, and 3 widths are given" in err


@pytest.mark.parametrize("text", ["", ",", "8,", "0", "-3", "8;9", "1e3", "eight"])
def test_what_are_no_widths_is_refused_with_an_example(text, run):
    code, out, err = run("train", "--hidden", text, *SMALL)
    assert (code, out) == (2, "") and "wants whole numbers of at least 1 with commas between them, as 512,256" in err


def test_nets_shows_them_layer_by_layer(run):
    code, out, _ = run("nets", "--hidden", "12,6", "--shape", "1x8x8")
    assert code == 0 and "mlp-12-6: 1x8x8 to 10" in out and "Linear(out_features=6)" in out


@pytest.mark.usefixtures("small_climbs")
def test_a_climb_and_its_sweep_take_them(run):
    words = ("--data", "digits", "--limit", "60", "--rungs", "numpy", "--epochs", "1", "--quick", "--out")
    assert run("climb", "--hidden", "6,5", *words, "one")[0] == 0
    assert "climb mlp --hidden 6,5" in wl.results.load("one/results.json").command
    assert run("climb", "mlp", "--sweep", "hidden=6,5+4", *words, "swept")[0] == 0
    from warpladder.results.sweep import Sweep

    assert [task.net.name for task in Sweep.load("swept/results.json").tasks] == ["mlp-6", "mlp-5-4"]


def test_a_stopped_run_names_them_in_the_command_that_goes_on(run, monkeypatch):
    def once(trainer, order, first, last):
        if order.epoch:
            signal.raise_signal(signal.SIGINT)

    words = ("--data", "digits", "--limit", "60", "--epochs", "3", "--checkpoint", "s.safetensors")
    with monkeypatch.context() as patched:
        patched.setattr(ladder, "LADDER", (hooked("numpy", before=once),))
        code, _, err = run("train", "--hidden", "6,5", *words)
    again = shlex.split(err.strip().rpartition(": warpladder ")[2])
    assert code == 130 and again[:4] == ["train", "mlp", "--hidden", "6,5"]
    assert run(*again)[0] == 0 and wl.load("s.safetensors").checkpoint.finished


def test_weights_of_other_widths_are_refused_with_the_option_that_fits(run):
    assert run("train", "--hidden", "12,6", *SMALL, "--checkpoint", "a.safetensors")[0] == 0
    code, _, err = run("train", "--hidden", "12,7", *SMALL, "--from", "a.safetensors", "--no-checkpoint")
    assert code == 2 and "it fits the net with --hidden 12,6, in Python wl.nets.with_hidden(net, (12, 6))" in err
    code, _, err = run("train", "mlp", *SMALL[:-1], "2", "--resume", "a.safetensors")
    assert code == 2 and "here it needs --hidden 12,6" in err
    # another number of inputs is no matter of widths
    code, _, err = run("train", "cnn", *SMALL, "--from", "a.safetensors", "--no-checkpoint")
    assert code == 2 and "--hidden" not in err
