"""The command line: what each command does, and what each kind of wrong input says."""

import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import pytest
from climbs import example
from liars import DropsBiasGradients
from runs import facts, hooked

import warpladder.ladder as ladder
from warpladder.checkpoint import load as load_checkpoint
from warpladder.cli import group, main
from warpladder.config import RECIPES
from warpladder.data.order import Order
from warpladder.errors import Stopped
from warpladder.optimizers import Adam
from warpladder.optimizers.schedules import Cosine
from warpladder.results import load as load_results
from warpladder.trainers.base import Trainer

pytestmark = pytest.mark.usefixtures("machine_once")

SMALL = ["--data", "digits", "--limit", "200", "--epochs", "1", "--batch-size", "32"]


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WARPLADDER_DATA", raising=False)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("checkpoint") / "mlp10.safetensors"
    assert main(["train", "mlp10", *SMALL, "--checkpoint", str(path), "--no-progress"]) == 0
    return path


# Help.


@pytest.mark.parametrize("command", ["", *group.commands])
def test_help_shows_an_example(run, command):
    code, out, err = run(*command.split(), "--help")
    assert (code, err) == (0, "")
    assert out.startswith("Usage: warpladder")
    assert f"  warpladder {command}" in out
    assert max(map(len, out.splitlines())) <= 80


def test_no_command_shows_the_help(run):
    code, out, err = run()
    assert code == 2
    assert "Commands:" in out + err


def test_the_list_of_commands_cuts_no_sentence(run):
    said = " ".join(run("--help")[1].partition("Commands:")[2].split())
    assert "..." not in said
    for name, command in group.commands.items():
        assert f"{name} {' '.join((command.help or '').partition('.')[0].split())}." in said


def test_python_m_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "warpladder", "--version"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("warpladder 0.")


def test_version(run):
    code, out, _ = run("--version")
    assert code == 0
    assert out.startswith("warpladder 0.")


# Wrong input: one line, and the right code.

WRONG = {
    "an unknown command": (["climp"], "climp"),
    "an unknown option": (["train", "mlp", "--data", "digits", "--bach-size", "3"], "--batch-size"),
    "a missing argument": (["train", "--data", "digits"], "NET"),
    "a missing option": (["train", "mlp"], "--data"),
    "an unknown net": (["train", "resnet", *SMALL], "'softmax', 'mlp', 'mlp10', 'cnn', 'autoencoder'"),
    "an unknown data set": (["train", "mlp", "--data", "imagenet"], "digits, mnist, fashion, cifar10, csv"),
    "an unknown rung": (["train", "mlp", *SMALL, "--rung", "elevator"], "there is no rung 'elevator'"),
    "unknown rungs of a climb": (["climb", "mlp", *SMALL, "--rungs", "numpy,elevator"], "there is no rung 'elevator'"),
    "no rungs of a climb": (["climb", "mlp", *SMALL, "--rungs", ","], "--rungs"),
    "a rung named twice": (["climb", "mlp", *SMALL, "--rungs", "numpy,numpy"], "numpy"),
    "a batch size that is no number": (
        ["train", "mlp", "--data", "digits", "--batch-size", "many"],
        "wants a whole number or 'full'",
    ),
    "a batch size of 0": (["train", "mlp", "--data", "digits", "--batch-size", "0"], "batch_size wants"),
    "a rate that is no number": (["train", "mlp", "--data", "digits", "--lr", "nan"], "learning_rate wants"),
    "nesterov without momentum": (
        ["train", "mlp", "--data", "digits", "--momentum", "0", "--nesterov"],
        "nesterov needs a momentum",
    ),
    "a negative seed": (["train", "mlp", "--data", "digits", "--seed", "-1"], "seed"),
    "a limit above the rows": (["train", "mlp", "--data", "digits", "--limit", "99999"], "limit"),
    "a validation set of everything": (["train", "mlp", "--data", "digits", "--validation", "1437"], "validation"),
    "a folder that is not there": (
        ["train", "mlp", "--data", "mnist", "--data-dir", "nowhere"],
        "nowhere: does not exist",
    ),
    "a folder without the set": (["data", "mnist", "--data-dir", "."], "holds no mnist"),
    "no folder for csv": (["data", "csv"], "--data-dir"),
    "a net that the images are too small for": (
        ["train", "autoencoder", "--data", "csv", "--data-dir", "tiny"],
        "multiples of 4",
    ),
    "a shape that is none": (["train", "mlp", "--data", "csv", "--data-dir", "tiny", "--shape", "3xx"], "3xx"),
    "a shape for a set that has one": (["train", "mlp", "--data", "digits", "--shape", "1x8x8"], "shape"),
    "a link to itself": (["check", "loop.cu"], "symbolic links"),
    "a climb of no seconds": (["climb", "mlp", *SMALL, "--seconds", "0"], "--seconds"),
    "seconds that are no number": (["climb", "mlp", *SMALL, "--seconds", "nan"], "wants a number of seconds"),
    "a time limit that is no number": (["run", "a.cu", "--timeout", "nan"], "wants a number of seconds"),
    "a device for a climb's folder": (["climb", "mlp", *SMALL, "--out", os.devnull], "is no folder"),
    "no repeats": (["climb", "mlp", *SMALL, "--repeats", "0"], "repeats"),
    "a checkpoint that is not there": (["evaluate", "none.safetensors", "--data", "digits"], "none.safetensors"),
    "a checkpoint that is none": (["evaluate", "text", "--data", "digits"], "text"),
    "an input that is not there": (["predict", "{checkpoint}", "nothing.csv"], "nothing.csv"),
    "an input of another size": (["predict", "{checkpoint}", "tiny/train.csv"], "the net takes 1 x 8 x 8"),
    "data of another size": (["evaluate", "{checkpoint}", "--data", "csv", "--data-dir", "tiny"], "(1, 8, 8)"),
    "a folder in place of a checkpoint": (["train", "mlp", *SMALL, "--checkpoint", "tiny"], "tiny"),
    "a checkpoint in no folder": (["train", "mlp", *SMALL, "--checkpoint", "nowhere/a.safetensors"], "nowhere"),
    "a resume of nothing": (["train", "mlp", *SMALL, "--resume", "none.safetensors"], "none.safetensors"),
    "a resume of another net": (["train", "softmax", *SMALL, "--resume", "{checkpoint}"], "{checkpoint}"),
    "an output folder that is a file": (
        ["climb", "mlp10", *SMALL, "--rungs", "numpy", "--no-peers", "--out", "text"],
        "text",
    ),
}


@pytest.mark.parametrize("arguments, words", WRONG.values(), ids=WRONG)
def test_wrong_input_is_one_line_and_code_2(run, checkpoint, arguments, words):
    Path("tiny").mkdir()
    Path("tiny/train.csv").write_text("label,a,b,c,d,e,f,g,h,i\n" + "1,0,0,0,0,9,0,0,0,0\n0,0,0,7,0,0,0,0,0,0\n")
    Path("tiny/test.csv").write_text("a,b,c,d,e,f,g,h,i\n0,0,0,0,0,9,0,0,0\n")
    Path("text").write_text("not a checkpoint")
    Path("loop.cu").symlink_to("loop.cu")
    code, _, err = run(*(argument.format(checkpoint=checkpoint) for argument in arguments))
    assert err.startswith("warpladder: ")
    assert err.count("\n") == 1, err
    assert words.format(checkpoint=checkpoint) in err
    assert code == 2
    assert not list(Path().glob("**/*.tmp"))


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (Stopped("training stopped after epoch 1 of 2", 143), 143, "training stopped after epoch 1 of 2"),
        (OSError(28, "No space left on device", "runs/x"), 2, "runs/x: No space left on device"),
        (PermissionError(13, "Permission denied", "runs"), 2, "runs: Permission denied"),
        (MemoryError("Unable to allocate 9 GiB"), 2, "not enough memory: Unable to allocate 9 GiB"),
    ],
)
def test_what_a_user_can_cause_is_one_line(run, monkeypatch, error, code, line):
    def fail() -> None:
        raise error

    monkeypatch.setitem(group.commands, "fail", click.Command("fail", callback=fail))
    assert run("fail") == (code, "", "\n" * isinstance(error, KeyboardInterrupt) + f"warpladder: {line}\n")


def test_a_bug_keeps_its_traceback(monkeypatch):
    def fail() -> None:
        raise KeyError("nobody foresaw this")

    monkeypatch.setitem(group.commands, "fail", click.Command("fail", callback=fail))
    with pytest.raises(KeyError):
        main(["fail"])


@pytest.mark.parametrize("lines", [1, 100_000])
def test_a_reader_that_leaves_is_no_error(lines):
    code = f"""
import sys, click, warpladder.cli as cli
cli.group.add_command(click.Command("say", callback=lambda: [click.echo("words") for _ in range({lines})]))
sys.exit(cli.main(["say"]))
"""
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", '"$0" -c "$1" | head -c 1', sys.executable, code],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "w", "")


# What is there.


def test_nets_lists_parameters_and_flops(run):
    code, out, _ = run("nets")
    assert code == 0
    for words in ("7,850", "203,530", "7,960", "50,890", "751,875"):
        assert words in out


def test_nets_shows_one_layer_by_layer(run):
    code, out, _ = run("nets", "cnn")
    assert code == 0
    assert "Conv2d(out_channels=32, kernel_size=3)" in out
    assert "32x24x24" in out


def test_rungs_lists_the_ladder_and_the_peers_in_order(run):
    from warpladder.ladder import LADDER, PEERS

    code, out, _ = run("rungs")
    assert code == 0
    names = iter([line.split()[0] for line in out.splitlines() if line.strip()])
    wanted = [part for rung in (*LADDER, *PEERS) for part in rung.name.replace(":", "\n:").split("\n")]
    assert all(part in names for part in wanted)  # one after the other, each behind the one before


def test_rungs_says_each_reason_once_with_all_who_have_it(run, monkeypatch):
    from warpladder.ladder import LADDER, PEERS

    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(
        ladder, "LADDER", tuple(replace(rung, unsupported=lambda net, config: "no GPU is here") for rung in LADDER)
    )
    monkeypatch.setattr(ladder, "PEERS", tuple(replace(peer, unsupported=lambda net, config: None) for peer in PEERS))
    code, out, _ = run("rungs")
    assert code == 0
    assert out.count("no GPU is here") == 1 and out.count("no: 1") == len(LADDER) and out.count(" yes ") == len(PEERS)
    assert ", ".join(rung.name for rung in LADDER) in out


def test_rungs_says_more_of_one_and_of_a_file(run):
    code, out, _ = run("rungs", "sklearn", "graph", "--net", "cnn")
    said = " ".join(out.split())
    assert (
        code == 0
        and "partial_fit" in said
        and "It differs: SGD's momentum" in said
        and "Its options, written as graph:block_size=..." in said
        and "device=emulated" in said
    )
    assert "It cannot train cnn here: MLPClassifier cannot express net 'cnn'" in said and "loops" not in said
    Path("own.py").write_text('from warpladder.ladder import Rung\nRUNG = Rung("own", "a title", "The idea.", print)')
    assert "own: a title" in run("rungs", "./own.py")[1]


def test_a_table_is_shown_with_its_label_and_its_parts(run, tmp_path):
    path = tmp_path / "bank.csv"
    path.write_text("age,answer\n" + "".join(f"{n * 7 % 50},{['no', 'yes'][n % 2]}\n" for n in range(60)))
    code, out, _ = run("data", str(path), "--label", "answer")
    assert code == 0 and [line.split()[:2] for line in out.splitlines()[-4:-1]] == [
        ["train", "42"],
        ["valid", "6"],
        ["test", "12"],
    ]
    code, _, err = run("data", str(path))
    assert code == 2 and "which column is the label? Name it, --label NAME" in err


def test_data_lists_the_sets_and_describes_one(run):
    assert "cifar10" in run("data")[1]
    code, out, _ = run("data", "digits")
    assert code == 0
    assert "1,437" in out
    assert "0 to 16" in out


@pytest.mark.parametrize(
    "command",
    [
        ("nets",),
        ("nets", "autoencoder"),
        ("rungs",),
        ("rungs", "--net", "autoencoder"),
        ("rungs", "graph"),
        ("data",),
        ("data", "digits"),
    ],
)
def test_piped_output_is_plain_and_80_wide(run, command, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    _, out, _ = run(*command)
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 80


# What it is for.


def test_train_shows_every_epoch_and_the_score(run):
    code, out, err = run(
        "train",
        "mlp10",
        "--data",
        "digits",
        "--epochs",
        "2",
        "--batch-size",
        "full",
        "--validation",
        "100",
        "--no-progress",
    )
    assert (code, err) == (0, "")
    assert "mlp10 on the numpy rung" in out
    assert [line.split()[0] for line in out.splitlines() if line.strip()[:1].isdigit()] == ["1", "2"]
    assert "valid. accuracy" in out
    assert "Test: loss " in out


def test_a_table_of_many_epochs_leaves_some_out_but_not_the_last(run):
    _, out, _ = run("train", "softmax", "--data", "digits", "--limit", "10", "--epochs", "60", "--no-progress")
    epochs = [line.split()[0] for line in out.partition("Loss by epoch")[0].splitlines() if line.strip()[:1].isdigit()]
    assert len(epochs) <= 30
    assert (epochs[0], epochs[-1]) == ("1", "60")


def test_training_in_two_parts_equals_training_in_one(run):
    run("train", "mlp10", *SMALL, "--momentum", "0.9", "--seed", "5", "--checkpoint", "part.safetensors")
    resumed = [
        "--data",
        "digits",
        "--limit",
        "200",
        "--resume",
        "part.safetensors",
        "--epochs",
        "2",
        "--checkpoint",
        "both.safetensors",
    ]
    code, out, _ = run("train", "mlp10", *resumed)
    assert code == 0
    assert "Weights: both.safetensors" in out
    undisturbed = [*SMALL[:-4], "--epochs", "2", "--batch-size", "32", "--momentum", "0.9", "--seed", "5"]
    run("train", "mlp10", *undisturbed, "--checkpoint", "whole.safetensors")
    both, whole = load_checkpoint("both.safetensors"), load_checkpoint("whole.safetensors")
    assert all(np.array_equal(both.params[name], whole.params[name]) for name in whole.params)


def test_what_was_trained_is_kept_in_a_folder_of_its_own(run):
    for number in (1, 2):
        code, out, _ = run("train", "mlp10", *SMALL, "--no-progress")
        kept = sorted(Path("runs").glob("mlp10-digits-*/mlp10.safetensors"))
        assert code == 0 and len(kept) == number
        assert f"Weights: {kept[-1]}\n" in out
        assert load_checkpoint(kept[-1]).finished


def test_nothing_is_kept_where_nothing_shall_be(run):
    code, out, _ = run("train", "mlp10", *SMALL, "--no-checkpoint", "--no-progress")
    assert (code, out.splitlines()[-1]) == (0, "Weights: not saved")
    assert not list(Path().iterdir())


def test_a_run_that_diverges_leaves_no_folder(run):
    assert run("train", "mlp10", *SMALL, "--lr", "1e30")[0] == 1
    assert not list(Path("runs").iterdir())


def test_resume_goes_on_in_its_file(run):
    run("train", "mlp10", *SMALL, "--checkpoint", "c.safetensors")
    code, out, _ = run(
        "train", "mlp10", "--data", "digits", "--limit", "200", "--resume", "c.safetensors", "--epochs", "3"
    )
    assert code == 0 and "Weights: c.safetensors\n" in out
    assert load_checkpoint("c.safetensors").epoch == 3
    assert [path.name for path in Path().iterdir()] == ["c.safetensors"]
    before = Path("c.safetensors").read_bytes()
    run(
        "train",
        "mlp10",
        "--data",
        "digits",
        "--limit",
        "200",
        "--resume",
        "c.safetensors",
        "--epochs",
        "4",
        "--checkpoint",
        "d.safetensors",
    )
    assert Path("c.safetensors").read_bytes() == before and load_checkpoint("d.safetensors").epoch == 4


def test_no_file_is_replaced_unless_one_insists(run, checkpoint, table):
    run("train", "mlp10", *SMALL, "--checkpoint", "c.safetensors")
    before = Path("c.safetensors").read_bytes()
    again = ("train", "softmax", *SMALL, "--checkpoint", "c.safetensors")
    predict = ("predict", str(checkpoint), table, "--submission", "c.safetensors")
    for command in (again, predict, ("predict", str(checkpoint), table, "--save", "c.safetensors")):
        code, _, err = run(*command)
        assert (
            code == 2
            and err.count("\n") == 1
            and "c.safetensors" in err
            and "is there already" in err
            and "overwrite" in err
        )
        assert Path("c.safetensors").read_bytes() == before
    assert run(*again, "--overwrite")[0] == 0 and load_checkpoint("c.safetensors").net.name == "softmax"
    assert run(*predict, "--overwrite")[0] == 0 and Path("c.safetensors").read_text().startswith("ImageId")


@pytest.mark.parametrize("option", ["--submission", "--save"])
def test_predict_never_replaces_what_it_reads(run, table, option):
    run("train", "mlp10", *SMALL, "--checkpoint", "c.safetensors")
    Path("link").symlink_to("c.safetensors")
    os.link(table, "same.csv")
    for name in ("c.safetensors", "link", table, "same.csv"):
        before = Path(name).read_bytes()
        code, _, err = run("predict", "c.safetensors", table, option, name, "--overwrite")
        assert (code, err) == (2, f"warpladder: {name}: is what the command works with: name another file\n")
        assert Path(name).read_bytes() == before
    assert run("predict", "c.safetensors", table, "--save", "same", "--submission", "same")[0] == 2


def test_a_new_run_begins_with_the_weights_of_another(run):
    run("train", "mlp10", *SMALL, "--momentum", "0.9", "--checkpoint", "c.safetensors")
    code, _, err = run(
        "train", "mlp10", "--data", "digits", "--limit", "200", "--resume", "c.safetensors", "--lr", "0.5"
    )
    assert code == 2 and "--from" in err
    code, _, _ = run(
        "train",
        "mlp10",
        "--data",
        "digits",
        "--from",
        "c.safetensors",
        "--epochs",
        "0",
        "--lr",
        "0.5",
        "--checkpoint",
        "d.safetensors",
    )
    old, new = load_checkpoint("c.safetensors"), load_checkpoint("d.safetensors")
    assert code == 0 and all(np.array_equal(old.params[name], new.params[name]) for name in old.params)
    assert (new.epoch, new.history, new.config.learning_rate, new.config.optimizer.slots) == (0, (), 0.5, ())


def test_another_optimizer_keeps_the_recipe_but_for_the_rate_and_says_so(run):
    code, out, err = run(
        "train",
        "mlp10",
        *SMALL,
        "--optimizer",
        "adam:betas=0.8+0.99",
        "--schedule",
        "cosine:warmup=0.5",
        "--checkpoint",
        "a",
    )
    assert (code, err) == (0, "mlp10 is trained with --learning-rate 0.001, by default\n")
    assert "Optimizer: Adam 0.001, betas 0.8 0.99; learning rate: cosine, warm-up 0.5 epochs" in out
    config = load_checkpoint("a").config
    assert config == RECIPES["mlp10"].but(
        epochs=1, batch_size=32, optimizer=Adam(betas=(0.8, 0.99)), schedule=Cosine(warmup=0.5), initial="he"
    )
    for given in (
        ("--optimizer", "adamw", "--lr", "0.01"),
        ("--optimizer", "adamw:learning-rate=0.01"),
        ("--optimizer", "sgd"),
    ):
        code, out, err = run("train", "mlp10", *SMALL, *given, "--no-checkpoint")
        assert (code, err) == (0, "") and (
            "AdamW 0.01; learning rate: constant" in out or "SGD 0.1; learning rate: constant" in out
        )
    code, out, err = run(
        "train",
        "mlp10",
        *SMALL,
        "--from",
        "a",
        "--schedule",
        "step:every=1:gamma=0.5",
        "--nesterov",
        "--momentum",
        "0.9",
        "--no-checkpoint",
    )
    assert (code, err) == (
        0,
        "",
    ) and "SGD 0.1, momentum 0.9, nesterov; learning rate: stepdecay, every 1, gamma 0.5" in out


def test_a_run_on_the_command_line_goes_on_as_its_schedule_allows(run):
    both = [
        "train",
        "mlp10",
        "--data",
        "digits",
        "--limit",
        "200",
        "--batch-size",
        "32",
        "--optimizer",
        "adam",
        "--schedule",
        "cosine:warmup=1",
    ]
    assert run(*both, "--epochs", "2", "--checkpoint", "a")[0] == 0
    again = ("train", "mlp10", "--data", "digits", "--limit", "200", "--resume", "a", "--epochs", "3")
    code, _, err = run(*again)
    assert code == 2 and err.count("\n") == 1 and "--schedule cosine:epochs=2, goes on with its last rate" in err
    code, out, err = run(*again, "--schedule", "cosine:epochs=2")
    assert (code, err) == (0, "") and "Adam 0.001; learning rate: cosine, epochs 2, warm-up 1 epoch" in out
    assert load_checkpoint("a").made == 21


def test_a_rung_with_more_threads_than_there_are_is_refused(run):
    code, out, err = run("rungs", "numpy:threads=99999")
    assert (code, out) == (2, "") and "rung 'numpy:threads=99999': threads is 99999, and this process may use" in err


def test_training_that_diverges_is_a_failed_check(run):
    code, _, err = run("train", "mlp10", *SMALL, "--lr", "1e30")
    assert code == 1
    assert err.startswith("warpladder: training diverged in epoch 1, step ")
    assert err.count("\n") == 1


def test_interrupted_training_leaves_a_checkpoint_where_none_was_named(run, monkeypatch):
    def interrupt(trainer: Trainer, order: Order, first: int, last: int) -> None:
        if order.epoch == 1 and last > 3:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(ladder, "LADDER", (hooked("numpy", before=interrupt),))
        code, _, err = run(
            "train",
            "mlp10",
            "--data",
            "digits",
            "--limit",
            "300",
            "--validation",
            "40",
            "--seed",
            "3",
            "--epochs",
            "4",
            "--batch-size",
            "16",
        )
    assert code == 130 and err.strip().count("\n") == 0
    (kept,) = Path().glob("runs/mlp10-digits-*/mlp10.safetensors")
    assert err.strip().endswith(
        f"resume from '{kept}': warpladder train mlp10 --data digits --limit 300 --validation 40 --resume {kept}"
    )
    again = shlex.split(err.partition(": warpladder ")[2])
    assert run(*again)[0] == 0
    assert (
        run(
            "train",
            "mlp10",
            *again[2:-2],
            "--seed",
            "3",
            "--epochs",
            "4",
            "--batch-size",
            "16",
            "--checkpoint",
            "whole",
        )[0]
        == 0
    )
    assert facts(load_checkpoint(kept)) == facts(load_checkpoint("whole"))


@pytest.mark.parametrize("option", [[], ["--net"]])
def test_an_own_net_is_kept_and_resumed_under_its_name(run, monkeypatch, option):
    Path("my nets").mkdir()
    net = 'name = "my net"\nloss = "CrossEntropyLoss"\n[[layers]]\ntype = "Flatten"\n[[layers]]\ntype = "Linear"\nout_features = 10\n'
    Path("my nets/own.toml").write_text(net)
    asked = [
        *option,
        "my nets/own.toml",
        "--data",
        "digits",
        "--limit",
        "100",
        "--epochs",
        "3",
        "--batch-size",
        "16",
        "--lr",
        "0.1",
    ]

    def interrupt(trainer: Trainer, order: Order, first: int, last: int) -> None:
        if order.epoch == 1:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(ladder, "LADDER", (hooked("numpy", before=interrupt),))
        code, _, err = run("train", *asked)
    assert code == 130, err
    (kept,) = Path().glob("runs/my-net-digits-*/my-net.safetensors")
    again = shlex.split(err.strip().splitlines()[-1].partition(": warpladder ")[2])
    assert again == ["train", "my nets/own.toml", "--data", "digits", "--limit", "100", "--resume", str(kept)]
    assert run(*again)[0] == 0 and load_checkpoint(kept).finished


def test_interrupted_training_leaves_a_checkpoint_to_resume(tmp_path):
    command = [
        sys.executable,
        "-c",
        "import sys; from warpladder.cli import main; sys.exit(main())",
        "train",
        "mlp10",
        "--data",
        "digits",
    ]
    command += [
        "--epochs",
        "100000",
        "--rung",
        "numpy",
        "--batch-size",
        "1",
        "--checkpoint",
        "stopped.safetensors",
        "--checkpoint-every",
        "10",
    ]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        try:
            deadline = time.monotonic() + 60
            while (
                not (tmp_path / "stopped.safetensors").exists()
                and process.poll() is None
                and time.monotonic() < deadline
            ):
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130, err
    assert err.strip().startswith("warpladder: training stopped after ")
    assert "resume from 'stopped.safetensors'" in err
    assert main(["evaluate", str(tmp_path / "stopped.safetensors"), "--data", "digits"]) == 0


def test_evaluate_agrees_with_training(run, checkpoint):
    test = load_checkpoint(checkpoint).test
    assert test is not None and test.accuracy is not None
    code, out, _ = run("evaluate", str(checkpoint), "--data", "digits")
    assert code == 0
    assert f"loss {test.loss:.4g}, accuracy {100 * test.accuracy:.2f} %, 360 samples" in out


@pytest.fixture
def table():
    """The first test digits as a Kaggle table without labels."""
    from warpladder.data import load

    x = load("digits").test_x[:7].reshape(7, 64)
    Path("test.csv").write_text(
        "\n".join([",".join(f"pixel{i}" for i in range(64)), *(",".join(map(str, row)) for row in x.tolist())])
    )
    return "test.csv"


def test_a_full_disk_is_a_line_that_names_the_file(run, checkpoint, table, monkeypatch):
    def full(*arguments: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    for option in ("--save", "--submission"):
        code, _, err = run("predict", str(checkpoint), table, option, "out")
        assert (
            code == 2
            and err.startswith("warpladder: out: ")
            and "No space left on device" in err
            and err.count("\n") == 1
        )
        assert sorted(os.listdir()) == [table]
    code, _, err = run("train", "mlp10", *SMALL, "--checkpoint", "out")
    assert code == 2 and "'out' could not be written: No space left on device" in err


def test_predict_prints_labels_or_writes_a_submission(run, checkpoint, table):
    from warpladder.data import load as load_data
    from warpladder.train import restore

    with restore(load_checkpoint(checkpoint)) as trainer:
        expected = trainer.predict(load_data("digits").test_x[:7], 1 / 16).argmax(axis=1).tolist()
    assert run("predict", str(checkpoint), table) == (0, "".join(f"{label}\n" for label in expected), "")
    code, out, _ = run("predict", str(checkpoint), table, "--submission", "out.csv", "--save", "logits.npy")
    assert (code, out) == (0, "7 samples: logits.npy\n7 samples: out.csv\n")
    assert Path("out.csv").read_text() == "ImageId,Label\n" + "".join(
        f"{i + 1},{label}\n" for i, label in enumerate(expected)
    )
    assert np.load("logits.npy").argmax(axis=1).tolist() == expected


def test_predict_takes_numpy_files(run, checkpoint, table):
    from warpladder.data import load as load_data

    x = load_data("digits").test_x[:7]
    _, expected, _ = run("predict", str(checkpoint), table)
    np.save("x.npy", x)
    np.savez("some.npz", X=x, y=np.zeros(7))
    np.savez("one.npz", pixels=x)
    for name in ("x.npy", "some.npz", "one.npz"):
        assert run("predict", str(checkpoint), name) == (0, expected, ""), name
    np.save("objects.npy", np.array([{}], object))
    np.savez("two.npz", a=x, b=x)
    np.save("flat.npy", np.zeros(5))
    for name, why in (
        ("objects.npy", "holds Python objects, which are never read"),
        ("two.npz", "holds 'a, b': name the samples to predict x or x_test"),
        ("flat.npy", "an array of shape (5,) where (samples, ...) is wanted"),
        ("none.npy", "No such file"),
    ):
        code, out, err = run("predict", str(checkpoint), name)
        assert (code, out) == (2, "") and why in err and len(err.splitlines()) == 1, err


def test_resume_without_a_net_names_the_runs_own(run, checkpoint):
    code, _, err = run("train", "--resume", str(checkpoint))
    assert code == 2 and "holds a run of mlp10 on digits: --resume wants both again, NET and --data" in err
    code, _, err = run("train", "--resume", "none.safetensors")
    assert code == 2 and "there is no checkpoint 'none.safetensors'" in err


@pytest.mark.slow
def test_an_autoencoder_predicts_images(run, table):
    trained = [
        "--data",
        "digits",
        "--limit",
        "8",
        "--epochs",
        "1",
        "--batch-size",
        "8",
        "--checkpoint",
        "a.safetensors",
    ]
    assert run("train", "autoencoder", *trained, "--no-progress")[0] == 0
    code, _, err = run("predict", "a.safetensors", table)
    assert code == 2
    assert "gives images, not labels" in err
    assert run("predict", "a.safetensors", table, "--save", "images.npy")[0] == 0
    assert np.load("images.npy").shape == (7, 1, 8, 8)


CLIMB = ["climb", "mlp10", *SMALL, "--rungs", "loops,numpy", "--repeats", "1"]


def test_climb_writes_results_and_a_page_and_says_where(run):
    code, out, err = run(*CLIMB, "--out", "found", "--progress")
    assert code == 0
    assert "proving loops" in err
    assert "Open this: found/report.html" in out
    assert sorted(path.name for path in Path("found").iterdir()) == ["report.html", "results.json"]
    assert Path("found/report.html").read_text().startswith("<!doctype html>")
    results = load_results("found/results.json")
    assert [rung.name for rung in results.timed()] == ["loops", "numpy"]
    assert all(rung.check and rung.check.passed for rung in results.timed())
    assert (
        results.command
        == "warpladder climb mlp10 --data digits --limit 200 --rungs loops,numpy --repeats 1 --epochs 1 --batch-size 32"
    )
    assert results.config["batch_size"] == 32


def test_climb_makes_a_folder_of_its_own_below_runs(run, monkeypatch):
    asked = []

    def climb(task, rungs, settings, progress, found):
        asked.append((task.net, task.data, task.config, [rung.name for rung in rungs], settings, progress))
        return example()

    monkeypatch.setattr("warpladder.timing.run_climb", climb)
    code, out, err = run(
        "climb", "softmax", "--data", "digits", "--validation", "37", "--batch-size", "full", "--budget", "3"
    )
    assert (code, err) == (1, ""), "the example holds a rung that failed"
    (folder,) = Path("runs").iterdir()
    assert folder.name.startswith("softmax-digits-")
    assert sorted(path.name for path in folder.iterdir()) == ["report.html", "results.json"]
    assert f"Open this: {folder / 'report.html'}" in out
    ((net, data, config, names, settings, progress),) = asked
    assert (net.in_shape, len(data.train_x), config.batch_size) == ((1, 8, 8), 1400, None)
    assert names[: len(ladder.LADDER)] == [rung.name for rung in ladder.LADDER]
    assert [name.partition(":")[0] for name in names[len(ladder.LADDER) :]] == ["torch", "sklearn", "jax"]
    assert (config.epochs, settings.repeats, settings.budget, progress) == (40, 5, 3.0, None)


def test_climb_refuses_to_time_a_rung_that_is_wrong_and_fails(run, monkeypatch):
    numpy = ladder.find("numpy")
    liar = replace(numpy, name="liar", build=DropsBiasGradients)
    monkeypatch.setattr(ladder, "LADDER", (*ladder.LADDER, liar))
    code, out, _ = run("climb", "mlp10", *SMALL, "--rungs", "numpy,liar", "--repeats", "1", "--out", "found")
    assert code == 1
    assert "failed" in out


def test_a_climb_that_cannot_start_leaves_no_folder(run):
    assert run("climb", "mlp10", *SMALL, "--rungs", "numpy", "--repeats", "0")[0] == 2
    assert not Path("runs").exists()


def test_a_rung_that_was_asked_for_and_cannot_train_is_an_error(run):
    code, _, err = run("climb", "mlp10", *SMALL, "--rungs", "numpy,torch:images=last")
    assert code == 2
    assert "torch:images=last cannot train mlp10 here" in err
