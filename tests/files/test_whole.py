"""A file is read whole; a device, which may have no end, and what git keeps in a large file's place are refused in one
line by every reader of a user's file.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from warpladder.appendix.features.read import open_features
from warpladder.appendix.reproduce.definition import definition
from warpladder.checker import description
from warpladder.checkpoint import file as checkpoint_file
from warpladder.data import load as load_data
from warpladder.data.folders import read_images
from warpladder.data.npz import read_samples
from warpladder.device import source
from warpladder.errors import WarpladderError
from warpladder.files.python import run_file
from warpladder.files.whole import POINTER, read_whole
from warpladder.nets.file import load_net
from warpladder.programs import sources
from warpladder.results import load


def test_files_and_pipes_are_read(tmp_path):
    path, pipe = tmp_path / "a", tmp_path / "pipe"
    path.write_bytes(b"abc")
    os.mkfifo(pipe)
    threading.Thread(target=lambda: pipe.write_bytes(b"def")).start()
    assert (read_whole(path), read_whole(pipe)) == (b"abc", b"def")


@pytest.mark.parametrize("reader", [checkpoint_file.read, load, sources.read, source.read])
def test_a_device_is_refused(reader):
    with pytest.raises(WarpladderError, match=r"/dev/zero.* is a device, where a file is wanted"):
        reader(Path("/dev/zero"))


READERS = {
    "a.safetensors": (checkpoint_file.read, open_features),
    "a.npy": (open_features, read_samples),
    "a.npz": (load_data, read_samples),
    "a.csv": (lambda path: load_data(path, label="y"),),
    "a.json": (load,),
    "a.cu": (sources.read, source.read),
    "a.py": (lambda path: run_file(path, WarpladderError), load_data, load_net),
    "a.toml": (description.read, load_net, lambda path: definition(str(path))),
    "a.png": (lambda path: read_images(path, (1, 8, 8)),),
    "cifar-10-binary.tar.gz": (lambda path: load_data("cifar10", data_dir=path.parent),),
}


@pytest.mark.parametrize(("name", "reader"), [(name, reader) for name, readers in READERS.items() for reader in readers])  # fmt: skip
def test_a_pointer_of_git_lfs_is_named(name, reader, tmp_path):
    path = tmp_path / name
    path.write_bytes(POINTER + b".github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
    with pytest.raises(WarpladderError, match=f"{path}'?:? .*a Git LFS pointer.*run:? git lfs pull") as raised:
        reader(path)
    assert "\n" not in str(raised.value)
