"""Advice about data: nets train best on numbers near 1, and diverge or stagnate on hundreds; and labels must differ."""

from __future__ import annotations

import math

import numpy as np

from ..data.dataset import Dataset
from ..errors.arguments import listed
from ..nets import CrossEntropyLoss, Net

USUAL = 16.0  # most standardised numbers are smaller
ROWS = 1024  # rows of one block


def advice(data: Dataset) -> str | None:
    """Advice for training samples far from 1, as a clause; None if they are near 1, or not finite. The columns of a
    table, which are standardised, may be far nevertheless.
    """
    x, largest = data.train_x, 0.0
    for first in range(0, len(x), ROWS):
        some = x[first : first + ROWS]
        largest = max(largest, float(some.max()), -float(some.min()))
    largest *= data.scale
    if not USUAL < largest < math.inf:
        return None
    if data.table is not None:
        at = int(np.abs(x).max(axis=0).argmax())
        return (
            f"look at the column {data.table.features[at]!r}, which reaches {largest:.4g} deviations: leave out rows "
            "far from the others, or give its logarithm"
        )
    return (
        f"scale the samples, which reach {largest:.4g} and train best about 1 (standardize=True, or "
        f"scale={float(np.float32(data.scale / largest)):.2g})"
    )


def nothing_to_learn(data: Dataset, net: Net) -> str | None:
    """Clause for a message if all training labels are equal; None if they differ, or if the net needs none."""
    y = data.train_y
    if not isinstance(net.loss, CrossEntropyLoss) or y is None or not len(y) or y.min() != y.max():
        return None
    label = data.class_names[y[0]] if data.class_names else y[0]
    return f"all training labels are {label}, so there is nothing to learn"


def unseen_labels(data: Dataset, net: Net) -> str | None:
    """Clause for a message if labels of the other parts are those of no training sample; None if they are not."""
    if not isinstance(net.loss, CrossEntropyLoss) or data.train_y is None:
        return None
    for part, y in (("test", data.test_y), ("validation", data.valid_y)):
        unseen = () if y is None else np.setdiff1d(y, data.train_y)
        if len(unseen):
            names = [data.class_names[at] if data.class_names else int(at) for at in unseen]
            return f"no training sample has the {part} labels {listed(names)!r}, so no net can learn them"
    return None
