"""Files at hand: formats, layouts, and one clear line for everything that can be wrong with them."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
from mnist_files import RAW, ZIPPED, idx, write_mnist

from warpladder.data import Dataset, cifar10, load, mnist, reader
from warpladder.errors import ArgumentError, DataError

HTML = b"<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head></html>\n"


def refusal(name: str, folder: Path) -> str:
    """The message with which a folder is refused: one line that names a path in it."""
    with pytest.raises(DataError) as caught:
        load(name, data_dir=folder)
    message = str(caught.value)
    assert "\n" not in message and str(folder) in message
    return message


LAYOUTS = [
    (set_name, folder, pack, end, dot)
    for set_name, folders in (
        ("mnist", (".", "mnist", "MNIST/raw", "raw")),
        ("fashion", (".", "fashion", "FashionMNIST/raw", "fashion-mnist")),
    )
    for folder in folders
    for pack, end, dot in (
        (RAW, "", False),
        (ZIPPED, ".gz", False),
        (RAW, "", True),
        (ZIPPED, "", False),
        (RAW, ".gz", True),
    )
]


@pytest.mark.parametrize(("set_name", "folder", "pack", "end", "dot"), LAYOUTS)
def test_every_layout_of_mnist_and_fashion_is_found(tmp_path, set_name, folder, pack, end, dot):
    x, y = write_mnist(tmp_path / folder, pack, end, dot)
    data = load(set_name, data_dir=tmp_path)
    assert data.name == set_name
    assert np.array_equal(data.train_x, x[:, None]) and data.train_x.dtype == np.uint8
    assert data.train_y is not None and np.array_equal(data.train_y, y) and data.train_y.dtype == np.int32
    assert data.test_x.shape == (8, 1, 28, 28) and data.scale == 1 / 255


def test_a_set_in_its_own_folder_comes_before_a_flat_one(tmp_path):
    write_mnist(tmp_path, seed=1)
    x, _ = write_mnist(tmp_path / "fashion", seed=2)
    assert np.array_equal(load("fashion", data_dir=tmp_path).train_x[:, 0], x)


def test_files_inside_folders_of_their_own_names_are_found(tmp_path):
    x, _ = write_mnist(tmp_path / "flat")
    for path in (tmp_path / "flat").iterdir():
        (tmp_path / "mnist" / path.name).mkdir(parents=True)
        path.rename(tmp_path / "mnist" / path.name / path.name)
    assert np.array_equal(load("mnist", data_dir=tmp_path).train_x[:, 0], x)


def test_the_variable_names_a_folder(tmp_path, monkeypatch):
    x, _ = write_mnist(tmp_path / "mnist")
    monkeypatch.setenv("WARPLADDER_DATA", str(tmp_path))
    assert np.array_equal(load("mnist").train_x[:, 0], x)


def test_data_dir_comes_before_the_variable(tmp_path, monkeypatch):
    write_mnist(tmp_path / "a", seed=1)
    x, _ = write_mnist(tmp_path / "b", seed=2)
    monkeypatch.setenv("WARPLADDER_DATA", str(tmp_path / "a"))
    assert np.array_equal(load("mnist", data_dir=tmp_path / "b").train_x[:, 0], x)


def test_one_set_is_not_taken_for_another_of_the_same_file_names(tmp_path, monkeypatch):
    import hashlib

    _, y = write_mnist(tmp_path)
    monkeypatch.setitem(mnist._LABELS, "mnist", hashlib.sha256(y.tobytes()).hexdigest())
    load("mnist", data_dir=tmp_path)
    assert "labels of mnist, not of fashion" in refusal("fashion", tmp_path)


# What can be wrong with a file. Each line: what it holds, and what the message must say.

IMAGES = idx(np.zeros((30, 28, 28), np.uint8))
LABELS = idx(np.zeros(30, np.uint8))
ZIP = gzip.compress(IMAGES)
TWO_MEMBERS = gzip.compress(IMAGES[:1000]) + gzip.compress(IMAGES[1000:])

BAD_IMAGES = {
    "empty": (b"", "is empty"),
    "empty gzip": (gzip.compress(b""), "is empty"),
    "html": (HTML, "looks like an HTML page"),
    "html, zipped": (gzip.compress(HTML), "looks like an HTML page"),
    "text": (b"not found\n", "looks like plain text"),
    "labels": (LABELS, "an IDX file of labels where an IDX file of images is wanted"),
    "zip archive": (b"PK\x03\x04" + bytes(100), "a zip archive (unpack it first)"),
    "pickle": (pickle.dumps([1, 2, 3]), "pickle (these are never loaded)"),
    "npy": (b"\x93NUMPY\x01\0" + bytes(100), "a NumPy array file"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    "zipped twice": (gzip.compress(ZIP), "compressed twice"),
    "floats": (b"\0\0\x0d\x03" + IMAGES[4:], "32-bit floats"),
    "matrix": (b"\0\0\x08\x02" + IMAGES[4:], "an array of 2 dimensions"),
    "noise": (b"\xde\xad\xbe\xef" * 9, "starts with de ad be ef"),
    "header cut off": (IMAGES[:9], "ends inside its header"),
    "cut off": (IMAGES[:-1], "says 30 x 28 x 28, 23,520 bytes, but 23,519 follow"),
    "too long": (IMAGES + b"\0", "but more follow"),
    "count too high": (IMAGES[:7] + b"\x1f" + IMAGES[8:], "31 x 28 x 28"),
    "count too low": (IMAGES[:7] + b"\x1d" + IMAGES[8:], "29 x 28 x 28"),
    "huge count": (IMAGES[:4] + b"\xff" * 12, "which no data set here has"),
    "no images": (IMAGES[:4] + bytes(4) + IMAGES[8:16], "holds no images"),
    "truncated gzip": (ZIP[:-20], "truncated gzip"),
    "gzip without its end": (ZIP[:-4], "truncated gzip"),
    "gzip of two bytes": (ZIP[:2], "truncated gzip"),
    "damaged gzip": (ZIP[:30] + bytes(20) + ZIP[50:], "damaged gzip"),
    "wrong sum in gzip": (ZIP[:-8] + bytes(4) + ZIP[-4:], "damaged gzip"),
    "garbage after gzip": (ZIP + b"garbage", "damaged gzip"),
}


@pytest.mark.parametrize("case", BAD_IMAGES)
def test_bad_image_files_are_named(tmp_path, case):
    content, words = BAD_IMAGES[case]
    write_mnist(tmp_path)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(content)
    message = refusal("mnist", tmp_path)
    assert words in message and "train-images-idx3-ubyte" in message


BAD_LABELS = {
    "images": (IMAGES, "an IDX file of images where an IDX file of labels is wanted"),
    "out of range": (LABELS[:20] + b"\x0a" + LABELS[21:], "label 10 at position 12 is out of range: labels are 0 to 9"),
    "fewer": (idx(np.zeros(29, np.uint8)), "has 30 images, but"),
    "cut off": (LABELS[:-1], "says 30, 30 bytes, but 29 follow"),
}


@pytest.mark.parametrize("case", BAD_LABELS)
def test_bad_label_files_are_named(tmp_path, case):
    content, words = BAD_LABELS[case]
    write_mnist(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(content)
    message = refusal("mnist", tmp_path)
    assert words in message and "train-labels-idx1-ubyte" in message


def test_gzip_of_several_members_is_read_whole(tmp_path):
    write_mnist(tmp_path)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(TWO_MEMBERS)
    assert load("mnist", data_dir=tmp_path).train_x.shape == (30, 1, 28, 28)


def test_training_and_test_images_of_different_sizes_are_refused(tmp_path):
    write_mnist(tmp_path)
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(idx(np.zeros((8, 8, 8), np.uint8)))
    with pytest.raises(DataError, match=r"test samples have shape \(1, 8, 8\)"):
        load("mnist", data_dir=tmp_path)


def test_a_directory_in_place_of_a_file(tmp_path):
    write_mnist(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").unlink()
    (tmp_path / "train-labels-idx1-ubyte").mkdir()
    assert "is a directory where a file is wanted" in refusal("mnist", tmp_path)


def test_a_pipe_in_place_of_a_file_does_not_hang(tmp_path):
    write_mnist(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").unlink()
    os.mkfifo(tmp_path / "train-labels-idx1-ubyte")
    assert "is not a regular file" in refusal("mnist", tmp_path)


def test_permission_denied(tmp_path, monkeypatch):
    write_mnist(tmp_path)

    def refuse(path, *args, **kwargs):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(reader, "open", refuse, raising=False)  # a superuser may read whatever its mode
    assert "cannot be opened (Permission denied)" in refusal("mnist", tmp_path)


def test_a_disk_that_fails_while_reading(tmp_path):
    class Broken(io.BytesIO):
        def read(self, count=-1):
            if count > 2:
                raise OSError(5, "Input/output error")
            return super().read(count)

    with pytest.raises(DataError, match=r"disk: cannot be read \(Input/output error\)"):
        reader.Reader(Broken(b"0123456789"), "disk").rest()


def test_a_folder_without_the_set_says_what_is_wanted(tmp_path):
    message = refusal("mnist", tmp_path)
    assert "train-images-idx3-ubyte" in message and "MNIST/raw" in message


def test_a_part_of_a_set_says_what_is_missing(tmp_path):
    write_mnist(tmp_path / "mnist")
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte").unlink()
    assert "t10k-labels-idx1-ubyte (plain or .gz) is missing" in refusal("mnist", tmp_path)


def test_a_folder_that_does_not_exist_or_is_a_file(tmp_path, monkeypatch):
    assert "does not exist: --data-dir wants" in refusal("mnist", tmp_path / "nowhere")
    (tmp_path / "file").write_bytes(b"")
    assert "is a file, not a folder" in refusal("mnist", tmp_path / "file")
    monkeypatch.setenv("WARPLADDER_DATA", str(tmp_path / "typo"))
    with pytest.raises(DataError, match="typo: does not exist: WARPLADDER_DATA wants"):
        load("mnist")


def test_a_gzip_bomb_is_stopped(tmp_path):
    bomb = tmp_path / "bomb"
    bomb.write_bytes(gzip.compress(bytes(5_000_000)))
    with (
        reader.opened(bomb, limit=1_000_000) as source,
        pytest.raises(DataError, match="unpacks to more than 1,000,000 bytes"),
    ):
        source.rest()


def test_peeking_takes_nothing_away():
    source = reader.from_bytes(b"abcdefgh")
    assert source.peek(3) == b"abc" and source.read(2) == b"ab" and source.read(2) == b"cd"
    assert source.peek(10) == b"efgh" and bytes(source.rest()) == b"efgh" and source.read(1) == b""


# CIFAR-10


def batch(number: int, records: int = 4) -> bytes:
    rng = np.random.default_rng(number)
    return b"".join(bytes([(number + i) % 10]) + rng.bytes(3072) for i in range(records))


BATCHES = {name: batch(number) for number, name in enumerate((*cifar10.TRAIN, cifar10.TEST))}


def archive(files: dict[str, bytes], prefix: str = "cifar-10-batches-bin/") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(prefix + name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


def check_cifar(data: Dataset) -> None:
    assert data.train_y is not None and data.test_y is not None
    assert data.train_x.shape == (20, 3, 32, 32) and data.test_x.shape == (4, 3, 32, 32)
    stored = np.concatenate([np.frombuffer(BATCHES[name], np.uint8).reshape(-1, 3073) for name in cifar10.TRAIN])
    assert np.array_equal(data.train_x.reshape(20, -1), stored[:, 1:]) and np.array_equal(data.train_y, stored[:, 0])
    test = np.frombuffer(BATCHES[cifar10.TEST], np.uint8).reshape(-1, 3073)
    assert np.array_equal(data.test_x.reshape(4, -1), test[:, 1:]) and np.array_equal(data.test_y, test[:, 0])
    assert data.train_x.dtype == np.uint8 and data.train_y.dtype == np.int32 and data.scale == 1 / 255


@pytest.mark.parametrize("folder", [".", "cifar10", "cifar-10-batches-bin", "cifar10/cifar-10-batches-bin"])
@pytest.mark.parametrize(("pack", "end"), [(RAW, ""), (ZIPPED, ".gz")])
def test_every_layout_of_cifar10_is_found(tmp_path, folder, pack, end):
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    for name, content in BATCHES.items():
        (tmp_path / folder / (name + end)).write_bytes(pack(content))
    check_cifar(load("cifar10", data_dir=tmp_path))


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("unzip", [False, True])
def test_the_archive_of_cifar10_is_read_without_unpacking(tmp_path, order, unzip):
    content = archive(dict([("batches.meta.txt", b"airplane\n"), *list(BATCHES.items())[::order]]))
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(gzip.decompress(content) if unzip else content)
    check_cifar(load("cifar10", data_dir=tmp_path))
    assert os.listdir(tmp_path) == ["cifar-10-binary.tar.gz"]


def test_batches_come_before_the_archive_and_the_archive_before_a_part_of_them(tmp_path):
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(b"damaged")
    for name, content in BATCHES.items():
        (tmp_path / name).write_bytes(content)
    check_cifar(load("cifar10", data_dir=tmp_path))
    (tmp_path / "data_batch_2.bin").unlink()
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(archive(BATCHES))
    check_cifar(load("cifar10", data_dir=tmp_path))
    (tmp_path / "cifar-10-binary.tar.gz").unlink()
    assert "data_batch_2.bin (plain or .gz) is missing" in refusal("cifar10", tmp_path)


def test_an_archive_cannot_write_outside(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "cifar-10-binary.tar.gz").write_bytes(archive(BATCHES, prefix="../../"))
    check_cifar(load("cifar10", data_dir=folder))
    assert os.listdir(tmp_path) == ["data"] and os.listdir(folder) == ["cifar-10-binary.tar.gz"]


def test_links_in_an_archive_are_not_followed(tmp_path):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        link = tarfile.TarInfo("cifar-10-batches-bin/data_batch_1.bin")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(out.getvalue())
    assert "does not hold data_batch_1.bin" in refusal("cifar10", tmp_path)


def test_sizes_that_lie_in_an_archive_are_refused_at_once():
    plain = bytearray(gzip.decompress(archive(BATCHES)))
    for claim in (b"77777777777\0", b"\x80\0\0\0" + b"\x7f" * 8):
        plain[124:136] = claim
        plain[148:156] = b" " * 8
        plain[148:156] = b"%06o\0 " % sum(plain[:512])
        with pytest.raises(DataError, match="claims"):
            cifar10.archived_batches(reader.from_bytes(bytes(plain)))


GOOD_ARCHIVE = archive(BATCHES)
BAD_ARCHIVES = {
    "empty": (b"", "is empty"),
    "html": (HTML, "it looks like an HTML page"),
    "cut off": (GOOD_ARCHIVE[:-5000], "truncated gzip"),
    "tar cut off": (gzip.decompress(GOOD_ARCHIVE)[:5000], "damaged or cut off"),
    "batch missing": (archive({k: v for k, v in BATCHES.items() if "3" not in k}), "does not hold data_batch_3.bin"),
    "batch cut off": (
        archive(BATCHES | {cifar10.TEST: BATCHES[cifar10.TEST][:-1]}),
        "test_batch.bin: 12,291 bytes are not whole records",
    ),
}


@pytest.mark.parametrize("case", BAD_ARCHIVES)
def test_bad_archives_are_named(tmp_path, case):
    content, words = BAD_ARCHIVES[case]
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(content)
    assert words in refusal("cifar10", tmp_path)


BAD_BATCHES = {
    "empty": (b"", "is empty"),
    "cut off": (BATCHES[cifar10.TEST][:-1], "12,291 bytes are not whole records of 3,073"),
    "label": (b"\x0a" + BATCHES[cifar10.TEST][1:], "label 10 of record 0 is out of range"),
    "cifar-100": (bytes(3074 * 2), "this is CIFAR-100"),
    "pickle": (pickle.dumps({"data": [1]}), "a Python pickle"),
    "html": (HTML, "an HTML page"),
}


@pytest.mark.parametrize("case", BAD_BATCHES)
def test_bad_batches_are_named(tmp_path, case):
    content, words = BAD_BATCHES[case]
    for name, good in BATCHES.items():
        (tmp_path / name).write_bytes(good)
    (tmp_path / cifar10.TEST).write_bytes(content)
    message = refusal("cifar10", tmp_path)
    assert words in message and cifar10.TEST in message


def test_the_pickled_version_of_cifar10_is_never_read(tmp_path):
    (tmp_path / "cifar-10-batches-py").mkdir()
    message = refusal("cifar10", tmp_path)
    assert "a pickle, which is never loaded" in message and "cifar-10-binary.tar.gz" in message


@pytest.mark.parametrize("folder", [3, b"/tmp", ["/tmp"]])
def test_what_names_no_folder_is_a_sentence(folder):
    with pytest.raises(ArgumentError, match="data_dir wants the path of a folder, got "):
        load("mnist", data_dir=folder)
