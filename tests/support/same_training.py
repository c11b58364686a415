"""Comparison of what two trainers have trained."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpladder.trainers.base import StepLog, Trainer


def close(a: np.ndarray, b: np.ndarray) -> bool:
    """True if no number differs by more than a few roundings of the largest."""
    return bool(np.abs(a - b).max() <= 2e-6 * max(1.0, np.abs(b).max()))


def assert_trained_alike(ours: Trainer, logs: Sequence[StepLog], theirs: Trainer, expected: Sequence[StepLog]) -> None:
    """Assert that losses, weights and slots are close, and counts equal."""
    for log, other in zip(logs, expected, strict=True):
        assert close(log.loss, other.loss)
        assert (log.correct == other.correct).all()
        assert (log.size == other.size).all()
    assert close(ours.state().params, theirs.state().params)
    for name, slot in ours.state().slots.items():
        assert close(slot, theirs.state().slots[name])
