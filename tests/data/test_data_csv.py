"""CSV: Kaggle's digit-recognizer and its like, errors with line numbers, and the file of predictions."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpladder.data import Dataset, load, write_submission
from warpladder.data.reader import from_bytes
from warpladder.data.tables.numeric import read_table
from warpladder.errors import DataError


def text(rows: np.ndarray, header: str | None = None, newline: str = "\n") -> str:
    lines = [] if header is None else [header]
    return newline.join(lines + [",".join(map(str, row)) for row in rows.tolist()]) + newline


def header(pixels: int, label: bool = True) -> str:
    return ",".join((["label"] if label else []) + [f"pixel{i}" for i in range(pixels)])


def write(
    folder: Path, pixels: int = 784, labelled_test: bool = False, rows: int = 40
) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(pixels)
    train = np.column_stack([rng.integers(0, 10, rows), rng.integers(0, 256, (rows, pixels))])
    test = np.column_stack([rng.integers(0, 10, 7), rng.integers(0, 256, (7, pixels))])
    (folder / "train.csv").write_text(text(train, header(pixels)))
    (folder / "test.csv").write_text(
        text(test, header(pixels)) if labelled_test else text(test[:, 1:], header(pixels, False))
    )
    return train, test


def test_kaggle_files(tmp_path):
    train, test = write(tmp_path)
    data = load("csv", data_dir=tmp_path)
    assert data.train_y is not None
    assert np.array_equal(data.train_x.reshape(40, -1), train[:, 1:]) and np.array_equal(data.train_y, train[:, 0])
    assert np.array_equal(data.test_x.reshape(7, -1), test[:, 1:]) and data.test_y is None
    assert data.train_x.shape == (40, 1, 28, 28) and data.train_x.dtype == np.uint8 and data.train_y.dtype == np.int32
    assert data.scale == 1 / 255


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("labels", [(-1, 1), (20109, 20354), (300, 2**40)])
@pytest.mark.parametrize("heading", ["label,a,b", "a,b,label", None])
def test_labels_are_any_whole_numbers(labels, heading, numbers, tmp_path):
    for file, count in (("train.csv", 4), ("test.csv", 2)):
        rows = [[labels[row % 2], row, 7] for row in range(count)]
        rows = [[*row[1:], row[0]] for row in rows] if heading == "a,b,label" else rows
        (tmp_path / file).write_text(text(np.array(rows), heading))
    data = load("csv", data_dir=tmp_path, standardize=numbers)
    assert data.train_y is not None and data.class_names == labels
    assert data.train_y.tolist() == [0, 1, 0, 1] and data.test_y is not None and data.test_y.tolist() == [0, 1]
    assert data.train_x.reshape(4, -1).tolist() == [[row, 7] for row in range(4)]
    (tmp_path / "test.csv").write_text("1,300\n" if heading is None else "a,b\n1,300\n")  # no label: pixels alone
    if numbers:
        assert load("csv", data_dir=tmp_path, standardize=True).test_x.tolist() == [[1, 300]]
    else:
        with pytest.raises(DataError, match="'300' is not a whole number 0 to 255"):
            load("csv", data_dir=tmp_path)


@pytest.mark.parametrize(("cell", "words"), [
    ("2.37", "the label column holds 2.37: labels are whole numbers, or names; numbers to predict .* --target NAME"),
    ("1e300", "the label column holds 1e\\+300"),
    ("cat", r"line 3, column 3 \('label'\): 'cat' is not a whole number: labels that are names are read with "
            "--data FILE.csv --label label"),
    ("", "line 3, column 3 .*the cell is empty where a whole number is wanted"),
    ("nan", "'nan' is not a whole number; --data FILE.csv"),
])  # fmt: skip
def test_what_is_no_label(cell, words, tmp_path):
    (tmp_path / "train.csv").write_text(f"a,b,label\n1,2,3\n4,5,{cell}\n")
    (tmp_path / "test.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=words):
        load("csv", data_dir=tmp_path)


def test_a_labelled_test_file(tmp_path):
    _, test = write(tmp_path, labelled_test=True)
    data = load("csv", data_dir=tmp_path)
    assert (
        data.test_y is not None
        and np.array_equal(data.test_y, test[:, 0])
        and np.array_equal(data.test_x.reshape(7, -1), test[:, 1:])
    )


@pytest.mark.parametrize("name", ["digit-recognizer/train.csv", "train.csv.gz", "mnist_train.csv"])
def test_layouts(tmp_path, name):
    train, _ = write(tmp_path)
    content = {file: (tmp_path / file).read_bytes() for file in ("train.csv", "test.csv")}
    for file, raw in content.items():
        (tmp_path / file).unlink()
        path = tmp_path / name.replace("train.csv", file)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    data = load("csv", data_dir=tmp_path)
    assert data.train_y is not None and np.array_equal(data.train_y, train[:, 0])


def test_shapes(tmp_path):
    write(tmp_path, pixels=12)
    assert load("csv", data_dir=tmp_path).in_shape == (12,)
    assert load("csv", data_dir=tmp_path, shape=(3, 2, 2)).in_shape == (3, 2, 2)
    with pytest.raises(DataError, match=r"12 pixels a row, which do not make the stated shape \(1, 3, 3\)"):
        load("csv", data_dir=tmp_path, shape=(1, 3, 3))


def test_without_a_folder_there_is_nothing_to_download(monkeypatch):
    monkeypatch.delenv("WARPLADDER_DATA", raising=False)
    with pytest.raises(DataError, match="csv: there is no download: give the folder"):
        load("csv")


# The table itself

cells = st.integers(0, 255)


@settings(deadline=None)
@given(
    st.integers(1, 6).flatmap(
        lambda columns: st.lists(st.lists(cells, min_size=columns, max_size=columns), min_size=1, max_size=30)
    ),
    st.data(),
)
def test_any_table_is_read_back(rows, data):
    columns = len(rows[0])
    titles = data.draw(st.sampled_from([None, header(columns, False)]))
    newline = data.draw(st.sampled_from(["\n", "\r\n"]))
    content = text(np.array(rows), titles, newline).encode()
    if data.draw(st.booleans()):
        content = content.rstrip()
    read = read_table(from_bytes(content))
    assert read.cells.tolist() == rows and (read.header is None) == (titles is None)


@pytest.mark.parametrize(
    "content",
    [
        b"a,b\n1,2\n3,4\n",
        b"a,b\r\n1,2\r\n3,4",
        b"\xef\xbb\xbfa,b\n1,2\n3,4\n",
        b'"a","b"\n"1","2"\n"3","4"\n',
        b"a, b\n 1 ,2\n3,\t4 \n",
        b"a,b\n1.0,2.\n+3,004\n",
        b"\n\na,b\n\n1,2\n\n3,4\n\n\n",
    ],
)
def test_harmless_oddities(content):
    read = read_table(from_bytes(content))
    assert read.header == ("a", "b") and read.cells.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("mark", [b";", b"\t", b"|"])
def test_other_separators(mark):
    rows = np.arange(3000).reshape(-1, 3) % 256
    content = text(rows, "a,b,c").encode().replace(b",", mark)
    assert np.array_equal(read_table(from_bytes(content)).cells, rows)
    assert read_table(from_bytes(b"a;b\n1,5;2\n"), numbers=True).cells.tolist() == [[1.5, 2.0]]


def test_a_million_blank_lines_are_no_trouble():
    content = b"\n" * 1_000_000 + b"a,b\n1,x\n"
    with pytest.raises(DataError, match=r"line 1000002, column 2 \('b'\)"):
        read_table(from_bytes(content))


GOOD = b"label,p0,p1\n" + b"1,2,3\n" * 20_000


def at_line(number: int, line: bytes) -> bytes:
    lines = GOOD.split(b"\n")
    lines[number - 1] = line
    return b"\n".join(lines)


BAD = {
    "empty": (b"", "is empty where a CSV table is wanted"),
    "blank": (b" \n\n", "is empty where a CSV table is wanted"),
    "header only": (b"label,p0\n", "has a header but no rows"),
    "header and blank lines": (b"label,p0\n\r\n\n\n", "has a header but no rows"),
    "missing": (at_line(17, b"1,,3"), "line 17, column 2 ('p0'): the cell is empty"),
    "missing label": (at_line(17, b",2,3"), "line 17, column 1 ('label'): the cell is empty"),
    "not a number": (at_line(15_000, b"1,2,x"), "line 15000, column 3 ('p1'): 'x' is not a whole number 0 to 255"),
    "nan": (at_line(20_001, b"nan,2,3"), "line 20001, column 1 ('label'): 'nan' is not"),
    "fraction": (at_line(2, b"1,2.5,3"), "line 2, column 2 ('p0'): '2.5' is not"),
    "too large": (at_line(3, b"1,256,3"), "line 3, column 2 ('p0'): '256' is not"),
    "huge": (at_line(3, b"1," + b"9" * 5000 + b",3"), "line 3, column 2 ('p0'): '999"),
    "negative": (at_line(4, b"1,-1,3"), "line 4, column 2 ('p0'): '-1' is not"),
    "too few": (at_line(5, b"1,2"), "line 5 has 2 cells where the lines before it have 3"),
    "too many": (at_line(19_999, b"1,2,3,4"), "line 19999 has 4 cells"),
    "shifted": (GOOD.replace(b"1,2,3\n1,2,3\n", b"1,2\n3,1,2,3\n", 1), "line 2 has 2 cells"),
    "html": (b"<html><body>Sign in</body></html>", "looks like an HTML page"),
    "binary": (b"\x01\0\x02" * 50, "looks like unknown data"),
    "utf-16": ("label,p0\n1,2\n".encode("utf-16"), "looks like text in UTF-16 (save it as UTF-8)"),
    "image file": (b"\0\0\x08\x03" + bytes(100), "an IDX file of images"),
    "one endless line": (b"1," * 3_000_000, "line 1 is longer than 1,048,576 bytes"),
    "truncated gzip": (gzip.compress(GOOD)[:-9], "truncated gzip"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_are_named_with_their_line(tmp_path, case):
    content, words = BAD[case]
    write(tmp_path, pixels=2)
    (tmp_path / "train.csv").write_bytes(content)
    with pytest.raises(DataError) as caught:
        load("csv", data_dir=tmp_path)
    message = str(caught.value)
    assert words in message and str(tmp_path / "train.csv") in message and "\n" not in message and len(message) < 400


def test_tables_that_do_not_fit_each_other(tmp_path):
    write(tmp_path, pixels=9)
    (tmp_path / "test.csv").write_text("1,2,3\n")
    with pytest.raises(DataError, match=r"has 3 columns, .*train.csv has 10"):
        load("csv", data_dir=tmp_path)
    (tmp_path / "test.csv").write_text(text(np.zeros((2, 9), int), header(8)))
    with pytest.raises(DataError, match="not those of the training table: it lacks 'pixel8' and has ''"):
        load("csv", data_dir=tmp_path)
    (tmp_path / "train.csv").write_text("label\n1\n")
    with pytest.raises(DataError, match="a single column"):
        load("csv", data_dir=tmp_path)


def csv_set(folder: Path, train: str, test: str, **options: Any) -> Dataset:
    (folder / "train.csv").write_text(train)
    (folder / "test.csv").write_text(test)
    return load("csv", data_dir=folder, **options)


def test_headings_say_which_column_is_the_label(tmp_path):
    rows = "p0,p1,label\n1,2,7\n3,4,9\n"
    data = csv_set(tmp_path, rows, "p1,p0\n20,10\n")
    assert data.class_names == (7, 9) and data.train_x.tolist() == [[1, 2], [3, 4]]
    assert data.test_x.tolist() == [[10, 20]]
    named = csv_set(tmp_path, rows.replace("label", "Outcome"), "Outcome,p1,p0\n9,20,10\n", label="outcome")
    assert named.train_x.tolist() == [[1, 2], [3, 4]] and named.test_x.tolist() == [[10, 20]]
    assert named.test_y is not None and named.test_y.tolist() == [1]


GUESSES = ("Pregnancies,Glucose,Outcome", "x1,x2,c", "PassengerId,Survived,Pclass")


@pytest.mark.parametrize("heading", GUESSES)
@pytest.mark.parametrize("numbers", [False, True])
def test_a_label_is_never_guessed(tmp_path, heading, numbers):
    with pytest.raises(DataError, match=f"which column is the label, the first is '{heading.split(',')[0]}'"):
        csv_set(tmp_path, f"{heading}\n1,2,0\n2,4,1\n", f"{heading}\n1,2,0\n", standardize=numbers)
    with pytest.raises(DataError, match="has no column 'nothing'; it has"):
        csv_set(tmp_path, f"{heading}\n1,2,0\n", f"{heading}\n1,2,0\n", standardize=numbers, label="nothing")


@pytest.mark.parametrize("heading", [",label,a", "Unnamed: 0,label,a", ",0,1"])
@pytest.mark.parametrize("numbers", [False, True])
def test_an_index_that_pandas_wrote_is_named(tmp_path, heading, numbers):
    with pytest.raises(DataError, match=r"line 1, column 1: the heading '.*' is that of an index, .* index=False"):
        csv_set(tmp_path, f"{heading}\n0,1,2\n1,0,1\n", f"{heading}\n0,1,2\n", standardize=numbers)


def test_codes_and_signs_are_labels(tmp_path):
    data = csv_set(tmp_path, "label,a\n20110,1\n-1,2\n20109,3\n", "label,a\n20109,1\n", standardize=True)
    assert data.class_names == (-1, 20109, 20110) and data.test_y is not None and data.test_y.tolist() == [1]


# Predictions


def test_a_submission(tmp_path):
    write_submission(tmp_path / "submission.csv", np.array([3, 0, 9]))
    assert (tmp_path / "submission.csv").read_text() == "ImageId,Label\n1,3\n2,0\n3,9\n"
    assert os.listdir(tmp_path) == ["submission.csv"]


def test_a_submission_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "submission.csv"
    path.write_text("old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match=r"cannot be written \(No space left on device\)"):
        write_submission(path, np.array([1]))
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["submission.csv"]


def test_a_submission_that_cannot_be(tmp_path):
    with pytest.raises(DataError, match="whole numbers of shape"):
        write_submission(tmp_path / "s.csv", np.array([0.5]))
    with pytest.raises(DataError, match="cannot be written"):
        write_submission(tmp_path / "nowhere" / "s.csv", np.array([1]))
