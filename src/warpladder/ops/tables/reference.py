"""Every layer's operation in float64, as the formulas have it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...nets import Conv2d, Flatten, Layer, Linear, MaxPool2d, Net, ReLU, Upsample2d
from ..conv2d import reference as conv2d
from ..engine.base import Op, OpTable
from ..engine.layer_files import form, others
from ..linear import reference as linear
from ..maxpool2d import reference as maxpool2d
from ..relu import reference as relu
from ..upsample2d import reference as upsample2d

FILE = "reference.py"


def forward(layer: Layer, x: np.ndarray, w: np.ndarray | None, b: np.ndarray | None) -> np.ndarray:
    """What leaves a layer, (n, *out_shape), from what enters it, (n, *in_shape), and its parameters, None where it has
    none.
    """
    match layer:
        case Linear():
            assert w is not None and b is not None
            return linear.forward(x, w, b)
        case Conv2d():
            assert w is not None and b is not None
            return conv2d.forward(x, w, b, layer.stride, layer.padding)
        case ReLU():
            return relu.forward(x)
        case MaxPool2d():
            return maxpool2d.forward(x, layer.kernel_size, _stride(layer))
        case Upsample2d():
            return upsample2d.forward(x, layer.scale_factor)
        case Flatten():
            return x.reshape(len(x), -1)
    return np.asarray(form(type(layer), FILE).forward(layer, x, w, b))


def backward(layer: Layer, x: np.ndarray, w: np.ndarray | None, dy: np.ndarray) -> tuple[np.ndarray, ...]:
    """The gradients (dx,) or (dx, dw, db) of the loss, from dy, that by what leaves a layer, and from x, what entered
    it.
    """
    match layer:
        case Linear():
            assert w is not None
            return linear.backward(x, w, dy)
        case Conv2d():
            assert w is not None
            return conv2d.backward(x, w, dy, layer.stride, layer.padding)
        case ReLU():
            return (relu.backward(x, dy),)
        case MaxPool2d():
            return (maxpool2d.backward(x, layer.kernel_size, _stride(layer), dy),)
        case Upsample2d():
            return (upsample2d.backward(layer.scale_factor, dy),)
        case Flatten():
            return (dy.reshape(x.shape),)
    return tuple(form(type(layer), FILE).backward(layer, x, w, dy))


def switches(layer: Layer) -> bool:
    """Whether a layer's gradient jumps somewhere, as that of ReLU does at 0."""
    match layer:
        case ReLU() | MaxPool2d():
            return True
        case Linear() | Conv2d() | Upsample2d() | Flatten():
            return False
    return hasattr(form(type(layer), FILE), "margin")


def margin(layer: Layer, x: np.ndarray) -> np.ndarray:
    """(n,): how far each sample of x, what enters a layer that `switches`, is from its closest jump, relative to the
    sample's root mean square.
    """
    match layer:
        case ReLU():
            return relu.margin(x)
        case MaxPool2d():
            return maxpool2d.margin(x, layer.kernel_size, _stride(layer))
    return np.asarray(form(type(layer), FILE).margin(layer, x))


class ReferenceOp(Op):
    """A layer as its reference has it, rounded to the format of its buffers."""

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
    """A table that computes those of the net's layers that no table lists by their references: what a proof compares
    with leans on nothing that is on trial.
    """
    return replace(table, layers={**table.layers, **dict.fromkeys(others(net), ReferenceOp)})


def _stride(layer: MaxPool2d) -> int:
    assert layer.stride is not None
    return layer.stride
