"""`CNNClassifier`: images in each layout, scikit-learn's interface, clear refusals."""

from __future__ import annotations

import pickle
import re
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix  # type: ignore[import-untyped]
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import check_estimator

import warpladder as wl
from warpladder.errors import NetError, RungError
from warpladder.sklearn import CNNClassifier

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

X, Y = load_digits().images[:120] / 16, load_digits().target[:120]
SMALL = (wl.Conv2d(out_channels=4, kernel_size=3, stride=2), wl.ReLU())
RESNET = (
    wl.Conv2d(out_channels=4, kernel_size=3, stride=2, bias=False), wl.BatchNorm2d(), wl.ReLU(),
    wl.Residual(wl.Conv2d(out_channels=4, kernel_size=3, padding=1), wl.BatchNorm2d()), wl.ReLU(),
)  # fmt: skip


def made(layers: Any = SMALL, **settings: Any) -> CNNClassifier:
    known: dict[str, Any] = {
        "random_state": 0,
        "max_iter": 4,
        "rung": "numpy",
        "learning_rate_init": 0.02,
        "batch_size": 20,
    }
    return CNNClassifier(layers, **(known | settings))


def test_it_learns_digits_with_the_usual_layers() -> None:
    model = made(None, max_iter=8).fit(X, Y)
    assert model.score(X, Y) > 0.95 and model.rung_ == "numpy" and model.n_features_in_ == 64
    assert model.net_.in_shape == (1, 8, 8) and [a.ndim for a in model.coefs_] == [4, 4, 2]
    found = model.predict_proba(X)
    assert found.shape == (120, 10) and np.allclose(found.sum(axis=1), 1)


def test_layouts_of_images_give_one_fit() -> None:
    rng = np.random.default_rng(0)
    last = rng.normal(size=(40, 5, 6, 3))
    first, y = last.transpose(0, 3, 1, 2), rng.integers(0, 3, 40)
    models = [
        (made(), last), (made(channels="first"), first), (made(image_shape=(5, 6, 3)), last.reshape(40, -1)),
        (made(channels="first", image_shape=(3, 5, 6)), first.reshape(40, -1)),
    ]  # fmt: skip
    found = [model.fit(x, y).predict_proba(x) for model, x in models]
    assert models[0][0].net_.in_shape == (3, 5, 6)
    assert all(np.array_equal(each, found[0]) for each in found[1:])
    flat = made().fit(last[..., 0], y)
    assert np.array_equal(flat.predict_proba(last[..., 0]), made().fit(last[..., :1], y).predict_proba(last[..., :1]))


def test_predictions_are_those_of_the_net() -> None:
    """Running statistics are stored, also those of the best epoch."""
    model = made(RESNET, early_stopping=True).fit(X, Y)
    params, buffers = model._weights(model.net_)
    assert buffers is not None and not np.array_equal(buffers, np.sort(buffers) * 0)
    from warpladder.config import TrainConfig
    from warpladder.proof.reference import ReferenceTrainer
    from warpladder.trainers.base import State

    out = ReferenceTrainer(model.net_, TrainConfig(), State(params, buffers=buffers)).predict(X[:, None], 1.0)
    e = np.exp(out - out.max(axis=1, keepdims=True))
    assert np.abs(model.predict_proba(X) - e / e.sum(axis=1, keepdims=True)).max() <= 1e-5
    best = max(range(len(model.validation_scores_)), key=model.validation_scores_.__getitem__)
    assert model.best_validation_score_ == model.validation_scores_[best]


def test_two_classes_keep_their_names_and_pickles_predict() -> None:
    names = np.where(Y > 4, "high", "low")
    model = made(class_weight="balanced").fit(X, names, X_val=X[:10], y_val=names[:10])
    assert list(model.classes_) == ["high", "low"] and model.predict_proba(X).shape == (120, 2)
    assert set(model.predict(X)) <= {"high", "low"} and len(model.validation_loss_curve_ or ()) == 4
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))


def test_pipelines_searches_clones_and_parts() -> None:
    rows = X.reshape(120, -1)
    search = GridSearchCV(
        make_pipeline(MinMaxScaler(), made(image_shape=(8, 8), max_iter=1)), {"cnnclassifier__alpha": [0, 1e-3]}, cv=2
    )
    assert search.fit(rows, Y).predict(rows).shape == (120,)
    model = clone(made(image_shape=(8, 8)))
    assert model.layers == SMALL
    for _ in range(3):
        model.partial_fit(rows, Y, classes=np.arange(10))
    assert model.loss_curve_[-1] < model.loss_curve_[0]
    warm = made(warm_start=True, max_iter=2).fit(X, Y)
    before = warm.loss_curve_[-1]
    assert warm.fit(X, Y).loss_curve_[-1] < before


@pytest.mark.parametrize(
    ("fit", "error", "words"),
    [
        (lambda: made().fit(X.reshape(120, -1), Y), ValueError, "give image_shape"),
        (lambda: made(image_shape=(8, 9)).fit(X.reshape(120, -1), Y), ValueError, "has 72 pixels, X has 64"),
        (lambda: made(image_shape=(8,)).fit(X.reshape(120, -1), Y), ValueError, "wants .height, width."),
        (lambda: made(None, channels="first").fit(np.repeat(X[..., None], 3, 3), Y), NetError, "images are 8 x 3 with 8 channels, by channels='first'"),
        (lambda: made().fit(X[:0], Y[:0]), ValueError, r"Found array with 0 sample\(s\)"),
        (lambda: made().fit(X, Y).predict(X[:0]), ValueError, r"Found array with 0 sample\(s\)"),
        (lambda: made().fit(X, Y).predict(X[:, :4]), ValueError, r"images have shape \(1, 4, 8\)"),
        (lambda: made(image_shape=(8, 8)).fit(csr_matrix(X.reshape(120, -1)), Y), TypeError, "[Ss]parse"),
        (lambda: made(solver="lbfgs").fit(X, Y), ValueError, "solver"),
        (lambda: made(channels="middle").fit(X, Y), ValueError, "channels"),
        (lambda: made([wl.Linear(out_features=3)]).fit(X, Y), NetError, "Linear wants a flat input"),
        (lambda: made().fit(X, np.eye(10)[Y].astype(int) + np.eye(10, k=1)[Y].astype(int)), ValueError, "one label for each"),
        (lambda: made(rung="persistent:device=emulated").fit(X, Y), RungError, "Conv2d"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_in_a_line(fit: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        fit()


class OfRows(CNNClassifier):
    """Takes rows of any number of features for images of one line, as check_estimator gives them."""

    def _shape_given(self, x: Any) -> tuple[int, ...] | None:
        fitted = self._image_shape[1:] if hasattr(self, "_image_shape") and hasattr(self, "coefs_") else None
        return super()._shape_given(x) if x.ndim != 2 else fitted or (1, x.shape[1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rung", ["numpy", "numpy:precision=fp64"])
def test_scikit_learns_checks_hold_for_rows_of_pixels(rung: str) -> None:
    layers = [wl.Conv2d(out_channels=4, kernel_size=3, padding=1), wl.ReLU()]
    model = OfRows(layers, rung=rung, max_iter=60, learning_rate_init=0.05, batch_size=32, random_state=0)
    found = check_estimator(model, on_fail=None, on_skip=None)
    assert len(found) >= 60
    failed = [each for each in found if each["status"] == "failed"]
    if "fp64" in rung:
        assert failed == [] and len(found) - sum(each["status"] == "passed" for each in found) <= 1  # array API
        return
    # it wants 1e-7 of weights against repeated samples, and rungs train in float32
    assert [each["check_name"] for each in failed] == ["check_sample_weight_equivalence_on_dense_data"]
    off = re.search(r"Max absolute difference among violations: (\S+)", str(failed[0]["exception"]))
    assert off and float(off[1]) < 1e-6


def test_before_a_fit_predictions_are_refused_by_scikit_learns_error() -> None:
    for model in (CNNClassifier(), CNNClassifier(image_shape=(8, 8))):
        with pytest.raises(NotFittedError, match="CNNClassifier instance is not fitted yet"):
            model.predict(X)
    with pytest.warns(SkipTestWarning, match="requires input"):  # a matrix alone is no image
        check_estimator(CNNClassifier())
