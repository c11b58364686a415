"""`Dataset`: arrays in memory, pixels kept as they are stored (uint8 or float32)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..errors import DataError


@dataclass(frozen=True)
class Dataset:
    """A training set, a test set and, if asked for, a validation set.

    Parameters
    ----------
    name : str
    train_x, test_x : ndarray
        uint8 or float32, (samples, channels, height, width) or (samples, features), C-contiguous.
    train_y, test_y : ndarray or None
        int32 labels, (samples,); None where there are none (then only nets with MSELoss can train).
    scale : float
        What a network sees is x * scale in float32: 1/255 for bytes, 1/16 for digits, 1 for floats.
    valid_x, valid_y : ndarray or None
        A part split off the training set.
    """

    name: str
    train_x: np.ndarray
    train_y: np.ndarray | None
    test_x: np.ndarray
    test_y: np.ndarray | None
    scale: float = 1.0
    valid_x: np.ndarray | None = None
    valid_y: np.ndarray | None = None

    def __post_init__(self) -> None:
        for part in ("train", "valid", "test"):
            x, y = getattr(self, part + "_x"), getattr(self, part + "_y")
            if x is None:
                continue
            if x.dtype not in (np.uint8, np.float32):
                raise DataError(f"{self.name}: {part} pixels must be uint8 or float32, got {x.dtype}")
            if x.ndim not in (2, 4):
                raise DataError(
                    f"{self.name}: {part} pixels must have shape (samples, features) or (samples, channels, height, width), got {x.shape}"
                )
            if not x.flags.c_contiguous:
                object.__setattr__(self, part + "_x", np.ascontiguousarray(x))
            if x.shape[1:] != self.train_x.shape[1:]:
                raise DataError(f"{self.name}: {part} samples have shape {x.shape[1:]}, training samples {self.train_x.shape[1:]}")
            if y is not None:
                if y.shape != (len(x),):
                    raise DataError(f"{self.name}: {len(x)} {part} images but {len(y)} labels")
                if not np.issubdtype(y.dtype, np.integer):
                    raise DataError(f"{self.name}: {part} labels must be whole numbers, got {y.dtype}")
                if y.size and y.min() < 0:
                    raise DataError(f"{self.name}: {part} label {int(y.min())} is below 0")
                object.__setattr__(self, part + "_y", np.ascontiguousarray(y, np.int32))
        if len(self.train_x) == 0:
            raise DataError(f"{self.name}: the training set is empty")

    @property
    def in_shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return self.train_x.shape[1:]

    @property
    def classes(self) -> int:
        """One more than the largest label of the labelled parts; 0 without labels."""
        labels = [y for y in (self.train_y, self.valid_y, self.test_y) if y is not None and y.size]
        return max((int(y.max()) + 1 for y in labels), default=0)

    def but(self, **changes: object) -> Dataset:
        """A copy with these fields changed."""
        return replace(self, **changes)  # type: ignore[arg-type]


def pixels(x: np.ndarray, scale: float) -> np.ndarray:
    """What a network sees: float32 x * scale, a new array. Every rung computes exactly this product."""
    return np.multiply(x, np.float32(scale), dtype=np.float32)
