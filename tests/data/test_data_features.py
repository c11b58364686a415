"""Tables of features and names of classes, and images whose channels are last."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warpladder as wl
from warpladder.cli import main
from warpladder.data import Dataset, arrays, load, write_submission
from warpladder.data.convert import looks_nhwc
from warpladder.data.csv import read
from warpladder.data.reader import from_bytes
from warpladder.data.samples import load_samples
from warpladder.data.tables.numeric import read_table
from warpladder.errors import DataError
from warpladder.nets import CrossEntropyLoss, Flatten, Linear, Net
from warpladder.trainers.base import check_fit


def files(folder, train, test):
    (folder / "train.csv").write_text(train, encoding="utf-8")
    (folder / "test.csv").write_text(test, encoding="utf-8")
    return folder


# Names of classes


def test_names_of_classes_in_a_table_of_pixels(tmp_path):
    data = load(
        "csv", data_dir=files(tmp_path, 'label,a,b\ncat,1,2\n Füchse ,3,4\n"cat",5,6\n', "label,a,b\nFüchse,7,8\n")
    )
    assert data.class_names == ("Füchse", "cat") and data.train_y is not None and data.test_y is not None
    assert data.train_y.tolist() == [1, 0, 1] and data.test_y.tolist() == [0] and data.classes == 2
    assert (
        data.train_x.tolist() == [[1, 2], [3, 4], [5, 6]] and data.train_x.dtype == np.uint8 and data.scale == 1 / 255
    )


HEADINGS = {
    "label first": ("label,1,2\ncat,3,4\n", ("label", "1", "2"), ["cat"]),
    "no header": ("cat,7,2\ndog,3,4\n", None, ["cat", "dog"]),
    "no header, one row": ("cat,1,2\n", None, ["cat"]),
    "a header in words": ("kind,height,2\ncat,3,4\n", ("kind", "height", "2"), ["cat"]),
    "pandas' numbers from 0": ("kind,0,1\ncat,3,4\n", ("kind", "0", "1"), ["cat"]),
    "pixels that count, of a class that comes again": ("cat,0,1\ndog,3,4\ncat,5,6\n", None, ["cat", "dog", "cat"]),
    "numbers from 1": ("kind,1,2\ncat,3,4\n", ("kind", "1", "2"), ["cat"]),
    "numbers below it": ("kind,0,1\n7,3,4\n", ("kind", "0", "1"), None),
    "no header, numbers": ("7,3,4\n", None, None),
    "blank lines between": ("\n\nkind,height,2\n\n\ncat,3,4\n\n", ("kind", "height", "2"), ["cat"]),
    "no newline at the end": ("cat,7,2\ndog,3,4", None, ["cat", "dog"]),
}


@pytest.mark.parametrize("case", HEADINGS)
def test_a_header_is_told_from_a_row_with_a_name(case):
    text, header, names = HEADINGS[case]
    found = read_table(from_bytes(text.encode()), names=True)
    assert found.header == header and found.columns == 3
    assert (None if found.names is None else found.names.tolist()) == names


words = st.text(st.characters(categories=["L"]), min_size=1, max_size=8)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(words, st.floats(-1e6, 1e6, width=32), st.integers(0, 255)), min_size=1, max_size=20),
    st.booleans(),
)
def test_any_table_of_names_and_numbers_is_read_back(rows, titled):
    text = ("label,a,b\n" if titled else "") + "".join(f"{name},{number!r},{whole}\n" for name, number, whole in rows)
    found = read_table(from_bytes(text.encode()), names=True, numbers=True)
    if not titled and rows[0][0].lower() == "label":
        return
    assert found.names is not None and found.names.tolist() == [name for name, _, _ in rows]
    assert found.cells.dtype == np.float32 and found.cells.tolist() == [[number, whole] for _, number, whole in rows]


BAD = {
    "a number among names": (
        "cat,7,2\ncat,7,2\n3,1,2\n",
        None,
        True,
        "line 3, column 1: '3' is a number where a row before has a name",
    ),
    "an empty name": (
        "a,x,y\ncat,1,2\n,1,2\n",
        None,
        True,
        "line 3, column 1: the cell is empty where the name of a class",
    ),
    "a name among numbers": (
        "a,x,y\n1,1,2\ncat,1,2\n",
        None,
        True,
        "line 3, column 1 ('a'): 'cat' is not a whole number",
    ),
    "a label last": (
        "a,b,kind\n1,2,cat\n",
        None,
        True,
        "column 3 ('kind'): 'cat' is not a finite number: if that is the label, put it into the first",
    ),
    "a fraction where pixels are wanted": (
        "label,a,b\ncat,1.5,2\n",
        None,
        False,
        "'1.5' is not a whole number 0 to 255; features in any numbers",
    ),
    "nan": ("label,a,b\ncat,nan,2\n", None, True, "line 2, column 2 ('a'): 'nan' is not a finite number"),
    "nan last": (
        "label,a,b\ncat,1,nan\n",
        None,
        True,
        "'nan' is not a finite number; --data FILE.csv --label NAME takes",
    ),
    "infinity": ("label,a,b\ncat,1e999,2\n", None, True, "line 2, column 2 ('a'): '1e999' is not a finite number"),
    "beyond float32": ("label,a,b\ncat,1e39,2\n", None, True, "'1e39' is not a finite number"),
    "too few cells": ("label,a,b\ncat,1\n", None, True, "line 2 has 2 cells where the lines before it have 3"),
    "an empty cell": (
        "label,a,b\ncat,,2\n",
        None,
        True,
        "line 2, column 2 ('a'): the cell is empty where a finite number is wanted",
    ),
    "a label with a fraction": (
        "label,a,b\n1.5,1,2\n",
        None,
        True,
        "the label column holds 1.5: labels are whole numbers, or names",
    ),
    "a name that training never saw": (
        "cat,1,2\n",
        "dog,1,2\n",
        True,
        "'dog', the label of sample 0, is none of the classes cat",
    ),
    "numbers where training has names": (
        "cat,1,2\n",
        "1,1,2\n",
        True,
        "labels are numbers, but in the training table they are names, 'cat' first",
    ),
    "names where training has numbers": (
        "1,1,2\n",
        "cat,1,2\n",
        True,
        "labels are names, 'cat' first, but in the training table they are numbers",
    ),
    "names that are no labels": ("1,1,2,3\n", "cat,1,2\n", True, "column 1 holds names, 'cat' first"),
}


@pytest.mark.parametrize("case", BAD)
def test_tables_that_cannot_be(tmp_path, case):
    train, test, numbers, words = BAD[case]
    files(tmp_path, train, test or train)
    with pytest.raises(DataError) as caught:
        load("csv", data_dir=tmp_path, standardize=numbers)
    assert words in str(caught.value) and "\n" not in str(caught.value) and len(str(caught.value)) < 400


def test_names_that_are_not_utf8(tmp_path):
    (tmp_path / "train.csv").write_bytes("label,a,b\nF\xfcchse,1,2\n".encode("latin-1"))
    (tmp_path / "test.csv").write_bytes(b"1,2\n")
    with pytest.raises(DataError, match=r"line 2, column 1: .* is not UTF-8: save the table as UTF-8"):
        load("csv", data_dir=tmp_path)


# Features


FEATURES = "species,length,width\nrose,-1.5,1e3\ntulip,.5,+2000\nrose,2.5,1500.\n"


def test_features_are_standardised_by_the_rows_that_train(tmp_path):
    data = load("csv", data_dir=files(tmp_path, FEATURES, "length,width\n0.5,1500\n"), standardize=True)
    assert (
        data.train_x.tolist() == [[-1.5, 1000], [0.5, 2000], [2.5, 1500]]
        and data.in_shape == (2,)
        and data.scale == 1.0
    )
    assert data.standard is not None and data.standard.mean == (0.5, 1500.0) and data.test_y is None
    assert data.standardized().test_x.tolist() == [[0.0, 0.0]]
    part = load("csv", data_dir=tmp_path, standardize=True, limit=2)
    assert (
        part.standard is not None
        and part.standard.mean == tuple(part.train_x.mean(axis=0).tolist()) != data.standard.mean
    )


def test_four_features_are_no_picture(tmp_path):
    files(tmp_path, "1,2,3,4,5\n", "2,3,4,5\n")
    assert load("csv", data_dir=tmp_path).in_shape == (1, 2, 2)
    assert load("csv", data_dir=tmp_path, standardize=True).in_shape == (4,)
    assert load("csv", data_dir=tmp_path, standardize=True, shape=(1, 2, 2)).in_shape == (1, 2, 2)


def test_pixels_are_standardised_too():
    data = load("digits", standardize=True)
    assert data.standard is not None and len(data.standard.mean) == 1 and data.train_x.dtype == np.uint8
    seen = data.standardized()
    assert seen.train_x.dtype == np.float32 and abs(float(seen.train_x.mean(dtype=np.float64))) < 1e-6


def test_whole_numbers_of_any_size_are_features():
    made = arrays([[1, 70_000], [2, -5]], [0, 1], [[3, 4]], [0], standardize=True)
    assert made.train_x.dtype == np.float32 and made.train_x.tolist() == [[1, 70_000], [2, -5]]
    with pytest.raises(DataError, match="standardize takes the place of a scale"):
        arrays([[1, 2]], [0], [[3, 4]], [0], standardize=True, scale=0.5)


def test_samples_to_predict_have_names_or_none(tmp_path):
    (tmp_path / "x.csv").write_text(FEATURES)
    found = load_samples(tmp_path / "x.csv", (2,), numbers=True)
    assert found.dtype == np.float32 and found.tolist() == [[-1.5, 1000], [0.5, 2000], [2.5, 1500]]
    (tmp_path / "y.csv").write_text("length,width\n1,2\n")
    assert load_samples(tmp_path / "y.csv", (2,)).tolist() == [[1, 2]]


def test_names_in_arrays():
    made = arrays(
        np.zeros((3, 2)),
        np.array(["b", "a", "b"], dtype=object),
        np.zeros((1, 2)),
        ["a"],
        valid_x=np.zeros((1, 2)),
        valid_y=["b"],
    )
    assert made.class_names == ("a", "b") and made.train_y is not None and made.train_y.tolist() == [1, 0, 1]
    assert (
        made.test_y is not None
        and made.test_y.tolist() == [0]
        and made.valid_y is not None
        and made.valid_y.tolist() == [1]
    )
    with pytest.raises(DataError, match="test labels: 'c', the label of sample 0, is none of the classes a, b"):
        arrays(np.zeros((2, 2)), ["a", "b"], np.zeros((1, 2)), ["c"])
    with pytest.raises(DataError, match="2 names of classes, and labels above 1"):
        Dataset("mine", made.train_x, np.array([0, 1, 2]), made.test_x, None, class_names=("a", "b"))


def test_a_submission_of_names(tmp_path):
    write_submission(tmp_path / "s.csv", np.array(["cat", 'a, "b"']))
    assert (tmp_path / "s.csv").read_text() == 'ImageId,Label\n1,cat\n2,"a, ""b"""\n'


def test_read_takes_paths(tmp_path):
    files(tmp_path, FEATURES, FEATURES)
    data = read(tmp_path / "train.csv", tmp_path / "test.csv", numbers=True)
    assert data.class_names == ("rose", "tulip") and data.test_y is not None and data.test_y.tolist() == [0, 1, 0]


# Channels last


@pytest.mark.parametrize(
    ("shape", "last"),
    [
        ((5, 32, 32, 3), True), ((5, 28, 28, 1), True), ((5, 8, 6, 4), True), ((5, 3, 32, 32), False), ((5, 1, 28, 28), False),
        ((5, 4, 32, 3), False), ((5, 3, 3, 3), False), ((5, 16, 5, 5), False), ((5, 64, 3, 3), False), ((5, 28, 28), False), ((5, 3), False),
    ],
)  # fmt: skip
def test_what_looks_like_channels_last(shape, last):
    assert looks_nhwc(shape) == last


def test_arrays_with_their_channels_last():
    x = np.arange(2 * 6 * 5 * 3, dtype=np.uint8).reshape(2, 6, 5, 3)
    with pytest.raises(
        DataError,
        match=r"shape \(2, 6, 5, 3\), which looks like NHWC .* layout='NHWC' moves the channels, 'NCHW' insists",
    ) as caught:
        arrays(x, [0, 1], x, [0, 1])
    assert "\n" not in str(caught.value)
    moved = arrays(x, [0, 1], x, [0, 1], layout="NHWC")
    assert (
        moved.in_shape == (3, 6, 5)
        and np.array_equal(moved.train_x, x.transpose(0, 3, 1, 2))
        and moved.train_x.flags.c_contiguous
    )
    assert arrays(x, [0, 1], x, [0, 1], layout="NCHW").in_shape == (6, 5, 3)
    with pytest.raises(DataError, match="layout wants 'NCHW' or 'NHWC', got 'HWC'"):
        arrays(x, [0, 1], x, [0, 1], layout="HWC")


def test_a_net_says_that_channels_are_last():
    net = Net("small", (3, 6, 5), (Flatten(), Linear(out_features=2)), CrossEntropyLoss())
    x = np.zeros((2, 6, 5, 3), np.uint8)
    with pytest.raises(DataError, match=r"takes samples of shape \(3, 6, 5\), mine has \(6, 5, 3\): looks like NHWC"):
        check_fit(net, Dataset("mine", x, np.zeros(2, int), x, None))


def test_columns_of_a_data_frame_are_found_by_their_names(tmp_path, capsys):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal([1000, 5], [100, 1], (300, 2)), columns=["a", "b"])
    kind = frame.a > 1000
    swapped = frame[["b", "a"]]
    data = wl.data.arrays(frame[:200], kind[:200], swapped[200:], kind[200:], standardize=True)
    assert data.columns == ("a", "b") and np.array_equal(data.test_x, frame[200:].to_numpy(np.float32))
    run = wl.train("mlp", data, wl.TrainConfig(epochs=20, optimizer=wl.Adam(1e-2)), rung="numpy")
    run.save(tmp_path / "net.safetensors")
    again = wl.load(tmp_path / "net.safetensors")
    assert again.checkpoint.data.columns == ("a", "b")
    assert again.score(frame, kind) == again.score(swapped, kind) == again.score(frame.to_numpy(), kind) > 0.95
    with pytest.raises(
        DataError, match="x: its columns are not those of the training data: it lacks 'b' and it has 'c'"
    ):
        again.predict(frame.rename(columns={"b": "c"}))
    with pytest.raises(DataError, match=r"arrays: test samples: its columns are not .* it has 'kind'"):
        wl.data.arrays(frame, kind, frame.assign(kind=1), kind)
    lines = {}
    for name, table in (("ab", frame), ("ba", swapped), ("label", swapped.assign(label=0)[["label", "b", "a"]])):
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        assert main(["predict", str(tmp_path / "net.safetensors"), str(tmp_path / f"{name}.csv")]) == 0
        lines[name] = capsys.readouterr().out
    assert lines["ab"] == lines["ba"] == lines["label"] and "True" in lines["ab"]
    frame.rename(columns={"a": "x"}).to_csv(tmp_path / "xb.csv", index=False)
    assert main(["predict", str(tmp_path / "net.safetensors"), str(tmp_path / "xb.csv")]) == 2
    assert "it lacks 'a' and it has 'x'" in capsys.readouterr().err
