"""`arrays`: a data set from arrays in memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DataError
from .dataset import Dataset


def arrays(
    train_x: Any,
    train_y: Any,
    test_x: Any,
    test_y: Any,
    *,
    valid_x: Any = None,
    valid_y: Any = None,
    scale: float | None = None,
    name: str = "arrays",
) -> Dataset:
    """A data set from arrays, or what NumPy turns into arrays.

    Parameters
    ----------
    train_x, test_x, valid_x : array
        (samples, features), (samples, height, width) or (samples, channels, height, width). uint8 is
        kept as it is, floats become float32, other whole numbers must be 0 to 255 and become uint8.
    train_y, test_y, valid_y : array or None
        (samples,) whole numbers from 0, or None for none.
    scale : float or None
        What a network sees is x * scale; None takes 1/255 for bytes and 1 for floats.
    name : str

    Raises
    ------
    DataError
        Where parts disagree, values are not finite, shapes or types are none of these, or images have their channels last.
    """
    parts = {"train": train_x, "test": test_x, "valid": valid_x}
    pixels = {part: None if x is None else _pixels(name, part, x) for part, x in parts.items()}
    kinds = {x.dtype for x in pixels.values() if x is not None}
    if pixels["train"] is None or pixels["test"] is None:
        raise DataError(f"{name}: a training and a test set are wanted")
    if len(kinds) > 1:
        raise DataError(f"{name}: the parts mix bytes and floats, so one scale cannot serve them: give all in one type")
    if scale is None:
        scale = 1 / 255 if pixels["train"].dtype == np.uint8 else 1.0
    if not (np.isfinite(scale) and scale > 0):
        raise DataError(f"{name}: scale must be a finite number above 0, got {scale}")
    labels = {part: None if y is None else np.asarray(y) for part, y in (("train", train_y), ("test", test_y), ("valid", valid_y))}
    for part, y in labels.items():
        if y is not None and y.ndim != 1:
            raise DataError(f"{name}: {part} labels must have shape (samples,), got {y.shape}: give class numbers, not one-hot rows")
        if y is not None and pixels[part] is None:
            raise DataError(f"{name}: there are {part} labels, but no {part} samples")
    return Dataset(name, pixels["train"], labels["train"], pixels["test"], labels["test"], float(scale), pixels["valid"], labels["valid"])


def _pixels(name: str, part: str, values: Any) -> np.ndarray:
    x = np.asarray(values)
    if x.ndim == 4 and x.shape[3] in (1, 3, 4) and x.shape[1] == x.shape[2] > x.shape[3]:
        raise DataError(f"{name}: {part} samples have shape {x.shape[1:]}, which looks like channels last: give x.transpose(0, 3, 1, 2)")
    if x.ndim == 3:
        x = x[:, np.newaxis]
    if x.dtype == np.uint8 or not x.size:
        return x
    if np.issubdtype(x.dtype, np.floating):
        with np.errstate(over="ignore"):
            x = x.astype(np.float32, copy=False)
        if not np.isfinite(x).all():
            raise DataError(f"{name}: {part} samples hold values that are not finite in float32: clean them first")
        return x
    if np.issubdtype(x.dtype, np.integer):
        if x.min() < 0 or x.max() > 255:
            raise DataError(f"{name}: {part} samples hold whole numbers outside 0 to 255 ({x.min()} to {x.max()}): give bytes or floats")
        return x.astype(np.uint8)
    raise DataError(f"{name}: {part} samples must be numbers, got {x.dtype}")
