"""What rounding errors of an optimizer's step are relative to.

Where gradient, momentum and decay cancel, their errors do not; nor does clipping take errors away in proportion. So
errors are measured by what the terms of a step come to without their signs: for whatever goes into it, a gradient, a
parameter, a slot, how far the step's result would go if that went by its own size, at the slope that there is. For a
sum, as in SGD, that is the sum of its terms' sizes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..config import TrainConfig
from ..ops.update import reference as update

NUDGE = 2.0**-16  # of an input's size, by which it is moved to see the slope


def sizes(
    config: TrainConfig,
    params: np.ndarray,
    gradient: np.ndarray,
    slots: Mapping[str, np.ndarray],
    rate: float,
    number: int,
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """What errors in the change of the parameters and in each slot are relative to, to first order.

    Parameters
    ----------
    config : TrainConfig
    params, gradient : (count,) float64
        Before the step; the gradient unclipped.
    slots : mapping
        (count,) float64 each.
    rate, number
        As `ops.update.reference.step` takes them.

    Returns
    -------
    tuple
        (count,) float64, not below 0, for the change of the parameters; and a mapping of such for the slots.
    """
    free, clip = config.but(clip_value=None), config.clip_value
    seen = gradient if clip is None else np.clip(gradient, -clip, clip)

    def results(w: np.ndarray, g: np.ndarray, *held: np.ndarray) -> list[np.ndarray]:
        after, slots_after = update.step(w, g, dict(zip(slots, held, strict=True)), free, rate, number)
        return [after - w, *slots_after.values()]

    given, spans = [params, seen, *slots.values()], [np.abs(params), np.abs(gradient), *map(np.abs, slots.values())]
    slopes: list[np.ndarray | float] = [0.0] * (1 + len(slots))
    for i, span in enumerate(spans):
        if np.any(span):
            more, less = (results(*given[:i], given[i] + sign * NUDGE * span, *given[i + 1 :]) for sign in (1, -1))
            slopes = [slope + np.abs(a - b) / (2 * NUDGE) for slope, a, b in zip(slopes, more, less, strict=True)]
    # a result is rounded itself, however flat it lies: a gradient over its own root
    change, *after = (np.maximum(slope, np.abs(result)) for slope, result in zip(slopes, results(*given), strict=True))
    return change, dict(zip(slots, after, strict=True))
