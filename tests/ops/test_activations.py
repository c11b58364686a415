"""Activations: the reference against finite differences and PyTorch, arrays and loops against the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from warpladder.errors import NetError
from warpladder.nets import GELU, Layer, LeakyReLU, Sigmoid, SiLU, Tanh
from warpladder.ops.activation import reference
from warpladder.ops.engine.base import Buffers
from warpladder.ops.tables import array, loops
from warpladder.proof.tolerance import bound

LAYERS = (Tanh(), Sigmoid(), LeakyReLU(0.2), LeakyReLU(-0.25), GELU(), GELU(approximate="tanh"), SiLU())
TABLES = pytest.mark.parametrize("table", [loops.TABLE, array.TABLE], ids=["loops", "array"])
every_layer = pytest.mark.parametrize("layer", LAYERS, ids=str)

#: Both tails, both sides of 0, and 0 itself, (3, 2, 4).
X = np.concatenate([np.linspace(-9, 9, 21), [-1e-3, 0.0, 1e-3]]).reshape(3, 2, 4)


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


@every_layer
def test_the_derivative_is_the_slope(layer: Layer) -> None:
    x, step = X[X != 0], 1e-6
    slope = (reference.forward(layer, x + step) - reference.forward(layer, x - step)) / (2 * step)
    (found,) = reference.backward(layer, x, None, np.ones_like(x))
    assert np.abs(found - slope).max() <= 1e-8


@every_layer
def test_torch_has_the_same_values_and_gradients(layer: Layer) -> None:
    torch = pytest.importorskip("torch")
    x, dy = torch.from_numpy(X.copy()).requires_grad_(), normal(1, *X.shape)
    y = getattr(torch.nn, type(layer).__name__)(**vars(layer))(x)
    y.backward(torch.from_numpy(dy))
    assert np.abs(reference.forward(layer, X) - y.detach().numpy()).max() <= 1e-12
    assert np.abs(reference.backward(layer, X, None, dy)[0] - x.grad.numpy()).max() <= 1e-12


@TABLES
@every_layer
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rungs_on_the_cpu(table: Any, layer: Layer, dtype: type) -> None:
    """Rows that are not in use hold NaN and are neither read nor written."""
    x: np.ndarray = X.astype(dtype)
    dy: np.ndarray = normal(1, *X.shape).astype(dtype)
    nan = np.full_like(x, np.nan)
    x[2:] = dy[2:] = np.nan
    t = Buffers(x, nan.copy(), nan.copy(), dy)
    op = table.layers[type(layer)](layer, t)
    op.forward(2)
    op.backward(2)
    exact, gradient = x[:2].astype(float), dy[:2].astype(float)
    near = bound(dtype, layer.roundings(X.shape))
    for found, wanted in (
        (t.y, reference.forward(layer, exact)),
        (t.dx, reference.backward(layer, exact, None, gradient)[0]),
    ):
        assert np.linalg.norm(found[:2] - wanted) <= near * np.linalg.norm(wanted)
        assert np.isnan(found[2:]).all()


@TABLES
@every_layer
def test_extremes_stay_finite_and_nan_stays_nan(table: Any, layer: Layer) -> None:
    x = np.array([[-3e4, 3e4, np.nan, 0.0]], np.float32)
    t = Buffers(x, np.zeros_like(x), np.zeros_like(x), np.ones_like(x))
    op = table.layers[type(layer)](layer, t)
    with np.errstate(over="ignore"):
        op.forward(1)
        op.backward(1)
    assert np.isnan(t.y).tolist() == [[False, False, True, False]]
    assert np.isfinite(t.dx[0, [0, 1, 3]]).all()
    exact = x[:, [0, 1, 3]].astype(float)
    assert np.allclose(t.y[:, [0, 1, 3]], reference.forward(layer, exact), rtol=1e-6, atol=1e-30)
    assert np.allclose(t.dx[:, [0, 1, 3]], reference.backward(layer, exact, None, np.ones((1, 3)))[0], atol=1e-6)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: GELU(approximate="exact"), r"GELU\(approximate='exact'\): wants 'none' or 'tanh'"),
        (lambda: LeakyReLU(float("nan")), "wants a finite number"),
        (lambda: LeakyReLU("a"), "wants a finite number"),  # type: ignore[arg-type]
    ],
)
def test_wrong_settings_are_refused(make: Callable[[], Layer], words: str) -> None:
    with pytest.raises(NetError, match=words):
        make()
