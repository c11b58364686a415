"""The bounds of a proof: which chains of roundings lead to an output, a loss and an update."""

from __future__ import annotations

import math

from ..nets import MSELoss, Net
from ..params import slots
from ..tolerance import bound

UPDATE = 8  # roundings from a gradient to a weight: loss gradient, clip, decay, momentum, rate, subtraction


def roundings(net: Net, last: int) -> int:
    """Roundings that lead to what enters layer `last`: the lengths of the sums before it, and one for the pixels."""
    return 1 + sum(math.prod(slot.shape[1:]) for slot in slots(net) if slot.layer < last and len(slot.shape) > 1)


def output_bound(net: Net) -> float:
    """Of what the net predicts."""
    return bound("float32", roundings(net, len(net.layers)))


def loss_bound(net: Net, size: int) -> float:
    """Of the mean loss of a batch; MSELoss is a mean over all its elements."""
    elements = math.prod(net.out_shape) if isinstance(net.loss, MSELoss) else 1
    return bound("float32", roundings(net, len(net.layers)) + size * elements)


def update_bounds(net: Net, size: int) -> dict[str, float]:
    """Of each tensor's gradient, and of its update after one step, on a batch of this size.

    The longest chain of roundings that leads there: the sums of the whole forward pass, those of the
    backward pass down to its layer, and its own sum over the batch and the layer's output pixels.
    """
    forward = roundings(net, len(net.layers)) + UPDATE
    out = {}
    for slot in slots(net):
        above = [s for s in slots(net) if s.layer > slot.layer and len(s.shape) > 1]
        backward = sum(s.shape[0] * math.prod(s.shape[2:]) for s in above)
        pixels = math.prod(net.shapes[slot.layer + 1][1:])
        out[slot.name] = bound("float32", forward + backward + size * pixels)
    return out
