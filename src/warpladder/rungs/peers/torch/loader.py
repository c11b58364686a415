"""PyTorch trainer as in its tutorials: DataLoader with workers and pinned memory, copies, a loss read every step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.utils.data import DataLoader, Sampler, TensorDataset

from ....config import TrainConfig
from ....data.order import Order
from ....machine.facts import cores
from ....nets import Net
from ....trainers.base import State, StepLog, check_fit, check_range, not_loaded
from .trainer import TorchTrainer

if TYPE_CHECKING:
    from ....data.dataset import Dataset

WORKERS = 4  # at most
PATIENCE = 60  # seconds without a batch, after which a worker counts as stuck


class InOrder(Sampler[list[int]]):
    """Sampler of given batches of sample indices."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.batches)

    def __len__(self) -> int:
        return len(self.batches)


class LoaderTrainer(TorchTrainer):
    """`TorchTrainer` whose samples stay on the host and reach the device through a DataLoader.

    workers : number of processes that gather batches; None is WORKERS, or the number of cores if it is smaller.
    pin_memory : True for page-locked batches; None is True on a GPU.
    """

    def __init__(
        self, net: Net, config: TrainConfig, state: State, *, device: str = "cpu", threads: int | None = None,
        workers: int | None = None, pin_memory: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(net, config, state, device=device, threads=threads)
        self.workers = min(WORKERS, cores()) if workers is None else workers
        self.pin_memory = self.device.type == "cuda" if pin_memory is None else pin_memory

    def load(self, dataset: Dataset) -> None:
        check_fit(self.net, dataset, self.config)
        self.close()
        self.x = self._tensor(dataset.train_x, dataset.scale)
        self.criterion = self.criterion.of(dataset)
        self.labels = self.criterion.goals(dataset, torch.device("cpu"))
        self.sampler = InOrder()
        self.loader: DataLoader | None = DataLoader(
            TensorDataset(self.x) if self.labels is None else TensorDataset(self.x, self.labels),
            batch_sampler=self.sampler, num_workers=self.workers, pin_memory=self.pin_memory,
            persistent_workers=self.workers > 0, timeout=PATIENCE if self.workers else 0,
        )  # fmt: skip

    def run(self, order: Order, first: int, last: int) -> StepLog:
        if self.x is None or self.loader is None:
            raise not_loaded(self.net)
        n = len(self.x)
        check_range(self.config, order, n, first, last)
        batch = self.config.batch(n)
        rows = order.indices(first * batch, min(last * batch, n)).tolist()
        self.sampler.batches = [rows[start : start + batch] for start in range(0, len(rows), batch)]
        loss, correct = np.zeros(last - first), np.zeros(last - first, np.int64)
        has_loss = self.config.has_loss(order.epoch)
        self._schedule(last - first, n)
        with self._settings():
            for i, parts in enumerate(self.loader if self.sampler.batches else ()):
                x, *y = (part.to(self.device, non_blocking=True) for part in parts)
                for each in self.masks:
                    each.keys = order.mask_key, (first + i) * batch
                mean, output = self._step(x, y[0] if y else None, has_loss)
                if mean is not None:
                    loss[i] = mean.item()
                    if (labels := self.criterion.labels(y[0] if y else None)) is not None:
                        correct[i] = (output.argmax(1) == labels).sum().item()
            if not has_loss:
                self._wait()
        size = np.array([len(some) for some in self.sampler.batches], np.int64)
        return StepLog(loss, correct, size) if has_loss else StepLog.without_loss(size)

    def close(self) -> None:
        self.loader = None  # ends the workers
        super().close()
