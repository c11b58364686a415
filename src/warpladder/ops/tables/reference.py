"""Every layer's operation in float64, as the formulas have it, by the files `reference.py`."""

from dataclasses import replace

import numpy as np

from ...nets import Conv2d, Flatten, Layer, Linear, Net
from ..engine.base import Op, OpTable
from ..engine.layer_files import form, others

FILE = "reference.py"


def forward(layer: Layer, x: np.ndarray, w: np.ndarray | None, b: np.ndarray | None) -> np.ndarray:
    """Output (n, *out_shape) of a layer, from x (n, *in_shape) and its parameters, None without any."""
    if isinstance(layer, Flatten):
        return x.reshape(len(x), -1)
    return np.asarray(form(type(layer), FILE).forward(layer, x, w, b))


def backward(layer: Layer, x: np.ndarray, w: np.ndarray | None, dy: np.ndarray) -> tuple[np.ndarray, ...]:
    """Gradients (dx,) or (dx, dw, db) of the loss, from that by the layer's output, dy, and from its input x."""
    if isinstance(layer, Flatten):
        return (dy.reshape(x.shape),)
    return tuple(form(type(layer), FILE).backward(layer, x, w, dy))


def weight_gradients(layer: Layer, x: np.ndarray, w: np.ndarray | None, dy: np.ndarray) -> tuple[np.ndarray, ...]:
    """Gradients (dw, db) alone, or () of a layer without parameters."""
    if type(layer) in (Linear, Conv2d):  # a layer of a user's file has no such argument
        return tuple(form(type(layer), FILE).backward(layer, x, w, dy, needs_dx=False))
    return backward(layer, x, w, dy)[1:]


def switches(layer: Layer) -> bool:
    """True if the layer's gradient jumps somewhere, as that of ReLU does at 0: its file has a `margin`, and where it
    computes several layers, a `has_kinks`.
    """
    if isinstance(layer, Flatten):
        return False
    file = form(type(layer), FILE)
    return hasattr(file, "margin") and (not hasattr(file, "has_kinks") or bool(file.has_kinks(layer)))


def margin(layer: Layer, x: np.ndarray) -> np.ndarray:
    """Distance of each sample of x from its closest jump of a layer that `switches`, relative to its root mean square.

    x : (n, *in_shape), input of the layer. Returns (n,).
    """
    return np.asarray(form(type(layer), FILE).margin(layer, x))


class ReferenceOp(Op):
    """A layer by its reference, rounded to the format of its buffers."""

    def forward(self, n: int) -> None:
        t = self.buffers
        t.y[:n] = forward(self.layer, t.x[:n], t.w, t.b)

    def backward(self, n: int) -> None:
        t = self.buffers
        dx, *trained = backward(self.layer, t.x[:n], t.w, t.dy[:n])
        if t.dx is not None:
            t.dx[:n] = dx
        for at, found in zip((t.dw, t.db), trained, strict=False):
            at[...] = found


def with_references(table: OpTable, net: Net) -> OpTable:
    """Table that computes the net's layers that no table lists by their references.

    A proof compares with it: it relies on nothing that is proven.
    """
    return replace(table, layers={**table.layers, **dict.fromkeys(others(net), ReferenceOp)})
