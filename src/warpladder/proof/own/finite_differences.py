"""Check of a layer's reference by finite differences: `backward` must be the gradient of `forward`.

Tests compare the references of warpladder's own layers with finite differences and PyTorch. The reference of another
layer may be untested, and with a wrong reference a proof would refute an honest trainer, or pass a wrong one.
"""

from __future__ import annotations

import numpy as np

from ...nets import Layer, Net, Shape
from ...ops.engine.layer_files import others
from ...ops.tables import reference as layers
from ..tolerance import bound

SAMPLES = 3
STEP = 2.0**-17  # step of a central difference, in inputs of size 1
CURVE = 100.0  # STEP^2 times this: change of a gradient over a step, relative to the gradient
CLEAR = 100 * STEP  # distance from a kink, where the layer gives it
TRIES = 64  # draws of samples until they are away from kinks


def contradiction(net: Net, seed: int) -> str | None:
    """Fault in the reference of a net's layer that no table lists, as a sentence; None if there is none."""
    kinds = others(net)
    for index, layer in enumerate(net.layers):
        if type(layer) in kinds and (fault := _fault(layer, net.shapes[index], np.random.default_rng([seed, index]))):
            return f"the reference of layer {index}, {layer}, {fault}"
    return None


def _fault(layer: Layer, in_shape: Shape, rng: np.random.Generator) -> str | None:
    shapes = layer.param_shapes(in_shape).values()
    given = {"x": _clear(layer, in_shape, rng)}
    given |= {short: rng.normal(size=shape) for short, shape in zip("wb", shapes, strict=False)}

    def forward(values: dict[str, np.ndarray]) -> np.ndarray:
        return layers.forward(layer, values["x"], values.get("w"), values.get("b"))

    y = forward(given)
    if y.shape != (wanted := (SAMPLES, *layer.out_shape(in_shape))):
        return f"gives outputs of shape {y.shape} where the layer says {wanted}"
    dy = rng.normal(size=y.shape)
    gradients = layers.backward(layer, given["x"], given.get("w"), dy)
    if [np.shape(gradient) for gradient in gradients] != [values.shape for values in given.values()]:
        got = ", ".join(str(np.shape(gradient)) for gradient in gradients) or "none"
        listed = ", ".join(f"d{name} {values.shape}" for name, values in given.items())
        return f"gives gradients of shapes {got}, wanted are {listed}"
    size = float(np.linalg.norm(dy * y))
    for (name, values), gradient in zip(given.items(), gradients, strict=True):
        line = rng.normal(size=values.shape)
        above, below = (forward(given | {name: values + sign * STEP * line}) for sign in (1, -1))
        rise, computed = float((dy * (above - below)).sum()) / (2 * STEP), float((gradient * line).sum())
        curve = CURVE * STEP**2 * float(np.linalg.norm(gradient * line) + abs(rise))
        if not abs(rise - computed) <= bound("float64", y.size) * size / STEP + curve:
            rises = f"along a line in {name} its forward rises by {rise:.6g}"
            return f"contradicts itself: {rises}, and its backward says {computed:.6g}"
    return None


def _clear(layer: Layer, in_shape: Shape, rng: np.random.Generator) -> np.ndarray:
    """Samples (SAMPLES, *in_shape) float64, standard normal, away from the layer's kinks if found in TRIES draws."""
    for _ in range(TRIES):
        x = rng.normal(size=(SAMPLES, *in_shape))
        if not layers.switches(layer) or layers.margin(layer, x).min() > CLEAR:
            break
    return x
