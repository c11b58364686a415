"""One update of every kind on given numbers: what goes in, the float64 truth, and what errors are relative to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from warpladder.config import TrainConfig
from warpladder.ops.update import reference
from warpladder.optimizers import SGD, Adam, AdamW, Optimizer, RMSprop

RATE = 0.3
NUMBER = 3  # which update it is: a correction of Adam's is neither at its first value nor near 1

OPTIMIZERS: tuple[Optimizer, ...] = (
    SGD(RATE),
    SGD(RATE, momentum=0.9),
    SGD(RATE, momentum=0.9, nesterov=True),
    SGD(RATE, momentum=0.9, nesterov=True, weight_decay=0.1),
    SGD(RATE, weight_decay=0.1),
    Adam(RATE),
    Adam(RATE, betas=(0.5, 0.9), eps=0.1, weight_decay=0.1),
    AdamW(RATE, weight_decay=0.1),
    RMSprop(RATE),
    RMSprop(RATE, alpha=0.5, eps=0.1, weight_decay=0.1, momentum=0.9),
)


def named(optimizer: Optimizer) -> str:
    """A name for a test's id."""
    return repr(optimizer).replace("learning_rate=0.3, ", "").replace(" ", "")


@dataclass(frozen=True)
class Update:
    """Numbers before an update, float32, and after it, float64.

    w, g : (size,) parameters and gradient.
    slots : (size,) each.
    numbers : (NUMBERS,) float32, what the step is made with.
    after, slots_after : the truth.
    terms, slot_terms : the sizes of the terms that each result is a sum of.
    """

    config: TrainConfig
    w: np.ndarray
    g: np.ndarray
    slots: tuple[np.ndarray, ...]
    numbers: np.ndarray
    after: np.ndarray
    slots_after: tuple[np.ndarray, ...]
    terms: np.ndarray
    slot_terms: tuple[np.ndarray, ...]


def drawn(
    optimizer: Optimizer, size: int, clip_value: float | None = None, seed: int = 0, clip_norm: float | None = None
) -> Update:
    """An update of `size` parameters; squares are drawn between 1/2 and 2."""
    rng = np.random.default_rng(seed)
    config = TrainConfig(optimizer=optimizer, clip_value=clip_value, clip_norm=clip_norm, batch_size=None)
    w, g = (rng.standard_normal(size).astype(np.float32) for _ in range(2))
    slots = {
        name: (rng.uniform(0.5, 2, size) if name in ("exp_avg_sq", "square_avg") else rng.standard_normal(size)).astype(
            np.float32
        )
        for name in optimizer.slots
    }
    wide = {name: slot.astype(float) for name, slot in slots.items()}
    after, slots_after = reference.step(w.astype(float), g.astype(float), wide, config, RATE, NUMBER)
    change, slot_terms = sizes(config, w.astype(float), abs(g.astype(float)), wide, RATE, NUMBER)
    numbers = config.numbers(NUMBER - 1, NUMBER, size)[0].astype(np.float32)
    return Update(
        config, w, g, tuple(slots.values()), numbers, after, tuple(slots_after.values()), abs(w.astype(float)) + change, tuple(slot_terms.values())
    )  # fmt: skip


def sizes(
    config: TrainConfig, w: np.ndarray, terms: np.ndarray, slots: Mapping[str, np.ndarray], rate: float, number: int
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """What errors of an update's change, and of each slot, are relative to: the sums of their terms' sizes.

    Parameters
    ----------
    config : TrainConfig
    w : ndarray
        Parameters before the update.
    terms : ndarray
        Sizes of the gradient's terms; clipping takes errors away in no proportion, and is left out.
    slots : mapping
    rate, number
        As `ops.update.reference.step` takes them.
    """
    w, slots = abs(w), {name: abs(slot) for name, slot in slots.items()}
    after, slots_after = reference.step(w, terms, slots, config.but(clip_value=None, clip_norm=None), rate, number)
    if isinstance(config.optimizer, RMSprop):
        return _sizes_of_rmsprop(config.optimizer, w, terms, slots, rate)
    if not isinstance(config.optimizer, Adam):
        return w - after, slots_after
    o, (one, two) = config.optimizer, config.optimizer.betas
    kept = two * slots["exp_avg_sq"] / (1 - two**number)  # of the second mean, at least, whatever the gradient is
    change = rate * slots_after["exp_avg"] / (1 - one**number) / (np.sqrt(kept) + o.eps)
    # an error of the second mean, relative to it, is one of its root's
    return change * slots_after["exp_avg_sq"] / (two * slots["exp_avg_sq"]) + rate * o.weight_decay * w, slots_after


def _sizes_of_rmsprop(
    optimizer: RMSprop, w: np.ndarray, terms: np.ndarray, slots: Mapping[str, np.ndarray], rate: float
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """`sizes` for RMSprop; the mean of squares is at least what is kept of it, whatever the gradient is."""
    g = terms + optimizer.weight_decay * w
    kept = optimizer.alpha * slots["square_avg"]
    square = kept + (1 - optimizer.alpha) * g**2
    quotient = g / (np.sqrt(kept) + optimizer.eps) * square / kept
    if not optimizer.momentum:
        return rate * quotient, {"square_avg": square}
    buffer = optimizer.momentum * slots["momentum_buffer"] + quotient
    return rate * buffer, {"square_avg": square, "momentum_buffer": buffer}
