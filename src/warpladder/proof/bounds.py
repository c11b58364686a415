"""Bounds of a proof: the chains of roundings that lead to an output, a loss and an update.

In a precision coarser than fp32 the factors of products count as rounded to it. In fp64 the reference's own roundings
count as well.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from ..config import TrainConfig
from ..machine.precision import Precision, named
from ..nets import ElementLoss, Net
from ..nets.params import param_slices
from .tolerance import bound

UPDATE = 8  # roundings from a gradient to a weight in SGD


def distance_bound(precision: str | Precision, length: int, products: int) -> float:
    """Bound of the distance between a trainer and the reference after a chain of `length` roundings and `products`
    products; in fp64 both have such a chain.
    """
    kind = named(precision)
    return bound(kind, length * (2 if kind.element == "float64" else 1), products=products)


def roundings(net: Net, last: int) -> int:
    """Roundings that lead to the input of layer `last`: lengths of the sums before it, roundings that the layers add,
    and one for the pixels.
    """
    sums = sum(math.prod(place.shape[1:]) for place in param_slices(net) if place.layer < last and len(place.shape) > 1)
    return 1 + sums + _roundings_of_layers(net, 0, last)


def _roundings_of_layers(net: Net, first: int, last: int) -> int:
    """Roundings in layers first..last-1 outside of sums over weights."""
    return sum(net.layers[i].roundings(net.shapes[i]) for i in range(first, last))


def products(net: Net, last: int, precision: str | Precision) -> int:
    """Products, one after another, that lead to the input of layer `last`, at least 1; one more if results are stored
    rounded.
    """
    return (
        max(1, sum(place.layer < last and len(place.shape) > 1 for place in param_slices(net)))
        + named(precision).stored
    )


def output_bound(net: Net, precision: str | Precision = "fp32") -> float:
    """Bound of the net's outputs."""
    last = len(net.layers)
    return distance_bound(precision, roundings(net, last), products(net, last, precision))


def output_scale(outputs: np.ndarray, every: np.ndarray | None = None) -> np.ndarray:
    """Scale of the errors of outputs: the root mean square of all, or a number's own size if that is larger.

    outputs : (n, *out_shape), of which one may be many times as large as the others and have their relative error.
    every : outputs whose root mean square counts; None for `outputs`.
    """
    size = np.sqrt(np.mean(np.square(outputs if every is None else every, dtype=np.float64)))
    return np.maximum(np.abs(outputs, dtype=np.float64), size)


def loss_bound(net: Net, size: int, precision: str | Precision = "fp32") -> float:
    """Bound of the mean loss of a batch; an `ElementLoss` is a mean over all its elements."""
    elements = math.prod(net.out_shape) if isinstance(net.loss, ElementLoss) else 1
    last = len(net.layers)
    return distance_bound(precision, roundings(net, last) + size * elements, products(net, last, precision))


@lru_cache(maxsize=256)
def update_bounds(
    net: Net, size: int, precision: str | Precision = "fp32", last: int = UPDATE, clips_norm: bool = False
) -> dict[str, float]:
    """Bounds of each tensor's gradient, update and slots after one step on a batch of this size.

    The longest chain of roundings has the sums of the forward pass, those of the backward pass down to the layer, and
    the tensor's own sum over the batch and the layer's output pixels, one rounding if that sum is made in fp64.
    last : roundings that the optimizer adds, its `roundings`.
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
    """`update_bounds` of a step with these settings."""
    return update_bounds(net, size, precision, config.optimizer.roundings, config.clip_norm is not None)
