"""Training runs for the tests: small data, rungs with a hook, and what it means that two runs are the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace

import numpy as np

from warpladder import nets
from warpladder.checkpoint import Checkpoint
from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.ladder import find
from warpladder.nets import Conv2d, Flatten, Linear, MaxPool2d, MSELoss, Net, ReLU
from warpladder.rungs.base import Rung
from warpladder.trainers.base import State, StepLog, Trainer

Hook = Callable[[Trainer, Order, int, int], None]

MLP = Net(
    "small mlp", (1, 4, 4), (Flatten(), Linear(out_features=7), ReLU(), Linear(out_features=3)), nets.CrossEntropyLoss()
)
CNN = Net(
    "small cnn",
    (1, 4, 4),
    (Conv2d(out_channels=3, kernel_size=3, padding=1), ReLU(), MaxPool2d(2), Flatten(), Linear(out_features=3)),
    nets.CrossEntropyLoss(),
)
AUTOENCODER = Net(
    "small autoencoder",
    (1, 4, 4),
    (Conv2d(out_channels=3, kernel_size=3, padding=1), ReLU(), Conv2d(out_channels=1, kernel_size=3, padding=1)),
    MSELoss(),
)
NETS = (MLP, CNN, AUTOENCODER)

CONFIG = TrainConfig(
    epochs=3, batch_size=8, learning_rate=0.1, momentum=0.9, nesterov=True, weight_decay=0.01, seed=5, log_every=4
)


def data(samples: int = 53, seed: int = 0, valid: int = 11, test: int = 13) -> Dataset:
    """Noise in bytes, with labels that a weighted sum of the pixels decides, so that there is something to learn."""
    random = np.random.default_rng(seed)

    def part(count: int) -> tuple[np.ndarray, np.ndarray]:
        x = random.integers(0, 256, (count, 1, 4, 4), np.uint8)
        return x, np.digitize(x.reshape(count, 16) @ np.arange(16.0), [14_200, 16_400]).astype(np.int32)

    (train_x, train_y), (valid_x, valid_y), (test_x, test_y) = part(samples), part(valid), part(test)
    return Dataset("noise", train_x, train_y, test_x, test_y, 1 / 255, valid_x, valid_y)


def hooked(
    rung: str | Rung,
    before: Hook | None = None,
    after: Hook | None = None,
    log: Callable[[Order, int, StepLog], StepLog] | None = None,
) -> Rung:
    """A rung of the same name whose trainer calls these around each `run`; `log` may change what `run` reports."""
    plain = find(rung) if isinstance(rung, str) else rung

    def build(net: Net, config: TrainConfig, state: State) -> Trainer:
        trainer = plain.build(net, config, state)
        run = trainer.run

        def run_between_hooks(order: Order, first: int, last: int) -> StepLog:
            if before is not None:
                before(trainer, order, first, last)
            report = run(order, first, last)
            if after is not None:
                after(trainer, order, first, last)
            return report if log is None else log(order, first, report)

        trainer.run = run_between_hooks  # type: ignore[method-assign]
        return trainer

    return replace(plain, build=build)


def facts(checkpoint: Checkpoint) -> dict:
    """Everything about where a run stands that must repeat: all but seconds, and the settings that are free."""
    numbers = {name: array.tobytes() for name, array in checkpoint.params.items()}
    aside = [
        None if arrays is None else {name: array.tobytes() for name, array in arrays.items()}
        for arrays in (checkpoint.best, checkpoint.last)
    ]
    slots = {slot: {name: array.tobytes() for name, array in named.items()} for slot, named in checkpoint.slots.items()}
    return {
        "params": numbers,
        "best and last": aside,
        "slots": slots,
        "place": (checkpoint.epoch, checkpoint.step, checkpoint.finished),
        "sums": asdict(replace(checkpoint.sums, seconds=0.0)),
        "history": [asdict(replace(log, seconds=0.0)) for log in checkpoint.history],
        "test": checkpoint.test,
    }
