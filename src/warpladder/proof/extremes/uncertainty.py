"""Errors that losses and gradients may have at extremes besides their bounds: a probability near 1 loses digits in
p - 1, a large logit has a large rounding error, and the difference of an output from its target has fewer digits than
either. How much reaches each gradient is computed with the reference.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...machine.precision import Precision
from ...nets import CrossEntropyLoss
from ...ops.loss import reference as losses
from ..bounds import output_bound, spread
from ..places import Places
from ..reference import ReferenceTrainer

ROUNDINGS = 12.0  # unit roundoffs of a probability by which its difference from the label may be off


def of_residuals(
    reference: ReferenceTrainer, entering: Sequence[np.ndarray], target: np.ndarray, precision: Precision,
    rng: np.random.Generator, places: Places | None,
) -> tuple[np.ndarray, float]:  # fmt: skip
    """Errors of each gradient, (param_count,), and of the loss, from the rounding of outputs.

    entering : `activations` of the samples. target : of their outputs. places : if the net draws masks.
    """
    out, loss = entering[-1], reference.net.loss
    rounding = output_bound(reference.net, precision) * float(np.sqrt(np.mean(out**2)))
    errors = np.full(out.shape, losses.curvature(loss) * rounding / out.size)
    off = rounding * float(np.abs(losses.backward(loss, out, target)).sum())
    return spread(reference, entering, errors, rng, places), off


def of_probabilities(
    reference: ReferenceTrainer, entering: Sequence[np.ndarray], y: np.ndarray, precision: Precision,
    rng: np.random.Generator, places: Places | None,
) -> tuple[np.ndarray, float]:  # fmt: skip
    """Errors of each gradient, (param_count,), and of the loss, from the rounding of probabilities and logits.

    entering : `activations` of the samples. y : (n,) labels. places : if the net draws masks.
    """
    of_net = reference.net.loss
    assert isinstance(of_net, CrossEntropyLoss)
    logits, share = entering[-1], losses.shares(of_net, y, len(y))[:, None]
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    q = losses.wanted(of_net, y, p.shape[1])
    every = q.sum(axis=1, keepdims=True)
    # a logit's rounding error, at most
    rounding = output_bound(reference.net, precision) * np.abs(logits).max(axis=1, keepdims=True)
    errors = share * (ROUNDINGS * precision.roundoff * (p * every + q) + 2 * p * (1 - p) * every * rounding)
    slope = np.abs(p * every - q).sum(axis=1, keepdims=True)
    own = ROUNDINGS * precision.roundoff * every * np.log(p.shape[1] + 1)
    off = float(np.sum(share * (slope * rounding + own)))
    return spread(reference, entering, errors, rng, places), off
