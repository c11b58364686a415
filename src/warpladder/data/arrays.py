"""`arrays`: a data set from arrays in memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DataError
from ..errors.arguments import called_by_name, shown
from .columns import column_names, in_order
from .convert import check_finite, looks_nhwc, to_numbers
from .dataset import Dataset
from .labels import numbered_parts
from .standard import Standard


@called_by_name
def arrays(
    train_x: Any,
    train_y: Any,
    test_x: Any,
    test_y: Any,
    *,
    valid_x: Any = None,
    valid_y: Any = None,
    scale: float | None = None,
    standardize: bool = False,
    layout: str | None = None,
    targets: bool = False,
    sample_weight: Any = None,
    name: str = "arrays",
) -> Dataset:
    """Data set from arrays, or from lists, tensors and data frames.

    Parameters
    ----------
    train_x, test_x, valid_x : array
        (samples, features), (samples, height, width) or (samples, channels, height, width). uint8 stays, floats become
        float32, other integers uint8 if all of them are 0 to 255, else float32. Names of a data frame's columns are
        kept: frames with them in another order are put right, with other columns refused.
    train_y, test_y, valid_y : array or None
        Labels (samples,) of any kind, as in scikit-learn: whole numbers, bool, floats, names, bytes; or None.
        The sorted distinct values are the classes; a checkpoint stores them, and predictions are these values.
    scale : float or None
        The input of a net is x * scale; None is 1/255 for bytes and 1 for floats.
    standardize : bool
        True trains on (x - mean) / std, with mean and std of each feature or image channel over the training set. A
        checkpoint stores both, so that predictions take raw x.
    layout : {"NCHW", "NHWC"} or None
        Axis of the channels of images (4 axes): "NHWC" moves them to the front. None expects them in front, and refuses
        shapes that look like NHWC.
    targets : bool
        True if train_y, test_y and valid_y are targets of a regression: numbers, (samples,) or (samples, outputs).
    sample_weight : array or None
        Weights (samples,) of the training samples, at least 0: a batch's loss is the weighted mean.
    name : str

    Raises
    ------
    DataError
        Parts disagree, values are not finite, a shape or type is not supported, or images have their channels last.
    """
    if layout not in (None, "NCHW", "NHWC"):
        raise DataError(f"{name}: layout wants 'NCHW' or 'NHWC', got {shown(layout)}")
    if standardize and scale not in (None, 1):
        raise DataError(f"{name}: standardize takes the place of a scale: leave out one of the two")
    columns = column_names(train_x)
    given_x = {"train": train_x, "test": test_x, "valid": valid_x}
    parts = {part: in_order(x, columns, f"{name}: {part} samples") for part, x in given_x.items()}
    pixels = {part: None if x is None else _pixels(name, part, x, layout, standardize) for part, x in parts.items()}
    kinds = {x.dtype for x in pixels.values() if x is not None}
    if pixels["train"] is None or pixels["test"] is None:
        raise DataError(f"{name}: a training and a test set are wanted")
    if len(kinds) > 1:
        raise DataError(f"{name}: the parts mix bytes and floats, so one scale cannot serve them: give all in one type")
    if scale is None:
        scale = 1 / 255 if pixels["train"].dtype == np.uint8 else 1.0
    if not isinstance(scale, (int, float, np.number)) or not (np.isfinite(scale) and scale > 0):
        raise DataError(f"{name}: scale must be a finite number above 0, got {shown(scale)}")
    given = {"train": train_y, "test": test_y, "valid": valid_y}
    labels, classes = (_targets(name, given), ()) if targets else numbered_parts(name, given)
    for part in labels:
        if pixels[part] is None:
            raise DataError(f"{name}: there are {part} labels, but no {part} samples")
    train_y, test_y, valid_y = (labels.get(part) for part in parts)
    weight = None if sample_weight is None else to_numbers(sample_weight, f"{name}: weights of samples")
    if weight is not None and weight.dtype.kind not in "iuf":
        raise DataError(f"{name}: weights of samples must be numbers, got {weight.dtype}")
    made = Dataset(
        name, pixels["train"], train_y, pixels["test"], test_y, float(scale), pixels["valid"], valid_y, classes,
        train_weight=weight, columns=columns,
    )  # fmt: skip
    return made.but(standard=Standard.fit(made.train_x)) if standardize else made


def _targets(name: str, given: dict[str, Any]) -> dict[str, np.ndarray]:
    """Targets of each part that has some, (samples,) or (samples, outputs) float64, by the part's name."""
    if given["train"] is None:
        raise DataError(f"{name}: targets of the training samples are wanted")
    found = {part: to_numbers(y, f"{name}: {part} targets") for part, y in given.items() if y is not None}
    for part, y in found.items():
        if y.dtype.kind not in "iuf":
            raise DataError(f"{name}: {part} targets must be numbers, got {y.dtype}")
    return {part: y.astype(np.float64) for part, y in found.items()}


def _pixels(name: str, part: str, values: Any, layout: str | None, standardize: bool) -> np.ndarray:
    """Samples of a part as uint8 or float32, with channels first."""
    what = f"{name}: {part} samples"
    x = to_numbers(values, what)
    if x.ndim == 3:
        x = x[:, np.newaxis]
    elif layout is None and looks_nhwc(x.shape):
        raise DataError(
            f"{name}: {part} samples have shape {x.shape}, which looks like NHWC (n, h, w, c): "
            "layout='NHWC' moves the channels, 'NCHW' insists"
        )
    elif layout == "NHWC" and x.ndim == 4:
        x = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    if x.dtype == np.uint8 or (not x.size and not np.issubdtype(x.dtype, np.floating)):
        return x
    if np.issubdtype(x.dtype, np.floating) or (
        np.issubdtype(x.dtype, np.integer) and (standardize or x.min() < 0 or x.max() > 255)
    ):
        with np.errstate(over="ignore"):
            x = x.astype(np.float32, copy=False)
        check_finite(x, values, what)
        return x
    if np.issubdtype(x.dtype, np.integer):
        return x.astype(np.uint8)
    raise DataError(f"{name}: {part} samples must be numbers, got {x.dtype}")
