"""Reference cases that tests share: made once for each net, configuration and precision."""

from __future__ import annotations

import zlib
from functools import cache
from typing import Any

import numpy as np

from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
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


#: The latest cases by all that they are made from; some hold tens of megabytes.
_latest: dict[tuple[Any, ...], Cases] = {}


def made_before(net: Net, config: TrainConfig, rng: np.random.Generator, data: Dataset | None, *how: Any) -> Cases:
    """The same cases as `Cases` makes, made once for the same net, settings, seed, data, precision and transforms."""
    content: tuple[Any, ...] = ()
    if data is not None:
        arrays = [x for x in (data.train_x, data.train_y) if x is not None]
        content = data.scale, data.standard, *((x.dtype, x.shape, zlib.crc32(x.tobytes())) for x in arrays)
    key = net, config, str(rng.bit_generator.state), content, how
    cases = _latest.pop(key, None) or Cases(net, config, rng, data, *how)
    _latest[key] = cases
    while len(_latest) > 8:
        del _latest[next(iter(_latest))]
    return cases
