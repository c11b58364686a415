"""Data frames of polars do what those of pandas do: the same numbers, the same refusals. The nights have polars."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pytest

import warpladder as wl
from warpladder.errors import DataError
from warpladder.sklearn import MLPClassifier, MLPRegressor

polars = pytest.importorskip("polars")
pandas = pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer", "ignore:.*scale the samples")
QUICK = wl.TrainConfig(epochs=2, batch_size=32)
ROWS = 120


def columns() -> dict[str, Any]:
    """Columns with text, gaps, bool and whole numbers."""
    rng = np.random.default_rng(5)
    age = rng.normal(40, 9, ROWS)
    city = [None if n % 7 == 0 else str(c) for n, c in enumerate(rng.choice(["Lima", "Oslo"], ROWS))]
    kids = [None if n % 5 == 0 else int(k) for n, k in enumerate(rng.integers(0, 4, ROWS))]
    return {
        "age": age.tolist(), "city": city, "kids": kids, "own": (age > 35).tolist(),
        "price": (3 * age).tolist(), "answer": np.where(age > 40, "yes", "no").tolist(),
    }  # fmt: skip


def both() -> tuple[Any, Any]:
    """The same table as frames of pandas and polars."""
    return pandas.DataFrame(columns()).astype({"kids": "Int64"}), polars.DataFrame(columns())


def test_a_table_is_trained_predicted_and_scored_alike():
    runs = [wl.train("mlp", wl.data.table(frame, "answer", drop=["price"]), QUICK, rung="numpy") for frame in both()]
    first, second = runs
    assert all(np.array_equal(array, second.params[name]) for name, array in first.params.items())
    for frame in both():
        assert first.predict(frame).tolist() == second.predict(both()[0]).tolist()
        assert first.score(frame) == first.score(frame, frame["answer"]) == second.score(both()[0])
        assert np.array_equal(first.encode(frame[["own", "kids", "city", "age"]]), second.encode(both()[1]))
        with pytest.raises(DataError, match=r"data frame: its columns are not those of .*: it lacks 'own'"):
            first.predict(frame[["age", "city", "kids"]])


@pytest.mark.parametrize("target", ["price", ["price", "age"]])
def test_targets_are_learnt_alike(target):
    data = [wl.data.table(frame, target=target, drop=["answer"]) for frame in both()]
    assert data[0].table == data[1].table and np.array_equal(np.asarray(data[0].train_y), np.asarray(data[1].train_y))
    run = wl.train("mlp", data[1], QUICK, rung="numpy")
    assert np.array_equal(run.predict(both()[0]), run.predict(both()[1]))


def test_kinds_of_columns_of_polars():
    frame = both()[1].drop("price").with_columns(
        polars.col("city").cast(polars.Enum(["Lima", "Oslo", "Rome"])), polars.col("age").cast(polars.Decimal(10, 3)),
        polars.col("answer").cast(polars.Categorical), sort=polars.lit("b"),
    )  # fmt: skip
    data = wl.data.table(frame, "answer")
    assert data.class_names == ("no", "yes") and data.table is not None
    assert data.table.features == [
        "age", "city=Lima", "city=Oslo", "city missing", "kids", "kids missing", "own", "sort=b",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (datetime.date(2024, 1, 3), "dates or times"),
        (datetime.timedelta(days=1), "dates or times"),
        ([1, 2], "list"),
        ({"a": 1}, "dict"),
    ],
)
def test_columns_that_are_no_cells_are_refused(value, words):
    frame = both()[1].drop("price").with_columns(odd=polars.Series([value] * ROWS))
    with pytest.raises(DataError, match=f"data frame: column 'odd' holds {words}: make numbers of it, or .*--drop odd"):
        wl.data.table(frame, "answer")
    dropped = wl.data.table(frame, "answer", drop=["odd"])
    assert (dropped.train_x == wl.data.table(frame.drop("odd"), "answer").train_x).all()
    with pytest.raises(wl.WarpladderError, match=r"a data frame with rows: collect\(\) the lazy one"):
        wl.data.table(frame.lazy(), "answer")


def test_arrays_and_estimators_take_frames_alike():
    plain = ["age", "price"]
    sums, curves, errors = [], [], []
    for frame in both():
        x, y = frame[plain], frame["answer"]
        data = wl.data.arrays(x[:90], y[:90], x[90:], y[90:], sample_weight=frame["price"][:90])
        run = wl.train("mlp", data, QUICK, rung="numpy")
        sums.append((run.score(x, y), run.predict(frame[plain[::-1]]).tolist()))
        model = MLPClassifier((4,), max_iter=3, random_state=0, rung="numpy")
        curves.append(model.fit(x[:90], y[:90], X_val=x[90:], y_val=y[90:]).validation_loss_curve_)
        assert model.feature_names_in_.tolist() == plain
        errors.append(MLPRegressor(max_iter=3, random_state=0, rung="numpy").fit(x, frame["price"]).loss_curve_)
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(frame[plain[::-1]])
    assert sums[0] == sums[1] and curves[0] == curves[1] and errors[0] == errors[1]
