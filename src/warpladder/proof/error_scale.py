"""Scale of rounding errors in an optimizer's step.

Where gradient, momentum and decay cancel, their errors do not, and clipping does not shrink errors in proportion. So
errors are relative to the step's terms without their signs: for each input, a gradient, a parameter or a slot, the
change of the result if that input changed by its own size, at the step's derivative. For a sum, as in SGD, that is the
sum of its terms' absolute values.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..config import TrainConfig
from ..ops.update import reference as update
from ..optimizers import SGD

NUDGE = 2.0**-16  # share of an input's size by which it is moved for a central difference


def error_scales(
    config: TrainConfig, params: np.ndarray, gradient: np.ndarray, slots: Mapping[str, np.ndarray], rate: float,
    number: int, span: np.ndarray | None = None,
) -> tuple[np.ndarray, dict[str, np.ndarray]]:  # fmt: skip
    """Scales of errors in the change of the parameters and in each slot, to first order.

    Parameters
    ----------
    config : TrainConfig
    params, gradient : (count,) float64
        Before the step; the gradient is not clipped.
    slots : mapping
        (count,) float64 each.
    rate, number
        Learning rate and number of the step, as for `ops.update.reference.step`.
    span : ndarray or None
        (count,) sizes of the gradient's terms; None for the gradient's own.

    Returns
    -------
    tuple
        (count,) float64, at least 0, for the change of the parameters; and a mapping of such arrays for the slots.
    """
    free, clip = config.but(clip_value=None, clip_norm=None), config.clip_value
    seen = gradient if clip is None else np.clip(gradient, -clip, clip)
    span = np.abs(gradient) if span is None else span
    if config.clip_norm is not None:  # which scales a gradient with its errors
        factor = update.norm_factor(gradient, config.clip_norm)
        seen, span = factor * gradient, factor * span

    def results(w: np.ndarray, g: np.ndarray, *held: np.ndarray) -> list[np.ndarray]:
        after, slots_after = update.step(w, g, dict(zip(slots, held, strict=True)), free, rate, number)
        return [after - w, *slots_after.values()]

    if isinstance(config.optimizer, SGD):  # linear, with coefficients of one sign
        change, *after = map(np.abs, results(np.abs(params), span, *map(np.abs, slots.values())))
        return change, dict(zip(slots, after, strict=True))
    given, spans = [params, seen, *slots.values()], [np.abs(params), span, *map(np.abs, slots.values())]
    totals: list[np.ndarray | float] = [0.0] * (1 + len(slots))
    for i, size in enumerate(spans):
        if np.any(size):
            more, less = (results(*given[:i], given[i] + sign * NUDGE * size, *given[i + 1 :]) for sign in (1, -1))
            totals = [total + np.abs(a - b) / (2 * NUDGE) for total, a, b in zip(totals, more, less, strict=True)]
    # a result is rounded itself, even where its derivative is zero: a gradient over its own root
    change, *after = (np.maximum(total, np.abs(result)) for total, result in zip(totals, results(*given), strict=True))
    return change, dict(zip(slots, after, strict=True))
