"""Damaged .npy files are an error of one line, whatever NumPy raises."""

from __future__ import annotations

import io
import random

import numpy as np
import pytest

from warpladder.files.npy import map_npy, read_npy


def test_damaged_files_are_one_kind_of_error(tmp_path):
    buffer = io.BytesIO()
    np.save(buffer, np.arange(600, dtype=np.float32).reshape(100, 6))
    whole, path, rng = buffer.getvalue(), tmp_path / "x.npy", random.Random(1)
    path.write_bytes(whole)
    for read in (read_npy, map_npy):
        assert read(path).shape == (100, 6) and float(read(path)[99, 5]) == 599
    damaged = [whole[: rng.randrange(len(whole))] for _ in range(100)]
    damaged += [bytes(rng.choice(whole[:128]) for _ in range(128)) for _ in range(50)]
    damaged += [whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :] for at in range(128)]
    failed = 0
    for content in damaged:
        path.write_bytes(content)
        for read in (read_npy, map_npy):
            try:
                read(path)
            except ValueError as error:
                assert "\n" not in str(error)
                failed += 1
    assert failed > len(damaged)
    with pytest.raises(OSError, match="No such file"):
        read_npy(tmp_path / "none.npy")
