"""Blocks of training steps of one shape, each captured as a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch

from .capture import capture, warm
from .criterion import Criterion
from .update import GraphUpdate

#: Loss () and output (n, ...) of a step.
Reported = tuple[torch.Tensor, torch.Tensor]
#: Training step of samples, labels, the row of the step's numbers, and the keys of its masks.
Step = Callable[[torch.Tensor, torch.Tensor | None, torch.Tensor | None, torch.Tensor | None], Reported | None]


class StepBuffers(Protocol):
    """Tensors of a trainer that its captured steps read and write.

    x, labels : training set on the device, and its labels or targets, or None. whole : True if a batch has all samples
    in the stored order. keys : (2,) int64 on the device, the epoch's mask key and the position of a block's first
    sample; None for a net without masks.
    loss, correct : (steps,) log of an epoch on the host.
    """

    device: torch.device
    criterion: Criterion
    x: torch.Tensor | None
    labels: torch.Tensor | None
    samples: int
    whole: bool
    keys: torch.Tensor | None
    update: GraphUpdate
    loss: torch.Tensor
    correct: torch.Tensor


class CapturedSteps:
    """Block of `count` steps of batches of `size` samples; on a GPU a CUDA graph.

    trainer : trainer with a loaded data set. step : function from samples, labels and numbers to (loss, output) or
    None.
    pool : memory that a trainer's graphs share: one graph runs at a time, and its results are outside the pool.
    has_loss : True if the steps compute losses and correct samples.
    """

    def __init__(self, trainer: StepBuffers, step: Step, count: int, size: int, pool: Any, has_loss: bool) -> None:
        self.trainer, self.step, self.count, self.size, self.has_loss = trainer, step, count, size, has_loss
        device = trainer.device
        self.rows = torch.zeros(0 if trainer.whole else count * size, dtype=torch.int64, device=device)
        self.numbers = (
            None
            if trainer.update.steady
            else torch.from_numpy(trainer.update.numbers(0, count, trainer.samples)).to(device)
        )
        #: what each step adds to the keys of the first
        self.after = torch.tensor([[0, number * size] for number in range(count)], device=device)
        self.loss = torch.zeros(count, device=device)
        self.correct = torch.zeros(count, dtype=torch.int64, device=device)
        self.graph: torch.cuda.CUDAGraph | None = None
        if device.type == "cuda":
            warm(lambda: self._steps(min(count, 2)), 3)
            self.graph = capture(lambda: self._steps(count), pool)

    def __call__(self, rows: torch.Tensor | None, first: int, numbers: torch.Tensor | None) -> None:
        """Train on samples of these indices, None for all, and copy the log into the trainer's, from entry `first` on.

        numbers : (at least count, columns), the numbers of each step; None if they are constant.
        """
        if rows is not None:
            self.rows.copy_(rows)
        if self.numbers is not None and numbers is not None:
            self.numbers.copy_(numbers[: self.count])
        if self.graph is None:
            self._steps(self.count)
        else:
            self.graph.replay()
        if not self.has_loss:
            return
        some = slice(first, first + self.count)
        self.trainer.loss[some].copy_(self.loss, non_blocking=True)
        self.trainer.correct[some].copy_(self.correct, non_blocking=True)

    def _steps(self, count: int) -> None:
        trainer, size = self.trainer, self.size
        assert trainer.x is not None
        x, y = trainer.x, trainer.labels
        if not trainer.whole:
            rows = self.rows[: count * size]
            x, y = x.index_select(0, rows), None if y is None else y.index_select(0, rows)
        labels = trainer.criterion.labels(y)
        losses, outputs = [], []
        for number in range(count):
            some = slice(None) if trainer.whole else slice(number * size, (number + 1) * size)
            row = None if self.numbers is None else self.numbers[number]
            keys = None if trainer.keys is None else trainer.keys + self.after[number]
            reported = self.step(x[some], None if y is None else y[some], row, keys)
            if reported is None:
                continue
            losses.append(reported[0])
            if labels is not None:
                outputs.append(reported[1])
        if not self.has_loss:
            return
        self.loss[:count].copy_(torch.stack(losses))
        if labels is not None:
            right = torch.cat(outputs).argmax(1).view(count, size) == labels.view(-1, size)
            self.correct[:count].copy_(right.sum(1))
