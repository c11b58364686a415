"""Sources of a proof's samples: random numbers, and samples of a data set."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np

from ..data.dataset import Dataset, pixels
from ..nets import BCEWithLogitsLoss, CrossEntropyLoss, L1Loss, Net
from ..nets.params import param_slices

WEIGHT_POWERS = -6.0, 5.0  # powers of two of weights of samples
EVERY_WEIGHT = 20  # powers of two, up or down, by which all weights of a batch may be scaled
WEIGHTLESS = 1 / 8  # share of the samples whose weight is 0
BETWEEN = 0.25  # share of binary targets that are soft
SMALL, POWERS = 0.25, (10, 17)  # share of floats that are small, and powers of two by which they are
TIES = 0.25  # share of targets that are 0
FIRST = 5  # of eight samples with ties, those whose label is the first of the largest
FULL = 8  # samples of bytes, of each of which one may have bytes that are all 255: at most one of a draw


class SampleSource(ABC):
    """Source of samples in a data set's stored form, with labels, or with targets.

    dtype, scale : dtype and scale of the samples. outputs : numbers in a target; 0 for labels.
    exact : True if x * scale is one of 0, 1/4, 1/2, 3/4, without rounding.
    """

    exact = False

    def __init__(self, net: Net, dtype: np.dtype, scale: float, outputs: int) -> None:
        self.shape, self.outputs = net.in_shape, outputs
        self.classes = net.out_shape[0] if isinstance(net.loss, CrossEntropyLoss) else 1
        self.is_binary, self.has_ties = isinstance(net.loss, BCEWithLogitsLoss), isinstance(net.loss, L1Loss)
        self.dtype, self.scale = dtype, scale

    @abstractmethod
    def __call__(self, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Samples (count, *in_shape) of `dtype`, and labels (count,) int32 or targets (count, outputs) float32."""

    def goals(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Random labels (count,) int32, or targets (count, outputs) float32: from -1 to 1, or with BCEWithLogitsLoss
        0, 1 and a few between.
        """
        if self.outputs:
            drawn = rng.uniform(-1, 1, (count, self.outputs)).astype(np.float32)
            if self.is_binary:
                return np.where(np.abs(drawn) < BETWEEN, np.abs(drawn), drawn > 0).astype(np.float32)
            if self.has_ties:  # with outputs at a state of zeros
                drawn[rng.random(drawn.shape) < TIES] = 0
            return drawn
        return rng.integers(0, self.classes, count, np.int32)


class Noise(SampleSource):
    """Source of dense noise: bytes, or floats from -1 to 1; by its scale, no power of two, each product rounds.

    Some floats are small: a sum of products then has small terms, which must not be left out. Floats are from 0 to 1 if
    they are targets of BCEWithLogitsLoss too.

    stored : power of two by which floats are stored larger than a net sees them.
    """

    def __init__(self, net: Net, dtype: type, outputs: int = 0, stored: int = 0) -> None:
        self.stored = np.float32(2.0**stored)
        super().__init__(net, np.dtype(dtype), 1 / 255 if dtype is np.uint8 else 0.7 / float(self.stored), outputs)
        self.least = 0 if self.is_binary and not outputs else -1

    def __call__(self, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        size = (count, *self.shape)
        if self.dtype == np.uint8:
            x = rng.integers(0, 256, size, np.uint8)
            x[np.flatnonzero(x.reshape(count, -1)[:, 0] % FULL == 0)[:1]] = 255  # of many like terms round alike
        else:
            x = rng.uniform(self.least, 1, size).astype(np.float32)
            small = rng.random(size) < SMALL
            x[small] *= 2.0 ** -rng.integers(*POWERS, np.count_nonzero(small)).astype(np.float32)
            x *= self.stored
        return x, self.goals(rng, count)


class DatasetSamples(SampleSource):
    """Source of a data set's training samples, unchanged, but that one of bytes may be full."""

    def __init__(self, net: Net, source: Dataset, has_full: bool = True) -> None:
        super().__init__(net, source.train_x.dtype, source.scale, source.outputs)
        self.source, self.has_full = source, has_full

    def __call__(self, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        rows = rng.integers(0, len(self.source.train_x), count)
        x, y = self.source.train_x[rows], self.source.train_y
        if self.dtype == np.uint8 and self.has_full:
            x[np.flatnonzero(rows % FULL == len(self.source.train_x) // 2 % FULL)[:1]] = 255
        return x, self.goals(rng, count) if y is None else y[rows]


class Rescaled(SampleSource):
    """Source of another source's stored samples at another scale."""

    def __init__(self, source: SampleSource, scale: float) -> None:
        self.source, self.dtype, self.scale, self.outputs = source, source.dtype, scale, source.outputs

    def __call__(self, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        return self.source(rng, count)


class TiedLabels(SampleSource):
    """Source of another source's samples whose labels are classes with the largest logit: five of eight the first.

    tied : these classes, in order. A trainer that takes another of them counts other samples as correct.
    """

    def __init__(self, source: SampleSource, tied: np.ndarray) -> None:
        self.source, self.tied = source, tied
        self.dtype, self.scale, self.outputs, self.exact = source.dtype, source.scale, source.outputs, source.exact

    def __call__(self, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        x, y = self.source(rng, count)
        first = rng.permutation(count) % FULL < FIRST
        return x, np.where(first, self.tied[0], rng.choice(self.tied[1:], count)).astype(y.dtype)


class Quarters(SampleSource):
    """Source of noise with four levels, or of a data set's training samples rounded to these levels, with blank
    corners.

    ink : share of random numbers in the noise; the others are zero.
    """

    exact = True

    def __init__(
        self, net: Net, dtype: type, source: Dataset | None = None, ink: float = 1.0, outputs: int = 0
    ) -> None:
        super().__init__(net, np.dtype(dtype), 1 / 256 if dtype is np.uint8 else 1 / 4, outputs)
        self.real = None if source is None else DatasetSamples(net, source, has_full=False)
        self.ink = ink

    def __call__(self, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        if self.real is None:
            level, y = rng.integers(0, 4, (count, *self.shape)), self.goals(rng, count)
            if self.ink < 1:
                level[rng.random(level.shape) >= self.ink] = 0
        else:
            x, y = self.real(rng, count)
            level = np.clip(np.floor(4 * pixels(x, self.real.scale)), 0, 3)
        return (level * (64 if self.dtype == np.uint8 else 1)).astype(self.dtype), y


def outputs_of(net: Net, data: Dataset | None) -> int:
    """Numbers in a sample's target in a proof; 0 if samples have labels or are their own targets."""
    if isinstance(net.loss, CrossEntropyLoss):
        return 0
    if data is not None:
        return data.outputs
    outputs = math.prod(net.out_shape)
    return 0 if outputs == math.prod(net.in_shape) else outputs


def tied_start(
    net: Net, rng: np.random.Generator, sources: list[SampleSource]
) -> tuple[np.ndarray, list[SampleSource]]:
    """Parameters (param_count,) at which some logits tie, and not only the first; the sources, with labels of these
    classes. They are zeros, except for the logits' biases.
    """
    out, last, loss = np.zeros(net.param_count), param_slices(net)[-1], net.loss
    if not isinstance(loss, CrossEntropyLoss) or net.out_shape[0] == 1:
        return out, sources
    classes = net.out_shape[0]
    tied = np.arange(classes)
    if classes > 2 and not net.normalizes and last.shape == (classes,):
        tied = np.sort(rng.permutation(tied[1:])[: max(2, classes // 2)])
        out[last.start + tied] = 1.0
    if loss.weight is not None:  # some may be 0
        return out, sources
    return out, [TiedLabels(source, tied) for source in sources]


def drawn_weights(rng: np.random.Generator, count: int) -> np.ndarray:
    """Weights (count,) float32 of samples, of many sizes; some are 0, but not the first. A power of two of all of them
    changes no mean: half of the batches have one other than 1.
    """
    power = int(rng.integers(-EVERY_WEIGHT, EVERY_WEIGHT + 1)) * int(rng.integers(2))
    weights = np.exp2(rng.uniform(*WEIGHT_POWERS, count) + power).astype(np.float32)
    weights[1:][rng.random(count - 1) < WEIGHTLESS] = 0
    return weights
