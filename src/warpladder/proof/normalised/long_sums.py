"""Long sums of a net that normalises: how far their errors reach, and batches of which few samples differ."""

from __future__ import annotations

import math

import numpy as np

from ... import nets
from ...machine.precision import Precision
from ..bias_sums import in_a_row

#: Samples in the smallest batch of a proof: of two numbers the normalised ones are always 1 and -1.
LEAST = 4
LONG = 1 << 13  # numbers of a channel from which on a sum of them is long
#: Roundoffs that a mean of like terms may be off by for each of them, if they are added one by one: an eighth of the
#: worst. Numbers of pool windows keep a smaller distance, since all numbers of a channel share such an error.
IN_A_ROW, OF_WINDOWS = 1 / 32, 1 / 2
TIED = 0.5  # density of the differences between the two largest numbers of a window at 0, in deviations
NUMBERS = 16  # different numbers of a channel in a batch whose samples repeat, at least
MOST = 16  # different samples of a batch of long sums
ELEMENTS, SAMPLES = 4, 16  # weights of an output channel whose products are added, and samples at a time


def normalising(net: nets.Net) -> list[int]:
    """Numbers of the layers that normalise."""
    return [i for i, layer in enumerate(net.layers) if layer.normalizes]


def in_a_row_at(net: nets.Net, at: int, size: int, precision: Precision, accumulators: int = 1) -> float:
    """Distance from a kink at layer `at` that outlasts the errors of sums of a normalisation before it, relative to a
    channel's deviation, in a batch of this size. Their terms are added one by one in this many accumulators. It is 0 if
    no normalisation has many numbers, or in a coarse format.
    """
    most = longest_sum(net, size, at)
    return 0.0 if precision.coarse or most <= LONG else IN_A_ROW * precision.roundoff * most / accumulators


def longest_sum(net: nets.Net, size: int, at: int | None = None) -> int:
    """Numbers of a channel, the most of all normalisations, or of those before layer `at`, in a batch of this size."""
    return max((size * math.prod(net.shapes[i][1:]) for i in normalising(net) if at is None or i < at), default=0)


def different(net: nets.Net, size: int, precision: Precision, accumulators: int = 1) -> int:
    """Number of different samples of a batch: the batch's size but where sums are long. There it is at most MOST, and
    about one sample has a pool's window whose order they may change.
    """
    if not in_a_row_at(net, len(net.layers), size, precision):
        return size
    ties = 1 / MOST
    for i, layer in enumerate(net.layers):
        if isinstance(layer, nets.MaxPool2d) and layer.kernel_size > 1:
            reach = OF_WINDOWS * in_a_row_at(net, i, size, precision, accumulators)
            ties += math.prod(net.shapes[i + 1]) * reach * TIED
    return min(size, max(least_different(net), int(1 / ties)))


def least_different(net: nets.Net, least: int = LEAST) -> int:
    """Least number of different samples of a batch whose samples repeat: each channel has NUMBERS different numbers, of
    fewer little is left of a gradient. It is at least `least`.
    """
    return max(least, -(-NUMBERS // min(math.prod(net.shapes[i][1:]) for i in normalising(net))))


def one_after_another(layer: nets.Conv2d, x: np.ndarray, dy: np.ndarray, precision: Precision) -> np.ndarray:
    """Root-mean-square errors (out_channels, 1, 1, 1) of a convolution's dw where the products of all pixels are added
    one by one, those of ELEMENTS weights of each output channel: many products may be equal, and round alike.

    x, dy : input and gradient of the output, (n, channels, height, width) float64.
    """
    random, kind = np.random.default_rng(0), np.dtype(precision.element)
    k, step, edge = layer.kernel_size, layer.stride, layer.padding
    (n, channels), (_, outputs, high, wide) = x.shape[:2], dy.shape
    padded = np.pad(x, ((0, 0), (0, 0), (edge, edge), (edge, edge))).astype(kind)
    factors, squares = np.moveaxis(dy, 1, -1).astype(kind), np.zeros(outputs)
    for channel, i, j in random.integers(0, (channels, k, k), (ELEMENTS, 3)):
        met = padded[:, channel, i : i + step * (high - 1) + 1 : step, j : j + step * (wide - 1) + 1 : step, None]
        total, exact = np.zeros(outputs, kind), np.zeros(outputs)
        for first in range(0, n, SAMPLES):
            some = slice(first, first + SAMPLES)
            terms = (factors[some] * met[some]).reshape(-1, outputs)
            total, exact = in_a_row(total, terms), exact + terms.sum(axis=0, dtype=np.float64)
        squares += np.square(total - exact) / ELEMENTS
    return np.asarray(np.sqrt(squares)[:, None, None, None])
