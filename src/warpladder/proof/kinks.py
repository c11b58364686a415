"""States and samples away from kinks, at which rounding cannot change a ReLU's mask or a pool's argmax.

If rounding moves an input across a kink, the gradient jumps, and no bound on rounding covers the jump. Two methods
avoid this, so that no bound is widened:

- `away_from_kinks` screens: it accepts a sample only if every input of the reference is farther from a kink than
  rounding can move it (`bound` of the sums that lead to it), and its largest logit is as clear.
- `on_grid` makes sums exact: pixels are quarters, and the weights before the last kink lie on a grid so coarse that
  float32 holds every sum in any order. Before this kink nothing rounds, and equal numbers are equal in every program:
  ties and zeros become part of the test.
"""

from __future__ import annotations

import math

import numpy as np

from ..config import TrainConfig
from ..machine.precision import Precision, named
from ..nets import CrossEntropyLoss, L1Loss, Net
from ..nets.params import param_slices
from ..ops.tables import reference as layers
from ..trainers.base import State
from .bounds import distance_bound, output_bound, output_scale, products, roundings
from .places import Places
from .reference import ReferenceTrainer, slices


def away_from_kinks(
    reference: ReferenceTrainer, x: np.ndarray, precision: str | Precision = "fp32", places: Places | None = None,
    y: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """Mask (n,) bool, True for samples of x (n, *in_shape) float64 whose kinks and largest logit rounding cannot
    change, at their places in the order if the net draws masks, and whose outputs it cannot move across L1Loss's kink.

    y : (n,) labels or (n, outputs) targets; None for samples without training.
    """
    out = np.zeros(len(x), np.bool_)
    for some in slices(reference.net, len(x)):
        at = None if places is None else places[some]
        out[some] = _away_from_kinks(reference, x[some], precision, at, None if y is None else y[some])
    return out


def _away_from_kinks(
    reference: ReferenceTrainer, x: np.ndarray, precision: str | Precision, places: Places | None,
    y: np.ndarray | None,
) -> np.ndarray:  # fmt: skip
    """Mask (n,) bool, as `away_from_kinks`, for all samples at once; later layers omit samples too close to a kink."""
    net, clear, given = reference.net, np.arange(len(x)), x
    held: dict[int, np.ndarray] = {}  # stored for residual layers
    out = np.zeros(len(x), np.bool_)
    for i, layer in enumerate(net.layers):
        if i > net.first_trained and layers.switches(layer):
            keep = layers.margin(layer, x) > distance_bound(precision, roundings(net, i), products(net, i, precision))
            clear, x, places = clear[keep], x[keep], None if places is None else places[keep]
            held = {at: a[keep] for at, a in held.items()}
            if not len(clear):
                return out
        if i in net.skips.stored.values():
            held[i] = x
        x = reference.leaving(i, x, places, skip=held.get(net.skips.stored.get(i, -1)))
    out[clear] = has_clear_argmax(net, x, precision)
    if y is not None:
        out[clear] &= has_clear_sign(net, x, reference.target(given, y)[clear], precision)
    return out


def has_clear_argmax(net: Net, out: np.ndarray, precision: str | Precision = "fp32") -> np.ndarray:
    """Mask (n,) bool, True for outputs (n, *out_shape) float64 whose largest logit rounding cannot change.

    If terms cancel, all logits of a sample are small and their errors are not: so the other samples' magnitude is used
    too.
    """
    if not isinstance(net.loss, CrossEntropyLoss) or net.out_shape[0] == 1:
        return np.ones(len(out), np.bool_)
    size = np.abs(out).max(axis=1)
    usual = np.median(size) if len(size) else 0.0  # a few huge logits do not count
    clear = gaps(out) > output_bound(net, precision) * np.maximum(size, usual)
    # logits that a mask drops are 0 and tie in every program
    return clear | (np.sort(out, axis=1)[:, -2:] == 0).all(axis=1) if net.layers[-1].is_random else clear


def has_clear_sign(net: Net, out: np.ndarray, target: np.ndarray, precision: str | Precision = "fp32") -> np.ndarray:
    """Mask (n,) bool, True for outputs (n, *out_shape) float64 that rounding cannot move across their targets.

    Only L1Loss has a gradient that jumps at the target; a difference that is 0 in every program has gradient 0.
    """
    if not isinstance(net.loss, L1Loss):
        return np.ones(len(out), np.bool_)
    apart = np.abs(out - target) > output_bound(net, precision) * output_scale(out)
    return np.asarray(apart.reshape(len(out), -1).all(axis=1))


def gaps(out: np.ndarray) -> np.ndarray:
    """Differences (n,) between the two largest numbers of each row of out (n, classes)."""
    largest = np.sort(out, axis=1)
    return largest[:, -1] - largest[:, -2]


def has_classes(net: Net, is_coarse: bool) -> bool:
    """True if samples on a grid are screened for a clear largest logit, or a clear output of L1Loss: in exact formats a
    random layer's mask changes it anyway.
    """
    return isinstance(net.loss, CrossEntropyLoss | L1Loss) and (is_coarse or not net.is_random)


def is_clear_or_tied(
    reference: ReferenceTrainer, x: np.ndarray, y: np.ndarray, precision: Precision
) -> np.ndarray:  # fmt: skip
    """Mask (n,) bool, True for samples x (n, *in_shape) float64 whose largest logit is clear or, except in coarse
    formats, exactly tied; with L1Loss, whose outputs are away from their targets.

    y : (n,) labels or (n, outputs) targets.
    """
    outputs = reference.through(x)
    if isinstance(reference.net.loss, L1Loss):
        return has_clear_sign(reference.net, outputs, reference.target(x, y), precision)
    clear = has_clear_argmax(reference.net, outputs, precision)
    return clear if precision.coarse or outputs.shape[1] == 1 else clear | (gaps(outputs) == 0)


def kink_layers(net: Net) -> list[int]:
    """Numbers of the layers with kinks after a trained layer: rounding may move their inputs across a kink."""
    return [i for i, layer in enumerate(net.layers) if i > net.first_trained and layers.switches(layer)]


def always_rounds(net: Net) -> bool:
    """True if no grid makes the net exact up to its last kink: a layer before it rounds with any weights, the net draws
    masks, with which sums have other terms, or it normalises.
    """
    return (
        net.is_random
        or net.normalizes
        or any(not layer.exact for layer in net.layers[: max(kink_layers(net), default=0)])
    )


def on_grid(
    net: Net, state: State, x: np.ndarray, rng: np.random.Generator, precision: str | Precision = "fp32"
) -> State:
    """State near this one at which the net computes x (n, *in_shape), multiples of 1/4, exactly up to its last kink.

    In units of the product of both grids a sum has integer terms; while their absolute values sum to at most 2^24,
    float32 holds every partial sum in every order. Weights are rounded up or down at random, so that neighbouring
    states differ; a layer whose sums would be too long gets a coarser grid. A format coarser than fp32 must hold the
    sums and biases themselves as integers; grids are then so coarse that a power of two scales the weights back to
    their former magnitude, or float16 would overflow.
    """
    kind = named(precision)
    digits = 1 / kind.factors if kind.coarse else 2.0**24
    kinks = kink_layers(net)
    params = state.params.astype(kind.element)
    weights = [place for place in param_slices(net) if len(place.shape) > 1 and kinks and place.layer < kinks[-1]]
    biases = {place.layer: slice(place.start, place.stop) for place in param_slices(net) if len(place.shape) == 1}
    unit = 0.25  # unit of which the layer's inputs are multiples
    entering, at = x, 0  # inputs of layer number `at`
    for place in weights:
        bias = biases.get(place.layer, slice(0, 0))
        if net.skips.stored:  # a connection may lead over the layer before
            entering, at = x, 0
        entering = ReferenceTrainer(net, TrainConfig(), State(params)).through(entering, at, place.layer)
        at = place.layer
        w, b = state.params[place.start : place.stop], state.params[bias]
        size = math.sqrt(float(np.mean(w.astype(np.float64) ** 2)))
        grid = 2.0 ** math.ceil(math.log2(size)) if size > 0 else 1.0
        peak = np.abs(entering).max(initial=0) / unit
        while np.isfinite(peak + size):  # else no grid is coarse enough
            whole = np.floor(w / grid + rng.random(len(w)))
            offset = np.round((b + rng.normal(0, size, len(b))) / (unit * grid))
            params[place.start : place.stop], params[bias] = whole * grid, offset * unit * grid
            if (
                peak * np.abs(whole).reshape(place.shape[0], -1).sum(axis=1).max() + np.abs(offset).max(initial=0)
                <= 2.0**24
            ):
                if digits == 2.0**24:
                    break
                sums = ReferenceTrainer(net, TrainConfig(), State(params)).through(entering, at, at + 1)
                if np.abs(sums).max(initial=0) / (unit * grid) + np.abs(offset).max(initial=0) <= digits:
                    break
            grid *= 2
        if digits < 2.0**24 and np.any(whole):
            grid *= 2.0 ** -round(math.log2(grid * math.sqrt(float(np.mean(whole**2))) / size))
            params[place.start : place.stop], params[bias] = whole * grid, offset * unit * grid
        unit *= grid
    return state.but(params=params).copied(kind.element)
