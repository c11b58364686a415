"""States at which the inputs of curved activations span all of their range, from where an activation is a line to where
it saturates.
"""

from __future__ import annotations

import numpy as np

from ...config import TrainConfig
from ...nets import Net
from ...nets.params import param_slices, views
from ...ops.tables import reference as layers
from ...trainers.base import State
from ..reference import ReferenceTrainer

#: Inputs at which an activation's slope is looked at, and the share of its largest one that counts as a difference.
POINTS, SEEN = np.geomspace(0.25, 64, 33), 1e-6
STEEP = 1 / 16, 1 / 4  # root mean square of an activation's inputs without biases, in units of its range
ENDS = 0.6  # share of either half of the range that the middle third of the units spans
STEEPER = 1 / 4, 3 / 4  # of a layer without biases


def steepened(
    net: Net, config: TrainConfig, state: State, x: np.ndarray, before: dict[int, int], rng: np.random.Generator
) -> State:
    """State at which the inputs of activations span their ranges for samples x, (n, *in_shape) float64.

    before : the trained layer before each of these activations. The last trained layer's outputs keep their size.
    """
    params = state.params.copy()
    state, named = state.but(params=params), views(net, params)
    last = param_slices(net)[-1].layer

    def size(end: int) -> float:
        return _size(ReferenceTrainer(net, config, state).through(x, 0, end))

    outputs = size(len(net.layers))
    for layer in dict.fromkeys([*before.values(), last]):
        w, b = (named.get(f"{net.names[layer]}.{kind}") for kind in ("weight", "bias"))
        if w is None:  # a layer from outside
            continue
        curve = next((i for i, trained in before.items() if trained == layer), None)
        if curve is None:
            factor = outputs / max(size(len(net.layers)), 1e-6)
            w *= w.dtype.type(factor)
            if b is not None:
                b *= b.dtype.type(factor)
            continue
        if b is not None:
            b[...] = 0
        low, high = reach(net, curve)
        wanted = (high - low) * float(np.exp(rng.uniform(*np.log(STEEPER if b is None else STEEP))))
        w *= w.dtype.type(wanted / max(size(curve), 1e-6))
        if b is not None:
            b[...] = _spread(len(b), low, high, rng)
    return state


def reach(net: Net, layer: int) -> tuple[float, float]:
    """Ends of the range of an activation's inputs beyond which its slope stays the same: (low, high)."""
    points = np.concatenate([-POINTS[::-1], [0.0], POINTS])
    shape = net.shapes[layer]
    x = np.broadcast_to(points.reshape(-1, *(1 for _ in shape)), (len(points), *shape)).copy()
    dx = layers.backward(net.layers[layer], x, None, np.ones((len(points), *net.shapes[layer + 1])))[0]
    slope = dx.reshape(len(points), -1)[:, 0]
    least, middle = SEEN * float(np.abs(slope).max()), len(POINTS)
    low = points[: middle + 1][np.abs(slope[: middle + 1] - slope[0]) > least]
    high = points[middle:][np.abs(slope[middle:] - slope[-1]) > least]
    return float(low.min(initial=-1.0)), float(high.max(initial=1.0))


def _spread(count: int, low: float, high: float, rng: np.random.Generator) -> np.ndarray:
    """Numbers (count,) between two, one in each of as many parts, in a drawn order: a third of them near either end,
    where an activation's slope is nearly its last.
    """
    evenly = (np.arange(count) + rng.random(count)) / count
    return rng.permutation(np.interp(evenly, (0, 1 / 3, 2 / 3, 1), (low, ENDS * low, ENDS * high, high)))


def _size(a: np.ndarray) -> float:
    """Root mean square of all numbers of an array."""
    return float(np.sqrt(np.mean(np.square(a))))
