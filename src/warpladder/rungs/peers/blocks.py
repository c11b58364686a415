"""Blocks of steps of a few lengths, for peers that compile or capture many steps at once.

An epoch in one range is one block, and its partial batch another. Both are compiled when the data set is loaded,
outside of all timings. Other ranges consist of powers of eight, which are compiled at first use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...config import TrainConfig
from ...data.order import Order
from ...trainers.base import StepLog

#: Ratio of consecutive lengths.
POWER = 8


@dataclass(frozen=True)
class Block:
    """Steps that one call runs. first : number of the first step; steps : their count; size : samples in a batch."""

    first: int
    steps: int
    size: int


@dataclass(frozen=True)
class Blocks:
    """Division of an epoch into blocks of steps.

    batch : samples in a full batch, of which there are `full`. partial : samples in the last, partial batch, or 0.
    most : steps in the longest block.
    """

    batch: int
    full: int
    partial: int
    most: int

    @classmethod
    def of(cls, config: TrainConfig, samples: int, most: int) -> Blocks:
        batch = config.batch(samples)
        return cls(batch, samples // batch, 0 if config.drop_last else samples % batch, most)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Lengths of blocks of full batches, longest first: all steps, or `most` and the rest; and powers of eight."""
        longest = min(self.most, self.full)
        return tuple(sorted({longest, self.full % self.most, *powers(longest)} - {0}, reverse=True))

    @property
    def whole(self) -> set[tuple[int, int]]:
        """Pairs (steps, size) of the blocks of an epoch in one range."""
        return {(block.steps, block.size) for block in self.cut(0, self.full + (self.partial > 0))}

    def cut(self, first: int, last: int) -> Iterator[Block]:
        """Blocks that cover the steps first..last-1, in order."""
        step, full = first, min(last, self.full)
        while step < full:
            length = next(length for length in self.lengths if length <= full - step)
            yield Block(step, length, self.batch)
            step += length
        if step < last:
            yield Block(step, 1, self.partial)


def with_losses(config: TrainConfig, orders: Sequence[Order], logs: Sequence[StepLog]) -> list[StepLog]:
    """Logs of whole epochs, without the losses of epochs for which `config` computes none."""
    return [
        log if config.has_loss(order.epoch) else StepLog.without_loss(log.size)
        for order, log in zip(orders, logs, strict=True)
    ]


def powers(most: int) -> list[int]:
    """Powers 1, 8, 64, ... up to `most`."""
    out = [1] if most else []
    while out and out[-1] * POWER <= most:
        out.append(out[-1] * POWER)
    return out
