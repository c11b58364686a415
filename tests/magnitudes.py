"""How large the terms of every sum in a training step are: what rounding errors are relative to.

A sum of n rounded products is off by a multiple of the sum of the products' absolute values, and
so |fl(AB) - AB| <= gamma |A||B| (Higham, Accuracy and Stability of Numerical Algorithms, 2002,
ch. 3). Carried through a net by the reference's own operations on absolute values (a running error
analysis, ibid.), this gives every gradient a scale that stays right where its sum cancels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpladder.nets import Conv2d, CrossEntropyLoss, Flatten, Layer, Linear, MaxPool2d, Net, ReLU, Upsample2d
from warpladder.ops.conv2d import reference as conv2d
from warpladder.ops.cross_entropy import reference as cross_entropy
from warpladder.ops.linear import reference as linear
from warpladder.ops.maxpool2d import reference as maxpool2d
from warpladder.ops.upsample2d import reference as upsample2d
from warpladder.params import views
from warpladder.trainers.reference import ReferenceTrainer


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
    w = {name: np.abs(a) for name, a in views(net, reference.params).items()}
    values = reference.activations(x)
    sizes, closest = [np.abs(x)], np.full(len(x), np.inf)
    for i, layer in enumerate(net.layers):
        if i > net.first_trained:
            closest = np.minimum(closest, _distance(layer, values[i], sizes[i]))
        sizes.append(_forward(layer, values[i], sizes[i], w.get(f"{i}.weight"), w.get(f"{i}.bias")))
    loss, d = _loss(net, x, y, values[-1], sizes[-1])
    flat = np.zeros(net.param_count)
    named = views(net, flat)
    for i in reversed(range(net.first_trained, len(net.layers))):
        d, *trained = _backward(net.layers[i], values[i], sizes[i], w.get(f"{i}.weight"), d)
        if trained:
            named[f"{i}.weight"][...], named[f"{i}.bias"][...] = trained
    return Magnitudes(loss, sizes[-1], flat, closest)


def longest_chain(net: Net, samples: int) -> int:
    """Roundings on the longest way from an input to a gradient: the lengths of all sums on it, forward and back, added up."""
    total = 8  # the loss and the update
    pixels = 1
    for layer, shape, out in zip(net.layers, net.shapes, net.shapes[1:], strict=False):
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
    return total + net.out_shape[0] + samples * pixels


def _forward(layer: Layer, value: np.ndarray, size: np.ndarray, w: np.ndarray | None, b: np.ndarray | None) -> np.ndarray:
    match layer:
        case Linear():
            assert w is not None and b is not None
            return linear.forward(size, w, b)
        case Conv2d():
            assert w is not None and b is not None
            return conv2d.forward(size, w, b, layer.stride, layer.padding)
        case ReLU():
            return np.where(value > 0, size, 0)
        case MaxPool2d():
            return maxpool2d.forward(size, layer.kernel_size, layer.stride or 1)
        case Upsample2d():
            return upsample2d.forward(size, layer.scale_factor)
        case Flatten():
            return size.reshape(len(size), -1)
    raise NotImplementedError(layer)


def _backward(layer: Layer, value: np.ndarray, size: np.ndarray, w: np.ndarray | None, d: np.ndarray) -> tuple[np.ndarray, ...]:
    match layer:
        case Linear():
            assert w is not None
            return linear.backward(size, w, d)
        case Conv2d():
            assert w is not None
            return conv2d.backward(size, w, d, layer.stride, layer.padding)
        case ReLU():
            return (np.where(value > 0, d, 0),)
        case MaxPool2d():
            return (maxpool2d.backward(value, layer.kernel_size, layer.stride or 1, d),)
        case Upsample2d():
            return (upsample2d.backward(layer.scale_factor, d),)
        case Flatten():
            return (d.reshape(value.shape),)
    raise NotImplementedError(layer)


def _loss(net: Net, x: np.ndarray, y: np.ndarray | None, out: np.ndarray, size: np.ndarray) -> tuple[float, np.ndarray]:
    """Scales of the loss and of its gradient, by the outputs' own."""
    n = len(x)
    if not isinstance(net.loss, CrossEntropyLoss):
        target = np.abs(x.reshape(out.shape))
        return float(np.mean((size + target) ** 2)), 2 * (size + target) / out.size
    assert y is not None
    one_hot = np.eye(out.shape[1])[y]
    probability = cross_entropy.backward(out, y) * n + one_hot
    spread = size.max(axis=1, keepdims=True)  # an error of x moves a probability p by at most 2 p times the largest such error
    return float(np.mean(1 + 2 * spread)), (probability * (1 + 2 * spread) + one_hot) / n


def _distance(layer: Layer, value: np.ndarray, size: np.ndarray) -> np.ndarray:
    """(n,): the smallest of |gap| / scale over a layer's switches; gaps of exactly nothing come from equal or empty pixels and do not count."""
    if isinstance(layer, ReLU):
        gap, scale = np.abs(value), size
    elif isinstance(layer, MaxPool2d):
        k, s = layer.kernel_size, layer.stride or 1
        windows, scales = maxpool2d.windows(value, k, s), maxpool2d.windows(size, k, s)
        gap = windows.max(axis=-1, keepdims=True) - windows
        scale = scales + scales.max(axis=-1, keepdims=True)
    else:
        return np.full(len(value), np.inf)
    ratio = np.divide(gap, scale, out=np.full(gap.shape, np.inf), where=gap > 1e-13 * scale)
    return ratio.reshape(len(value), -1).min(axis=1, initial=np.inf)
