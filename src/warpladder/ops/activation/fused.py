"""Activation at the end of a fused kernel, by its number in activation.cuh."""

import numpy as np

from ...nets import ACTIVATIONS, Layer, ReLU
from . import scalar

#: Numbers of no activation, and of a ReLU.
IDENTITY, RELU = 6, 7

#: Types of the layers at the end of a fused kernel: none, a ReLU or an activation.
ENDS: tuple[tuple[type[Layer], ...], ...] = ((), (ReLU,), *((kind,) for kind in ACTIVATIONS))


def function(layers: tuple[Layer, ...]) -> tuple[int, np.float32]:
    """Number of the activation among some layers, IDENTITY without one, and its slope below 0."""
    after = next((layer for layer in layers if isinstance(layer, (ReLU, *ACTIVATIONS))), None)
    if after is None or isinstance(after, ReLU):
        return IDENTITY if after is None else RELU, np.float32(0)
    return scalar.number(after), np.float32(scalar.slope(after))
