"""The bounds of a proof: which chains of roundings lead to an output, a loss and an update.

Where a trainer says that it computes products in a coarser format than fp32, their factors count as rounded to it.
Where it computes in fp64, so does the reference, whose roundings count as well.
"""

from __future__ import annotations

import math

from ..machine.precision import Precision, named
from ..nets import MSELoss, Net
from ..nets.params import param_slices
from .tolerance import bound

UPDATE = 8  # roundings from a gradient to a weight where nothing else is said: those of SGD


def apart(precision: str | Precision, length: int, products: int) -> float:
    """How far a trainer and the reference may lie apart after a chain of so many roundings and products: in fp64 both
    have such a chain.
    """
    kind = named(precision)
    return bound(kind, length * (2 if kind.element == "float64" else 1), products=products)


def roundings(net: Net, last: int) -> int:
    """Roundings that lead to what enters layer `last`: the lengths of the sums before it, what its layers say besides,
    and one for the pixels.
    """
    sums = sum(math.prod(place.shape[1:]) for place in param_slices(net) if place.layer < last and len(place.shape) > 1)
    return 1 + sums + _besides(net, 0, last)


def _besides(net: Net, first: int, last: int) -> int:
    """Roundings in layers first..last-1 that are none of sums over weights."""
    return sum(net.layers[i].roundings(net.shapes[i]) for i in range(first, last))


def products(net: Net, last: int, precision: str | Precision) -> int:
    """Products, one after another, that lead to what enters layer `last`, at least 1; a result that is stored rounded
    counts as one more.
    """
    return (
        max(1, sum(place.layer < last and len(place.shape) > 1 for place in param_slices(net)))
        + named(precision).stored
    )


def output_bound(net: Net, precision: str | Precision = "fp32") -> float:
    """Of what the net predicts."""
    last = len(net.layers)
    return apart(precision, roundings(net, last), products(net, last, precision))


def loss_bound(net: Net, size: int, precision: str | Precision = "fp32") -> float:
    """Of the mean loss of a batch; MSELoss is a mean over all its elements."""
    elements = math.prod(net.out_shape) if isinstance(net.loss, MSELoss) else 1
    last = len(net.layers)
    return apart(precision, roundings(net, last) + size * elements, products(net, last, precision))


def update_bounds(net: Net, size: int, precision: str | Precision = "fp32", last: int = UPDATE) -> dict[str, float]:
    """Of each tensor's gradient, of its update and of its places after one step, on a batch of this size.

    The longest chain of roundings that leads there: the sums of the whole forward pass, those of the
    backward pass down to its layer, and its own sum over the batch and the layer's output pixels; of that one rounding
    is left where it is made in fp64. `last`: roundings that the optimizer adds, its `roundings`.
    """
    forward = roundings(net, len(net.layers)) + last
    out = {}
    for place in param_slices(net):
        above = [s for s in param_slices(net) if s.layer > place.layer and len(s.shape) > 1]
        backward = sum(s.shape[0] * math.prod(s.shape[2:]) for s in above) + _besides(
            net, place.layer + 1, len(net.layers)
        )
        pixels = math.prod(net.shapes[place.layer + 1][1:])
        chain = products(net, len(net.layers), precision) + len(above) + 1 + named(precision).stored
        own = 1 if named(precision).wide else size * pixels
        out[place.name] = apart(precision, forward + backward + own, chain)
    return out
