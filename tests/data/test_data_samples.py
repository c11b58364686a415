"""`load_samples`: what `predict` reads."""

import gzip
import struct

import numpy as np
import pytest

from warpladder.data.samples import load_samples
from warpladder.errors import DataError

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 4, 3), np.uint8)
IDX = struct.pack(">4I", 0x803, 5, 4, 3) + IMAGES.tobytes()


def table(*columns, header=None):
    rows = np.concatenate([np.asarray(c).reshape(5, -1) for c in columns], axis=1)
    lines = [",".join(map(str, row)) for row in rows.tolist()]
    return "\n".join([*([header] if header else []), *lines]).encode() + b"\n"


HEADER = ",".join(f"pixel{i}" for i in range(12))


@pytest.mark.parametrize(
    "content",
    [
        IDX,
        gzip.compress(IDX),
        table(IMAGES),
        table(IMAGES, header=HEADER),
        table(range(5), IMAGES),
        table(range(5), IMAGES, header="label," + HEADER),
        gzip.compress(table(IMAGES)),
    ],
    ids=["idx", "idx.gz", "table", "header", "label", "label and header", "table.gz"],
)
@pytest.mark.parametrize("shape", [(1, 4, 3), (12,)])
def test_content_decides_what_a_file_is(tmp_path, content, shape):
    (tmp_path / "input").write_bytes(content)
    x = load_samples(tmp_path / "input", shape)
    assert x.dtype == np.uint8
    assert x.shape == (5, *shape)
    assert np.array_equal(x.reshape(5, 12), IMAGES.reshape(5, 12))


def test_a_cifar_batch_is_read_without_its_labels(tmp_path):
    pixels = np.random.default_rng(1).integers(0, 256, (3, 3072), np.uint8)
    (tmp_path / "test_batch.bin").write_bytes(np.concatenate([np.full((3, 1), 7, np.uint8), pixels], axis=1).tobytes())
    x = load_samples(tmp_path / "test_batch.bin", (3, 32, 32))
    assert np.array_equal(x.reshape(3, 3072), pixels)


@pytest.mark.parametrize(
    ("content", "shape", "words"),
    [
        (IDX, (1, 3, 4), "holds samples of 4 x 3 pixels, the net takes 1 x 3 x 4"),
        (IDX, (3, 4, 3), "holds samples of 4 x 3 pixels"),
        (IDX[:-1], (1, 4, 3), "cut off"),
        (table(IMAGES), (1, 3, 3), "holds samples of 12 pixels"),
        (table(range(5), IMAGES, header="row," + HEADER), (1, 4, 3), "not the label"),
        (b"", (1, 4, 3), "empty"),
        (b"<!doctype html><html>", (1, 4, 3), "HTML"),
        (b"\x93NUMPY", (1, 4, 3), "NumPy"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, content, shape, words):
    (tmp_path / "input").write_bytes(content)
    with pytest.raises(DataError, match=words) as caught:
        load_samples(tmp_path / "input", shape)
    assert str(tmp_path / "input") in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"nothing.csv: cannot be opened"):
        load_samples(tmp_path / "nothing.csv", (12,))
