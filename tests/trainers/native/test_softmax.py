"""The native trainer's softmax with the cross-entropy's gradient: rows that fill no vector, one, or several; ties;
numbers that are none.
"""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from warpladder.trainers.native.compiler.vectors import LANES
from warpladder.trainers.native.kernels.softmax import softmax

SLACK = LANES  # floats after a row that a vector may read or write
SHARE = np.float32(1 / 64)


@njit
def _row(source, at, count, label, share, target, to):
    return softmax(source, at, count, label, share, target, to)


def row(logits: np.ndarray, label: int) -> tuple[float, float, int, np.ndarray]:
    """The results of `softmax` for a row between others, and the gradient; nothing before the row may be written."""
    source = np.full(3 + len(logits) + SLACK, 50, np.float32)  # larger than any logit: a read beyond the row shows
    source[3 : 3 + len(logits)] = logits
    target = np.full(2 + len(logits) + 2 * SLACK, 7, np.float32)
    total, largest, first = _row(source, 3, len(logits), label, SHARE, target, 2)
    assert np.array_equal(target[:2], [7, 7])
    end = 2 + -(-len(logits) // LANES) * LANES
    after = 0 * total  # NaN after a row that has one, 0 after others
    assert np.array_equal(
        target[2 + len(logits) : end], np.full(end - 2 - len(logits), after), equal_nan=True
    ) and np.all(target[end:] == 7)
    return total, largest, first, target[2 : 2 + len(logits)]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 9, 10, 15, 16, 17, 31, 32, 33, 70, 200])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 20.0])
def test_a_rows_softmax_is_that_of_float64(count: int, scale: float) -> None:
    rng = np.random.default_rng(count)
    for _ in range(5):
        logits = (scale * rng.standard_normal(count)).astype(np.float32)
        label = int(rng.integers(count))
        powers = np.exp(logits.astype(np.float64) - logits.max())
        total, largest, first, gradient = row(logits, label)
        assert largest == logits.max() and first == logits.argmax()
        assert total == pytest.approx(powers.sum(), rel=1e-6)
        wanted = (powers / powers.sum() - (np.arange(count) == label)) / 64
        assert np.max(abs(gradient - wanted)) <= 4e-7 / 64


@pytest.mark.parametrize("count", [4, 10, 16, 40])
def test_of_equals_the_first_is_the_answer(count: int) -> None:
    for first in range(count):
        logits = np.zeros(count, np.float32)
        logits[first:] = 3
        assert row(logits, 0)[1:3] == (3, first)


@pytest.mark.parametrize("count", [3, 10, 16, 40])
def test_a_nan_is_passed_on_and_is_no_answer(count: int) -> None:
    logits = np.linspace(-1, 1, count, dtype=np.float32)
    logits[1] = np.nan
    total, largest, first, gradient = row(logits, 0)
    assert np.isnan(total) and np.isnan(gradient).all() and (largest, first) == (1, count - 1)
    assert row(np.full(count, np.nan, np.float32), 0)[2] == count, "no place of a row without numbers is an answer"


@pytest.mark.parametrize("count", [3, 10, 40])
def test_far_apart_logits_give_zeros_and_one(count: int) -> None:
    logits = np.full(count, -3e38, np.float32)
    logits[2] = 3e38
    total, largest, first, gradient = row(logits, 2)
    assert total == pytest.approx(1.0, abs=1e-6) and (largest, first) == (float(np.float32(3e38)), 2)
    assert np.max(abs(gradient)) <= 1e-6


@pytest.mark.parametrize("count", [4, 10, 40])
def test_a_probability_that_float32_does_not_hold_is_0(count: int) -> None:
    """Times an input of 10^4, what is only nearly 0 was a slot of an optimizer where the truth is 0."""
    logits = np.full(count, -200, np.float32)
    logits[1] = 0
    gradient = row(logits, 1)[3]
    assert np.all(gradient[np.arange(count) != 1] == 0)
