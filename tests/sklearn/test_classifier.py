"""`MLPClassifier`: scikit-learn's meaning of every parameter, trained on a rung."""

from __future__ import annotations

import pickle
import pickletools
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier as Theirs
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import warpladder as wl
from warpladder.errors import RungError
from warpladder.sklearn import MLPClassifier

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

X, Y = load_digits(return_X_y=True)
X, Y = X[:400] / 16, Y[:400]
SGD: dict[str, Any] = {
    "solver": "sgd",
    "learning_rate_init": 0.05,
    "shuffle": False,
    "batch_size": 50,
    "hidden_layer_sizes": (20, 10),
}


def both(**settings: Any) -> tuple[Theirs, MLPClassifier]:
    """scikit-learn's fit, and that of a rung."""
    settings = {"random_state": 0, "max_iter": 6} | settings
    return Theirs(**settings).fit(X, Y), MLPClassifier(rung="numpy", **settings).fit(X, Y)


SAME: dict[str, dict[str, Any]] = {
    "sgd with Nesterov's momentum": {},
    "momentum": {"nesterovs_momentum": False},
    "no momentum": {"momentum": 0.0},
    "a partial last batch": {"batch_size": 64},
    "invscaling": {"learning_rate": "invscaling", "learning_rate_init": 0.4, "power_t": 0.2, "momentum": 0.0},
    "adaptive": {"learning_rate": "adaptive", "tol": 0.5, "n_iter_no_change": 1, "max_iter": 8},
    "identity": {"activation": "identity"},
    "tanh": {"activation": "tanh"},
    "logistic": {"activation": "logistic"},
    "one width": {"hidden_layer_sizes": 7},
    "no hidden layer": {"hidden_layer_sizes": ()},
    "invscaling with momentum": {"learning_rate": "invscaling", "learning_rate_init": 0.2, "power_t": 0.2},
    "a larger penalty": {"alpha": 0.01},
}


@pytest.mark.parametrize("case", SAME)
def test_losses_are_scikit_learns_epoch_by_epoch(case):
    theirs, ours = both(**(SGD | SAME[case]))
    assert ours.rung_ == "numpy" and ours.n_iter_ == theirs.n_iter_ and len(ours.loss_curve_) == theirs.n_iter_
    # float32 sums of at most 64 products in some 60 steps; and the penalty acts on intercepts too, with alpha / batch.
    assert np.allclose(ours.loss_curve_, theirs.loss_curve_, rtol=1e-4 + 5 * ours.alpha / ours.batch_size)
    assert abs(ours.score(X, Y) - theirs.score(X, Y)) < 0.02
    assert [coef.shape for coef in ours.coefs_] == [coef.shape for coef in theirs.coefs_]


@pytest.mark.parametrize("labels", [Y, Y > 4, np.where(Y > 4, "high", "low")], ids=["digits", "bool", "names"])
def test_adam_learns_what_scikit_learns_does(labels):
    settings: dict[str, Any] = {
        "random_state": 0,
        "max_iter": 25,
        "learning_rate_init": 0.02,
        "hidden_layer_sizes": (30,),
    }
    theirs = Theirs(**settings).fit(X, labels)
    ours = MLPClassifier(rung="numpy", **settings).fit(X, labels)
    assert ours.score(X, labels) > 0.95 and abs(ours.score(X, labels) - theirs.score(X, labels)) < 0.02
    assert ours.classes_.tolist() == theirs.classes_.tolist() and ours.out_activation_ == theirs.out_activation_
    assert np.allclose(ours.predict_proba(X).sum(axis=1), 1) and ours.n_outputs_ == theirs.n_outputs_


def test_initial_weights_are_scikit_learns():
    theirs, ours = both(**(SGD | {"learning_rate_init": 1e-30, "max_iter": 1}))
    for a, b in zip((*ours.coefs_, *ours.intercepts_), (*theirs.coefs_, *theirs.intercepts_), strict=True):
        assert np.array_equal(a, b.astype(np.float32))


def test_parts_are_a_fit():
    whole = MLPClassifier(rung="numpy", random_state=0, max_iter=3, **SGD).fit(X, Y)
    parts = MLPClassifier(rung="numpy", random_state=0, **SGD)
    for _ in range(3):
        parts.partial_fit(X, Y, classes=np.arange(10))
    assert parts.loss_curve_ == whole.loss_curve_ and parts.t_ == whole.t_
    assert all(np.array_equal(a, b) for a, b in zip(parts.coefs_, whole.coefs_, strict=True))
    with pytest.raises(ValueError, match="partial_fit does not support early_stopping"):
        parts.set_params(early_stopping=True).partial_fit(X, Y)


def test_a_warm_start_goes_on_with_the_weights():
    model = MLPClassifier(rung="numpy", random_state=0, max_iter=3, warm_start=True, **SGD).fit(X, Y)
    first = model.loss_
    assert model.fit(X, Y).loss_ < first and len(model.loss_curve_) == 6


def test_early_stopping_keeps_the_best_weights():
    model = MLPClassifier(
        rung="numpy", random_state=1, early_stopping=True, n_iter_no_change=3, max_iter=200, learning_rate_init=0.02
    ).fit(X, Y)
    assert model.n_iter_ < 200 and model.best_validation_score_ == max(model.validation_scores_) > 0.8
    assert len(model.validation_scores_) == model.n_iter_ and model.best_loss_ is None


def test_the_end_without_convergence_is_said():
    with pytest.warns(ConvergenceWarning, match=r"Maximum iterations \(2\) reached"):
        MLPClassifier(rung="numpy", random_state=0, max_iter=2).fit(X, Y)


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "lbfgs": ({"solver": "lbfgs"}, {}, "lbfgs needs"),
    "weights": ({}, {"sample_weight": np.linspace(-0.1, 1, len(X))}, "a weight of a sample is below 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_rung_trains_is_scikit_learns_by_auto_and_refused_by_name(case):
    settings, more, words = REFUSED[case]
    model = MLPClassifier(random_state=0, max_iter=3, **settings).fit(X, Y, **more)
    theirs = Theirs(random_state=0, max_iter=3, **settings).fit(X, Y, **more)
    assert model.rung_ == "scikit-learn" and words in model.rung_reason_
    assert np.array_equal(model.predict_proba(X), theirs.predict_proba(X))
    with pytest.raises(RungError, match=words):
        MLPClassifier(rung="numpy", **settings).fit(X, Y, **more)


def test_auto_counts_the_work():
    few = MLPClassifier(random_state=0, max_iter=2).fit(X[:20], Y[:20])
    assert few.rung_ == "scikit-learn" and "cold start included, in which no rung is imported" in few.rung_reason_
    many = MLPClassifier(max_iter=40)
    y = np.eye(10, dtype=bool)[np.arange(20_000) % 10]
    many._label_binarizer = few._label_binarizer
    many._choose(np.zeros((20_000, 784), np.float32), y, None, [784, 256, 10], False)
    assert many.rung_ not in ("scikit-learn", "numpy") and "numpy about" in many.rung_reason_
    some = many.set_params(max_iter=2)
    some._choose(np.zeros((20_000, 784), np.float32), y, None, [784, 256, 10], False)
    assert some.rung_ == "numpy" and "scikit-learn about" in some.rung_reason_


def test_few_samples_import_no_rung():
    code = (
        "import sys, numpy; from warpladder.sklearn import MLPClassifier as M; x = numpy.eye(8); "
        "m = M(max_iter=1).fit(x, [0, 1] * 4); "
        "print([name for name in ('warpladder.ladder', 'warpladder.train', 'numba') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_numbers_that_float32_cannot_hold():
    with pytest.raises(ValueError, match="beyond the range of float32, in which rungs train: scale the features"):
        MLPClassifier(rung="numpy").fit(X * 1e300, Y)


def test_a_pickle_holds_arrays_and_no_code():
    model = MLPClassifier(rung="numpy", random_state=0, max_iter=2).fit(X, Y)
    stored = pickle.dumps(model)
    same = pickle.loads(stored)
    assert np.array_equal(same.predict_proba(X), model.predict_proba(X))
    strings = [value for _, value, _ in pickletools.genops(stored) if isinstance(value, str)]
    ours = {each for each in strings if each.startswith("warpladder")}
    assert ours == {"warpladder.sklearn.classifier"}


def test_what_refers_to_warpladder_can_be_pickled():
    cloudpickle = pytest.importorskip("cloudpickle")  # which joblib brings

    def name() -> Any:
        return wl.__name__, wl.TrainConfig(epochs=3).epochs

    assert pickle.loads(cloudpickle.dumps(name))() == ("warpladder", 3)
    assert pickle.loads(cloudpickle.dumps(wl)) is wl and pickle.loads(cloudpickle.dumps(wl.train)) is wl.train


def test_a_clone_in_a_pipeline_is_searched():
    model = MLPClassifier(rung="numpy", random_state=0, learning_rate_init=0.02, max_iter=15)
    pipe = make_pipeline(StandardScaler(), model)
    search = GridSearchCV(clone(pipe), {"mlpclassifier__alpha": [1e-4, 1e-2]}, cv=2).fit(X, Y)
    assert search.best_score_ > 0.7 and "rung='numpy'" in repr(search.best_estimator_)
    assert "rung" in clone(pipe)[-1].get_params() and search.best_estimator_[-1]._repr_html_()


@pytest.mark.slow
def test_two_workers_search_a_grid():
    grid = {"alpha": [1e-4, 1e-3, 1e-2], "hidden_layer_sizes": [(8,), (16,)], "learning_rate_init": [1e-3, 1e-2]}
    model = MLPClassifier(random_state=0, max_iter=10, rung="numpy")
    two, one = (GridSearchCV(model, grid, cv=2, n_jobs=jobs).fit(X, Y) for jobs in (2, 1))
    assert two.best_params_ == one.best_params_
    assert np.array_equal(two.cv_results_["mean_test_score"], one.cv_results_["mean_test_score"])


def failures(model: MLPClassifier) -> dict[str, str]:
    found = check_estimator(model, on_skip=None, on_fail=None)
    assert len(found) >= 60
    return {each["check_name"]: str(each["exception"]) for each in found if each["status"] == "failed"}


@pytest.mark.slow
def test_scikit_learns_checks():
    assert failures(MLPClassifier()) == {}


@pytest.mark.slow
def test_scikit_learns_checks_on_a_rung_in_float64():
    assert failures(MLPClassifier(rung="numpy:precision=fp64")) == {}


@pytest.mark.slow
def test_scikit_learns_checks_on_a_rung():
    """Two checks want float64's 1e-7 of weights against repeated samples, and float32 is below 1e-6."""
    for name, why in failures(MLPClassifier(rung="numpy")).items():
        off = re.search(r"Max absolute difference among violations: (\S+)", why)
        assert name.startswith("check_sample_weight_equivalence") and off and float(off[1]) < 1e-6, (name, why)
