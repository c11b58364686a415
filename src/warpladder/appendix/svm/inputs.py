"""Inputs of a classifier: labels, and features in batches, from a file, from a net's layer, or from arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...data import label_names
from ...data.convert import to_numpy
from ...data.labels import names_in, numbered
from ...errors import DataError
from ..features import Extraction, FeatureFile

#: Rows of a batch of an array.
ROWS = 4096


@dataclass(frozen=True)
class FeaturePart:
    """Training or test samples of a classifier.

    what : name in messages.
    width : number of features of a sample.
    labels : (samples,) whole numbers.
    batches : function that yields the features in order, (rows, width) each.
    class_names : names of labels 0, 1, ...; empty if labels are numbers.
    mark : text that identifies the weights and the layer; empty if unknown.
    """

    what: str
    width: int
    labels: np.ndarray
    batches: Callable[[], Iterator[np.ndarray]]
    class_names: tuple[str, ...] = ()
    mark: str = ""


def of_file(file: FeatureFile, part: str) -> FeaturePart:
    """Samples of the part "train" or "test" of a file of features, whose checksum is checked first.

    Raises
    ------
    DataError
        The file has no such part, or no labels of it, or is damaged.
    """
    if part not in file.parts:
        raise DataError(
            f"{file.path}: holds no {part} features: write them with warpladder features --split both, or "
            "name a file of them too"
        )
    labels = file.labels.get(part)
    if labels is None:
        where = "NAME.labels.npy next to it" if file.path.suffix == ".npy" else "the data set that they were made of"
        raise DataError(f"{file.path}: has no {part} labels, which a classifier needs: they come from {where}")
    file.check()
    names = tuple(map(str, file.document.get("class_names", ())))
    return FeaturePart(
        f"{file.path}, {part}", file.parts[part][1], labels, lambda: file.batches(part), names,
        str(file.document.get("weights", "")),
    )  # fmt: skip


def of_extraction(source: Extraction, part: str) -> FeaturePart:
    """Samples with the outputs of a net's layer for the part "train" or "test" of a data set, computed when they are
    read.

    Raises
    ------
    DataError
        The part has no samples or no labels.
    """
    labels = source.labels(part)
    if labels is None or not source.samples(part):
        lacks = "labels" if source.samples(part) else "samples"
        raise DataError(f"{source.data.name}: has no {part} {lacks}, which a classifier needs")
    return FeaturePart(
        f"{source.data.name}, {part}", source.width, labels, lambda: source.batches(part), label_names(source.data),
        source.mark,
    )  # fmt: skip


def of_arrays(x: Any, y: Any, what: str, class_names: tuple[str, ...] | None = None) -> FeaturePart:
    """Samples of a classifier from features and labels in memory.

    Parameters
    ----------
    x : array_like
        (samples, width) numbers, used as float32.
    y : array_like
        (samples,) whole numbers from 0, or names.
    what : str
        Name in messages.
    class_names : tuple of str, optional
        Names of the classes if y has names; by default all names in y.

    Raises
    ------
    DataError
        Shapes or types do not fit.
    """
    features, labels = to_numpy(x, f"{what} features"), to_numpy(y, f"{what} labels")
    if features.ndim != 2 or features.dtype.kind not in "fiub" or not features.size:
        raise DataError(f"{what} features are numbers (samples, width), got {features.shape} {features.dtype}")
    names = names_in(labels) if class_names is None else class_names
    numbers = numbered(labels, names, f"{what} labels")
    if numbers.shape != (len(features),) or numbers.dtype.kind not in "iu":
        raise DataError(
            f"{what}: {len(features):,} samples want as many whole numbers as labels, got {numbers.shape} "
            f"{numbers.dtype}"
        )

    def batches() -> Iterator[np.ndarray]:
        for first in range(0, len(features), ROWS):
            yield features[first : first + ROWS]

    return FeaturePart(what, features.shape[1], numbers, batches, names)


def check_pair(train: FeaturePart, test: FeaturePart) -> None:
    """Raise `DataError` if training and test features do not go together, or if only one class is present."""
    if train.width != test.width:
        raise DataError(
            f"{train.what} has {train.width:,} features a sample, {test.what} has {test.width:,}: take "
            "both from one layer of one net"
        )
    if train.mark and test.mark and train.mark != test.mark:
        raise DataError(
            f"{train.what} and {test.what} come from different nets: make both with one checkpoint and layer"
        )
    for part in (train, test):
        if len(part.labels) and int(part.labels.min()) < 0:
            raise DataError(f"{part.what}: label {int(part.labels.min())} is below 0")
        if part.class_names and int(part.labels.max()) >= len(part.class_names):
            raise DataError(f"{part.what}: label {part.labels.max()} has no name, there are {len(part.class_names)}")
    if len(np.unique(train.labels)) < 2:
        raise DataError(f"{train.what}: all samples have the label {train.labels[0]}, a classifier needs two classes")
