"""`MLPRegressor`: scikit-learn's meaning of every parameter, trained on a rung."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.neural_network import MLPRegressor as Theirs
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from warpladder.errors import RungError
from warpladder.sklearn import MLPRegressor

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

DRAWN = np.random.default_rng(0)
X = DRAWN.normal(size=(300, 6))
ONE = X[:, 0] * 2 + np.sin(2 * X[:, 1]) + 0.1 * DRAWN.normal(size=300)
THREE = np.stack([ONE, X[:, 2] * X[:, 3], 5 + X[:, 4]], axis=1)
SGD: dict[str, Any] = {
    "solver": "sgd",
    "learning_rate_init": 0.01,
    "shuffle": False,
    "batch_size": 50,
    "hidden_layer_sizes": (20, 10),
    "random_state": 0,
    "max_iter": 6,
}

SAME: dict[str, dict[str, Any]] = {
    "sgd with Nesterov's momentum": {},
    "no momentum": {"momentum": 0.0},
    "a partial last batch": {"batch_size": 64},
    "a batch of one at the end": {"batch_size": 299},
    "adaptive": {"learning_rate": "adaptive", "tol": 5.0, "n_iter_no_change": 1, "max_iter": 8},
    "invscaling": {"learning_rate": "invscaling", "learning_rate_init": 0.05, "power_t": 0.2},
    "tanh": {"activation": "tanh"},
    "logistic and adam": {"activation": "logistic", "solver": "adam"},
    "identity": {"activation": "identity", "learning_rate_init": 0.002},
    "no hidden layer": {"hidden_layer_sizes": ()},
}


@pytest.mark.parametrize("y", [ONE, ONE[:, None], THREE], ids=["one", "column", "three"])
@pytest.mark.parametrize("case", SAME)
@pytest.mark.filterwarnings("ignore:A column-vector y")
def test_losses_are_scikit_learns_epoch_by_epoch(case, y):
    settings = SGD | SAME[case]
    theirs = Theirs(**settings).fit(X, y)
    ours = MLPRegressor(rung="numpy", **settings).fit(X, y)
    assert ours.rung_ == "numpy" and ours.n_iter_ == theirs.n_iter_ and len(ours.loss_curve_) == theirs.n_iter_
    # float32 sums of at most 64 products in some 60 steps; and the penalty acts on intercepts too, with alpha / batch.
    assert np.allclose(ours.loss_curve_, theirs.loss_curve_, rtol=1e-4)
    assert ours.predict(X).shape == theirs.predict(X).shape and abs(ours.score(X, y) - theirs.score(X, y)) < 1e-3
    assert (ours.t_, ours.n_outputs_, ours.out_activation_) == (theirs.t_, theirs.n_outputs_, theirs.out_activation_)


def test_adam_learns_what_scikit_learns_does():
    settings: dict[str, Any] = {"random_state": 0, "max_iter": 60, "learning_rate_init": 0.02}
    theirs, ours = Theirs(**settings).fit(X, THREE), MLPRegressor(rung="numpy", **settings).fit(X, THREE)
    assert ours.score(X, THREE) > 0.9 and abs(ours.score(X, THREE) - theirs.score(X, THREE)) < 0.03


def test_parts_are_a_fit_and_a_warm_start_goes_on():
    whole = MLPRegressor(rung="numpy", **SGD).fit(X, ONE)
    parts = MLPRegressor(rung="numpy", **SGD)
    for _ in range(6):
        parts.partial_fit(X, ONE)
    assert parts.loss_curve_ == whole.loss_curve_
    assert all(np.array_equal(a, b) for a, b in zip(parts.coefs_, whole.coefs_, strict=True))
    with pytest.raises(ValueError, match="partial_fit does not support early_stopping"):
        parts.set_params(early_stopping=True).partial_fit(X, ONE)
    assert whole.set_params(warm_start=True).fit(X, ONE).loss_ < parts.loss_ and len(whole.loss_curve_) == 12


def test_early_stopping_keeps_the_weights_of_the_best_r2():
    model = MLPRegressor(
        rung="numpy", random_state=1, early_stopping=True, n_iter_no_change=5, max_iter=200, learning_rate_init=0.02
    ).fit(X, ONE)
    assert model.n_iter_ < 200 and model.best_validation_score_ == max(model.validation_scores_) > 0.7
    assert len(model.validation_scores_) == model.n_iter_ and model.best_loss_ is None


@pytest.mark.parametrize(
    ("settings", "more", "words"),
    [
        ({"solver": "lbfgs"}, {}, "lbfgs needs"),
        ({"loss": "poisson"}, {}, "no rung has the loss 'poisson'"),
        ({}, {"sample_weight": np.linspace(-0.1, 1, len(X))}, "a weight of a sample is below 0"),
    ],
)
def test_what_no_rung_trains_is_scikit_learns_by_auto_and_refused_by_name(settings, more, words):
    settings, y = {"random_state": 0, "max_iter": 3, **settings}, ONE - ONE.min()
    model, theirs = MLPRegressor(**settings).fit(X, y, **more), Theirs(**settings).fit(X, y, **more)
    assert model.rung_ == "scikit-learn" and words in model.rung_reason_
    assert np.array_equal(model.predict(X), theirs.predict(X))
    with pytest.raises(RungError, match=words):
        MLPRegressor(rung="numpy", **settings).fit(X, y, **more)


def test_targets_that_float32_cannot_hold():
    with pytest.raises(ValueError, match="y holds numbers beyond the range of float32, in which rungs train: scale"):
        MLPRegressor(rung="numpy").fit(X, ONE * 1e300)


def test_a_pipeline_is_cross_validated():
    model = MLPRegressor(rung="numpy", random_state=0, learning_rate_init=0.02, max_iter=60)
    assert cross_val_score(clone(make_pipeline(StandardScaler(), model)), X, THREE, cv=2).mean() > 0.6


def test_parameters_are_scikit_learns_and_the_rung():
    theirs, ours = inspect.signature(Theirs).parameters, dict(inspect.signature(MLPRegressor).parameters)
    own = {"rung": "auto", "delta": 1.0, "dropout": 0.0, "batch_norm": False, "weight_decay": 0.0, "schedule": None}
    own["initial"] = None
    assert {name: ours.pop(name).default for name in own} == own and list(ours) == list(theirs)
    assert all(ours[name].default == theirs[name].default and ours[name].kind == theirs[name].kind for name in theirs)


@pytest.mark.slow
@pytest.mark.parametrize("rung", ["auto", "numpy"])
def test_scikit_learns_checks(rung):
    found = check_estimator(MLPRegressor(rung=rung), on_skip=None, on_fail=None)
    failed = {each["check_name"]: str(each["exception"]) for each in found if each["status"] == "failed"}
    assert len(found) >= 57
    for name, why in failed.items():  # float32 where float64's 1e-7 of weights against repeated samples is wanted
        off = re.search(r"Max absolute difference among violations: (\S+)", why)
        assert rung == "numpy" and name.startswith("check_sample_weight_equivalence"), (name, why)
        assert off and float(off[1]) < 1e-6, why
