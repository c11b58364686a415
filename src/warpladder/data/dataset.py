"""`Dataset`: arrays in memory, pixels in their stored type (uint8 or float32)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..errors import DataError
from ..errors.arguments import listed
from ..show import as_html, as_text, dims
from .encoded import Encoded
from .labels import ClassValue
from .standard import Standard
from .tables.encoding import TableEncoding


@dataclass(frozen=True, repr=False)
class Dataset:
    """Data set in memory: training set, test set and optional validation set.

    Parameters
    ----------
    name : str
    train_x, test_x : ndarray
        uint8 or float32, (samples, channels, height, width) or (samples, features), C-contiguous.
    train_y, test_y : ndarray or None
        int32 labels, (samples,); float32 targets, (samples, outputs) or (samples,), which becomes (samples, 1); None
        if a sample is its own target.
    scale : float
        The input of a net is x * scale in float32: 1/255 for bytes, 1/16 for digits, 1 for floats.
    valid_x, valid_y : ndarray or None
        Validation part, split off the training set.
    train_weight : ndarray or None
        float32 weights of the training samples, (samples,), at least 0: a batch's loss is the weighted mean.
    class_names : tuple
        Meanings of labels 0, 1, ...: names, numbers or bools of the user; empty if labels mean themselves.
    standard : Standard or None
        Means and deviations that `standardized` applies: `train` and `climb` call it, and a checkpoint stores them.
    table : TableEncoding or None
        Encoding of a table's columns into these samples; a checkpoint stores it.
    columns : tuple of str
        Names of the features, for data frames and files to predict; empty if they have none.
    """

    name: str
    train_x: np.ndarray
    train_y: np.ndarray | None
    test_x: np.ndarray
    test_y: np.ndarray | None
    scale: float = 1.0
    valid_x: np.ndarray | None = None
    valid_y: np.ndarray | None = None
    class_names: tuple[ClassValue, ...] = ()
    standard: Standard | None = None
    table: TableEncoding | None = None
    train_weight: np.ndarray | None = None
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for part in ("train", "valid", "test"):
            x, y = getattr(self, part + "_x"), getattr(self, part + "_y")
            if x is None and part == "valid":
                continue
            if not isinstance(x, np.ndarray) or not isinstance(y, np.ndarray | None):
                raise DataError(
                    f"{self.name}: {part}_x and {part}_y must be NumPy arrays: "
                    "wl.data.arrays makes a data set of anything else"
                )
            if x.dtype not in (np.uint8, np.float32):
                raise DataError(f"{self.name}: {part} samples must be uint8 or float32, got {x.dtype}")
            if x.ndim not in (2, 4):
                raise DataError(
                    f"{self.name}: {part} samples must have shape (samples, features) "
                    f"or (samples, channels, height, width), got {x.shape}"
                )
            if not x.flags.c_contiguous:
                object.__setattr__(self, part + "_x", np.ascontiguousarray(x))
            if x.shape[1:] != self.train_x.shape[1:]:
                raise DataError(
                    f"{self.name}: {part} samples have shape {x.shape[1:]}, training samples {self.train_x.shape[1:]}"
                )
            if y is not None:
                object.__setattr__(self, part + "_y", self._checked(part, len(x), y))
        given = [y for y in (self.train_y, self.valid_y, self.test_y) if y is not None]
        if len({y.shape[1:] for y in given}) > 1 or not all(y.size or not len(y) for y in given):
            raise DataError(
                f"{self.name}: targets differ in shape or are empty: give each sample as many, at least one"
            )
        if self.has_targets and self.class_names and (self.outputs, len(self.class_names)) != (1, 2):
            raise DataError(
                f"{self.name}: targets are numbers and have no names of classes, but two for one of 0 and 1"
            )
        if self.class_names and max((int(y.max()) for y in self._labels()), default=0) >= len(self.class_names):
            raise DataError(
                f"{self.name}: there are {len(self.class_names)} names of classes, "
                f"and labels above {len(self.class_names) - 1}"
            )
        if self.columns and (len(self.columns),) != self.in_shape:
            raise DataError(f"{self.name}: {len(self.columns)} names of columns, but samples of {dims(self.in_shape)}")
        if len(self.train_x) == 0:
            raise DataError(f"{self.name}: the training set is empty")
        if self.train_weight is not None:
            object.__setattr__(self, "train_weight", self._checked_weights(self.train_weight))

    def _checked(self, part: str, samples: int, y: np.ndarray) -> np.ndarray:
        """Labels (samples,) int32 or targets (samples, outputs) float32 of a part. Raises `DataError` if y is
        neither.
        """
        is_target = np.issubdtype(y.dtype, np.floating) if part == "train" else self.has_targets
        if is_target and y.ndim in (1, 2) and np.issubdtype(y.dtype, np.number):
            if len(y) != samples:
                raise DataError(f"{self.name}: {samples} {part} samples but {len(y)} targets")
            with np.errstate(over="ignore"):
                targets = np.asanyarray(y[:, None] if y.ndim == 1 else y, np.float32, order="C")
            if not np.isfinite(targets).all():
                row = int(np.argmin(np.isfinite(targets).all(axis=1)))
                raise DataError(f"{self.name}: the {part} target of sample {row} is not finite in float32")
            return targets
        if y.shape != (samples,):
            raise DataError(f"{self.name}: {samples} {part} images but {len(y)} labels")
        if not np.issubdtype(y.dtype, np.integer):
            raise DataError(f"{self.name}: {part} labels must be whole numbers, got {y.dtype}")
        if y.size and y.min() < 0:
            raise DataError(f"{self.name}: {part} label {int(y.min())} is below 0")
        return np.asanyarray(y, np.int32, order="C")

    def _checked_weights(self, weight: np.ndarray) -> np.ndarray:
        """Weights (samples,) float32 of the training samples. Raises `DataError` if their shape or a value is wrong."""
        samples = len(self.train_x)
        if np.shape(weight) != (samples,):
            raise DataError(f"{self.name}: {samples} training samples, but weights of shape {np.shape(weight)}")
        with np.errstate(over="ignore"):
            found = np.ascontiguousarray(weight, np.float32)
        if not (np.isfinite(found).all() and found.min() >= 0 and found.any()):
            raise DataError(f"{self.name}: weights of samples want finite numbers of at least 0, not all of them 0")
        return found

    def __repr__(self) -> str:
        return as_text(*self._table())

    def _repr_html_(self) -> str:
        return as_html(*self._table())

    def _table(self) -> tuple[str, tuple[str, ...], list[tuple[str, ...]]]:
        """Table that describes the data set: title, heads, and a row for each part."""
        sees = f"x * {self.scale:.4g}" if self.standard is None else "(x - mean) / std"
        sees = sees if self.table is None else f"{len(self.table.columns)} columns as numbers"
        named = f" ({listed(self.class_names)!r})" if self.class_names else ""
        learnt = f"{self.outputs} target{'s' * (self.outputs > 1)}" if self.has_targets else f"{self.classes} classes"
        title = (
            f"Dataset {self.name!r}: samples of {dims(self.in_shape)} {self.train_x.dtype}, "
            f"{learnt}{named}, a net sees {sees}"
        )
        rows: list[tuple[str, ...]] = []
        for part in ("train", "valid", "test"):
            x, y = getattr(self, part + "_x"), getattr(self, part + "_y")
            if x is not None:
                least, most = (f"{x.min():.4g}", f"{x.max():.4g}") if x.size else ("", "")
                rows.append(
                    (
                        part,
                        "no labels" if y is None else "targets" if y.ndim == 2 else "labelled",
                        f"{len(x):,}",
                        least,
                        most,
                    )
                )
        return title, ("part", "labels", "samples", "least", "most"), rows

    @property
    def in_shape(self) -> tuple[int, ...]:
        """Shape of one sample, without the axis of samples."""
        return self.train_x.shape[1:]

    @property
    def classes(self) -> int:
        """Number of classes: of the class names, else one more than the largest label of all parts; 0 without
        labels.
        """
        return (0 if self.has_targets else len(self.class_names)) or max(
            (int(y.max()) + 1 for y in self._labels()), default=0
        )

    @property
    def has_targets(self) -> bool:
        """True if `train_y` has targets, not labels."""
        return self.train_y is not None and self.train_y.ndim == 2

    @property
    def outputs(self) -> int:
        """Number of values in a sample's target; 0 without targets."""
        return self.train_y.shape[1] if self.train_y is not None and self.train_y.ndim == 2 else 0

    def _labels(self) -> list[np.ndarray]:
        return [y for y in (self.train_y, self.valid_y, self.test_y) if y is not None and y.size and y.ndim == 1]

    def standardized(self) -> Dataset:
        """Data set with every part standardised, as float32 of scale 1, for a trainer; without `standard` its own
        arrays.

        Each call makes new arrays, so call it once.
        """
        parts = ("train_x", "train_y", "test_x", "test_y", "valid_x", "valid_y")
        own = {part: getattr(self, part) for part in parts}
        changes: dict[str, object] = {part: np.asarray(y) for part, y in own.items() if isinstance(y, Encoded)}
        if self.standard is not None:
            x = {part: own[part] for part in parts if part.endswith("_x") and own[part] is not None}
            changes |= {part: self.standard.apply(values) for part, values in x.items()}
            changes |= {"scale": 1.0, "standard": None}
        return self.but(**changes) if changes else self

    def but(self, **changes: object) -> Dataset:
        """Copy of the data set with these fields changed."""
        return replace(self, **changes)  # type: ignore[arg-type]


def binary_targets(data: Dataset) -> Dataset:
    """Data set with the labels of two classes, whose names it keeps, as targets 0 and 1 of one output; any other data
    set unchanged.
    """
    if data.has_targets or data.train_y is None or data.classes != 2:
        return data

    def target(y: np.ndarray | None) -> np.ndarray | None:
        return None if y is None else y.astype(np.float32)

    valid_y, test_y = target(data.valid_y), target(data.test_y)
    return data.but(train_y=target(data.train_y), valid_y=valid_y, test_y=test_y)


def pixels(x: np.ndarray, scale: float) -> np.ndarray:
    """Input of a net: float32 x * scale, a new array. Every rung computes exactly this product."""
    return np.multiply(x, np.float32(scale), dtype=np.float32)
