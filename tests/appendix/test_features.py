"""Features: what each layer of a net gives, on every rung; files of them that are whole or not there; and the sentences
for what cannot be.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from runs import AUTOENCODER, CNN, CONFIG, MLP, data

import warpladder as wl
from warpladder.appendix.features import Extraction, extract, open_features, write_features
from warpladder.checkpoint import save
from warpladder.device import gpu
from warpladder.errors import ConfigError, DataError, NetError, WarpladderError
from warpladder.nets import CrossEntropyLoss, Linear, MaxPool2d, Net
from warpladder.proof.tolerance import bound
from warpladder.train.hidden import layer_outputs


@pytest.fixture(scope="module")
def noise():
    return data()


@pytest.fixture(scope="module")
def runs(noise):
    return {net.name: wl.train(net, noise, CONFIG) for net in (MLP, CNN, AUTOENCODER)}


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def close(found, truth, length):
    assert found.shape == truth.shape and found.dtype == np.float32
    return np.linalg.norm(found - truth) <= bound("float32", length) * np.linalg.norm(truth)


# What a layer gives.


def test_layers_of_a_perceptron_by_hand(runs, noise):
    run = runs[MLP.name]
    p = {name: array.astype(np.float64) for name, array in run.params.items()}
    pixels = noise.test_x.reshape(13, 16) / 255
    hidden = pixels @ p["1.weight"].T + p["1.bias"]
    assert close(run.features(noise.test_x, 0), pixels, 1)
    assert close(run.features(noise.test_x, 1), hidden, 17)
    assert close(run.features(noise.test_x, 2), np.maximum(hidden, 0), 17)
    assert (run.features(noise.test_x, 3) == run.outputs(noise.test_x)).all()


def test_layers_of_a_convolutional_net_lead_to_each_other(runs, noise):
    run = runs[CNN.name]
    each = [run.features(noise.test_x, layer) for layer in range(5)]
    assert [layer.shape for layer in each] == [(13, 48), (13, 48), (13, 12), (13, 12), (13, 3)]
    assert (each[1] == np.maximum(each[0], 0)).all()
    assert (each[2] == each[1].reshape(13, 3, 2, 2, 2, 2).max(axis=(3, 5)).reshape(13, 12)).all()
    assert (each[3] == each[2]).all()
    assert close(each[4], each[3] @ run.params["4.weight"].T + run.params["4.bias"], 13)


def test_layers_of_a_net_that_gives_images(runs, noise):
    run = runs[AUTOENCODER.name]
    assert run.features(noise.test_x, 0).shape == (13, 48)
    assert (run.features(noise.test_x, 2) == run.outputs(noise.test_x).reshape(13, 16)).all()


@pytest.mark.parametrize("rung", ["loops", "native", "naive:device=emulated", "gemm:device=emulated", "torch"])
@pytest.mark.parametrize("net", [MLP, CNN, AUTOENCODER], ids=lambda net: net.name)
@pytest.mark.by_day("small mlp", "cnn-loops", "cnn-naive", "cnn-gemm", "cnn-torch", "autoencoder")
def test_every_rung_gives_the_same(runs, noise, rung, net):
    checkpoint = runs[net.name].checkpoint
    if reason := wl.ladder.find(rung).unsupported(net, CONFIG):
        pytest.skip(reason)
    for layer in range(len(net.layers)):
        with layer_outputs(checkpoint, layer, rung) as outputs:
            assert close(
                outputs(noise.test_x, noise.scale), runs[net.name].features(noise.test_x, layer), 2 * (16 + 27)
            )


@pytest.mark.skipif(gpu.why_not() is None, reason="here the rung that trained can compute")
def test_weights_of_a_gpu_name_a_rung_that_can_compute_here(runs, noise):
    trained = replace(runs[MLP.name].checkpoint, rung="graph")
    with (
        pytest.raises(
            WarpladderError,
            match=r"^rung 'graph' cannot run .*; another rung computes the same from these weights: --rung native",
        ),
        extract(trained, 1, noise),
    ):
        pass
    with pytest.raises(WarpladderError, match="cannot run") as asked, extract(trained, 1, noise, "graph"):
        pass
    assert "another rung" not in str(asked.value), "who names a rung means it"
    with extract(trained, 1, noise, "numpy") as found:
        assert (np.concatenate(list(found.batches("test"))) == runs[MLP.name].features(noise.test_x, 1)).all()


def test_no_samples_have_no_features(runs, noise):
    assert runs[CNN.name].features(noise.test_x[:0], 2).shape == (0, 12)


def test_a_standardised_run_takes_samples_in_their_units():
    rng = np.random.default_rng(0)
    x = rng.normal(5000, 400, (60, 3)).astype(np.float32)
    table = wl.data.arrays(x, rng.integers(0, 2, 60), x[:9], rng.integers(0, 2, 9), standardize=True)
    net = Net("small", (3,), (Linear(out_features=4), Linear(out_features=2)), CrossEntropyLoss())
    run = wl.train(net, table, wl.TrainConfig(epochs=1))
    with extract(run.checkpoint, 0, table, "numpy") as source:
        assert (np.concatenate(list(source.batches("test"))) == run.features(x[:9], 0)).all()
    p, exact = run.params, x.astype(np.float64)
    standard = ((exact - exact.mean(axis=0)) / exact.std(axis=0))[:9]
    assert close(run.features(x[:9], 0), standard @ p["0.weight"].T + p["0.bias"], 16)


@pytest.mark.parametrize("layer", [-1, 4, 1.0, True, "1", None])
def test_a_layer_that_is_not_there(runs, noise, layer):
    with pytest.raises(ConfigError, match="has layers 0 to 3"):
        runs[MLP.name].features(noise.test_x, layer)


def test_a_layer_that_computes_before_any_weights(noise):
    net = Net("pooled", (1, 4, 4), (MaxPool2d(2), *MLP.layers), CrossEntropyLoss())
    run = wl.train(net, noise, replace(CONFIG, epochs=1))
    with pytest.raises(NetError, match="name layer 2 or a later one"):
        run.features(noise.test_x, 0)


def test_features_beyond_float32(runs, noise):
    checkpoint = runs[MLP.name].checkpoint
    wild = {name: np.full_like(array, 3e38) for name, array in checkpoint.params.items()}
    with pytest.raises(DataError, match="layer 1 gives inf"):
        wl.Model(replace(checkpoint, params=wild)).features(noise.test_x, 1)


# Files.


@pytest.fixture
def source(runs, noise):
    """The third layer of the convolutional net, in batches of 10: 53 training samples end in a batch of 3."""
    with extract(runs[CNN.name].checkpoint, 2, noise, "numpy") as opened:
        yield replace(opened, rows=10)


def test_a_file_holds_both_parts(runs, noise, source):
    told = []
    size = write_features(Path("f.safetensors"), source, report=lambda done, total: told.append((done, total)))
    assert size == Path("f.safetensors").stat().st_size and told[-1] == (66, 66) and len(told) == 6 + 2
    file = open_features(Path("f.safetensors"))
    file.check()
    assert file.parts == {"train": (53, 12), "test": (13, 12)}
    for part, x, y in (("train", noise.train_x, noise.train_y), ("test", noise.test_x, noise.test_y)):
        assert (np.concatenate(list(file.batches(part))) == runs[CNN.name].features(x, 2)).all()
        assert (file.labels[part] == y).all()
    assert file.document["layer"] == 2 and file.document["shape"] == [3, 2, 2] and file.document["kind"] == "MaxPool2d"


def test_others_read_the_file(source):
    from safetensors.numpy import load_file

    write_features(Path("f.safetensors"), source)
    assert {name: tensor.shape for name, tensor in load_file("f.safetensors").items()} == {
        "train_features": (53, 12), "train_labels": (53,), "test_features": (13, 12), "test_labels": (13,),
    }  # fmt: skip


def test_a_matrix_with_its_labels_beside_it(runs, noise, source):
    write_features(Path("x.npy"), source, ("test",))
    assert (np.load("x.npy") == runs[CNN.name].features(noise.test_x, 2)).all()
    assert (np.load("x.labels.npy") == noise.test_y).all()
    file = open_features(Path("x.npy"))
    assert file.parts == {"train": (13, 12)} and (file.labels["train"] == noise.test_y).all()


def test_a_table_reads_back_to_the_bit(runs, noise, source):
    named = replace(source, data=source.data.but(class_names=("a", 'b "c", d', "e")))
    write_features(Path("x.csv"), named, ("test",))
    import csv

    with open("x.csv", newline="", encoding="utf-8") as lines:
        head, *rows = list(csv.reader(lines))
    assert head == ["label", *(f"f{number}" for number in range(12))]
    assert [row[0] for row in rows] == [("a", 'b "c", d', "e")[label] for label in noise.test_y]
    assert (np.array([row[1:] for row in rows], np.float32) == runs[CNN.name].features(noise.test_x, 2)).all()


def test_features_are_never_all_in_memory(source):
    wide = np.ones((1000, 4096), np.float32)

    class Wide(Extraction):
        width = 4096

        def samples(self, part):
            return 20_000

        def labels(self, part):
            return None

        def batches(self, part):
            return (wide for _ in range(20))

    wider = Wide(source.checkpoint, source.layer, source.data, source.outputs, source.rows)
    tracemalloc.start()
    try:
        size = write_features(Path("f.safetensors"), wider, ("train",))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size > 20_000 * 4096 * 4
    assert most < 1 << 20


def stopped_after(source, batches, error):
    """The same features, with an error after so many batches."""

    class Stopping(Extraction):
        def batches(self, part):
            for number, batch in enumerate(super().batches(part)):
                if number == batches:
                    raise error
                yield batch

    return Stopping(source.checkpoint, source.layer, source.data, source.outputs, source.rows)


@pytest.mark.parametrize("name", ["f.safetensors", "x.npy", "x.csv"])
@pytest.mark.parametrize("there", [False, True])
def test_a_write_that_is_stopped_leaves_the_old_file_or_nothing(source, name, there):
    parts = ("train", "test") if name.endswith("safetensors") else ("train",)
    if there:
        write_features(Path(name), source, parts)
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    with pytest.raises(KeyboardInterrupt):
        write_features(Path(name), stopped_after(source, 3, KeyboardInterrupt()), parts)
    with pytest.raises(WarpladderError, match="could not be written: No space left on device"):
        write_features(Path(name), stopped_after(source, 3, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))), parts)
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


def test_a_full_disk_is_foreseen(source, monkeypatch):
    usage = shutil.disk_usage(".")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=3000))
    with pytest.raises(WarpladderError, match=r"features take 3\.17e-06 GB, and the disk has 3e-06 GB left"):
        write_features(Path("f.safetensors"), source)
    assert not list(Path().iterdir())


def test_a_damaged_file(source):
    path = Path("f.safetensors")
    write_features(path, source)
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    with pytest.raises(DataError, match="not a whole file of features"):
        open_features(path)
    flipped = bytearray(whole)
    flipped[-50] ^= 1
    path.write_bytes(flipped)
    with pytest.raises(DataError, match="is damaged: its numbers are not those that were written"):
        open_features(path).check()
    for content in (b"", b"\0" * 40, b"text", whole[:8] + b"[" * 60):
        path.write_bytes(content)
        with pytest.raises(DataError, match="not a whole file of features"):
            open_features(path)


def test_files_of_other_kinds(source, runs):
    save("c.safetensors", runs[CNN.name].checkpoint)
    np.save("cube.npy", np.zeros((2, 3, 4)))
    np.save("words.npy", np.array([["a"]]))
    np.save("objects.npy", np.array([[None]]), allow_pickle=True)
    Path("empty.npy").write_bytes(b"")
    np.save("few.npy", np.zeros((3, 2), np.float32))
    np.save("few.labels.npy", np.zeros(2, np.int32))
    Path("x.csv").write_text("label,f0\n1,2\n")
    Path("folder.npy").mkdir()
    for name, words in {
        "c.safetensors": "but none of features", "cube.npy": "a table of numbers", "words.npy": "a table of numbers",
        "objects.npy": "holds Python objects, which are never read", "empty.npy": "cannot be read as a .npy file", "few.npy": "one whole number each is wanted",
        "x.csv": "a table is for other programs", "x.txt": "end in .safetensors, .npy", "none.npy": "there is no such file", "folder.npy": "is a folder",
    }.items():  # fmt: skip
        with pytest.raises(DataError, match=words) as caught:
            open_features(Path(name))
        assert "\n" not in str(caught.value)


def test_a_file_of_a_later_version(source):
    write_features(Path("f.safetensors"), source)
    content = Path("f.safetensors").read_bytes().replace(rb"\"format\": 1", rb"\"format\": 9")
    Path("f.safetensors").write_bytes(content)
    with pytest.raises(DataError, match="of another version"):
        open_features(Path("f.safetensors"))


# The command.


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    digits = wl.data.load("digits", limit=100)
    wl.train("mlp10", digits, wl.TrainConfig(epochs=1)).save(folder / "mlp10.safetensors")
    return folder / "mlp10.safetensors"


def test_the_command_writes_what_python_gives(run, checkpoint):
    code, out, err = run("features", str(checkpoint), "--layer", "1", "--data", "digits", "-o", "f.safetensors")
    assert (code, err) == (0, "")
    assert "1,437 train and 360 test samples of 10 features" in out and "f.safetensors" in out
    file = open_features(Path("f.safetensors"))
    digits, trained = wl.data.load("digits"), wl.load(checkpoint)
    assert (np.concatenate(list(file.batches("test"))) == trained.features(digits.test_x, 1)).all()


def test_a_limit_takes_the_rows_that_training_takes(run, checkpoint):
    assert (
        run(
            "features",
            str(checkpoint),
            "--layer",
            "2",
            "--data",
            "digits",
            "--limit",
            "100",
            "--split",
            "train",
            "-o",
            "x.npy",
        )[0]
        == 0
    )
    assert (np.load("x.npy") == wl.load(checkpoint).features(wl.data.load("digits", limit=100).train_x, 2)).all()


def test_without_a_name_the_file_goes_below_runs(run, checkpoint):
    assert run("features", str(checkpoint), "--layer", "1", "--data", "digits", "--split", "test")[0] == 0
    (path,) = Path("runs").glob("mlp10-digits-layer1-*/features.safetensors")
    assert open_features(path).parts == {"test": (360, 10)}


WRONG = {
    "a layer that is not there": (["{c}", "--layer", "9"], "net 'mlp10' has layers 0 to 3, not 9"),
    "a layer that is no number": (["{c}", "--layer", "last"], "--layer"),
    "no layer": (["{c}"], "--layer"),
    "a checkpoint that is not there": (["none.safetensors", "--layer", "1"], "none.safetensors"),
    "a checkpoint that is none": (["text", "--layer", "1"], "text"),
    "data of another shape": (
        ["{c}", "--layer", "1", "--data", "csv", "--data-dir", "tiny"],
        "takes samples of shape (1, 8, 8)",
    ),
    "a file that is there": (["{c}", "--layer", "1", "-o", "there.safetensors"], "insist with --overwrite"),
    "labels that are there": (
        ["{c}", "--layer", "1", "--split", "test", "-o", "y.npy"],
        "y.labels.npy: is there already",
    ),
    "the checkpoint itself": (["{c}", "--layer", "1", "-o", "{c}", "--overwrite"], "is what the command works with"),
    "an unknown ending": (
        ["{c}", "--layer", "1", "-o", "f.txt"],
        "f.txt: features are written to files in .safetensors, .npy or .csv",
    ),
    "two parts for one": (["{c}", "--layer", "1", "-o", "f.npy"], "name it with --split train or --split test"),
    "no folder": (["{c}", "--layer", "1", "-o", "nowhere/f.safetensors"], "there is no folder nowhere"),
    "an unknown rung": (["{c}", "--layer", "1", "--rung", "elevator"], "there is no rung 'elevator'"),
    "a rung that cannot": (["{c}", "--layer", "2", "--rung", "sklearn"], "MLPClassifier cannot express"),
    "a limit above the rows": (["{c}", "--layer", "1", "--limit", "99999"], "limit"),
}


@pytest.mark.parametrize(("arguments", "words"), WRONG.values(), ids=WRONG)
def test_wrong_input_is_one_line_and_code_2(run, checkpoint, arguments, words):
    for name in ("there.safetensors", "y.labels.npy"):
        Path(name).write_text("mine")
    Path("text").write_text("not a checkpoint")
    Path("tiny").mkdir()
    for part in ("train", "test"):
        Path(f"tiny/{part}.csv").write_text("label,a,b\n1,0,9\n0,7,0\n")
    data = [] if "--data" in arguments else ["--data", "digits"]
    code, _, err = run("features", *(each.format(c=checkpoint) for each in arguments), *data)
    assert code == 2 and err.startswith("warpladder: ") and err.count("\n") == 1, err
    assert words in err
    assert Path("there.safetensors").read_text() == "mine" and not list(Path().glob("**/.*"))
    assert not [path for path in Path("runs").rglob("*") if path.is_file()]


def test_overwrite_replaces(run, checkpoint):
    Path("f.safetensors").write_text("mine")
    assert (
        run("features", str(checkpoint), "--layer", "1", "--data", "digits", "-o", "f.safetensors", "--overwrite")[0]
        == 0
    )
    assert json.loads(json.dumps(open_features(Path("f.safetensors")).document))["net"] == "mlp10"


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_nothing(checkpoint, signum, code):
    body = (
        "import os, sys; import warpladder.appendix.features.extraction as e; from warpladder.cli import main\n"
        f"def stop(self, part): os.kill(os.getpid(), {int(signum)}); yield from ()\n"
        "e.Extraction.batches = stop\n"
        f"sys.exit(main(['features', {str(checkpoint)!r}, '--layer', '1', '--data', 'digits']))"
    )
    done = subprocess.run([sys.executable, "-c", body], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert not [path for path in Path().rglob("*") if path.is_file()]
