"""Activations as a loop over all numbers of a batch."""

import numpy as np

from ...nets import Layer
from ..engine.base import Buffers, Op
from ..jit.cache import compiled
from . import scalar

_value, _derivative = compiled(scalar.value), compiled(scalar.derivative)


@compiled(error_model="numpy")
def forward(function: int, slope: float, x: np.ndarray, y: np.ndarray, count: int) -> None:
    for i in range(count):
        y[i] = _value(function, slope, x[i])


@compiled(error_model="numpy")
def backward(function: int, slope: float, saved: np.ndarray, dy: np.ndarray, dx: np.ndarray, count: int) -> None:
    for i in range(count):
        dx[i] = _derivative(function, slope, saved[i]) * dy[i]


class LoopsActivation(Op):
    """Activation in compiled loops: y = f(x), dx = f'(x) dy. dx may be dy."""

    def __init__(self, layer: Layer, buffers: Buffers) -> None:
        super().__init__(layer, buffers)
        self.function, self.slope = scalar.number(layer), buffers.x.dtype.type(scalar.slope(layer))

    def forward(self, n: int) -> None:
        t = self.buffers
        forward(self.function, self.slope, t.x.reshape(-1), t.y.reshape(-1), t.x[:n].size)

    def backward(self, n: int) -> None:
        t = self.buffers
        if t.dx is not None:
            saved = (t.y if self.layer.reads_output else t.x).reshape(-1)
            backward(self.function, self.slope, saved, t.dy.reshape(-1), t.dx.reshape(-1), t.y[:n].size)
