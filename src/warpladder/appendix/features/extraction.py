"""Outputs of a layer for the parts of a data set, in batches, so that memory never has to hold all of them."""

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

#: Parts of a data set for which features are computed.
PARTS = ("train", "test")


@dataclass(frozen=True)
class Extraction:
    """Layer of a trained net that computes the features of a data set's parts.

    data : standardised data set, with labels as class numbers. outputs : function that computes a batch's features.
    rows : samples of a batch.
    """

    checkpoint: Checkpoint
    layer: int
    data: Dataset
    outputs: Outputs
    rows: int

    @property
    def width(self) -> int:
        """Number of outputs of the layer for one sample."""
        return math.prod(layer_shape(self.checkpoint.net, self.layer))

    @property
    def mark(self) -> str:
        """Text that identifies the weights and the layer: features with different marks do not go together."""
        return weights_mark(self.checkpoint, self.layer)

    def samples(self, part: str) -> int:
        """Number of samples in "train" or "test"."""
        return len(getattr(self.data, f"{part}_x"))

    def labels(self, part: str) -> np.ndarray | None:
        """(samples,) int32 labels of "train" or "test"; None without labels."""
        return getattr(self.data, f"{part}_y")

    def batches(self, part: str) -> Iterator[np.ndarray]:
        """Features of "train" or "test" in the samples' order: batches (rows, width) float32, the last one smaller."""
        x = getattr(self.data, f"{part}_x")
        for first in range(0, len(x), self.rows):
            yield self.outputs(x[first : first + self.rows], self.data.scale)


@contextmanager
def extract(checkpoint: Checkpoint, layer: int, data: Dataset, rung: str | Rung | None = None) -> Iterator[Extraction]:
    """Open a layer of a trained net, counted from 0 as `warpladder nets NET` shows them, for a data set as loaded.

    rung : rung that computes; by default the rung that trained the net.
    Raises ConfigError, NetError, DataError, RungError: the net has no such layer; no layer before it has weights; the
    samples do not fit; the rung cannot compute it.
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
    """Names of the parts that "train", "test" or "both" selects. Raises `DataError` for a part without samples."""
    parts = PARTS if split == "both" else (split,)
    for part in parts:
        if not len(getattr(data, f"{part}_x")):
            raise DataError(f"{data.name}: there are no {part} samples to make features of")
    return parts
