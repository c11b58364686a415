"""Dropout, normalisation, weight decay and schedules in the estimators, next to PyTorch's."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix  # type: ignore[import-untyped]
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import check_estimator

import warpladder as wl
from warpladder.errors import ConfigError, RungError
from warpladder.sklearn import CNNClassifier, MLPClassifier, MLPRegressor

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

X, Y = load_digits(return_X_y=True)
X, Y = X[:400] / 16, Y[:400]


def made(**settings: Any) -> MLPClassifier:
    known: dict[str, Any] = {
        "random_state": 0, "max_iter": 4, "rung": "numpy:precision=fp64", "learning_rate_init": 0.02, "batch_size": 64,
        "alpha": 0.0, "shuffle": False,
    }  # fmt: skip
    return MLPClassifier((20, 10), **known | settings)


def by_torch(model: MLPClassifier, optimizer: Any, schedule: Any = None) -> tuple[list[float], np.ndarray]:
    """Losses of the epochs, and logits after them, of PyTorch from the weights that `model` begins with."""
    torch = pytest.importorskip("torch")
    start = clone(model).set_params(
        max_iter=1, learning_rate_init=1e-30, batch_norm=False, weight_decay=0, schedule=None
    )
    start = start.fit(X, Y)
    layers: list[Any] = []
    for coef, bias in zip(start.coefs_, start.intercepts_, strict=True):
        linear = torch.nn.Linear(*coef.shape, dtype=torch.float64)
        linear.weight.data, linear.bias.data = torch.from_numpy(coef.T.copy()), torch.from_numpy(bias)
        norm = [torch.nn.BatchNorm1d(coef.shape[1], dtype=torch.float64)] if model.batch_norm else []
        layers += [linear, *norm, torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers[: -2 if model.batch_norm else -1])
    steps = optimizer(net.parameters())
    rates = None if schedule is None else schedule(steps, model.max_iter * -(-len(X) // model.batch_size))
    x, y, losses = torch.from_numpy(X), torch.from_numpy(Y), []
    for _ in range(model.max_iter):
        total = 0.0
        for rows in torch.arange(len(x)).split(model.batch_size):
            steps.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(x[rows]), y[rows])
            loss.backward()
            steps.step()
            if rates is not None:
                rates.step()
            total += loss.item() * len(rows)
        losses.append(total / len(x))
    net.eval()
    with torch.no_grad():
        return losses, torch.softmax(net(x), 1).numpy()


def test_normalisation_decay_and_one_cycle_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    for settings, decay in ({"batch_norm": True}, 0.0), ({"weight_decay": 0.1}, 0.1), (
        {"batch_norm": True, "weight_decay": 0.05, "schedule": "onecycle"}, 0.05,
    ):  # fmt: skip
        model = made(**settings).fit(X, Y)
        losses, chances = by_torch(
            model, lambda params, decay=decay: torch.optim.AdamW(params, lr=0.02, weight_decay=decay),
            (lambda steps, count: torch.optim.lr_scheduler.OneCycleLR(steps, 0.02, total_steps=count, cycle_momentum=False))
            if "schedule" in settings else None,
        )  # fmt: skip
        assert np.allclose(model.loss_curve_, losses, rtol=1e-9), settings
        assert np.allclose(model.predict_proba(X), chances, rtol=1e-7, atol=1e-12), settings
        assert [coef.shape for coef in model.coefs_] == [(64, 20), (20, 10), (10, 10)]


@pytest.mark.parametrize("settings", [{"dropout": 0.3}, {"dropout": 0.2, "batch_norm": True, "solver": "sgd"}])
def test_masks_are_those_of_the_net_on_every_rung(settings: dict[str, Any]) -> None:
    numpy, native = (made(**settings, rung=rung).fit(X, Y) for rung in ("numpy", "native"))
    assert np.allclose(numpy.loss_curve_, native.loss_curve_, rtol=1e-3)
    assert np.allclose(numpy.predict_proba(X), native.predict_proba(X), atol=0.01)
    assert not np.allclose(numpy.loss_curve_, made(rung="numpy", solver=numpy.solver).fit(X, Y).loss_curve_, rtol=0.01)
    again = made(**settings, rung="numpy", random_state=1).fit(X, Y)
    assert again.loss_curve_ != numpy.loss_curve_


def test_parts_draw_new_masks_and_go_on_from_running_statistics() -> None:
    model = made(dropout=0.4, batch_norm=True, learning_rate_init=1e-12, rung="numpy")
    for _ in range(3):
        model.partial_fit(X, Y, classes=np.unique(Y))
    assert len(set(model.loss_curve_)) == 3  # the weights stay, the masks do not
    whole = made(batch_norm=True, max_iter=6).fit(X, Y)
    parts = made(batch_norm=True)
    for _ in range(6):
        parts.partial_fit(X, Y, classes=np.unique(Y))
    assert np.allclose(parts.loss_curve_, whole.loss_curve_, rtol=1e-12)
    kept = pickle.loads(pickle.dumps(parts))
    assert np.array_equal(kept.partial_fit(X, Y).predict_proba(X), parts.partial_fit(X, Y).predict_proba(X))


def test_the_best_weights_go_on_with_their_own_statistics() -> None:
    model = made(batch_norm=True, early_stopping=True, max_iter=12, n_iter_no_change=20, warm_start=True).fit(X, Y)
    before = model.predict_proba(X)
    assert model.best_validation_score_ == max(model.validation_scores_)
    model.set_params(learning_rate_init=1e-30, max_iter=1).fit(X, Y)
    # an epoch at rate 0 moves the running statistics alone, a little
    assert np.abs(model.predict_proba(X) - before).max() < 0.2 and model.loss_ < 0.5


@pytest.mark.slow
def test_regressors_and_images_have_them_too() -> None:
    y = np.stack([X[:, :32].sum(axis=1), X[:, 32:].sum(axis=1)], axis=1)
    y = (y - y.mean(axis=0)) / y.std(axis=0)
    settings: dict[str, Any] = {"random_state": 0, "max_iter": 30, "learning_rate_init": 0.01, "rung": "numpy"}
    model = MLPRegressor(batch_norm=True, dropout=0.1, weight_decay=0.01, schedule=wl.Cosine(warmup=1), **settings)
    assert model.fit(X, y).score(X, y) > 0.8
    images = CNNClassifier(image_shape=(8, 8), weight_decay=0.01, schedule="cosine:warmup=1", **settings)
    assert images.set_params(max_iter=25).fit(X, Y).score(X, Y) > 0.8
    two = made(batch_norm=True, max_iter=10, rung="auto").fit(X, Y > 4)
    assert two.score(X, Y > 4) > 0.9 and two.coefs_[-1].shape == (10, 1) and two.rung_ != "scikit-learn"


REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "a share above 1": ({"dropout": 1.0}, ValueError, "'dropout' parameter"),
    "a schedule that is none": ({"schedule": "cosin"}, ConfigError, "there is no schedule 'cosin'"),
    "a schedule of a type": ({"schedule": 3}, ValueError, "'schedule' parameter"),
    "decay by sgd": ({"weight_decay": 0.1, "solver": "sgd"}, ValueError, "makes solver='adam' AdamW"),
    "two schedules": ({"schedule": "cosine", "solver": "sgd", "learning_rate": "adaptive"}, ValueError, "takes the place"),
    "lbfgs": ({"dropout": 0.5, "solver": "lbfgs"}, RungError, "lbfgs needs"),
    "a rung's reason": ({"dropout": 0.5, "solver": "lbfgs", "rung": "auto"}, RungError, "dropout=0.5 wants a rung"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_go_together_is_refused(case: str) -> None:
    settings, error, words = REFUSED[case]
    with pytest.raises(error, match=words):
        made(**settings).fit(X, Y)


@pytest.mark.parametrize("rung", ["numpy", "native"])
def test_a_last_batch_of_one_sample_is_left_out(rung: str) -> None:
    model = made(batch_norm=True, batch_size=32, rung=rung).fit(X[:321], Y[:321])
    assert np.allclose(
        model.loss_curve_, made(batch_norm=True, batch_size=32).fit(X[:320], Y[:320]).loss_curve_, rtol=1e-3
    )
    images = CNNClassifier([wl.Conv2d(out_channels=4, kernel_size=3), wl.BatchNorm2d()], max_iter=2, rung=rung)
    assert images.fit(X[:201].reshape(-1, 8, 8), Y[:201]).n_iter_ == 2


def test_a_sparse_matrix_is_made_dense_by_a_named_rung_alone() -> None:
    sparse = csr_matrix(X)
    assert made(batch_norm=True).fit(sparse, Y).loss_ == made(batch_norm=True).fit(X, Y).loss_
    with pytest.raises(RungError, match=r"dense \(a named one does"):
        made(batch_norm=True, rung="auto").fit(sparse, Y)


def test_parts_of_a_schedule_are_refused() -> None:
    with pytest.raises(ValueError, match="which partial_fit does not know"):
        made(schedule="cosine").partial_fit(X, Y, classes=np.unique(Y))


def test_scikit_learns_checks_hold_with_additions() -> None:
    results = check_estimator(MLPClassifier(weight_decay=0.01, rung="numpy:precision=fp64"), on_skip=None, on_fail=None)
    assert [each["check_name"] for each in results if each["status"] == "failed"] == []


@pytest.mark.parametrize("rule", ["he", "glorot", "pytorch"])
@pytest.mark.parametrize("labels", [Y, Y % 2], ids=["several", "two"])
def test_initial_weights_follow_the_rule(rule: str, labels: np.ndarray) -> None:
    settings: dict[str, Any] = {"max_iter": 1, "learning_rate_init": 1e-30, "alpha": 0.0, "random_state": 3}
    theirs = MLPClassifier((64,), **settings).fit(X, labels)
    for rung in "auto", "numpy":
        model = MLPClassifier((64,), initial=rule, rung=rung, **settings).fit(X, labels)
        for coef, bias, other in zip(model.coefs_, model.intercepts_, theirs.coefs_, strict=True):
            fan_in, fan_out = coef.shape
            deviation = {
                "he": (2 / fan_in) ** 0.5,
                "glorot": (2 / sum(coef.shape)) ** 0.5,
                "pytorch": (3 * fan_in) ** -0.5,
            }
            assert coef.shape == other.shape and (coef != other).any()
            assert coef.size < 1000 or abs(coef.std() / deviation[rule] - 1) < 0.1
            assert (np.abs(bias).max() > 1e-9) == (rule == "pytorch") and fan_out == len(bias)
    with pytest.raises(ValueError, match="'initial' parameter"):
        made(initial="xavier").fit(X, labels)
