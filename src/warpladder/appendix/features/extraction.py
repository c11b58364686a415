"""A layer's outputs for the parts of a data set, in batches: they are never all in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from ...checkpoint import Checkpoint
from ...data.convert import nhwc_hint
from ...data.dataset import Dataset
from ...errors import DataError
from ...rungs.base import Rung
from ...train import Run
from ...train.hidden import Outputs, layer_outputs, layer_shape, rows_up_to, weights_mark

#: The parts of a data set that features are made of.
PARTS = ("train", "test")


@dataclass(frozen=True)
class Extraction:
    """Layer, opened to give the features of a data set's parts.

    data : standardised, with labels as numbers of classes. outputs : gives a batch's features. rows : of a batch.
    """

    checkpoint: Checkpoint
    layer: int
    data: Dataset
    outputs: Outputs
    rows: int

    @property
    def width(self) -> int:
        """Numbers that the layer gives for one sample."""
        return math.prod(layer_shape(self.checkpoint.net, self.layer))

    @property
    def mark(self) -> str:
        """Text that differs for features of other weights or layers."""
        return weights_mark(self.checkpoint, self.layer)

    def samples(self, part: str) -> int:
        """Samples in "train" or "test"."""
        return len(getattr(self.data, f"{part}_x"))

    def labels(self, part: str) -> np.ndarray | None:
        """(samples,) int32 labels of "train" or "test"; None where there are none."""
        return getattr(self.data, f"{part}_y")

    def batches(self, part: str) -> Iterator[np.ndarray]:
        """Features of "train" or "test" in the samples' order: (rows, width) float32 each, the last one smaller."""
        x = getattr(self.data, f"{part}_x")
        for first in range(0, len(x), self.rows):
            yield self.outputs(x[first : first + self.rows], self.data.scale)


@contextmanager
def extract(checkpoint: Checkpoint, layer: int, data: Dataset, rung: str | Rung | None = None) -> Iterator[Extraction]:
    """Open a layer of a trained net, counted from 0 as `warpladder nets NET` shows them, for a data set as it is
    loaded.

    rung : what computes; by default the rung that trained.
    Raises ConfigError, NetError, DataError, RungError: there is no such layer; it has no weights before it; the samples
    do not fit; the rung cannot compute it.
    """
    layer_shape(checkpoint.net, layer)
    fitted = Run(checkpoint).fit_to(data)
    if fitted.in_shape != checkpoint.net.in_shape:
        hint = nhwc_hint(fitted.train_x.shape, checkpoint.net.in_shape)
        raise DataError(
            f"net {checkpoint.net.name!r} takes samples of shape {checkpoint.net.in_shape}, {data.name} "
            f"has {fitted.in_shape}{hint}"
        )
    with layer_outputs(checkpoint, layer, rung) as outputs:
        yield Extraction(checkpoint, layer, fitted, outputs, rows_up_to(checkpoint.net, layer))


def parts_of(split: str, data: Dataset) -> tuple[str, ...]:
    """The parts that "train", "test" or "both" names, those without samples refused."""
    parts = PARTS if split == "both" else (split,)
    for part in parts:
        if not len(getattr(data, f"{part}_x")):
            raise DataError(f"{data.name}: there are no {part} samples to make features of")
    return parts
