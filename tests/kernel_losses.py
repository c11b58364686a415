"""Losses as kernels: a step of one batch, then one whose batch comes in two slices, and what the log says of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kernel_tools import BATCHES, Runs, close, nan, send, slices, untouched
from warpladder.device import Device
from warpladder.nets import CrossEntropyLoss, MSELoss, Shape
from warpladder.ops.cross_entropy import reference as cross_entropy
from warpladder.ops.kernels import KernelTable, Log
from warpladder.ops.mse import reference as mse
from warpladder.tolerance import bound


def _cross_entropy_cases(table: KernelTable) -> Runs:
    for (capacity, n), classes, block in ((BATCHES[0], 2, 32), (BATCHES[1], 10, 96), (BATCHES[2], 33, 256), ((300, 211), 10, 64)):
        name = f"{classes} classes, {n} of {capacity}, block {block}"
        yield name, lambda device, a=(capacity, n, classes, block): _cross_entropy(device, table, *a)  # type: ignore[misc]


def _cross_entropy(device: Device, table: KernelTable, capacity: int, n: int, classes: int, block: int) -> set[str]:
    random = np.random.default_rng(classes)
    x, label = nan(capacity, classes), np.full(capacity, -1, np.int32)
    dx = nan(capacity, classes)
    arrays = device.array(x, "x"), device.array(label, "target"), device.array(dx, "dx")
    log = log_of(device)
    op = table.losses[CrossEntropyLoss](device, *arrays, log, block)
    launched: set[str] = set()
    for step, parts in enumerate(([n], [n, max(1, n // 2)])):
        batch = sum(parts)
        logits = 3 * random.normal(size=(batch, classes)).astype(np.float32)
        logits[0] = 1  # all equal: the first one counts
        labels = random.integers(0, classes, batch).astype(np.int32)
        labels[0] = 0
        wanted = cross_entropy.backward(logits.astype(float), labels)
        scale = wanted + 2 * np.eye(classes)[labels] / batch
        for rows in slices(parts):
            x[: len(rows)], label[: len(rows)] = logits[rows], labels[rows]
            for array, host in zip(arrays, (x, label, dx), strict=True):
                array.upload(host)
            launched |= send(op.launches(len(rows), batch, rows[0] == 0, rows[-1] == batch - 1))
            found = arrays[2].download()
            close(found[: len(rows)], wanted[rows], scale[rows], bound("float32", classes), "dx")
            untouched(found, len(rows), "dx")
        close_to = bound("float32", classes + batch) * (1 + 2 * abs(logits.astype(float)).max())
        logged(log, step, cross_entropy.forward(logits.astype(float), labels), close_to, cross_entropy.correct(logits, labels))
    return launched


def _mse_cases(table: KernelTable) -> Runs:
    for (capacity, n), shape, block in ((BATCHES[0], (1, 1, 1), 32), (BATCHES[1], (3, 4, 5), 96), (BATCHES[3], (1, 5, 7), 256)):
        name = f"{shape}, {n} of {capacity}, block {block}"
        yield name, lambda device, a=(capacity, n, shape, block): _mse(device, table, *a)  # type: ignore[misc]


def _mse(device: Device, table: KernelTable, capacity: int, n: int, shape: Shape, block: int) -> set[str]:
    random = np.random.default_rng(n)
    size = int(np.prod(shape))
    x, target, dx = nan(capacity, size), nan(capacity, *shape), nan(capacity, size)
    arrays = device.array(x, "x"), device.array(target, "target"), device.array(dx, "dx")
    log = log_of(device)
    op = table.losses[MSELoss](device, *arrays, log, block)
    launched: set[str] = set()
    for step, parts in enumerate(([n], [n, max(1, n // 2)])):
        batch = sum(parts)
        out, images = (random.normal(size=(batch, size)).astype(np.float32) for _ in range(2))
        wanted = mse.backward(out.astype(float), images.astype(float))
        scale = 2 * (abs(out) + abs(images)) / (size * batch)
        for rows in slices(parts):
            x[: len(rows)], target[: len(rows)] = out[rows], images[rows].reshape(-1, *shape)
            for array, host in zip(arrays, (x, target, dx), strict=True):
                array.upload(host)
            launched |= send(op.launches(len(rows), batch, rows[0] == 0, rows[-1] == batch - 1))
            found = arrays[2].download()
            close(found[: len(rows)], wanted[rows], scale[rows], bound("float32", 3), "dx")
            untouched(found, len(rows), "dx")
        loss = mse.forward(out.astype(float), images.astype(float))
        logged(log, step, loss, bound("float32", size * batch) * loss, 0)
    return launched


#: How each kind of loss is covered.
LOSSES: dict[Any, Callable[[KernelTable], Runs]] = {
    CrossEntropyLoss: _cross_entropy_cases, MSELoss: _mse_cases,
}  # fmt: skip


def log_of(device: Device) -> Log:
    """A log of three steps, the last of which nobody may write."""
    return Log(
        device.array(np.zeros(1, np.int32), "step"),
        device.array(np.full(3, np.nan), "loss"),
        device.array(np.full(3, -7, np.int64), "correct"),
    )


def logged(log: Log, step: int, loss: float, limit: float, correct: int) -> None:
    found = log.loss.download()
    assert abs(found[step] - loss) <= limit, f"the loss of step {step} is {found[step]}, not {loss}"
    assert np.isnan(found[step + 1 :]).all()
    assert log.correct.download()[step:].tolist() == [correct, *[-7] * (2 - step)]
    assert log.step.download().tolist() == [step + 1]
