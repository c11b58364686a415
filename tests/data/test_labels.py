"""Labels of any kind: their sorted distinct values are the classes, and predictions are these values again."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import warpladder as wl
from warpladder.data import arrays
from warpladder.data.labels import classes_of, label_array, numbered
from warpladder.errors import DataError

KINDS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "from 1": ([1, 2, 3], (1, 2, 3)),
    "codes": ([20109, 20354, 20110], (20109, 20110, 20354)),
    "signs": ([-1, 1, 1], (-1, 1)),
    "floats": ([0.0, 2.0, 1.0], (0.0, 1.0, 2.0)),
    "bool": ([True, False, True], (False, True)),
    "names": (["b", "a", "b"], ("a", "b")),
    "objects": (np.array(["b", "a"], object), ("a", "b")),
    "strings of any length": (np.array(["b", "ä"], np.dtypes.StringDType()), ("b", "ä")),
    "bytes": (np.array([b"b", b"a"]), ("a", "b")),
    "bytes in a list": ([b"b", "ä".encode()], ("b", "ä")),
    "a column": (np.array([[4], [5]]), (4, 5)),
    "class numbers": ([0, 1, 2], ()),
    "unsigned class numbers": (np.array([1, 0], np.uint8), ()),
    "a gap": ([0, 2, 5], (0, 2, 5)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_sorted_distinct_values_are_the_classes(kind):
    labels, classes = KINDS[kind]
    made = arrays(np.zeros((len(labels), 2)), labels, np.zeros((1, 2)), labels[:1])
    assert made.class_names == classes and [type(each) for each in made.class_names] == [type(c) for c in classes]
    array = label_array(labels, "y")
    wanted = np.unique(array, return_inverse=True)[1].ravel()
    assert made.train_y is not None and made.train_y.tolist() == wanted.tolist()
    assert made.classes == len(np.unique(array))


def test_a_class_number_that_only_another_part_has():
    made = arrays(np.zeros((2, 2)), [0, 2], np.zeros((1, 2)), [1])
    assert made.class_names == () and made.classes == 3


BAD = {
    "mixed": (["a", 0, "b"], "mix names and numbers, 'a' and 0"),
    "mixed objects": (np.array(["a", 1], object), "mix names and numbers"),
    "masked": (np.ma.masked_array([1, 0], [False, True]), "train labels: masked values have no number: fill them in"),
    "numbers of another kind": ([Decimal(1), Decimal(0)], r"Decimal\('1'\): labels are names, whole numbers or bool"),
    "missing": (["a", None], "the label of sample 1 is None"),
    "nan": ([0.0, float("nan")], "the label of sample 1 is nan"),
    "decimals": (
        [1.5, 2.25],
        "must be whole numbers or names, got 1.5: targets of a regression are given with targets=True",
    ),
    "one-hot": (np.eye(2, dtype=int), "give class numbers, not one-hot rows"),
    "dates": (np.array(["2026-01-01", "2026-01-02"], "datetime64[D]"), "must be names or numbers"),
    "complex": (np.array([1j, 2]), "must be names or numbers"),
}


@pytest.mark.parametrize("kind", BAD)
def test_labels_that_cannot_be(kind):
    labels, words = BAD[kind]
    with pytest.raises(DataError, match=words) as caught:
        arrays(np.zeros((2 if kind != "mixed" else 3, 2)), labels, np.zeros((1, 2)), None)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("labels", [[3, 1, 2, 1], [1.0, 0.0, 1.0, 1.0], [True, False, True, True], list("abab")])
def test_predictions_are_labels_again_also_from_a_file(labels, tmp_path):
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    net = wl.Net("n", (3,), (wl.Linear(out_features=3),), wl.CrossEntropyLoss())
    run = wl.train(net, arrays(x, labels, x, labels), wl.TrainConfig(epochs=60, batch_size=4, learning_rate=1.0))
    run.save(tmp_path / "n.safetensors")
    same = wl.load(tmp_path / "n.safetensors")
    known = np.unique(np.array(labels))
    for each in (run, same):
        found = each.predict(x)
        assert set(found.tolist()) <= set(each.classes_.tolist()) and each.score(x, labels) == (found == labels).mean()
        assert each.classes_[: len(known)].tolist() == known.tolist()
    assert run.score(x, labels) == run.test_accuracy == 1.0


def test_classes_and_numbers_are_inverse():
    labels = np.array([7, -3, 7, 0])
    classes = classes_of(labels)
    assert np.array(classes)[numbered(labels, classes, "y")].tolist() == labels.tolist()
    with pytest.raises(DataError, match="y: 5, the label of sample 0, is none of the classes -3, 0, 7"):
        numbered(np.array([5]), classes, "y")


FEATURES = {
    "nan": ([[1.0, float("nan")]], "nan in row 0, column 1"),
    "a gap": (np.array([[1, None]], object), "nan in row 0, column 1; fill it in, leave it out"),
    "text": (np.array([[1, "b"]], object), "row 0, column 1 holds 'b', which is no number"),
    "dates": (np.array([["2026-01-01"]], "datetime64[D]"), "must be numbers"),
    "complex": (np.array([[1j]]), "must be numbers"),
    "masked": (
        np.ma.masked_array([[1.0, 2.0]], [[False, True]]),
        "samples: masked values have no number: fill them in",
    ),
}


@pytest.mark.parametrize("kind", FEATURES)
def test_features_that_cannot_be(kind):
    x, words = FEATURES[kind]
    with pytest.raises(DataError, match=words):
        arrays(x, [0], x, [0])


def test_masks_without_a_masked_value_and_weights_that_are_no_numbers():
    x = np.ma.masked_array([[1.0, 2.0]], [[False, False]])
    assert arrays(x, [0], x, [0]).train_x.tolist() == [[1.0, 2.0]]
    with pytest.raises(DataError, match="weights of samples must be numbers, got <U1"):
        arrays(x, [0], x, [0], sample_weight=["a"])
    with pytest.raises(DataError, match="train targets: masked values have no number"):
        arrays(x, np.ma.masked_array([0.5], [True]), x, [0.5], targets=True)


@pytest.mark.parametrize("x", [[[1, 70_000]], [[-5, 2]], np.array([[1, 2.5]], object), [[True, False]]])
def test_numbers_of_any_kind_are_features(x):
    made = arrays(x, [0], x, [0])
    assert made.train_x.dtype == np.float32 and made.train_x.tolist() == np.asarray(x, float).tolist()
