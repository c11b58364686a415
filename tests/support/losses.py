"""Nets with every loss, data for them, and PyTorch's loss of the same name."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpladder.data import Dataset
from warpladder.nets import (
    BCEWithLogitsLoss,
    Conv2d,
    CrossEntropyLoss,
    Flatten,
    HuberLoss,
    L1Loss,
    Layer,
    Linear,
    Loss,
    MaxPool2d,
    MSELoss,
    Net,
    ReLU,
    Tanh,
)

WEIGHT = (1.0, 2.0, 0.5, 0.25)

#: Losses whose kernels are not the plain ones, and the two plain ones last.
LOSSES: tuple[Loss, ...] = (
    CrossEntropyLoss(label_smoothing=0.2),
    CrossEntropyLoss(weight=WEIGHT),
    CrossEntropyLoss(weight=WEIGHT, label_smoothing=0.3),
    L1Loss(),
    HuberLoss(delta=0.4),
    BCEWithLogitsLoss(),
    BCEWithLogitsLoss(pos_weight=(3.0, 1.0, 0.5, 2.0)),
    MSELoss(),
    CrossEntropyLoss(),
)
NEW = LOSSES[:-2]

CHAIN: tuple[Layer, ...] = (Linear(out_features=8), ReLU(), Linear(out_features=4))
SMOOTH: tuple[Layer, ...] = (Linear(out_features=8), Tanh(), Linear(out_features=4))
CONVOLVED: tuple[Layer, ...] = (
    Conv2d(out_channels=3, kernel_size=3),
    ReLU(),
    MaxPool2d(2),
    Flatten(),
    Linear(out_features=4),
)


def net_of(loss: Loss, kind: str = "chain") -> Net:
    """Net of four outputs with a loss: "chain" or "smooth" of 12 numbers, or "convolved" of images of 8 x 8."""
    shape = (1, 8, 8) if kind == "convolved" else (12,)
    return Net(kind, shape, {"chain": CHAIN, "smooth": SMOOTH, "convolved": CONVOLVED}[kind], loss)


def data_for(net: Net, samples: int = 23, weighted: bool = False) -> Dataset:
    """Drawn samples with labels or targets of four outputs, and weights of samples, some of them 0."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(samples, *net.in_shape)).astype(np.float32)
    y = rng.uniform(-1, 1, (samples, 4)).astype(np.float32)
    if isinstance(net.loss, BCEWithLogitsLoss):
        y = (y > 0).astype(np.float32)
    if isinstance(net.loss, CrossEntropyLoss):
        y = rng.integers(0, 4, samples).astype(np.int32)
    weight = np.where(rng.random(samples) < 0.2, 0, rng.uniform(0, 2, samples)).astype(np.float32)
    return Dataset("drawn", x, y, x[:2], y[:2], train_weight=weight if weighted else None)


def torch_loss(loss: Loss, reduction: str = "mean") -> Any:
    """Module of `torch.nn` with the loss's settings, in float64."""
    import torch

    kind = getattr(torch.nn, type(loss).__name__)
    settings = {
        name: torch.tensor(value, dtype=torch.float64) if isinstance(value, tuple) else value
        for name, value in vars(loss).items()
    }
    return kind(**settings, reduction=reduction)
