"""Activations as array expressions of NumPy or CuPy."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from ...nets import GELU, Layer, LeakyReLU, Sigmoid, SiLU, Tanh
from ..engine.base import Array, Buffers, Op, module_of
from .reference import CUBE, ROOT


class ArrayActivation(Op):
    """Activation as array expressions: y = f(x), dx = f'(x) dy, with one scratch array (capacity, *shape)."""

    def __init__(self, layer: Layer, buffers: Buffers) -> None:
        super().__init__(layer, buffers)
        self.xp = module_of(buffers.x)
        self.special = import_module("scipy.special" if self.xp is np else "cupyx.scipy.special")
        self.value, self.times_derivative = FUNCTIONS[type(layer)]
        self.spare = self.scratch(buffers.y, buffers.y.shape, np.bool_ if type(layer) is LeakyReLU else None)

    def forward(self, n: int) -> None:
        t = self.buffers
        self.value(self, t.x[:n], t.y[:n], self.spare[:n])

    def backward(self, n: int) -> None:
        t = self.buffers
        if t.dx is not None:
            self.times_derivative(self, (t.y if self.layer.reads_output else t.x)[:n], t.dx[:n], self.spare[:n])
            t.dx[:n] *= t.dy[:n]

    def number(self, value: float) -> Any:
        """Scalar `value` in the element type of the arrays."""
        return self.buffers.x.dtype.type(value)


# Functions of (op, x or y, out, spare): `out` gets the value or the derivative.


def _tanh(op: ArrayActivation, x: Array, out: Array, spare: Array) -> None:
    op.xp.tanh(x, out=out)


def _tanh_derivative(op: ArrayActivation, y: Array, out: Array, spare: Array) -> None:
    op.xp.multiply(y, y, out=out)
    op.xp.subtract(op.number(1), out, out=out)


def _sigmoid(op: ArrayActivation, x: Array, out: Array, spare: Array) -> None:
    op.special.expit(x, out=out)


def _sigmoid_derivative(op: ArrayActivation, y: Array, out: Array, spare: Array) -> None:
    op.xp.subtract(op.number(1), y, out=out)
    out *= y


def _leaky_relu(op: ArrayActivation, x: Array, out: Array, spare: Array) -> None:
    op.xp.multiply(x, op.number(op.layer.negative_slope), out=out)
    op.xp.greater(x, op.number(0), out=spare)
    op.xp.copyto(out, x, where=spare)


def _leaky_relu_derivative(op: ArrayActivation, x: Array, out: Array, spare: Array) -> None:
    out[...] = op.number(op.layer.negative_slope)
    op.xp.greater(x, op.number(0), out=spare)
    op.xp.copyto(out, op.number(1), where=spare)


def _probability(op: ArrayActivation, x: Array, out: Array) -> None:
    """P(X <= x) of a standard normal X, from both tails to full precision."""
    op.xp.multiply(x, op.number(-np.sqrt(0.5)), out=out)
    op.special.erfc(out, out=out)
    out *= op.number(0.5)


def _cubic(op: ArrayActivation, x: Array, out: Array) -> None:
    """v = 2 ROOT (x + CUBE x^3): the sigmoid of v approximates P(X <= x)."""
    op.xp.multiply(x, x, out=out)
    out *= op.number(CUBE)
    out += op.number(1)
    out *= x
    out *= op.number(2 * ROOT)


def _gelu(op: ArrayActivation, x: Array, out: Array, spare: Array) -> None:
    if op.layer.approximate == "none":
        _probability(op, x, out)
    else:
        _cubic(op, x, out)
        op.special.expit(out, out=out)
    out *= x


def _gelu_derivative(op: ArrayActivation, x: Array, out: Array, spare: Array) -> None:
    if op.layer.approximate == "none":
        op.xp.multiply(x, x, out=out)
        out *= op.number(-0.5)
        op.xp.exp(out, out=out)
        out *= op.number(1 / np.sqrt(2 * np.pi))
        out *= x
        _probability(op, x, spare)
        out += spare
        return
    _cubic(op, x, out)
    op.xp.negative(out, out=out)
    op.special.expit(out, out=out)  # 1 - s(v)
    op.xp.multiply(x, x, out=spare)
    spare *= op.number(3 * CUBE)
    spare += op.number(1)
    spare *= op.number(2 * ROOT)
    out *= spare
    _cubic(op, x, spare)
    op.special.expit(spare, out=spare)
    _product_rule(op, x, out, spare)


def _silu(op: ArrayActivation, x: Array, out: Array, spare: Array) -> None:
    op.special.expit(x, out=out)
    out *= x


def _silu_derivative(op: ArrayActivation, x: Array, out: Array, spare: Array) -> None:
    op.xp.negative(x, out=out)
    op.special.expit(out, out=out)  # 1 - s(x)
    op.special.expit(x, out=spare)
    _product_rule(op, x, out, spare)


def _product_rule(op: ArrayActivation, x: Array, out: Array, share: Array) -> None:
    """Derivative of x s(v) from share = s(v) and out = (1 - s(v)) v'."""
    out *= x
    out += op.number(1)
    out *= share


#: Value, and derivative by the output if the layer `reads_output`, else by the input.
FUNCTIONS: dict[type[Layer], tuple[Callable[..., None], Callable[..., None]]] = {
    Tanh: (_tanh, _tanh_derivative),
    Sigmoid: (_sigmoid, _sigmoid_derivative),
    LeakyReLU: (_leaky_relu, _leaky_relu_derivative),
    GELU: (_gelu, _gelu_derivative),
    SiLU: (_silu, _silu_derivative),
}
