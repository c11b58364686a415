"""Data sets as a whole: digits, arrays, and the seeded choice of rows."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from warpladder.data import NAMES, SOURCES, Dataset, arrays, load, split
from warpladder.errors import DataError


def test_digits_needs_nothing():
    data = load("digits")
    assert data.train_x.shape == (1437, 1, 8, 8) and data.test_x.shape == (360, 1, 8, 8)
    assert data.train_x.dtype == np.uint8 and data.train_x.max() == 16 and data.scale == 1 / 16
    assert data.train_y is not None and data.test_y is not None
    assert data.train_y.dtype == np.int32 and data.classes == 10
    assert set(data.train_y) == set(data.test_y) == set(range(10))


def test_digits_ignores_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPLADDER_DATA", str(tmp_path / "nowhere"))
    assert len(load("digits").train_x) == 1437


def test_names():
    assert NAMES == ("digits", "mnist", "fashion", "cifar10", "csv")
    assert all(source.about for source in SOURCES)
    with pytest.raises(DataError, match="there is no data set 'imagenet'; there are digits, mnist"):
        load("imagenet")
    with pytest.raises(DataError, match="none can be stated"):
        load("digits", shape=(64,))


def test_import_is_light():
    code = "import sys, warpladder.data; print([m for m in ('sklearn', 'pooch', 'requests', 'rich', 'numba', 'torch') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# Rows


def numbered(rows: int = 100) -> Dataset:
    x = np.arange(rows, dtype=np.uint8)[:, None, None, None] * np.ones((1, 1, 2, 2), np.uint8)
    return arrays(x, np.arange(rows) % 10, x[:5], np.arange(5))


def rows_of(x: np.ndarray | None) -> list[int]:
    assert x is not None
    return x[:, 0, 0, 0].tolist()


def test_limit_and_validation_take_different_rows():
    data = split(numbered(), limit=30, validation=20, seed=3)
    train, valid = rows_of(data.train_x), rows_of(data.valid_x)
    assert len(train) == 30 and len(valid) == 20 and not set(train) & set(valid)
    assert train == sorted(train) and valid == sorted(valid)
    assert data.train_y is not None and data.valid_y is not None
    assert data.train_y.tolist() == [r % 10 for r in train] and data.valid_y.tolist() == [r % 10 for r in valid]
    assert len(data.test_x) == 5


def test_validation_alone_leaves_the_rest():
    data = split(numbered(), validation=20)
    assert sorted(rows_of(data.train_x) + rows_of(data.valid_x)) == list(range(100))


def test_the_seed_chooses_the_rows():
    def chosen(seed):
        return rows_of(split(numbered(), limit=30, seed=seed).train_x)

    assert chosen(0) == chosen(0) != chosen(1)


def test_rows_are_the_same_on_every_platform():
    assert rows_of(split(numbered(), limit=6, seed=0).train_x) == [38, 46, 48, 50, 64, 83]


def test_a_smaller_limit_takes_a_part_of_a_larger_one():
    small, large = (rows_of(split(numbered(), limit=n, seed=5).train_x) for n in (10, 40))
    assert set(small) < set(large)


def test_every_row_is_as_likely():
    counts = np.zeros(100, int)
    for seed in range(400):
        counts[rows_of(split(numbered(), limit=25, seed=seed).train_x)] += 1
    # 100 rows, each drawn with p = 1/4 in 400 trials without replacement: chi-square of 99 degrees of freedom, 1e-6
    # quantile 181.
    assert ((counts - 100) ** 2 / 75).sum() * 99 / 100 < 181


def test_nothing_asked_for_nothing_done():
    data = numbered()
    assert split(data) is data and split(data, limit=100) is data


def test_unlabelled_rows_are_split_too():
    data = split(numbered().but(train_y=None), validation=10)
    assert data.train_y is None and data.valid_y is None and len(rows_of(data.valid_x)) == 10


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"limit": 101}, "limit must be 1 to 100"),
        ({"limit": 0}, "limit must be 1 to 100"),
        ({"limit": -1}, "limit must be 1 to 100"),
        ({"validation": -1}, "validation must be 0 to 100"),
        ({"validation": 100}, "leave 0 for training"),
        ({"seed": -1}, "seed must be 0 to"),
        ({"validation": 50, "limit": 51}, "leave 50 for training, 51 are wanted"),
    ],
)
def test_choices_that_cannot_be(options, words):
    with pytest.raises(DataError, match=words):
        split(numbered(), **options)


def test_a_second_validation_set():
    with pytest.raises(DataError, match="has a validation set already"):
        split(split(numbered(), validation=10), validation=10)


def test_load_passes_rows_on():
    data = load("digits", limit=100, validation=50, seed=7)
    assert data.valid_x is not None and len(data.train_x) == 100 and len(data.valid_x) == 50 and len(data.test_x) == 360


# Arrays


def test_bytes_stay_bytes_and_are_not_copied():
    x = np.zeros((6, 3, 4, 4), np.uint8)
    data = arrays(x, range(6), x, None)
    assert data.train_x is x and data.scale == 1 / 255 and data.test_y is None
    assert data.train_y is not None and data.train_y.dtype == np.int32


def test_floats_become_float32():
    data = arrays(np.full((6, 4), 0.5), [0, 1, 2, 3, 0, 1], [[1.0] * 4], [3])
    assert data.train_x.dtype == data.test_x.dtype == np.float32 and data.scale == 1.0 and data.classes == 4


def test_whole_numbers_become_bytes():
    data = arrays([[0, 255]], [0], [[7, 8]], [1])
    assert data.train_x.dtype == np.uint8 and data.train_x.tolist() == [[0, 255]]


def test_grey_images_gain_their_channel():
    assert arrays(np.zeros((2, 5, 6), np.uint8), [0, 1], np.zeros((1, 5, 6), np.uint8), [0]).in_shape == (1, 5, 6)


def test_a_stated_scale_and_a_validation_set():
    data = arrays([[1]], [0], [[2]], [0], valid_x=[[3]], valid_y=[1], scale=0.5, name="mine")
    assert data.valid_x is not None and data.valid_y is not None
    assert data.scale == 0.5 and data.name == "mine" and data.valid_x.tolist() == [[3]] and data.valid_y.tolist() == [1]


X = np.zeros((4, 3), np.uint8)
Y = np.zeros(4, int)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((X, Y[:3], X, Y), "4 train images but 3 labels"),
        ((X, [0, 1, 2, 3], X, Y + 1.5), "test labels must be whole numbers, got float64"),
        ((X, Y + 0.5, X, Y), "labels must be whole numbers"),
        ((X, np.eye(4, dtype=int), X, Y), "give class numbers, not one-hot rows"),
        ((X, Y, None, None), "a training and a test set are wanted"),
        ((X, Y, X[:, :2], Y), r"test samples have shape \(2,\)"),
        ((X, Y, X.astype(np.float32), Y), "mix bytes and floats"),
        ((X[:0], Y[:0], X, Y), "the training set is empty"),
        ((X + np.nan, Y, X + 1.0, Y), "not finite"),
        ((X + 1e39, Y, X + 1.0, Y), "leave the range of float32: 1e\\+39 in row 0, column 0"),
        ((X.astype(int) + 256, Y, X, Y), "mix bytes and floats"),
        ((X + 1e300, Y, X + 1.0, Y), "1e\\+300|inf in row 0, column 0"),
        ((X.astype(str), Y, X, Y), "must be numbers"),
        ((X[0], Y, X, Y), "must have shape"),
    ],
)
def test_arrays_that_cannot_be(arguments, words):
    with pytest.raises(DataError, match=words) as caught:
        arrays(*arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_scales_that_cannot_be(scale):
    with pytest.raises(DataError, match="scale must be a finite number above 0"):
        arrays(X, Y, X, Y, scale=scale)
