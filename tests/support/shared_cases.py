"""Reference cases that tests share: made once for each net, configuration and precision."""

from __future__ import annotations

from functools import cache

import numpy as np

from warpladder.config import TrainConfig
from warpladder.nets import Conv2d, CrossEntropyLoss, Flatten, Linear, MaxPool2d, MSELoss, Net, ReLU, Upsample2d
from warpladder.proof.cases import Cases

SQUARE = Net(
    "square",
    (1, 4, 4),
    (Flatten(), Linear(out_features=16), ReLU(), Linear(out_features=16), ReLU(), Linear(out_features=5)),
    CrossEntropyLoss(),
)

CODER = Net(
    "coder",
    (2, 8, 8),
    (
        Conv2d(out_channels=6, kernel_size=3, padding=1),
        ReLU(),
        MaxPool2d(2),
        Conv2d(out_channels=5, kernel_size=3, padding=1),
        ReLU(),
        Upsample2d(scale_factor=2),
        Conv2d(out_channels=2, kernel_size=3, padding=1),
    ),
    MSELoss(),
)


@cache
def made_once(net: Net, config: TrainConfig, *how: str | bool) -> Cases:
    """`how` : precision and transforms, as far as they are not the usual ones."""
    return Cases(net, config, np.random.default_rng(0), None, *how)  # type: ignore[arg-type]
