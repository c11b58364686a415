"""Weights of samples and classes, several labels, held-out samples and robust losses in the estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix  # type: ignore[import-untyped]
from sklearn.base import clone
from sklearn.datasets import make_classification, make_multilabel_classification, make_regression
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier as TheirClassifier
from sklearn.neural_network import MLPRegressor as TheirRegressor

from warpladder.errors import RungError
from warpladder.sklearn import MLPClassifier, MLPRegressor

pytestmark = pytest.mark.filterwarnings(f"ignore::{ConvergenceWarning.__module__}.{ConvergenceWarning.__name__}")

#: Settings at which both programs do the same arithmetic, but for float32.
SAME: dict[str, Any] = {
    "hidden_layer_sizes": (7,), "solver": "sgd", "learning_rate_init": 0.05, "alpha": 0.0, "batch_size": 20,
    "shuffle": False, "max_iter": 8, "random_state": 3,
}  # fmt: skip


def classes(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x, y = make_classification(130, 6, n_informative=4, n_redundant=0, n_classes=count, random_state=0)
    return x, y, np.random.default_rng(0).uniform(0.1, 3, len(x))


def test_weighted_fits_of_classes_have_scikit_learns_losses() -> None:
    x, y, weight = classes(3)
    theirs = TheirClassifier(**SAME).fit(x, y, sample_weight=weight)
    ours = MLPClassifier(**SAME, rung="numpy").fit(x, y, sample_weight=weight)
    assert ours.rung_ == "numpy" and np.allclose(ours.loss_curve_, theirs.loss_curve_, rtol=1e-5)


def test_a_weight_of_two_is_a_sample_twice() -> None:
    x, y, _ = classes(2)
    times = np.random.default_rng(1).integers(1, 3, len(x))
    once = MLPClassifier(**SAME | {"batch_size": len(x)}, rung="numpy").fit(x, y, sample_weight=times)
    more = MLPClassifier(**SAME | {"batch_size": times.sum()}, rung="numpy").fit(x.repeat(times, 0), y.repeat(times))
    assert np.allclose(once.loss_curve_, more.loss_curve_, rtol=1e-5)


def test_several_labels_have_scikit_learns_losses() -> None:
    x, y = make_multilabel_classification(130, 6, n_classes=3, random_state=0)
    for weight in (None, np.random.default_rng(0).uniform(0.1, 3, len(x))):
        theirs = TheirClassifier(**SAME).fit(x, y, sample_weight=weight)
        ours = MLPClassifier(**SAME, rung="numpy").fit(x, y, sample_weight=weight)
        assert np.allclose(ours.loss_curve_, theirs.loss_curve_, rtol=1e-5)
        assert (ours.predict(x) == theirs.predict(x)).mean() > 0.99
        assert np.allclose(ours.predict_proba(x), theirs.predict_proba(x), atol=1e-4)


def test_weighted_fits_of_targets_have_scikit_learns_losses() -> None:
    x, y = make_regression(130, 6, n_targets=2, random_state=0)
    y, weight = y / 100, np.random.default_rng(0).uniform(0.1, 3, len(x))
    theirs = TheirRegressor(**SAME).fit(x, y, sample_weight=weight)
    ours = MLPRegressor(**SAME, rung="numpy").fit(x, y, sample_weight=weight)
    assert np.allclose(ours.loss_curve_, theirs.loss_curve_, rtol=1e-5)
    assert np.allclose(ours.predict(x), theirs.predict(x), atol=1e-4)


def test_the_penalty_is_divided_by_the_weights() -> None:
    x, y, _ = classes(3)
    twice = MLPClassifier(**SAME | {"alpha": 2.0}, rung="numpy").fit(x, y, sample_weight=np.full(len(x), 2.0))
    once = MLPClassifier(**SAME | {"alpha": 1.0}, rung="numpy").fit(x, y)
    assert np.allclose(twice.loss_curve_, once.loss_curve_, rtol=1e-6)


@pytest.mark.parametrize("rung", ["numpy", "auto"])
def test_weights_of_classes_are_weights_of_their_samples(rung: str) -> None:
    x, y, weight = classes(3)
    own = {0: 1.0, 1: 5.0, 2: 0.5}
    found = MLPClassifier(**SAME, rung=rung, class_weight=own).fit(x, y, sample_weight=weight)
    wanted = MLPClassifier(**SAME, rung=rung).fit(x, y, sample_weight=weight * np.vectorize(own.get)(y))
    assert found.loss_curve_ == wanted.loss_curve_


def test_rare_classes_are_found_when_classes_weigh_alike() -> None:
    x, y = make_classification(600, 4, weights=[0.95], class_sep=0.7, random_state=1, n_informative=3, n_redundant=0)
    more = SAME | {"max_iter": 30, "rung": "numpy"}
    recall = [
        MLPClassifier(**more, class_weight=each).fit(x, y).predict(x)[y == 1].mean() for each in (None, "balanced")
    ]
    assert recall[1] > recall[0] + 0.1


def test_class_weights_that_cannot_be() -> None:
    x, y, _ = classes(3)
    with pytest.raises(ValueError, match="class_weight='balanced' wants all samples at once"):
        MLPClassifier(class_weight="balanced").partial_fit(x, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="class_weight is for samples with one label each"):
        MLPClassifier(class_weight="balanced").fit(x, np.eye(3, dtype=int)[y] | 1)
    assert MLPClassifier(rung="auto").fit(x, y, sample_weight=-np.ones(len(x))).rung_ == "scikit-learn"
    with pytest.raises(RungError, match="a weight of a sample is below 0"):
        MLPClassifier(rung="numpy").fit(x, y, sample_weight=-np.ones(len(x)))
    for weight in ({0: np.nan}, {1: np.inf}, {0: None}, {0: 0, 1: 0, 2: 0}):
        for rung in ("auto", "numpy"):
            with pytest.raises(ValueError, match=r"class_weight=.*: wants finite numbers, not all of them 0"):
                MLPClassifier(class_weight=weight, rung=rung).fit(x, y)


def test_held_out_samples_may_be_sparse() -> None:
    x, y, _ = classes(2)
    dense = MLPClassifier(**SAME, rung="numpy").fit(x, y, X_val=x[:9], y_val=y[:9])
    sparse = MLPClassifier(**SAME, rung="numpy").fit(csr_matrix(x), y, X_val=csr_matrix(x[:9]), y_val=y[:9])
    assert sparse.validation_loss_curve_ == dense.validation_loss_curve_ is not None


@pytest.mark.parametrize("early_stopping", [False, True])
def test_the_loss_on_samples_that_are_held_out(early_stopping: bool) -> None:
    x, y, _ = classes(3)
    names = np.array(["a", "b", "c"])[y]
    settings = SAME | {"early_stopping": early_stopping, "n_iter_no_change": 50, "rung": "auto"}
    model = MLPClassifier(**settings).fit(x[:100], names[:100], X_val=x[100:], y_val=names[100:])
    assert model.rung_ != "scikit-learn"
    assert model.validation_loss_curve_ is not None and len(model.validation_loss_curve_) == model.n_iter_
    if early_stopping:
        assert len(model.validation_scores_) == model.n_iter_
        assert max(model.validation_scores_) == model.score(x[100:], names[100:])
    else:
        wanted = log_loss(names[100:], model.predict_proba(x[100:]))
        assert model.validation_loss_curve_[-1] == pytest.approx(wanted, rel=1e-5)
    split = MLPClassifier(**SAME | {"early_stopping": True, "rung": "numpy"}).fit(x, y)
    own = MLPClassifier(**SAME | {"early_stopping": True, "rung": "auto"}).fit(x, y)
    assert own.rung_ == "scikit-learn" and own.validation_loss_curve_ is not None
    assert (
        own.validation_loss_curve_[-1] < own.validation_loss_curve_[0]
        and len(own.validation_loss_curve_) == own.n_iter_
    )
    assert split.validation_loss_curve_ is not None and len(split.validation_loss_curve_) == split.n_iter_
    assert MLPClassifier(**SAME, rung="numpy").fit(x, y).validation_loss_curve_ is None


def test_held_out_samples_that_do_not_fit() -> None:
    x, y, _ = classes(2)
    model = MLPClassifier(**SAME)
    with pytest.raises(ValueError, match="X_val and y_val are given together"):
        model.fit(x, y, X_val=x)
    with pytest.raises(ValueError, match="y_val has labels that y has not"):
        model.fit(x, y, X_val=x, y_val=y + 1)
    with pytest.raises(ValueError, match="X_val has 9 samples, y_val 8"):
        model.fit(x, y, X_val=x[:9], y_val=y[:8])
    with pytest.raises(ValueError, match="features"):
        model.fit(x, y, X_val=x[:, :3], y_val=y)
    with pytest.raises(ValueError, match="y_val has 2 targets for each sample, y 1"):
        MLPRegressor(**SAME).fit(x, x[:, 0], X_val=x, y_val=x[:, :2])
    with pytest.raises(RungError, match="X_val wants a rung"):
        clone(model).set_params(solver="lbfgs").fit(x, y, X_val=x, y_val=y)


@pytest.mark.parametrize("loss", ["absolute_error", "huber"])
def test_robust_losses_care_less_for_outliers(loss: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (300, 1))
    y = 2 * x.ravel()
    y[::10] = 30
    settings = SAME | {"max_iter": 60, "learning_rate_init": 0.02}
    off = {
        name: np.median(np.abs(MLPRegressor(name, **settings, delta=0.5, rung="auto").fit(x, y).predict(x) - y))
        for name in (loss, "squared_error")
    }
    assert off[loss] < 0.5 < off["squared_error"]


def test_robust_losses_are_what_they_are_called() -> None:
    x, y = make_regression(130, 6, n_targets=2, random_state=0)
    y, held = y / 100, slice(0, 40)
    model = MLPRegressor("huber", **SAME, delta=0.3).fit(x, y, X_val=x[held], y_val=y[held])
    d = np.abs(model.predict(x[held]) - y[held])
    wanted = np.where(d <= 0.3, d**2 / 2, 0.3 * (d - 0.15)).mean()
    assert model.validation_loss_curve_ is not None and model.validation_loss_curve_[-1] == pytest.approx(
        wanted, rel=1e-4
    )
    model = MLPRegressor("absolute_error", **SAME).fit(x, y, X_val=x[held], y_val=y[held])
    wanted = np.abs(model.predict(x[held]) - y[held]).mean()
    assert model.validation_loss_curve_ is not None and model.validation_loss_curve_[-1] == pytest.approx(
        wanted, rel=1e-4
    )
    with pytest.raises(RungError, match="loss='huber' wants a rung"):
        MLPRegressor("huber", solver="lbfgs").fit(x, y)
    with pytest.raises(ValueError, match="delta"):
        MLPRegressor("huber", delta=0).fit(x, y)


@pytest.mark.parametrize("kind", ["two classes", "three classes", "several labels", "targets"])
def test_the_loss_on_held_out_samples_by_scikit_learns_arithmetic(kind: str) -> None:
    x, y, _ = classes(3)
    goals = {"two classes": y % 2, "three classes": y, "several labels": np.c_[y == 0, y > 0] * 1, "targets": x[:, 0]}[
        kind
    ]
    made = MLPRegressor if kind == "targets" else MLPClassifier
    settings: dict[str, Any] = {
        "early_stopping": True,
        "n_iter_no_change": 99,
        "max_iter": 8,
        "random_state": 0,
        "alpha": 0.0,
    }
    found = [made(hidden_layer_sizes=(9,), rung=rung, **settings).fit(x, goals) for rung in ("auto", "numpy")]
    assert found[0].rung_ == "scikit-learn" and found[1].rung_ == "numpy"
    own, other = (np.array(model.validation_loss_curve_) for model in found)
    assert len(own) == 8 and np.allclose(own, other, rtol=0.1)  # other orders of samples, the same split
