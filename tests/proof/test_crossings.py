"""Kinks of a history that rounding may cross: found where they are, and their other side is tolerated."""

from __future__ import annotations

import numpy as np
import pytest

from warpladder.config import TrainConfig
from warpladder.machine.precision import named
from warpladder.nets import Conv2d, CrossEntropyLoss, Flatten, L1Loss, LeakyReLU, Linear, MaxPool2d, MSELoss, Net, ReLU
from warpladder.nets.params import initial
from warpladder.proof.history.crossings import Crossings
from warpladder.proof.reference import ReferenceTrainer
from warpladder.trainers.base import State

FP32 = named("fp32")


def _gradient(net: Net, params: np.ndarray, x: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """The gradient, and the one with crossed kinks."""
    reference = ReferenceTrainer(net, TrainConfig(), State(params))
    entering = reference.activations(x)
    true = reference.gradients(x, target, entering=entering)[2]
    shares = np.full(len(x), 1 / len(x))
    goal = reference.target(x, target)
    return true, Crossings(net, FP32).gradient(reference, entering, goal, shares, None)


@pytest.mark.parametrize("layer", [ReLU(), LeakyReLU(0.1)], ids=str)
@pytest.mark.parametrize("size", [1e-8, -1e-8])
def test_an_input_near_a_kink_is_crossed(layer: ReLU, size: float) -> None:
    net = Net("n", (2,), (Linear(out_features=3), layer, Linear(out_features=2)), CrossEntropyLoss())
    params, x, y = initial(net, 1).astype(np.float64), np.array([[0.3, 0.7], [0.5, -0.2]]), np.array([0, 1])
    first = ReferenceTrainer(net, TrainConfig(), State(params)).activations(x)[1][0, 1]
    sides = []
    for at in (size, -size):
        params[7] += at - first  # the bias of unit 1: sample 0 is next to its kink
        first = at
        sides.append(_gradient(net, params, x, y))
    (here, across), (there, back) = sides
    assert across is not None and back is not None
    np.testing.assert_allclose(across, there, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(back, here, rtol=1e-6, atol=1e-8)
    assert not np.allclose(here, there, rtol=1e-3)
    params[7] += 1e-3
    assert _gradient(net, params, x, y)[1] is None


def test_an_input_of_exactly_zero_is_not_crossed() -> None:
    net = Net("n", (2,), (Linear(out_features=3, bias=False), ReLU(), Linear(out_features=2)), CrossEntropyLoss())
    x = np.array([[0.0, 0.0], [0.5, -0.2]])  # of blank samples
    assert _gradient(net, initial(net, 1).astype(np.float64), x, np.array([0, 1]))[1] is None


def test_the_second_of_a_pool_is_taken_where_it_is_as_large() -> None:
    layers = (Flatten(), Linear(out_features=2))
    net = Net("n", (1, 2, 2), (LeakyReLU(1.0), MaxPool2d(2), *layers), MSELoss())
    assert not Crossings(net, FP32).limits  # nothing is trained, nor rounded, before the pool

    net = Net("n", (1, 2, 2), (Conv2d(out_channels=1, kernel_size=1), MaxPool2d(2), *layers), MSELoss())
    params = initial(net, 3).astype(np.float64)
    params[0] = 1.0
    x = np.array([[[[0.1, 0.5], [0.5 - 1e-8, 0.2]]]])
    true, across = _gradient(net, params, x, np.ones((1, 2)))
    assert across is not None
    np.testing.assert_allclose(across, true, rtol=1e-6)  # the weight's gradient is the same by either pixel

    net = Net("n", (2, 2, 2), (Conv2d(out_channels=1, kernel_size=1), MaxPool2d(2), *layers), MSELoss())
    params = initial(net, 3).astype(np.float64)
    params[:2] = 1.0
    x = np.array([[[[0.1, 0.5], [0.1, 0.2]], [[0.0, 0.1], [0.5 - 1e-8, 0.1]]]])
    true, across = _gradient(net, params, x, np.ones((1, 2)))
    assert across is not None
    np.testing.assert_allclose(across[:2], true[:2][::-1], rtol=1e-6)


def test_an_output_next_to_its_target_crosses_it() -> None:
    net = Net("n", (2,), (Linear(out_features=2),), L1Loss())
    params, x = initial(net, 1).astype(np.float64), np.array([[0.3, 0.7]])
    out = ReferenceTrainer(net, TrainConfig(), State(params)).activations(x)[-1]
    true, across = _gradient(net, params, x, out - [[1e-8, 1.0]])
    assert across is not None
    np.testing.assert_allclose(across[-2:], true[-2:] * [-1, 1])
    assert _gradient(net, params, x, out - [[1e-3, 1.0]])[1] is None


def test_a_unit_that_is_no_longer_zero_is_the_largest_of_its_pool() -> None:
    """Of a window of zeros a pool takes the first, until rounding makes another one positive."""
    layers = Conv2d(out_channels=1, kernel_size=1), ReLU(), MaxPool2d(2), Flatten(), Linear(out_features=2)
    net = Net("n", (1, 2, 2), layers, MSELoss())
    params = initial(net, 3).astype(np.float64)
    params[:2] = 1.0, -0.5
    x = np.array([[[[0.1, 0.2], [0.5 - 1e-9, 0.3]]]])
    true, across = _gradient(net, params, x, np.ones((1, 2)))
    assert not np.any(true[:2])
    assert across is not None
    np.testing.assert_allclose(across[0], across[1] / 2, rtol=1e-6)
    there = _gradient(net, params, x + np.array([[[[0, 0], [2e-9, 0]]]]), np.ones((1, 2)))[0]
    np.testing.assert_allclose(across, there, rtol=1e-6, atol=1e-8)
