"""Callbacks of scikit-learn 1.9: hooks of the fit and of each epoch, in both arithmetics, and what an error leaves."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import warpladder as wl
from warpladder.sklearn import CNNClassifier, MLPClassifier, MLPRegressor

callback = pytest.importorskip("sklearn.callback")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

X, Y = load_digits(return_X_y=True)
X, Y = X[:120] / 16, Y[:120]
SETTINGS: dict[str, Any] = {"random_state": 0, "batch_size": 30, "max_iter": 4, "learning_rate_init": 0.02}


class Seen:
    """Callback that notes its hooks. It returns True, or raises an error, after an epoch."""

    def __init__(self, stop: int | None = None, error: BaseException | None = None) -> None:
        self.stop, self.error, self.epochs = stop, error, 0
        self.hooks: list[tuple[Any, ...]] = []
        self.models: list[Any] = []
        self.ends: list[dict[str, Any]] = []

    def setup(self, estimator: Any, context: Any) -> None:
        self.hooks.append(("setup", context.task_name, context.max_subtasks))

    def teardown(self, estimator: Any, context: Any) -> None:
        self.hooks.append(("teardown", context.task_name))

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        self.hooks.append(("begin", context.task_name, context.task_id))

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, X: Any, y: Any, metadata: Any, fitted_estimator: Any
    ) -> bool | None:
        self.hooks.append(("end", context.task_name, context.task_id))
        self.models.append(fitted_estimator)
        self.ends.append({"X": X, "y": y, "metadata": metadata})
        self.epochs += context.task_name == "epoch"
        if self.error is not None and self.epochs == 2:
            raise self.error
        return self.stop == self.epochs


def fitted(rung: str = "numpy", seen: Seen | None = None, **settings: Any) -> tuple[MLPClassifier, Seen]:
    seen = Seen() if seen is None else seen
    model = MLPClassifier((8,), rung=rung, **(SETTINGS | settings)).set_callbacks(seen)
    if rung == "scikit-learn":
        model.rung = "auto"  # which takes it for so few samples
    return model.fit(X, Y), seen


ARITHMETICS = pytest.mark.parametrize("rung", ["numpy", "scikit-learn"])


@ARITHMETICS
def test_each_epoch_is_a_task_of_the_fit(rung):
    model, seen = fitted(rung)
    assert model.rung_ == rung and model.n_iter_ == 4
    epochs = [(hook, "epoch", i) for i in range(4) for hook in ("begin", "end")]
    assert seen.hooks == [
        ("setup", "fit", 4), ("begin", "fit", 0), *epochs, ("end", "fit", 0), ("teardown", "fit"),
    ]  # fmt: skip
    assert all(each["X"] is X and each["y"] is Y and each["metadata"] is None for each in seen.ends)
    assert "_callbacks" not in vars(model)


@ARITHMETICS
def test_the_estimator_of_an_epoch_predicts_as_a_fit_of_so_many_epochs(rung):
    _, seen = fitted(rung)
    for epochs, found in enumerate(seen.models[:4], 1):
        alone, _ = fitted(rung, max_iter=epochs)
        assert np.array_equal(found.predict_proba(X), alone.predict_proba(X)) and len(found.loss_curve_) == epochs
    assert np.array_equal(seen.models[4].predict_proba(X), alone.predict_proba(X))


@ARITHMETICS
@pytest.mark.parametrize("early", [False, True], ids=["", "early stopping"])
def test_a_callback_that_returns_true_ends_the_fit_with_its_epoch(rung, early):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # none about convergence
        model, seen = fitted(rung, Seen(stop=2), early_stopping=early, max_iter=2 if early else 4)
    assert model.n_iter_ == 2 and seen.hooks[-2:] == [("end", "fit", 0), ("teardown", "fit")]
    alone, _ = fitted(rung, max_iter=2, early_stopping=early)
    assert np.array_equal(model.predict_proba(X), alone.predict_proba(X))


@ARITHMETICS
@pytest.mark.parametrize("error", [ValueError("mine"), KeyError("mine")], ids=["ValueError", "KeyError"])
def test_an_error_of_a_callback_leaves_a_fitted_estimator(rung, error):
    seen = Seen(error=error)
    model = MLPClassifier((8,), rung="auto" if rung == "scikit-learn" else rung, **SETTINGS).set_callbacks(seen)
    with pytest.raises(type(error), match="mine"):
        model.fit(X, Y)
    assert seen.hooks[-1] == ("teardown", "fit") and model.n_iter_ == 2
    alone, _ = fitted(rung, max_iter=2)
    assert np.array_equal(model.predict_proba(X), alone.predict_proba(X))
    assert model.set_callbacks().fit(X, Y).n_iter_ == 4


def test_parts_and_lbfgs_are_tasks_too():
    model, seen = MLPClassifier((8,), rung="numpy", **SETTINGS), Seen()
    model.set_callbacks(seen)
    for _ in range(2):
        model.partial_fit(X, Y, classes=np.arange(10))
    assert [each[:2] for each in seen.hooks].count(("end", "epoch")) == 2
    assert seen.hooks[:2] == [("setup", "partial_fit", 1), ("begin", "partial_fit", 0)]
    _, seen = fitted("scikit-learn", solver="lbfgs")
    assert [each[0] for each in seen.hooks] == ["setup", "begin", "end", "teardown"]
    assert seen.hooks[0] == ("setup", "fit", 0) and seen.models[0].score(X, Y) > 0.1


def test_targets_images_and_weights_reach_a_callback_as_they_were_given():
    weight, seen = np.linspace(0.5, 1, len(X)), Seen()
    MLPRegressor(hidden_layer_sizes=(4,), rung="numpy", **SETTINGS).set_callbacks(seen).fit(X, Y / 9, weight)
    assert seen.ends[0]["metadata"]["sample_weight"] is weight and seen.models[0].predict(X).shape == (120,)
    images = X.reshape(-1, 8, 8)
    layers = (wl.Conv2d(out_channels=2, kernel_size=3, stride=2), wl.ReLU())
    seen = Seen()
    model = CNNClassifier(layers, rung="numpy", **SETTINGS).set_callbacks(seen).fit(images, Y, X_val=images, y_val=Y)
    assert seen.ends[0]["X"] is images and seen.epochs == 4 and len(model.validation_loss_curve_) == 4
    assert np.array_equal(seen.models[-1].predict(images), model.predict(images))


def test_scikit_learns_monitor_scores_each_epoch():
    monitor = callback.ScoringMonitor(scoring=["accuracy", "neg_log_loss"])
    model = MLPClassifier((8,), rung="numpy", **SETTINGS).set_callbacks(monitor).fit(X, Y)
    rows = monitor.get_logs().data
    epochs = [row for row in rows if row["task_name"] == "epoch"]
    assert [row["task_id"] for row in epochs] == [0, 1, 2, 3]
    assert epochs[-1]["accuracy"] == model.score(X, Y) and epochs[-1]["neg_log_loss"] > epochs[0]["neg_log_loss"]


def test_a_search_over_a_pipeline_hands_its_callbacks_to_the_estimator():
    pipe = make_pipeline(StandardScaler(), MLPClassifier((4,), rung="numpy", **(SETTINGS | {"max_iter": 2})))
    monitor = callback.ScoringMonitor(scoring="accuracy")
    pipe[-1].set_callbacks(monitor)
    search = GridSearchCV(clone(pipe), {"mlpclassifier__alpha": [1e-4, 1e-2]}, cv=2)
    bar = callback.ProgressBar(max_propagation_depth=None)
    search.set_callbacks(bar).fit(X, Y)
    rows = monitor.get_logs().data
    assert sum(row["task_name"] == "epoch" for row in rows) == 2 * (2 * 2 + 1)
    assert len({row["task_id_path"] for row in rows}) == len(rows)


@pytest.mark.slow
def test_workers_of_a_search_send_the_scores_of_their_epochs():
    monitor = callback.ScoringMonitor(scoring="accuracy")
    model = MLPClassifier((4,), rung="numpy", **(SETTINGS | {"max_iter": 2})).set_callbacks(monitor)
    GridSearchCV(model, {"alpha": [1e-4, 1e-2]}, cv=2, n_jobs=2).fit(X, Y)
    assert sum(row["task_name"] == "epoch" for row in monitor.get_logs().data) == 10


def test_what_is_no_callback_is_refused():
    with pytest.raises(TypeError, match="FitCallback protocol"):
        MLPClassifier().set_callbacks(print)
