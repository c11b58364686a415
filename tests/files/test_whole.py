"""A file is read whole, and a device, which may have no end, is refused in one line by every reader of a user's file."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from warpladder.checkpoint import file as checkpoint_file
from warpladder.device import source
from warpladder.errors import WarpladderError
from warpladder.files.whole import read_whole
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
