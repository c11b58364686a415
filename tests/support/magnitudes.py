"""How large the numbers are that a training step adds up: what its rounding errors are relative to.

A sum rounds each of its partial sums, and these are about as large as the root of the sum of its
terms' squares, or as the sum itself where that is larger. Errors that arrive with the terms add
by their squares too, weighted like the terms. So one recursion serves both: the scale S of
y = sum of w x is S_y^2 = sum of w^2 S_x^2 + y^2, which the reference's own operations compute when they
are given squares. Unlike |y| it stays right where a sum cancels, and unlike the sum of |w| |x| it does not
grow from layer to layer (Higham and Mary, SIAM J. Sci. Comput. 41(5), 2019, and 42(5), 2020, on random data).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from references import conv2d, linear, maxpool2d, upsample2d

from warpladder.nets import (
    ACTIVATIONS,
    AdaptiveAvgPool2d,
    AvgPool2d,
    Conv2d,
    CrossEntropyLoss,
    Dropout,
    Flatten,
    Layer,
    LeakyReLU,
    Linear,
    MaxPool2d,
    Net,
    ReLU,
    Shape,
    Upsample2d,
)
from warpladder.nets.params import views
from warpladder.ops.activation import reference as activation
from warpladder.ops.avgpool2d import reference as average
from warpladder.ops.cross_entropy import reference as cross_entropy
from warpladder.proof.reference import ReferenceTrainer


@dataclass(frozen=True)
class Magnitudes:
    """Scales of one step's rounding errors.

    loss : of the mean loss.
    output : (n, *out_shape), of the net's output.
    grads : (param_count,), of the gradient.
    closest : (n,), the smallest distance of each sample from a ReLU's or max-pool's switch, in units of that number's
        own scale. Where it is above the bound for rounding, no rung may fall on the other side.
    """

    loss: float
    output: np.ndarray
    grads: np.ndarray
    closest: np.ndarray


def magnitudes(reference: ReferenceTrainer, x: np.ndarray, y: np.ndarray | None) -> Magnitudes:
    """Scales for samples x (n, *in_shape) float64 with labels y at the reference's present parameters."""
    net = reference.net
    w = views(net, reference.params**2)
    values = reference.activations(x)
    squares, closest = [x**2], np.full(len(x), np.inf)
    for i, layer in enumerate(net.layers):
        if i > net.first_trained:
            closest = np.minimum(closest, distance(layer, values[i], squares[i]))
        inherited = forward_scale(layer, values[i], squares[i], w.get(f"{i}.weight"), w.get(f"{i}.bias"))
        squares.append(inherited + values[i + 1] ** 2 if layer.param_shapes(net.shapes[i]) else inherited)
    loss, d = _loss(net, x, y, values[-1], squares[-1])
    gradient = reference.gradients(x, y)[2]
    flat = np.zeros(net.param_count)
    named = views(net, flat)
    for i in reversed(range(net.first_trained, len(net.layers))):
        d, *trained = backward_scale(net.layers[i], values[i], squares[i], w.get(f"{i}.weight"), d)
        for name, found in zip(net.layers[i].param_shapes(net.shapes[i]), trained, strict=False):
            named[f"{i}.{name}"][...] = found
    return Magnitudes(loss, np.sqrt(squares[-1]), np.sqrt(flat + gradient**2), closest)


def longest_chain(net: Net, samples: int) -> int:
    """Roundings on the longest way from an input to a gradient: the lengths of all sums on it, forward and back, added
    up.
    """
    return 8 + net.out_shape[0] + chain(net.layers, net.shapes, samples)  # 8: the loss and the update


def chain(layers: tuple[Layer, ...], shapes: tuple[Shape, ...], samples: int) -> int:
    """The same within consecutive layers; shapes[i] enters layer i, the last one leaves."""
    total, pixels = 0, 1
    for layer, shape, out in zip(layers, shapes, shapes[1:], strict=False):
        match layer:
            case Linear():
                total += shape[0] + out[0]
            case Conv2d():
                total += (shape[0] + out[0]) * layer.kernel_size**2
                pixels = max(pixels, out[1] * out[2])
            case Upsample2d():
                total += layer.scale_factor**2
            case MaxPool2d():
                total += layer.kernel_size**2
            case _:
                total += 2 * layer.roundings(shape)
    return total + samples * pixels


def forward_scale(
    layer: Layer, value: np.ndarray, square: np.ndarray, w: np.ndarray | None, b: np.ndarray | None
) -> np.ndarray:
    """The squared scales that a layer's sums inherit: from its input, its input's squared scales, and squared
    parameters.
    """
    match layer:
        case Linear():
            assert w is not None
            return linear.forward(square, w, np.zeros(len(w)) if b is None else b)
        case Conv2d():
            assert w is not None
            return conv2d.forward(square, w, np.zeros(len(w)) if b is None else b, layer.stride, layer.padding)
        case ReLU():
            return np.where(value > 0, square, 0)
        case MaxPool2d():
            return maxpool2d.forward(square, layer.kernel_size, layer.stride or 1)
        case Upsample2d():
            return upsample2d.forward(square, layer.scale_factor)
        case AvgPool2d() | AdaptiveAvgPool2d():  # squares of the weights 1 / area
            y = average.forward(layer, value)
            return average.forward(layer, square) / average.area(layer, value) + y**2
        case Flatten():
            return square.reshape(len(square), -1)
        case Dropout():  # without a mask
            return square
    if isinstance(layer, ACTIVATIONS):
        return activation.backward(layer, value, None, np.ones_like(value))[0] ** 2 * square + value**2
    raise NotImplementedError(layer)


def backward_scale(
    layer: Layer, value: np.ndarray, square: np.ndarray, w: np.ndarray | None, d: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Of the gradients by input, weight and bias; d is the squared scale of the gradient by the output."""
    match layer:
        case Linear():
            assert w is not None
            return linear.backward(square, w, d)
        case Conv2d():
            assert w is not None
            return conv2d.backward(square, w, d, layer.stride, layer.padding)
        case ReLU():
            return (np.where(value > 0, d, 0),)
        case MaxPool2d():
            return (maxpool2d.backward(value, layer.kernel_size, layer.stride or 1, d),)
        case Upsample2d():
            return (upsample2d.backward(layer.scale_factor, d),)
        case AvgPool2d() | AdaptiveAvgPool2d():
            return (average.backward(layer, value, None, d)[0] / average.area(layer, value),)
        case Flatten():
            return (d.reshape(value.shape),)
        case Dropout():
            return (d,)
    if isinstance(layer, ACTIVATIONS):  # the second derivative is at most 1, and the first is rounded near 1
        bend = 0 if isinstance(layer, LeakyReLU) else 1 + square
        return (d * (activation.backward(layer, value, None, np.ones_like(value))[0] ** 2 + bend),)
    raise NotImplementedError(layer)


def _loss(
    net: Net, x: np.ndarray, y: np.ndarray | None, out: np.ndarray, square: np.ndarray
) -> tuple[float, np.ndarray]:
    """The loss's scale, and the squared scale of its gradient by the outputs, whose squared scale is given."""
    n = len(x)
    if not isinstance(net.loss, CrossEntropyLoss):
        target = x.reshape(out.shape)
        loss, both = float(np.mean((out - target) ** 2)), square + target**2
        return loss + 2 * float(np.sqrt(loss * np.mean(both))), (2 / out.size) ** 2 * both
    assert y is not None
    gradient = cross_entropy.backward(out, y)
    p2 = (gradient * n + np.eye(out.shape[1])[y]) ** 2
    shifted = square + square.max(axis=1, keepdims=True)  # of x - max(x), whose errors exp turns into relative ones
    mixed = (p2 * shifted).sum(axis=1, keepdims=True)
    loss = cross_entropy.forward(out, y) + float(np.sqrt(np.mean(1 + shifted[np.arange(n), y] + mixed[:, 0])))
    return loss, p2 * (1 + shifted + mixed) / n**2 + gradient**2


def distance(layer: Layer, value: np.ndarray, square: np.ndarray) -> np.ndarray:
    """(n,): the smallest of |gap| / scale over a layer's switches; gaps of exactly nothing come from equal or empty
    pixels and do not count.
    """
    if isinstance(layer, ReLU | LeakyReLU):
        gap, scale = np.abs(value), np.sqrt(square)
    elif isinstance(layer, MaxPool2d):
        k, s = layer.kernel_size, layer.stride or 1
        windows, squares = maxpool2d.windows(value, k, s), maxpool2d.windows(square, k, s)
        gap = windows.max(axis=-1, keepdims=True) - windows
        scale = np.sqrt(squares + squares.max(axis=-1, keepdims=True))
    else:
        return np.full(len(value), np.inf)
    ratio = np.divide(gap, scale, out=np.full(gap.shape, np.inf), where=gap > 1e-13 * scale)
    return ratio.reshape(len(value), -1).min(axis=1, initial=np.inf)
