"""Native order of the parameters, and conversion to and from PyTorch's order.

Most layers: panels (out / WIDTH, kernel row, kernel column, input channel, WIDTH), so that a tile reads its weights as
one stream. Linear layers with few outputs: rows (out, pitch), as PyTorch stores them. Padding holds zeros and stays
zero, because its gradients are zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ....nets import Flatten, Linear, MaxPool2d, Net
from ....nets.params import ParamSlice, param_slices
from ..compiler.vectors import WIDTH

GAPS_FROM = 128  # channels from which a gap follows each pixel (tensors.py)


def padded(count: int) -> int:
    """Number of channels rounded up to whole panels."""
    return -(-count // WIDTH) * WIDTH


def has_few_outputs(inputs: int, outputs: int) -> bool:
    """True if panels waste more than vectors along the inputs, whose sums across lanes need many inputs."""
    return inputs >= 128 and outputs <= 32 and 4 * outputs <= 3 * padded(outputs)


def stays_in_place(net: Net, index: int) -> bool:
    """True if layer `index` is a Flatten whose input the next Linear layer reads in place, by reordered weights."""
    layers = net.layers
    if not 0 < index < len(layers) - 1 or not isinstance(layers[index], Flatten):
        return False
    channels = net.shapes[index][0]
    dense = isinstance(layers[index - 1], MaxPool2d) and channels == padded(channels) < GAPS_FROM
    return dense and index > net.first_trained and isinstance(layers[index + 1], Linear)


@dataclass(frozen=True)
class LayerWeights:
    """Parameters of one layer in the native buffer, in elements.

    weight, bias : their offsets; stop : offset of the next layer.
    inputs, outputs : channels with padding (has_few_outputs: outputs without). taps : kernel_size, 1 for Linear.
    has_bias : False if the bias is padding.
    """

    weight: int
    bias: int
    stop: int
    inputs: int
    outputs: int
    taps: int
    has_few_outputs: bool
    has_bias: bool = True


class WeightLayout:
    """Parameters of a net in native order."""

    def __init__(self, net: Net) -> None:
        self.layers: dict[int, LayerWeights] = {}
        pairs: dict[int, list[ParamSlice]] = {}
        for place in param_slices(net):
            pairs.setdefault(place.layer, []).append(place)
        order = []
        start = 0
        for index, (weight, *bias) in pairs.items():
            stored, where = _store(net, index, weight, start)
            order.append(where)
            numbers = np.arange(bias[0].start, bias[0].stop) if bias else np.arange(0)
            order.append(_pad_to(numbers, stored.stop - stored.bias))
            self.layers[index] = replace(stored, has_bias=bool(bias))
            start = stored.stop
        self.count = start
        #: for each native element which element of the flat buffer it is, -1 for padding
        self.place = np.concatenate(order)
        self._real = np.flatnonzero(self.place >= 0)

    def to_flat(self, native: np.ndarray) -> np.ndarray:
        """Flat copy (param_count,) float32, in the order of params.py, of parameters (count,) in native order."""
        flat = np.empty(self._real.size, np.float32)
        flat[self.place[self._real]] = native[self._real]
        return flat

    def from_flat(self, flat: np.ndarray, native: np.ndarray) -> None:
        """Fill `native` (count,) from the flat buffer (param_count,) of params.py; padding becomes 0."""
        native[:] = 0
        native[self._real] = flat[self.place[self._real]]


def _store(net: Net, index: int, weight: ParamSlice, start: int) -> tuple[LayerWeights, np.ndarray]:
    layer = net.layers[index]
    numbers = np.arange(weight.start, weight.stop).reshape(weight.shape)
    out = weight.shape[0]
    if layer.normalizes:
        where = _pad_to(numbers, padded(out))
        return LayerWeights(start, start + where.size, start + 2 * where.size, 1, padded(out), 1, False), where
    if isinstance(layer, Linear):
        if stays_in_place(net, index - 1):
            numbers = numbers.reshape(out, *net.shapes[index - 1]).transpose(0, 2, 3, 1).reshape(out, -1)
        inputs = padded(weight.shape[1])
        if has_few_outputs(weight.shape[1], out):
            where = _pad(numbers, (out, inputs))
            bias = start + where.size
            return LayerWeights(start, bias, bias + padded(out), inputs, out, 1, True), where.ravel()
        numbers = numbers[:, :, None, None]
        taps = 1
    else:
        taps = weight.shape[2]
        # an image that enters the net keeps its few channels, everything else is padded
        inputs = weight.shape[1] if index <= net.first_trained else padded(weight.shape[1])
    wide = _pad(numbers, (padded(out), inputs, taps, taps))
    where = wide.reshape(-1, WIDTH, inputs, taps, taps).transpose(0, 3, 4, 2, 1)
    bias = start + where.size
    return LayerWeights(start, bias, bias + padded(out), inputs, padded(out), taps, False), where.ravel()


def _pad(numbers: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.pad(
        numbers, [(0, want - have) for want, have in zip(shape, numbers.shape, strict=True)], constant_values=-1
    )


def _pad_to(numbers: np.ndarray, count: int) -> np.ndarray:
    return np.pad(numbers, (0, count - numbers.size), constant_values=-1)
