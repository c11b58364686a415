"""Drawn nets of small linear layers: every loss, functions of a number between layers, optimizers and batch sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpladder.config import TrainConfig
from warpladder.data import Dataset
from warpladder.nets import (
    GELU,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    Dropout,
    HuberLoss,
    L1Loss,
    Layer,
    LeakyReLU,
    Linear,
    Loss,
    MSELoss,
    Net,
    ReLU,
    Sigmoid,
    SiLU,
    Tanh,
)
from warpladder.optimizers import SGD, Adam, AdamW, RMSprop
from warpladder.optimizers.schedules import Constant, Cosine

FUNCTIONS: tuple[Layer, ...] = (
    ReLU(), Tanh(), Sigmoid(), GELU(), GELU(approximate="tanh"), SiLU(), LeakyReLU(0.1), LeakyReLU(-0.3), Dropout(0.3)
)  # fmt: skip
WIDTHS = (1, 3, 7, 8, 16, 33, 64, 100, 128)
OPTIMIZERS = (
    SGD(0.05),
    SGD(0.02, momentum=0.9, nesterov=True, weight_decay=0.01),
    Adam(0.01),
    AdamW(0.01),
    RMSprop(0.01),
)


def losses(outputs: int, random: np.random.Generator) -> tuple[Loss, ...]:
    """Every loss for a net with some outputs, each with settings and without."""
    weights = tuple(random.uniform(0.2, 2, outputs).round(3).tolist())
    with_labels = (
        CrossEntropyLoss(), CrossEntropyLoss(label_smoothing=0.1), CrossEntropyLoss(weights, label_smoothing=0.2)
    )  # fmt: skip
    by_element = MSELoss(), L1Loss(), HuberLoss(0.7), BCEWithLogitsLoss(), BCEWithLogitsLoss(weights)
    return by_element + with_labels * (outputs > 1)


def drawn(seed: int) -> tuple[Net, TrainConfig, Dataset]:
    """Net with one to six layers, settings, and two batches and a part of one."""
    random = np.random.default_rng(seed)

    def one(among: tuple[Any, ...]) -> Any:
        return among[random.integers(len(among))]

    inputs, outputs = int(one(WIDTHS)), int(one((1, 2, 7, 33, 70)))
    loss = one(losses(outputs, random))
    layers: list[Layer] = [Dropout(0.1)] * int(random.random() < 0.2)
    for _ in range(int(one((0, 1, 1, 2, 2, 3, 5)))):
        layers.append(Linear(out_features=int(one(WIDTHS)), bias=bool(random.random() < 0.7)))
        layers += [one(FUNCTIONS) for _ in range(int(one((0, 1, 1, 2))))]
    layers.append(Linear(out_features=outputs, bias=bool(random.random() < 0.7)))
    layers += [one(FUNCTIONS)] * int(random.random() < 0.2)
    batch = int(one((1, 3, 16, 64, 512)))
    clipping = one(({}, {}, {"clip_norm": 1.0}, {"clip_value": 0.1}))
    config = TrainConfig(
        batch_size=batch, optimizer=one(OPTIMIZERS), schedule=one((Constant(), Cosine(warmup=1))), **clipping
    )
    return Net(f"drawn {seed}", (inputs,), tuple(layers), loss), config, data(inputs, outputs, loss, batch, random)


def data(inputs: int, outputs: int, loss: Loss, batch: int, random: np.random.Generator) -> Dataset:
    """Two batches of samples and half of one, as bytes or floats, some with weights."""
    n, is_bytes = 2 * batch + batch // 2, random.random() < 0.3
    shape = (n, inputs)
    x = random.integers(0, 256, shape, np.uint8) if is_bytes else random.normal(size=shape).astype(np.float32)
    y = random.normal(size=(n, outputs)).astype(np.float32)
    if isinstance(loss, BCEWithLogitsLoss):
        y = (y > 0).astype(np.float32)
    if isinstance(loss, CrossEntropyLoss):
        y = random.integers(0, outputs, n).astype(np.int32)
    weight = random.uniform(0, 2, n).astype(np.float32) if random.random() < 0.3 else None
    return Dataset("drawn", x, y, x[:2], y[:2], 1 / 255 if is_bytes else 1.0, train_weight=weight)
