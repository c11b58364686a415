"""MNIST's files with made-up images."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np

from warpladder.data import mnist

Pack = Callable[[bytes], bytes]

RAW: Pack = bytes

ZIPPED: Pack = gzip.compress


def idx(values: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape) + values.tobytes()


def write_mnist(
    folder: Path, pack: Pack = RAW, end: str = "", dot: bool = False, train: int = 30, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Four files in a folder; returns the training images and labels."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    parts = [(rng.integers(0, 256, (n, 28, 28), np.uint8), rng.integers(0, 10, n, np.uint8)) for n in (train, 8)]
    for name, values in zip(mnist.FILES, [array for part in parts for array in part], strict=True):
        (folder / ((name.replace("-idx", ".idx") if dot else name) + end)).write_bytes(pack(idx(values)))
    return parts[0]
