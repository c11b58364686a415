"""Downloads as they lie: .npz files, folders of images, archives that were not unpacked."""

from __future__ import annotations

import re
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mnist_files import ZIPPED, write_mnist

from warpladder.data import cifar10, load
from warpladder.errors import DataError

Image = pytest.importorskip("PIL.Image")
RNG = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(6, 5), (6, 5, 3), (6, 5, 1), (4,)])
def test_an_npz_file(tmp_path, shape):
    x, y = RNG.integers(0, 256, (9, *shape), np.uint8), np.arange(9) % 3
    np.savez(tmp_path / "m.npz", x_train=x, y_train=y, x_test=x[:4], y_test=y[:4])
    data = load(str(tmp_path / "m.npz"), validation=2)
    assert data.valid_x is not None and (len(data.train_x), len(data.valid_x), len(data.test_x)) == (7, 2, 4)
    assert data.in_shape == {1: shape, 2: (1, *shape)}.get(len(shape), (shape[-1], *shape[:2]))
    assert data.test_y is not None and data.test_y.tolist() == y[:4].tolist()


def test_npz_files_that_cannot_be(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.zeros((2, 2)), y=np.zeros(2))
    with pytest.raises(DataError, match="lacks x_train, y_train, x_test, and holds 'x, y': name the arrays"):
        load(str(tmp_path / "a.npz"))
    np.savez(tmp_path / "p.npz", x_train=np.array([{}], object), y_train=[0], x_test=[0])
    with pytest.raises(DataError, match=r"p\.npz: holds Python objects, which are never read"):
        load(str(tmp_path / "p.npz"))
    (tmp_path / "d.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:60])
    with pytest.raises(DataError, match=r"d\.npz: cannot be read"):
        load(str(tmp_path / "d.npz"))
    with pytest.raises(DataError, match="loaded by its path alone"):
        load(str(tmp_path / "a.npz"), shape=(2,))


@pytest.mark.parametrize("part", ["valid", "val", "validation"])
def test_an_npz_file_has_a_validation_part_by_any_of_its_names(tmp_path, part):
    x, y = RNG.normal(size=(9, 4)), np.arange(9) % 3
    arrays: dict[str, Any] = {
        "x_train": x,
        "y_train": y,
        "x_test": x[:4],
        "y_test": y[:4],
        f"x_{part}": x[:5],
        f"y_{part}": y[:5],
    }
    np.savez(tmp_path / "m.npz", **arrays)
    data = load(str(tmp_path / "m.npz"))
    assert data.valid_x is not None and data.valid_y is not None
    assert len(data.valid_x) == 5 and data.valid_y.tolist() == y[:5].tolist()


def test_what_else_an_npz_file_holds_is_named(tmp_path):
    x, y = RNG.normal(size=(9, 4)), np.arange(9) % 3
    parts: dict[str, Any] = {"x_train": x, "y_train": y, "x_test": x[:4], "y_test": y[:4]}
    np.savez(tmp_path / "m.npz", **parts, sample_weight=np.ones(9))
    with pytest.warns(UserWarning, match=r"m\.npz: 'sample_weight': no part of a data set has such a name"):
        load(str(tmp_path / "m.npz"))
    np.savez(tmp_path / "o.npz", **parts | {"x_train": x.astype(object)})
    with pytest.raises(DataError, match=r"o\.npz: holds Python objects, which are never read: store numbers or names"):
        load(str(tmp_path / "o.npz"))


def images(folder, count, size=(5, 4), mode="RGB"):
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            pixels = RNG.integers(0, 256, (size[1], size[0], *([3] if mode == "RGB" else [])), np.uint8)
            Image.fromarray(pixels, mode).save(folder / name / f"{number:02}.png")


@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_a_folder_of_images_for_each_class(tmp_path, mode):
    images(tmp_path / "pets", 10, mode=mode)
    data = load(str(tmp_path / "pets"))
    assert data.class_names == ("cat", "dog") and data.in_shape == (3 if mode == "RGB" else 1, 4, 5)
    assert data.train_y is not None and data.test_y is not None
    assert np.bincount(data.train_y).tolist() == [8, 8] and np.bincount(data.test_y).tolist() == [2, 2]
    first = np.asarray(Image.open(tmp_path / "pets" / "cat" / "00.png")).reshape(4, 5, -1).transpose(2, 0, 1)
    assert any(np.array_equal(first, x) for x in (*data.train_x, *data.test_x))


def test_images_are_predicted_by_their_files(tmp_path, run):
    images(tmp_path / "pets", 5)
    place, kept = tmp_path / "pets", tmp_path / "pets.safetensors"
    assert run("train", "softmax", "--data", str(place), "--epochs", "1", "--checkpoint", str(kept))[0] == 0
    one, all_of = run("predict", str(kept), str(place / "dog" / "03.png")), run("predict", str(kept), str(place))
    lines = [line.split(",") for line in all_of[1].splitlines()]
    assert [name for name, _ in lines] == [f"{kind}/{n:02}.png" for kind in ("cat", "dog") for n in range(5)]
    assert one[1].strip() == dict(lines)["dog/03.png"] and {label for _, label in lines} <= {"cat", "dog"}
    code, out, _ = run("predict", str(kept), str(place / "cat"), "--proba")
    assert code == 0 and out.startswith("file,cat,dog\n00.png,") and out.count("\n") == 6
    images(tmp_path / "odd", 1, size=(7, 4))
    for path, words in (
        (tmp_path / "odd", "00.png: is 7 x 4 pixels in colour, the net takes 5 x 4"),
        (tmp_path / "no", "no"),
    ):
        path.mkdir(exist_ok=True)
        code, _, err = run("predict", str(kept), str(path))
        assert code == 2 and words in err


def test_folders_to_train_and_to_test_with(tmp_path):
    images(tmp_path / "train", 3)
    images(tmp_path / "test", 2)
    data = load(str(tmp_path))
    assert len(data.train_x) == 6 and len(data.test_x) == 4


@pytest.mark.parametrize(
    "names", [("train", "test", "val"), ("Training", "Testing", "Validation"), ("Train", "TEST", "valid")]
)
def test_folders_to_train_validate_and_test_with(tmp_path, names):
    for name, count in zip(names, (3, 2, 4), strict=True):
        images(tmp_path / name, count)
    data = load(str(tmp_path))
    assert data.valid_x is not None and data.valid_y is not None
    assert (len(data.train_x), len(data.test_x), len(data.valid_x)) == (6, 4, 8)
    assert data.valid_y.tolist() == [0] * 4 + [1] * 4
    with pytest.raises(DataError, match="has a validation set already"):
        load(str(tmp_path), validation=2)


def test_hidden_files_and_folders_are_no_images(tmp_path, run):
    """A Mac's archive and a notebook leave such ones; a hidden folder would be a class."""
    images(tmp_path / "pets", 5)
    wanted = load(str(tmp_path / "pets"))
    (tmp_path / "pets" / "cat" / "._00.png").write_bytes(b"\0\5\x16\7")
    hidden = tmp_path / "pets" / ".ipynb_checkpoints"
    hidden.mkdir()
    Image.fromarray(np.zeros((4, 5, 3), np.uint8)).save(hidden / "00.png")
    data = load(str(tmp_path / "pets"))
    assert data.class_names == ("cat", "dog") and np.array_equal(data.train_x, wanted.train_x)


def test_images_of_more_than_8_bits_are_refused_and_not_cut(tmp_path):
    images(tmp_path / "pets", 5, mode="L")
    odd = tmp_path / "pets" / "dog" / "zz.png"
    Image.fromarray(np.full((4, 5), 200, np.uint16)).save(odd)
    data = load(str(tmp_path / "pets"))
    assert any((x == 200).all() for x in (*data.train_x, *data.test_x))
    Image.fromarray(np.full((4, 5), 2000, np.uint16)).save(odd)
    with pytest.raises(DataError, match=r"zz\.png: .* more than 8 bits for each pixel: bring it to 8"):
        load(str(tmp_path / "pets"))
    odd.unlink()
    Image.fromarray(np.full((4, 5), 0.5, np.float32)).save(odd.with_suffix(".tif"))
    with pytest.raises(DataError, match=r"zz\.tif: .* more than 8 bits for each pixel"):
        load(str(tmp_path / "pets"))


def test_too_few_images_and_folders_one_deeper_are_named(tmp_path):
    images(tmp_path / "pets" / "data", 1)
    with pytest.raises(DataError, match=r"pets: holds no folders of images: .*; \S+/pets/data has such folders"):
        load(str(tmp_path / "pets"))
    with pytest.raises(DataError, match="data: 2 images are too few to draw a fifth of them to test with"):
        load(str(tmp_path / "pets" / "data"))


def test_folders_that_cannot_be(tmp_path):
    with pytest.raises(DataError, match="holds no folders of images: put the images of each class"):
        load(str(tmp_path))
    images(tmp_path / "pets", 2)
    odd = tmp_path / "pets" / "dog" / "zz.png"
    Image.fromarray(np.zeros((9, 9), np.uint8)).save(odd)
    with pytest.raises(
        DataError, match=r"zz\.png: is 9 x 9 pixels in grey, the images before it 5 x 4 pixels in colour"
    ):
        load(str(tmp_path / "pets"))
    odd.write_bytes(b"\x89PNG and no more")
    with pytest.raises(DataError, match=r"zz\.png: is no image that can be read"):
        load(str(tmp_path / "pets"))


def one_batch(folder: Path) -> None:
    for name in (*cifar10.TRAIN, cifar10.TEST):
        (folder / name).write_bytes(bytes(3073))


def empty(*names: str) -> Callable[[Path], None]:
    """Function that writes empty files into a folder."""

    def write(folder: Path) -> None:
        for name in names:
            (folder / name).write_bytes(b"")

    return write


OTHERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "mnist": (write_mnist, "holds the files of mnist: --data mnist --data-dir {0}, in Python wl.data.load('mnist', d"),
    "torchvision": (lambda folder: write_mnist(folder / "raw", ZIPPED, ".gz"), "mnist: --data mnist --data-dir {0}, "),
    "cifar10": (
        one_batch,
        "holds the files of cifar10: --data cifar10 --data-dir {0}, in Python wl.data.load('cifar10",
    ),
    "pickles": (lambda folder: (folder / "cifar-10-batches-py").mkdir(), "holds cifar-10-batches-py, a pickle, which"),
    "arrays": (empty("a.npz"), "holds a.npz: --data {0}/a.npz, in Python wl.data.load('{0}/a.npz')"),
    "table": (empty("b.csv"), "holds b.csv: --data {0}/b.csv --label NAME, in Python wl.data.table('{0}/b.csv', NAME)"),
    "tables": (empty("test.csv", "train.csv"), "{0}/train.csv', NAME); tables of pixels: --data csv --data-dir {0}"),
}


@pytest.mark.parametrize(("write", "words"), OTHERS.values(), ids=OTHERS)
def test_a_folder_of_another_kind_is_told_how_to_load(tmp_path, write, words):
    write(tmp_path)
    with pytest.raises(DataError) as error:
        load(str(tmp_path))
    assert words.format(tmp_path) in str(error.value)
    with pytest.raises(DataError, match=re.escape(str(error.value))):
        load(str(tmp_path), label="answer")


@pytest.mark.parametrize("name", ["csv", "mnist", "cifar10", "."])
def test_an_archive_is_named(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "digit-recognizer.zip", "w") as archive:
        archive.writestr("train.csv", "label,a\n1,2\n")
    with pytest.raises(DataError, match=r"digit-recognizer\.zip' lies there: unpack it first"):
        if name != ".":
            load(name, data_dir=tmp_path)
        else:
            load(str(tmp_path))


def idx(*shape):
    header = bytes((0, 0, 8, len(shape))) + b"".join(side.to_bytes(4, "big") for side in shape)
    return header + RNG.integers(1, 4, shape, np.uint8).tobytes()


def test_labels_from_1_in_mnists_format(tmp_path):
    for part, count in (("train", 30), ("t10k", 9)):
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(idx(count, 4, 4))
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(idx(count))
    data = load("mnist", data_dir=tmp_path)
    assert data.class_names == (1, 2, 3) and data.classes == 3


def test_cifar_100_is_no_cifar_10(tmp_path):
    (tmp_path / "cifar-100-binary").mkdir()
    (tmp_path / "cifar-100-binary" / "train.bin").write_bytes(bytes(3074 * 2))
    with pytest.raises(DataError, match="cifar-100-binary lies there: that is CIFAR-100"):
        load("cifar10", data_dir=tmp_path)


def packed(folder, name, entry):
    """Tar archive, gzipped, with one file, whose first entry tells what it holds."""
    with tarfile.open(folder / name, "w:gz") as made:
        made.addfile(tarfile.TarInfo(entry))
    return folder / name


ARCHIVES = {
    "cifar-100-binary.tar.gz": ("cifar-100-binary/train.bin", "is CIFAR-100, which is no set here: unpack its binary version"),
    "download.tgz": ("cifar-100-python/meta", "is CIFAR-100, which is no set here"),
    "cifar-10-python.tar.gz": ("cifar-10-batches-py/data_batch_1", "is the Python version of cifar10, pickles"),
    "cifar-10-binary.tar.gz": ("cifar-10-batches-bin/data_batch_1.bin", "is cifar10: --data cifar10 --data-dir FOLDER"),
    "mine.tar.gz": ("mine/a.png", "looks like a tar archive (unpack it first)"),
}  # fmt: skip


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_given_as_a_data_set_is_named_by_its_content(name, tmp_path):
    entry, words = ARCHIVES[name]
    path = packed(tmp_path, name, entry)
    with pytest.raises(DataError, match=re.escape(f"{path}: {words}")):
        load(str(path))


@pytest.mark.parametrize("name", ["cifar-100-binary.tar.gz", "cifar-100-python.tar.gz"])
def test_cifar_100_is_named_where_a_folder_of_images_is_wanted(name, tmp_path):
    packed(tmp_path, name, ARCHIVES["cifar-100-binary.tar.gz"][0])
    with pytest.raises(DataError, match=rf"{tmp_path}: {re.escape(name)} is CIFAR-100, which is no set here"):
        load(str(tmp_path))
    with pytest.raises(DataError, match=rf"holds no cifar10: .*{re.escape(name)} lies there: that is CIFAR-100"):
        load("cifar10", data_dir=tmp_path)
    with pytest.raises(DataError, match="there is no data set 'cifar100', for that is CIFAR-100"):
        load("cifar100")


def test_the_file_of_the_documentation_reads_cifar_100(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    (tmp_path / "cifar100.py").write_text(page.partition("### CIFAR-100")[2].split("```")[1].removeprefix("python"))
    rng = np.random.default_rng(0)
    records = {name: rng.integers(0, 100, (count, 3074), np.uint8) for name, count in (("train", 9), ("test", 4))}
    for name, rows in records.items():
        rows[:, 1] = 50 + np.arange(len(rows)) % 3
        rows.tofile(tmp_path / f"{name}.bin")
    data = load(str(tmp_path / "cifar100.py"), data_dir=tmp_path)
    assert data.train_x.shape == (9, 3, 32, 32) and (data.train_x.reshape(9, -1) == records["train"][:, 2:]).all()
    fine = np.array(data.class_names or range(100))
    assert (fine[data.test_y] == records["test"][:, 1]).all()
