"""Fits that go on from another's weights with changed parameters, and parameters that are numbers of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpladder as wl
from warpladder.sklearn import CNNClassifier, MLPClassifier, MLPRegressor

pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 4)), np.arange(60) % 3
RUNGS = ["numpy", "scikit-learn"]


@pytest.mark.parametrize("rung", RUNGS)
def test_hidden_widths_that_changed_since_the_fit_before_are_refused(rung):
    model = MLPClassifier((8,), max_iter=2, warm_start=True, rung=rung).fit(X, Y).set_params(hidden_layer_sizes=(5,))
    words = r"the fit before has widths \[4, 8, 3\], .* this one wants \[4, 5, 3\]: keep hidden_layer_sizes"
    with pytest.raises(ValueError, match=words):
        model.fit(X, Y)
    with pytest.raises(ValueError, match=words):
        model.partial_fit(X, Y)
    assert model.set_params(warm_start=False).fit(X, Y).coefs_[0].shape == (4, 5)


@pytest.mark.parametrize("rung", RUNGS)
def test_more_targets_than_in_the_fit_before_are_refused(rung):
    model = MLPRegressor(hidden_layer_sizes=(8,), max_iter=2, warm_start=True, rung=rung).fit(X, X[:, 0])
    for go_on in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=r"has widths \[4, 8, 1\], .* wants \[4, 8, 2\]: keep .* the targets"):
            go_on(X, X[:, :2])


def test_layers_that_changed_since_the_fit_before_are_refused():
    images = RNG.normal(size=(30, 4, 4))
    model = CNNClassifier([wl.ReLU()], max_iter=1, warm_start=True, rung="numpy").fit(images, Y[:30])
    with pytest.raises(ValueError, match="the fit before has another net: keep layers as they were"):
        model.set_params(layers=[wl.Conv2d(out_channels=2, kernel_size=3)]).fit(images, Y[:30])


@pytest.mark.parametrize("go_on", ["fit", "partial_fit"])
def test_a_fit_goes_on_without_the_normalisation_that_its_weights_had(go_on):
    model = MLPClassifier((8,), max_iter=3, warm_start=True, batch_norm=True, rung="numpy", random_state=0)
    first = {"classes": [0, 1, 2]} if go_on == "partial_fit" else {}
    getattr(model, go_on)(X, Y, **first)
    before = model.predict_proba(X)
    model.set_params(batch_norm=False, learning_rate_init=1e-12)
    assert np.abs(getattr(model, go_on)(X, Y).predict_proba(X) - before).max() < 1e-4


def test_parameters_may_be_numbers_of_numpy():
    def of(kind: Any, width: Any, **more: Any) -> list[Any]:
        settings = {"alpha": 2**-9, "learning_rate_init": 2**-6, "epsilon": 2**-20} | more
        given = {name: kind(value) for name, value in settings.items()}
        model = MLPClassifier(width, max_iter=2, batch_size=10, rung="numpy", random_state=0, **given)
        return list(model.fit(X, Y).coefs_)

    for more in ({"dropout": 0.25, "weight_decay": 0.5}, {"beta_1": 0.5}):
        plain, numpys = of(float, (5, 3), **more), of(np.float32, np.array([5, 3]), **more)
        assert all(np.array_equal(a, b) for a, b in zip(plain, numpys, strict=True))
    half: Any = np.float32(0.5)
    sgd = MLPClassifier((5,), solver="sgd", momentum=half, alpha=half, max_iter=2, rung="numpy")
    assert sgd.fit(X, Y).rung_ == "numpy"
    huber = MLPRegressor(loss="huber", delta=half, max_iter=2, rung="numpy").fit(X, X[:, 0])
    assert huber.n_iter_ == 2


def test_a_warm_up_longer_than_the_fit_is_said():
    with pytest.warns(UserWarning, match="the warm-up of 50 epochs is longer than max_iter=2: the learning rate never"):
        MLPClassifier((5,), max_iter=2, schedule="cosine:warmup=50", rung="numpy").fit(X, Y)
