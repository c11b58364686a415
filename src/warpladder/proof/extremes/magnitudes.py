"""States at which pixels, weights and the numbers inside of a net are scaled by powers of two: gradients of many sizes,
with outputs as they were.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...config import TrainConfig
from ...nets import Net
from ...nets.params import param_slices
from ...trainers.base import State
from ..reference import ReferenceTrainer


@dataclass(frozen=True)
class Magnitudes:
    """Exponents of the powers of two by which a case scales numbers.

    pixels : of the samples. inside : of outputs of trained layers before the last. outputs : of the last layer's.
    """

    pixels: int = 0
    inside: int = 0
    outputs: int = 0

    def __mul__(self, power: int) -> Magnitudes:
        return Magnitudes(self.pixels * power, self.inside * power, self.outputs * power)


#: Kinds of cases, in units of the drawn power.
KINDS = {
    "large inside": Magnitudes(inside=1),
    "small inside": Magnitudes(inside=-1),
    "large pixels": Magnitudes(pixels=1),
    "small pixels": Magnitudes(pixels=-1),
    "faint": Magnitudes(-1, -1, -1),
}


def magnified(net: Net, config: TrainConfig, state: State, x: np.ndarray, sizes: Magnitudes) -> State:
    """State at which the net's numbers for 2^pixels times x, (n, *in_shape) float64, have other magnitudes.

    Weights and biases are scaled by powers of two. Outputs that an activation cuts, as Tanh's, stay as they were: then
    the layer before it is not scaled.
    """
    params = state.params.copy()
    plain, scaled = ReferenceTrainer(net, config, state), ReferenceTrainer(net, config, state.but(params=params))
    named = {
        (place.layer, place.name.rpartition(".")[2]): slice(place.start, place.stop) for place in param_slices(net)
    }
    trained = sorted({place.layer for place in param_slices(net)})
    ends = [*trained[1:], len(net.layers)]
    first, of_pixels = 0, x * 2.0**sizes.pixels
    before, after = plain.through(x, 0, trained[0], trains=True), scaled.through(of_pixels, 0, trained[0], trains=True)
    for layer, end in zip(trained, ends, strict=True):
        entering = 0 if net.layers[layer].normalizes else _power(before, after, sizes.pixels)
        first, source = (0, of_pixels) if net.skips.stored else (layer, after)  # a connection may lead over a layer
        before = plain.through(x if net.skips.stored else before, first, end, trains=True)
        wanted = sizes.outputs if end == len(net.layers) else sizes.inside
        for power in dict.fromkeys((wanted, 0)):
            for kind, by in (("weight", power - entering), ("bias", power)):
                if (where := named.get((layer, kind))) is not None:
                    params[where] = state.params[where] * params.dtype.type(2.0**by)
            scaled = ReferenceTrainer(net, config, state.but(params=params))
            after = scaled.through(source, first, end, trains=True)
            if abs(_power(before, after, power)) >= abs(power) / 2:
                break
    return state.but(params=params)


def _power(before: np.ndarray, after: np.ndarray, usual: int) -> int:
    """Exponent of the power of two between the sizes of two arrays; `usual` where one is zero."""
    sizes = [float(np.sqrt(np.mean(np.square(a)))) for a in (before, after)]
    return round(np.log2(sizes[1] / sizes[0])) if min(sizes) > 0 else usual
