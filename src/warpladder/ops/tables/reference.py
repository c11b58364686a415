"""Textbook operations of every layer in float64, by the layers' files `reference.py`."""

from dataclasses import replace

import numpy as np

from ...nets import Conv2d, Flatten, Layer, Linear, Net
from ..engine.base import Op, OpTable
from ..engine.layer_files import form, others

FILE = "reference.py"


def forward(layer: Layer, x: np.ndarray, w: np.ndarray | None, b: np.ndarray | None) -> np.ndarray:
    """Output (n, *out_shape) of a layer, from x (n, *in_shape) and its parameters w and b, which may be None."""
    if isinstance(layer, Flatten):
        return x.reshape(len(x), -1)
    return np.asarray(form(type(layer), FILE).forward(layer, x, w, b))


def backward(layer: Layer, x: np.ndarray, w: np.ndarray | None, dy: np.ndarray) -> tuple[np.ndarray, ...]:
    """Gradients (dx,) or (dx, dw, db) of the loss, from its gradient dy by the output, and the layer's input x."""
    if isinstance(layer, Flatten):
        return (dy.reshape(x.shape),)
    return tuple(form(type(layer), FILE).backward(layer, x, w, dy))


def weight_gradients(layer: Layer, x: np.ndarray, w: np.ndarray | None, dy: np.ndarray) -> tuple[np.ndarray, ...]:
    """Gradients (dw, db) of a layer's parameters; () without parameters."""
    if type(layer) in (Linear, Conv2d):  # a layer of a user's file lacks this argument
        return tuple(form(type(layer), FILE).backward(layer, x, w, dy, needs_dx=False))
    return backward(layer, x, w, dy)[1:]


def switches(layer: Layer) -> bool:
    """True if the layer's gradient jumps somewhere, as ReLU's does at 0.

    The layer's reference.py then has `margin`, and `has_kinks` if the file computes several layers.
    """
    if isinstance(layer, Flatten):
        return False
    file = form(type(layer), FILE)
    return hasattr(file, "margin") and (not hasattr(file, "has_kinks") or bool(file.has_kinks(layer)))


def margin(layer: Layer, x: np.ndarray) -> np.ndarray:
    """Distance (n,) of each sample of x from the closest jump of a layer that `switches`, relative to its root mean
    square.

    x : (n, *in_shape), input of the layer.
    """
    return np.asarray(form(type(layer), FILE).margin(layer, x))


class ReferenceOp(Op):
    """Layer computed by its float64 reference, rounded to the dtype of its buffers."""

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
    """Table that adds the references of the net's layers that no table lists.

    A proof compares with it: the references depend on nothing that is proven.
    """
    return replace(table, layers={**table.layers, **dict.fromkeys(others(net), ReferenceOp)})
