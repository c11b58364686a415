"""Parts of a step of the array and loop rungs, each timed alone by the host's clock."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from time import perf_counter

import numpy as np

from ...results.profiled import Part
from ...trainers.layerwise import LayerwiseTrainer
from . import floor

ROUNDS = 5
LEAST = 2e-3  # seconds of one measurement


def parts(trainer: LayerwiseTrainer) -> tuple[Part, ...]:
    """Time and floor of every part of a full step: measured for one slice, times the number of slices.

    Overwrites the trainer's state; set it again afterwards.
    """
    batch, feed = trainer.batch, trainer.feed
    assert batch is not None and feed is not None and batch.loss is not None
    net, n, loss = trainer.net, batch.capacity, batch.loss
    slices = feed.batch / n

    def clocked(work: Callable[[], object]) -> float:
        def measured(repeats: int) -> float:
            wait(trainer)
            start = perf_counter()
            for _ in range(repeats):
                work()
            wait(trainer)
            return (perf_counter() - start) / repeats

        with trainer.around(), np.errstate(over="ignore", invalid="ignore"):
            repeats = max(1, round(LEAST / max(measured(1), 1e-7)))
            return statistics.median(measured(repeats) for _ in range(ROUNDS))

    itemsize, size = feed.gather.source.dtype.itemsize, trainer.dtype.itemsize

    def part(name: str, phase: str, work: Callable[[], object], least: floor.Floor) -> Part:
        return Part(name, phase, slices * clocked(work), least)

    def loss_and_gradient() -> None:
        loss.forward(n)
        loss.backward(n)

    whole = feed.batch
    out = [part("feed", "feed", lambda: next(feed.slices(feed.first)), floor.feed(net, whole, itemsize, size))]
    for i, op in batch.ops:
        name = f"{i} {type(net.layers[i]).__name__}"
        out.append(part(name, "forward", partial(op.forward, n), floor.forward(net, range(i, i + 1), whole, size)))
    out.append(part("loss", "loss", loss_and_gradient, floor.loss(net, whole, size)))
    for i, op in reversed(batch.ops):
        if i >= net.first_trained:
            name = f"{i} {type(net.layers[i]).__name__}"
            out.append(
                part(name, "backward", partial(op.backward, n), floor.backward(net, range(i, i + 1), whole, size))
            )
    numbers = trainer.config.numbers(trainer.step, trainer.step + 1, whole)[0].astype(trainer.dtype)
    out.append(
        Part(
            "update", "update", clocked(partial(trainer.update.step, numbers)), floor.update(net, trainer.config, size)
        )
    )
    return tuple(out)


def wait(trainer: LayerwiseTrainer) -> None:
    """Wait until the GPU has finished, if the arrays are CuPy's."""
    if trainer.xp is not np:
        trainer.xp.cuda.get_current_stream().synchronize()
