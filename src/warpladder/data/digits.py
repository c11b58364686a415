"""Data set digits: 1,797 handwritten digits of 8 x 8 pixels, included in scikit-learn (UCI, Alpaydin and Kaynak
1998).
"""

from __future__ import annotations

import gzip
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from .dataset import Dataset
from .source import Request, Source

#: Number of first rows for training; the other 360 are the test set.
TRAIN_ROWS = 1437


def load(request: Request | None = None) -> Dataset:
    """Load 1,437 training and 360 test images, (1, 8, 8) uint8 with values 0 to 16, without a download."""
    values, labels = _stored()
    x = values.astype(np.uint8).reshape(-1, 1, 8, 8)
    y = labels.astype(np.int32)
    return Dataset("digits", x[:TRAIN_ROWS], y[:TRAIN_ROWS], x[TRAIN_ROWS:], y[TRAIN_ROWS:], 1 / 16)


@cache
def _stored() -> tuple[np.ndarray, np.ndarray]:
    """Pixels (1797, 64) and labels (1797,), read from scikit-learn's file without its import, which takes a second."""
    package = find_spec("sklearn")
    folders = package.submodule_search_locations if package is not None else None
    file = Path(next(iter(folders or ("",))), "datasets", "data", "digits.csv.gz")
    if not file.is_file():  # another version of scikit-learn may store it elsewhere
        from sklearn.datasets import load_digits

        return load_digits(return_X_y=True)
    table = np.loadtxt(gzip.decompress(file.read_bytes()).decode("ascii").splitlines(), delimiter=",")
    return table[:, :-1], table[:, -1]


SOURCE = Source("digits", "1,797 handwritten digits, 8 x 8, 10 classes; embedded, needs no download", load)
