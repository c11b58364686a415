"""The references of layers that stand in a folder of their own, against themselves: is what `backward` gives the slope
of `forward`?

The references of warpladder's listed layers are held against finite differences and PyTorch by its tests. Nobody may
have tested another's, and a proof against a reference that is wrong would call an honest trainer a liar, or prove a
wrong one.
"""

from __future__ import annotations

import numpy as np

from ..nets import Layer, Net, Shape
from ..ops.engine.layer_files import others
from ..ops.tables import reference as layers
from .tolerance import bound

SAMPLES = 3
STEP = 2.0**-17  # of a central difference, in inputs of size 1
CURVE = 100.0  # times STEP^2 that a slope may change over a step, in sizes of the slope
CLEAR = 100 * STEP  # of a jump, where the layer says how far it is from one
TRIES = 64  # draws of samples until they keep clear


def contradiction(net: Net, seed: int) -> str | None:
    """Where the reference of one of the net's layers that no table lists does not fit the layer or itself, in words;
    None where each one does.
    """
    kinds = others(net)
    for index, layer in enumerate(net.layers):
        if type(layer) in kinds and (told := _fault(layer, net.shapes[index], np.random.default_rng([seed, index]))):
            return f"the reference of layer {index}, {layer}, {told}"
    return None


def _fault(layer: Layer, in_shape: Shape, rng: np.random.Generator) -> str | None:
    given = {"x": _clear(layer, in_shape, rng)}
    given |= {
        short: rng.normal(size=shape) for short, shape in zip("wb", layer.param_shapes(in_shape).values(), strict=False)
    }

    def forward(values: dict[str, np.ndarray]) -> np.ndarray:
        return layers.forward(layer, values["x"], values.get("w"), values.get("b"))

    y = forward(given)
    if y.shape != (wanted := (SAMPLES, *layer.out_shape(in_shape))):
        return f"gives outputs of shape {y.shape} where the layer says {wanted}"
    dy = rng.normal(size=y.shape)
    slopes = layers.backward(layer, given["x"], given.get("w"), dy)
    if [np.shape(slope) for slope in slopes] != [values.shape for values in given.values()]:
        shapes = ", ".join(f"d{name} {values.shape}" for name, values in given.items())
        return f"gives gradients of shapes {', '.join(str(np.shape(slope)) for slope in slopes) or 'none'}, wanted are {shapes}"
    size = float(np.linalg.norm(dy * y))
    for (name, values), slope in zip(given.items(), slopes, strict=True):
        way = rng.normal(size=values.shape)
        above, below = (forward(given | {name: values + sign * STEP * way}) for sign in (1, -1))
        rise, told = float((dy * (above - below)).sum()) / (2 * STEP), float((slope * way).sum())
        limit = bound("float64", y.size) * size / STEP + CURVE * STEP**2 * float(
            np.linalg.norm(slope * way) + abs(rise)
        )
        if not abs(rise - told) <= limit:
            return f"contradicts itself: along a line in {name} its forward rises by {rise:.6g}, and its backward says {told:.6g}"
    return None


def _clear(layer: Layer, in_shape: Shape, rng: np.random.Generator) -> np.ndarray:
    """(SAMPLES, *in_shape) float64 of size 1, clear of the layer's jumps where such samples are found."""
    for _ in range(TRIES):
        x = rng.normal(size=(SAMPLES, *in_shape))
        if not layers.switches(layer) or layers.margin(layer, x).min() > CLEAR:
            break
    return x
