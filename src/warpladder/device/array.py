"""`Array`: array in the memory of a device, and views of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import LaunchError

if TYPE_CHECKING:
    from .base import Device


@dataclass(frozen=True, eq=False)
class Array:
    """Contiguous row-major array in a device's memory, which kernels, `upload` and `download` read and write.

    address : of the first element on the device. owner : object that holds the memory; views share it.
    base : array that this one begins within, if a kernel may reach all of that one.
    """

    device: Device
    address: int
    shape: tuple[int, ...]
    dtype: np.dtype
    owner: Any = None
    base: Array | None = None

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def reshape(self, *shape: int | tuple[int, ...]) -> Array:
        """View of the memory in another shape; one axis may be -1."""
        sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        new = tuple(int(size) for size in sizes)  # type: ignore[arg-type]
        if -1 in new:
            rest = math.prod(size for size in new if size != -1)
            new = tuple(self.size // max(rest, 1) if size == -1 else size for size in new)
        if math.prod(new) != self.size:
            raise LaunchError(f"an array of shape {self.shape} has no shape {shape}")
        return Array(self.device, self.address, new, self.dtype, self.owner)

    def view(self, dtype: Any) -> Array:
        """View of the memory as another dtype of the same size."""
        new = np.dtype(dtype)
        if new.itemsize != self.dtype.itemsize:
            raise LaunchError(
                f"an array of {self.dtype} has no view as {new}: "
                f"a number of it has {self.dtype.itemsize} bytes, not {new.itemsize}"
            )
        return Array(self.device, self.address, self.shape, new, self.owner)

    def __getitem__(self, rows: slice) -> Array:
        """View of consecutive rows: array[first:last]."""
        first, last, step = rows.indices(len(self))
        if step != 1:
            raise LaunchError("a view of a device's array takes consecutive rows")
        row = math.prod(self.shape[1:]) * self.dtype.itemsize
        return Array(
            self.device, self.address + first * row, (max(0, last - first), *self.shape[1:]), self.dtype, self.owner
        )

    def upload(self, host: np.ndarray, stream: Any = None) -> None:
        """Copy an array of the host, of equal shape and dtype, into this array."""
        self.device.upload(self, host, stream)

    def download(self) -> np.ndarray:
        """Copy of the array on the host; waits until the device has finished."""
        out = np.empty(self.shape, self.dtype)
        self.device.download(out, self)
        return out
