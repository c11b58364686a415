"""Files of other programs, wherever a checkpoint is wanted: named for what they are, with what to do."""

import gzip
import io
import json
import pickle
import tarfile
import zipfile

import numpy as np
import pytest

import warpladder as wl
from warpladder.checkpoint.foreign import what_it_is
from warpladder.errors import CheckpointError

NET = wl.nets.softmax((1, 8, 8), 10)


def archive(**members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name, content in members.items():
            made.writestr(name.replace("__", "/"), content)
    return file.getvalue()


def saved(write, *what):
    file = io.BytesIO()
    write(file, *what)
    return file.getvalue()


def tar():
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as made:
        made.addfile(tarfile.TarInfo("weights"))
    return file.getvalue()


WEIGHTS = np.zeros((10, 64), np.float32)
FILES = {
    "torch.save": (lambda: archive(**{"model__data.pkl": b"\x80\x02", "model__version": b"3"}), "is a file of torch.save, a pickle"),
    "joblib": (lambda: pickle.dumps({"weights": WEIGHTS}), "is a pickle, which can run anything when it is read: write safetensors.torch.save_file"),
    "old pickle": (lambda: pickle.dumps(WEIGHTS, 2), "is a pickle"),
    "HDF5": (lambda: b"\x89HDF\r\n\x1a\n" + bytes(90), "is an HDF5 file, as Keras writes: give their arrays by name to wl.train(weights=...)"),
    "Keras": (lambda: archive(**{"metadata.json": b"{}", "model.weights.h5": b"\x89HDF"}), "is a Keras archive: give their arrays"),
    "npz": (lambda: saved(lambda file, x: np.savez(file, w=x), WEIGHTS), "is a NumPy .npz archive: give their arrays by name"),
    "npy": (lambda: saved(np.save, WEIGHTS), "is a NumPy .npy file with a single array"),
    "ONNX": (lambda: b"\x08\x08\x12\x07pytorch\x1a\x052.1.0" + bytes(99), "is an ONNX file: give their arrays"),
    "LFS": (lambda: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n", "is a Git LFS pointer, not the file itself: run git lfs pull"),
    "HTML": (lambda: b"<!DOCTYPE html>\n<html><body>Not found</body></html>", "is an HTML page, perhaps an error page saved under this name"),
    "index": (lambda: json.dumps({"metadata": {}, "weight_map": {"a": "b.safetensors"}}).encode(), "is an index of a checkpoint in several files"),
    "JSON": (lambda: b'{"a": 1}', "is JSON text, which holds no weights"),
    "zip": (lambda: archive(readme=b"x"), "is a zip archive: unpack it first"),
    "gzip": (lambda: gzip.compress(b"x"), "is gzip data: unpack it first"),
    "tar": (tar, "is a tar archive: unpack it first"),
    "text": (lambda: b"1.0 2.0 3.0\n" * 9, "is plain text, which holds no weights"),
    "empty": (lambda: b"", "is an empty file"),
}  # fmt: skip


@pytest.mark.parametrize("kind", FILES)
def test_a_foreign_file_is_named_wherever_a_checkpoint_is_wanted(kind, tmp_path):
    make, said = FILES[kind]
    file = tmp_path / "given.safetensors"
    file.write_bytes(make())
    data = wl.data.load("digits", limit=32)
    for use in (
        lambda: wl.load(file),
        lambda: wl.train(NET, data, resume=file),
        lambda: wl.train(NET, data, weights=file),
    ):
        with pytest.raises(CheckpointError) as raised:
            use()
        line = str(raised.value)
        assert line.startswith(f"'{file}' {said}") and "\n" not in line


@pytest.mark.parametrize("command", [["evaluate", "--data", "digits"], ["predict", "x.csv"], ["train", "--data", "digits", "--from"]])  # fmt: skip
def test_commands_name_it_too(command, tmp_path, run):
    file = tmp_path / "model.h5"
    file.write_bytes(FILES["HDF5"][0]())
    name, *rest = command
    words = ["train", "mlp", *rest, str(file)] if name == "train" else [name, str(file), *rest]
    code, out, err = run(*words)
    assert (code, out) == (2, "") and err.count("\n") == 1
    assert "model.h5' is an HDF5 file" in err


def test_what_is_safetensors_or_unknown_is_not_named(tmp_path):
    wl.train(NET, wl.data.load("digits", limit=32), wl.TrainConfig(epochs=0)).save(tmp_path / "a.safetensors")
    whole = (tmp_path / "a.safetensors").read_bytes()
    assert what_it_is(whole) is what_it_is(whole[:-9]) is what_it_is(bytes(range(128, 250))) is None
    begins_as_a_pickle = b"\x80\x02" + bytes(6) + b"{" + whole[9:]
    assert what_it_is(begins_as_a_pickle) is None
