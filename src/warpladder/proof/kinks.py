"""States and samples at which honest rounding flips no switch.

A ReLU or a max-pool is a switch. Where rounding flips one, the gradient jumps, and no bound on
rounding covers the jump. Two ways keep clear of that, so that no bound is widened:

- `steady` screens: a sample is taken only if every switch of the reference is further from flipping
  than rounding reaches (`bound` of the sums that lead to it), and so is the choice of its largest logit;
- `on_grid` makes sums exact: pixels are quarters, and the weights ahead of the last switch lie on a
  grid so coarse that float32 holds every sum in any order. Nothing rounds, so nothing flips, and
  equals are equal everywhere: ties and zeros are part of the test instead of its enemies.
"""

from __future__ import annotations

import math

import numpy as np

from ..config import TrainConfig
from ..machine.precision import Precision, named
from ..nets import CrossEntropyLoss, Net
from ..nets.params import param_slices
from ..ops.tables import reference as layers
from ..trainers.base import State
from .bounds import apart, output_bound, products, roundings
from .reference import ReferenceTrainer, slices


def steady(reference: ReferenceTrainer, x: np.ndarray, precision: str | Precision = "fp32") -> np.ndarray:
    """(n,) bool: which samples of x (n, *in_shape) float64 keep every switch, and their largest logit, out of
    rounding's reach.
    """
    out = np.zeros(len(x), np.bool_)
    for some in slices(reference.net, len(x)):
        out[some] = _steady(reference, x[some], precision)
    return out


def _steady(reference: ReferenceTrainer, x: np.ndarray, precision: str | Precision) -> np.ndarray:
    """As `steady`, all samples at a time. One that comes too close to a switch is not followed to the layers behind it."""
    net, clear = reference.net, np.arange(len(x))
    out = np.zeros(len(x), np.bool_)
    for i, layer in enumerate(net.layers):
        if i > net.first_trained and layers.switches(layer):
            keep = layers.margin(layer, x) > apart(precision, roundings(net, i), products(net, i, precision))
            clear, x = clear[keep], x[keep]
            if not len(clear):
                return out
        x = reference.leaving(i, x)
    out[clear] = decided(net, x, precision)
    return out


def decided(net: Net, out: np.ndarray, precision: str | Precision = "fp32") -> np.ndarray:
    """(n,) bool: which outputs (n, *out_shape) float64 have a largest logit that rounding cannot change."""
    if not isinstance(net.loss, CrossEntropyLoss) or net.out_shape[0] == 1:
        return np.ones(len(out), np.bool_)
    logits = np.sort(out, axis=1)
    return logits[:, -1] - logits[:, -2] > output_bound(net, precision) * np.abs(logits).max(axis=1)


def switches_of(net: Net) -> list[int]:
    """The layers, by number, at which rounding may flip something: those whose gradient jumps, behind one that is
    trained.
    """
    return [i for i, layer in enumerate(net.layers) if i > net.first_trained and layers.switches(layer)]


def rounds(net: Net) -> bool:
    """Whether something ahead of the last switch rounds whatever the weights are, so that no grid makes the net exact
    up to there.
    """
    return any(not layer.exact for layer in net.layers[: max(switches_of(net), default=0)])


def on_grid(
    net: Net, state: State, x: np.ndarray, rng: np.random.Generator, precision: str | Precision = "fp32"
) -> State:
    """A state near this one at which the net computes x (n, *in_shape), multiples of 1/4, exactly up to its last
    switch.

    In units of the product of both grids a sum is one of whole numbers; while the sum of their
    sizes stays within 2^24, float32 holds every partial sum in every order. Weights are rounded up
    or down by chance, so that neighbouring states differ; a layer whose sums would be too long gets a coarser grid.
    In a coarser format than fp32 the sums themselves, and the biases, have to be whole numbers that it holds; grids are
    then so coarse that the weights are brought back to the size they had, by a power of two, or float16 would overflow.
    """
    kind = named(precision)
    digits = 1 / kind.factors if kind.coarse else 2.0**24
    switches = switches_of(net)
    params = state.params.astype(kind.element)
    ahead = [place for place in param_slices(net) if len(place.shape) > 1 and switches and place.layer < switches[-1]]
    biases = {place.layer: place for place in param_slices(net) if len(place.shape) == 1}
    unit = 0.25  # what enters the layer is a whole number of these
    entering, at = x, 0  # and the layer's number
    for place in ahead:
        bias = biases[place.layer]
        w, b = state.params[place.start : place.stop], state.params[bias.start : bias.stop]
        entering, at = (
            ReferenceTrainer(net, TrainConfig(), State(params)).through(entering, at, place.layer),
            place.layer,
        )
        peak = np.abs(entering).max(initial=0) / unit
        size = math.sqrt(float(np.mean(w.astype(np.float64) ** 2)))
        grid = 2.0 ** math.ceil(math.log2(size)) if size > 0 else 1.0
        while True:
            whole = np.floor(w / grid + rng.random(len(w)))
            offset = np.round((b + rng.normal(0, size, len(b))) / (unit * grid))
            params[place.start : place.stop], params[bias.start : bias.stop] = whole * grid, offset * unit * grid
            if peak * np.abs(whole).reshape(place.shape[0], -1).sum(axis=1).max() + np.abs(offset).max() <= 2.0**24:
                if digits == 2.0**24:
                    break
                sums = ReferenceTrainer(net, TrainConfig(), State(params)).through(entering, at, at + 1)
                if np.abs(sums).max(initial=0) / (unit * grid) + np.abs(offset).max() <= digits:
                    break
            grid *= 2
        if digits < 2.0**24 and np.any(whole):
            back = 2.0 ** -round(math.log2(grid * math.sqrt(float(np.mean(whole**2))) / size))
            grid *= back
            params[place.start : place.stop], params[bias.start : bias.stop] = whole * grid, offset * unit * grid
        unit *= grid
    return state.but(params=params).copied(kind.element)
