"""Bounds of a proof: the chains of roundings that lead to an output, a loss and an update.

In a precision coarser than fp32 the bounds include the rounding of the products' factors. In fp64 they include the
reference's own roundings.

Scales of errors in an optimizer's step: if gradient, momentum and decay cancel, their errors do not, and clipping
does not shrink errors in proportion. So errors are relative to the step's terms without their signs: for each input, a
gradient, a parameter or a slot, the change of the result if this input changed by its own magnitude, at the step's
derivative. For a sum, as in SGD, this is the sum of its terms' absolute values.

Errors that losses and gradients may have besides their bounds: a probability near 1 loses digits in p - 1, a large
logit has a large rounding error, and the difference of an output from its target has fewer digits than either. How much
reaches each gradient is computed with the reference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ..config import TrainConfig
from ..machine.precision import Precision, named
from ..nets import BCEWithLogitsLoss, CrossEntropyLoss, ElementLoss, Net
from ..nets.params import param_slices
from ..ops.loss import reference as losses
from ..ops.update import reference as update
from ..optimizers import SGD
from .tolerance import bound

if TYPE_CHECKING:
    from .places import Places
    from .reference import ReferenceTrainer

UPDATE = 8  # roundings from a gradient to a weight in SGD
DRAWS = 4  # draws of the signs of errors
FEW = 4  # samples of a draw, at least, if each draw has its own
TOTALS, OTHERS = 2.0, 4.0  # times the error of a sum of exponentials that is added one by one, and roundoffs besides
ROUNDINGS = 12.0  # unit roundoffs of a probability by which its difference from the label may be off
NUDGE = 2.0**-16  # share of an input's size by which it is moved for a central difference


def distance_bound(precision: str | Precision, length: int, products: int) -> float:
    """Bound of the distance between a trainer and the reference after a chain of `length` roundings and `products`
    products; in fp64 both have this chain.
    """
    kind = named(precision)
    return bound(kind, length * (2 if kind.element == "float64" else 1), products=products)


def roundings(net: Net, last: int) -> int:
    """Number of roundings that lead to the input of layer `last`: lengths of the sums before it, roundings within
    layers, and one for the pixels.
    """
    sums = sum(math.prod(place.shape[1:]) for place in param_slices(net) if place.layer < last and len(place.shape) > 1)
    return 1 + sums + _roundings_of_layers(net, 0, last)


def _roundings_of_layers(net: Net, first: int, last: int) -> int:
    """Number of roundings in layers first..last-1 outside of sums over weights."""
    return sum(net.layers[i].roundings(net.shapes[i]) for i in range(first, last))


def products(net: Net, last: int, precision: str | Precision) -> int:
    """Number of consecutive products before the input of layer `last`, at least 1; plus one if results are stored."""
    return (
        max(1, sum(place.layer < last and len(place.shape) > 1 for place in param_slices(net)))
        + named(precision).stored
    )


def output_bound(net: Net, precision: str | Precision = "fp32") -> float:
    """Bound of the normwise relative error of the net's outputs."""
    last = len(net.layers)
    return distance_bound(precision, roundings(net, last), products(net, last, precision))


def output_scale(outputs: np.ndarray, every: np.ndarray | None = None) -> np.ndarray:
    """Scale of the errors of outputs: the root mean square of all, or a number's own magnitude if it is larger.

    outputs : (n, *out_shape); one may be many times as large as the others, with their relative error.
    every : outputs whose root mean square is used; None for `outputs`.
    """
    size = np.sqrt(np.mean(np.square(outputs if every is None else every, dtype=np.float64)))
    return np.maximum(np.abs(outputs, dtype=np.float64), size)


def loss_bound(net: Net, size: int, precision: str | Precision = "fp32") -> float:
    """Bound of the relative error of a batch's mean loss; an `ElementLoss` is a mean over all its elements."""
    elements = math.prod(net.out_shape) if isinstance(net.loss, ElementLoss) else 1
    last = len(net.layers)
    return distance_bound(precision, roundings(net, last) + size * elements, products(net, last, precision))


@lru_cache(maxsize=256)
def update_bounds(
    net: Net, size: int, precision: str | Precision = "fp32", last: int = UPDATE, clips_norm: bool = False
) -> dict[str, float]:
    """Bounds of each tensor's gradient, update and slots after one step on a batch of this size.

    The longest chain of roundings has the sums of the forward pass, of the backward pass down to the layer, and
    the tensor's own sum over the batch and the layer's output pixels, with one rounding if this sum is in fp64.
    last : roundings in the optimizer's step, its `roundings`.
    clips_norm : True if the norm of all gradients scales each: its relative error is at most the largest tensor's.
    """
    forward = roundings(net, len(net.layers)) + last
    out = {}
    for place in param_slices(net):
        above = [s for s in param_slices(net) if s.layer > place.layer and len(s.shape) > 1]
        backward = sum(s.shape[0] * math.prod(s.shape[2:]) for s in above)
        backward += _roundings_of_layers(net, place.layer + 1, len(net.layers))
        pixels = math.prod(net.shapes[place.layer + 1][1:])
        chain = products(net, len(net.layers), precision) + len(above) + 1 + named(precision).stored
        own = 1 if named(precision).wide else size * pixels
        out[place.name] = distance_bound(precision, forward + backward + own, chain)
    return {name: math.hypot(limit, max(out.values())) for name, limit in out.items()} if clips_norm else out


def step_bounds(net: Net, size: int, precision: str | Precision, config: TrainConfig) -> dict[str, float]:
    """Bounds of `update_bounds` for a step with these settings."""
    return update_bounds(net, size, precision, config.optimizer.roundings, config.clip_norm is not None)


def error_scales(
    config: TrainConfig, params: np.ndarray, gradient: np.ndarray, slots: Mapping[str, np.ndarray], rate: float,
    number: int, span: np.ndarray | None = None,
) -> tuple[np.ndarray, dict[str, np.ndarray]]:  # fmt: skip
    """Scales of errors in the change of the parameters and in each slot, to first order.

    Parameters
    ----------
    config : TrainConfig
    params, gradient : (count,) float64
        Parameters and gradient before the step, without clipping.
    slots : mapping
        (count,) float64 each.
    rate, number
        Learning rate and number of the step, as for `ops.update.reference.step`.
    span : ndarray or None
        (count,) magnitudes of the gradient's terms; None for the gradient's own.

    Returns
    -------
    tuple
        (count,) float64, at least 0, for the change of the parameters; and such an array for each slot, by name.
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


def slope_errors(
    net: Net, out: np.ndarray, target: np.ndarray, precision: Precision, share: np.ndarray
) -> np.ndarray:  # fmt: skip
    """Errors of the outputs' gradient, of the shape of the outputs `out` (n, *out_shape), from the rounding of outputs
    and probabilities.

    target : labels (n,) or targets of the shape of `out`. share : (n,) of the samples in the loss.
    """
    share = share.reshape(-1, *[1] * (out.ndim - 1))
    if isinstance(net.loss, CrossEntropyLoss):
        p, q = probabilities(out), losses.wanted(net.loss, target, out.shape[1])
        every = q.sum(axis=1, keepdims=True)
        rounding = _roundings(net, out, precision)
        own: np.ndarray | float = ROUNDINGS * precision.roundoff
        if out.shape[1] > ROUNDINGS:
            own = np.maximum(own, _of_totals(out, precision))
        return share * (own * (p * every + q) + 2 * p * (1 - p) * every * rounding)
    size = out[0].size if len(out) else 1
    errors = losses.curvature(net.loss, out) * _roundings(net, out, precision)
    if isinstance(net.loss, BCEWithLogitsLoss):  # a program may subtract t from p, as PyTorch does
        most = max((1.0, *(net.loss.pos_weight or ())))
        p = losses.slopes(net.loss, out, np.zeros(out.shape)) * size
        errors = errors + ROUNDINGS * precision.roundoff * most * (p + target.reshape(out.shape))
    return np.broadcast_to(share * (errors / size), out.shape)


def of_residuals(
    reference: ReferenceTrainer, entering: Sequence[np.ndarray], target: np.ndarray, precision: Precision,
    rng: np.random.Generator, places: Places | None,
) -> tuple[np.ndarray, float]:  # fmt: skip
    """Errors of each gradient, (param_count,), and of the loss, from the rounding of outputs.

    entering : `activations` of the samples. target : of their outputs. places : if the net draws masks.
    """
    net, out = reference.net, entering[-1]
    errors = slope_errors(net, out, target, precision, np.full(len(out), 1 / len(out)))
    off = float(_roundings(net, out, precision)) * float(np.abs(losses.backward(net.loss, out, target)).sum())
    if isinstance(net.loss, BCEWithLogitsLoss):  # a program may add x and -x, as PyTorch does
        most = max((1.0, *(net.loss.pos_weight or ())))
        off += ROUNDINGS * precision.roundoff * most * float(np.abs(out).mean())
    return spread(reference, entering, errors, rng, places), off


def of_probabilities(
    reference: ReferenceTrainer, entering: Sequence[np.ndarray], y: np.ndarray, precision: Precision,
    rng: np.random.Generator, places: Places | None,
) -> tuple[np.ndarray, float]:  # fmt: skip
    """Errors of each gradient, (param_count,), and of the loss, from the rounding of probabilities and logits.

    Next to a learnt class, 1, the others' exponentials are a unit in the last place or less, and sum and quotient are
    rounded the same way in all samples: these errors add up. Random signs may also cancel in each of the few draws.
    entering : `activations` of the samples. y : (n,) labels. places : if the net draws masks.
    """
    net, logits = reference.net, entering[-1]
    assert isinstance(net.loss, CrossEntropyLoss)
    share = losses.shares(net.loss, y, len(y))
    errors = slope_errors(net, logits, y, precision, share)
    p, q = probabilities(logits), losses.wanted(net.loss, y, logits.shape[1])
    every = q.sum(axis=1, keepdims=True)
    slope = np.abs(p * every - q).sum(axis=1, keepdims=True)
    own = ROUNDINGS * precision.roundoff * every * np.log(p.shape[1] + 1)
    off = float(np.sum(share[:, None] * (slope * _roundings(net, logits, precision) + own)))
    alike = share[:, None] * _of_totals(logits, precision) * p * every
    together = np.abs(reference.pulled_back(entering, alike, places=places))
    return np.maximum(spread(reference, entering, errors, rng, places), together), off


def _of_totals(logits: np.ndarray, precision: Precision) -> np.ndarray:
    """Relative errors (n, 1) of probabilities whose exponentials are added one by one, forwards or backwards."""
    terms = np.exp(logits - logits.max(axis=1, keepdims=True))
    total = terms.sum(axis=1, keepdims=True, dtype=np.longdouble)
    kind = np.float64 if precision.roundoff < np.finfo(np.float32).eps / 2 else np.float32
    sums = (np.cumsum(each.astype(kind), axis=1, dtype=kind)[:, -1:] for each in (terms, terms[:, ::-1]))
    off = np.asarray(np.max([np.abs(each - total) for each in sums], axis=0) / total, np.float64)
    return TOTALS * off + OTHERS * precision.roundoff


def probabilities(logits: np.ndarray) -> np.ndarray:
    """Softmax (n, classes) of logits."""
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def _roundings(net: Net, out: np.ndarray, precision: Precision) -> np.ndarray:
    """Rounding errors of outputs, at most: (n, 1) of logits, for each sample, or of all of a batch's numbers."""
    size = (
        np.abs(out).max(axis=1, keepdims=True)
        if isinstance(net.loss, CrossEntropyLoss)
        else np.sqrt(np.mean(np.square(out)))
    )
    return np.asarray(output_bound(net, precision) * size)


def spread(
    reference: ReferenceTrainer, entering: Sequence[np.ndarray], errors: np.ndarray, rng: np.random.Generator,
    places: Places | None,
) -> np.ndarray:  # fmt: skip
    """Largest error (param_count,) of each gradient, from errors of the outputs (n, *out_shape) with random signs in
    DRAWS draws: of few outputs the mean would be too small.

    With many samples each draw has its own share of them, and represents all: errors of samples add by their squares,
    so that the largest of the draws, times the root of their number, is at least all samples' error.
    entering : `activations` of the samples. places : positions of the samples in the order, if the net draws masks.
    """
    n, largest = len(errors), np.zeros(reference.net.param_count)
    shares = DRAWS if n >= FEW * DRAWS and not reference.net.normalizes else 1  # there samples depend on each other
    order = rng.permutation(n)
    for draw in range(DRAWS):
        some = order[draw % shares :: shares]
        signs = rng.choice((-1.0, 1.0), errors[some].shape)
        at = None if places is None else places[some]
        found = reference.pulled_back([each[some] for each in entering], signs * errors[some], places=at)
        np.maximum(largest, np.sqrt(shares) * np.abs(found), out=largest)
    return largest
