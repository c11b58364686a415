"""Labels that are dates, class numbers where classes have names, columns in a frame's index: said, never guessed."""

from __future__ import annotations

import warnings
from datetime import date
from typing import Any

import numpy as np
import pytest

import warpladder as wl
from warpladder.data import arrays, table
from warpladder.data.labels import label_array, warn_of_dates
from warpladder.errors import DataError
from warpladder.sklearn import MLPClassifier, MLPRegressor

pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
DAYS = ["2024-01-03", "2024-01-04", "2024-02-01"]
QUICK = wl.TrainConfig(epochs=1, batch_size=32)


def frame(rows: int = 60) -> Any:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(3)
    age = rng.normal(40, 9, rows)
    city = rng.choice(["Oslo", "Rome"], rows)
    return pandas.DataFrame({"age": age, "city": city, "answer": np.where(age > 40, "yes", "no")})


@pytest.mark.parametrize("numbers", [[0, 1], [0.0, 1.0], [False, True]])
def test_class_numbers_are_no_labels_where_the_classes_have_names(numbers):
    people = frame()
    data = table(people, "answer")
    run = wl.train("mlp", data, QUICK, rung="numpy")
    y = np.array(numbers)[(people.answer == "yes").to_numpy().astype(int)]
    with pytest.raises(DataError, match=r"y holds numbers, .* give no, yes; of class numbers .* run.classes_\[y\]"):
        run.score(people, y)
    assert run.score(people, run.classes_[y.astype(int)]) == run.score(people)
    assert data.test_y is not None
    assert run.score(data.test_x[:5], data.test_y[:5]) == run.score(data.test_x[:5], run.classes_[data.test_y[:5]])


def test_one_output_for_two_named_classes_takes_names_alone():
    x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    net = wl.Net("one", (3,), (wl.Linear(out_features=1),), wl.BCEWithLogitsLoss())
    y = np.where(x[:, 0] > 0, "up", "down")
    run = wl.train(net, arrays(x, y, x, y), QUICK, rung="numpy")
    assert run.score(x, y) == run.test_accuracy
    with pytest.raises(DataError, match="y holds numbers, 0 first, where the classes have names"):
        run.score(x, (x[:, 0] > 9).astype(int))


def test_labels_that_are_dates_get_a_warning():
    people = frame()
    people["day"] = np.resize(DAYS, len(people))
    words = "are dates or times, '2024-01-03' first, and each of them a class by itself"
    with pytest.warns(UserWarning, match=f"data frame: values of the label 'day' {words}"):
        table(people, "day")
    x = np.arange(18.0).reshape(9, 2)
    with pytest.warns(UserWarning, match=f"arrays: train labels {words}"):
        arrays(x, DAYS * 3, x, DAYS * 3)
    for days in (np.array(DAYS * 3), np.array(DAYS * 3, "datetime64[D]")):
        with pytest.warns(UserWarning, match="y: its labels are dates or times"):
            MLPClassifier((2,), max_iter=1).fit(x, days)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_dates(["2024-01-03", "later"], "labels")
        warn_of_dates([20240103, 20240104], "labels")
        warn_of_dates([], "labels")


@pytest.mark.parametrize("days", [np.array(DAYS, "datetime64[D]"), [date.fromisoformat(day) for day in DAYS]])
def test_dates_are_no_labels_of_arrays(days):
    with pytest.raises(DataError, match="of dates make numbers, and give them as targets"):
        label_array(days, "labels")


@pytest.mark.parametrize("rung", ["auto", "numpy"])
@pytest.mark.parametrize(
    ("y", "words"), [(np.array(DAYS, "datetime64[D]"), "dates or times"), (["1.5", "2.5", "3.5"], "texts")]
)
def test_a_regressor_takes_numbers_alone(rung, y, words):
    x = np.arange(6.0).reshape(3, 2)
    with pytest.raises(ValueError, match=f"y holds {words}: targets are numbers"):
        MLPRegressor(max_iter=1, rung=rung).fit(x, y)
    with pytest.raises(ValueError, match=f"y_val holds {words}: targets are numbers"):
        MLPRegressor(max_iter=1, rung="numpy").fit(x, [1.0, 2.0, 3.0], X_val=x, y_val=y)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"validation": 60}, "data frame: 72 of 60 rows to test and validate with"),
        ({"validation": -1}, "data frame: validation must be 0 rows or more, got -1"),
        ({"limit": 500}, r"data frame: limit must be 1 to 42 \(the training rows\), got 500"),
    ],
)
def test_messages_about_numbers_of_rows_name_the_table(options, words):
    with pytest.raises(DataError, match=words):
        table(frame(), "answer", **options)


@pytest.mark.parametrize("index", ["answer", ["city", "answer"]])
def test_a_label_in_the_index_is_hinted_at(index):
    people = frame()
    words = "'answer' is the frame's index, which reset_index\\(\\) makes a column"
    with pytest.raises(DataError, match=f"there is no column 'answer' for the label: {words}"):
        table(people.set_index(index), "answer")
    run = wl.train("mlp", table(people, "answer"), QUICK, rung="numpy")
    with pytest.raises(DataError, match=f"data frame: {words}"):
        run.score(people.set_index("answer"))
    with pytest.raises(DataError, match="lacks 'city': 'city' is the frame's index"):
        run.predict(people.set_index("city"))
    with pytest.raises(DataError, match=r"'jobs' for the label\. The columns"):
        table(people.set_index("city"), "jobs")


def test_a_gap_among_whole_numbers_is_to_be_filled_in():
    pandas = pytest.importorskip("pandas")
    x = pandas.DataFrame({"age": [1.5, 2, 3, 4], "kids": pandas.array([1, None, 3, 5], dtype="Int64")})
    with pytest.raises(DataError, match="row 1, column 'kids' holds <NA>, which is no number; fill it in, leave it"):
        arrays(x, [0, 1, 0, 1], x, None)


@pytest.mark.parametrize("rows", [1, 9])
def test_a_saved_index_is_left_out_of_a_table_to_predict(rows, tmp_path):
    """`to_csv` writes the index by default; in training it is left out as well."""
    people = frame()
    run = wl.train("mlp", table(people, "answer"), QUICK, rung="numpy")
    some = people.sample(rows, random_state=1)
    some.to_csv(tmp_path / "some.csv")
    with pytest.warns(UserWarning, match=r"some\.csv: 'Unnamed: 0' counts the rows, and is left out"):
        found = run.predict(tmp_path / "some.csv")
    assert (found == run.predict(some)).all()
    with pytest.warns(UserWarning, match="'Unnamed: 0' counts the rows"):
        data = table(people, "answer", test=tmp_path / "some.csv")
    assert (data.test_x == table(people, "answer", test=some).test_x).all()
    for name, values in (("id", range(rows)), ("Unnamed: 0", np.arange(rows) + 0.5)):
        with pytest.raises(DataError, match=f"its columns are not those of the training data: it has '{name}'"):
            run.predict(some.assign(**{name: values}))


def test_a_label_that_no_net_knows_is_named_by_its_row(tmp_path):
    from warpladder.train.samples import fitted

    people = frame()
    run = wl.train("mlp", table(people, "answer"), QUICK, rung="numpy")
    other = table(people.assign(answer="maybe"), "answer", encoding=run.checkpoint.data.table, whole=True)
    with pytest.raises(DataError, match="test labels: 'maybe', the label of sample 0, is none of the classes no, yes"):
        fitted(other, run.net, run.checkpoint.data)
