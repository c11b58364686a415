"""digits: 1,797 handwritten digits of 8 x 8 pixels, embedded in scikit-learn (UCI, Alpaydin and Kaynak 1998)."""

from __future__ import annotations

import numpy as np

from .dataset import Dataset
from .source import Request, Source

#: Rows for training, the first ones; the other 360 are the test set.
TRAIN_ROWS = 1437


def load(request: Request | None = None) -> Dataset:
    """1,437 training and 360 test images, (1, 8, 8) uint8 with values 0 to 16; nothing is downloaded."""
    from sklearn.datasets import load_digits

    values, labels = load_digits(return_X_y=True)
    x = values.astype(np.uint8).reshape(-1, 1, 8, 8)
    y = labels.astype(np.int32)
    return Dataset("digits", x[:TRAIN_ROWS], y[:TRAIN_ROWS], x[TRAIN_ROWS:], y[TRAIN_ROWS:], 1 / 16)


SOURCE = Source("digits", "1,797 handwritten digits, 8 x 8, 10 classes; embedded, needs no download", load)
