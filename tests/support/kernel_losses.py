"""Losses as kernels: a step of one batch, then one whose batch comes in two slices, and what the log says of both."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from kernel_tools import BATCHES, Runs, close, nan, send, slices, untouched
from segments_here import for_loss

from warpladder.device import Array, Device
from warpladder.nets import CrossEntropyLoss, Loss, MSELoss, Shape
from warpladder.ops.cross_entropy import reference as cross_entropy
from warpladder.ops.engine.chain import Slice
from warpladder.ops.engine.kernels import Log
from warpladder.ops.engine.segments import Segment
from warpladder.ops.mse import reference as mse
from warpladder.proof.tolerance import bound


def _cross_entropy_cases(kind: type[Segment]) -> Runs:
    for (capacity, n), classes, block in (
        (BATCHES[0], 2, 32),
        (BATCHES[1], 10, 96),
        (BATCHES[2], 33, 256),
        ((300, 211), 10, 64),
    ):
        name = f"{classes} classes, {n} of {capacity}, block {block}"
        yield name, lambda device, a=(capacity, n, classes, block): _cross_entropy(device, kind, *a)  # type: ignore[misc]


def _cross_entropy(device: Device, kind: type[Segment], capacity: int, n: int, classes: int, block: int) -> set[str]:
    random = np.random.default_rng(classes)
    x, label = nan(capacity, classes), np.full(capacity, -1, np.int32)
    dx = nan(capacity, classes)
    arrays = device.array(x, "x"), device.array(label, "target"), device.array(dx, "dx")
    log = log_of(device)
    op = for_loss(kind, device, CrossEntropyLoss(), *arrays, log, block)
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
            launched |= send(op.forward(Slice(len(rows), batch, int(rows[0]))))
            found = arrays[2].download()
            close(found[: len(rows)], wanted[rows], scale[rows], bound("float32", classes), "dx")
            untouched(found, len(rows), "dx")
        close_to = bound("float32", classes + batch) * (1 + 2 * abs(logits.astype(float)).max())
        logged(
            log,
            step,
            cross_entropy.forward(logits.astype(float), labels),
            close_to,
            cross_entropy.correct(logits, labels),
        )
    return launched | without_loss(op, log, arrays[2], n)


def _mse_cases(kind: type[Segment]) -> Runs:
    for (capacity, n), shape, block in (
        (BATCHES[0], (1, 1, 1), 32),
        (BATCHES[1], (3, 4, 5), 96),
        (BATCHES[3], (1, 5, 7), 256),
    ):
        name = f"{shape}, {n} of {capacity}, block {block}"
        yield name, lambda device, a=(capacity, n, shape, block): _mse(device, kind, *a)  # type: ignore[misc]


def _mse(device: Device, kind: type[Segment], capacity: int, n: int, shape: Shape, block: int) -> set[str]:
    random = np.random.default_rng(n)
    size = int(np.prod(shape))
    x, target, dx = nan(capacity, size), nan(capacity, *shape), nan(capacity, size)
    arrays = device.array(x, "x"), device.array(target, "target"), device.array(dx, "dx")
    log = log_of(device)
    op = for_loss(kind, device, MSELoss(), *arrays, log, block)
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
            launched |= send(op.forward(Slice(len(rows), batch, int(rows[0]))))
            found = arrays[2].download()
            close(found[: len(rows)], wanted[rows], scale[rows], bound("float32", 3), "dx")
            untouched(found, len(rows), "dx")
        loss = mse.forward(out.astype(float), images.astype(float))
        logged(log, step, loss, bound("float32", size * batch) * loss, 0)
    return launched | without_loss(op, log, arrays[2], n)


#: How each kind of loss is covered.
LOSSES: dict[type[Loss], Callable[[type[Segment]], Runs]] = {
    CrossEntropyLoss: _cross_entropy_cases, MSELoss: _mse_cases,
}  # fmt: skip


def log_of(device: Device) -> Log:
    """A log of three steps, the last of which nobody may write."""
    return Log(
        device.array(np.zeros(1, np.int32), "step"),
        device.array(np.full(3, np.nan), "loss"),
        device.array(np.full(3, -7, np.int64), "correct"),
    )


def without_loss(op: Segment, log: Log, dx: Array, n: int) -> set[str]:
    """Two slices of a step whose loss is not computed: the gradient is there to the bit, the step is counted, and the
    log stays as it is.
    """
    before = log.loss.download().tobytes(), log.correct.download().tobytes()
    step = log.step.download()[0]
    launched, found = set(), []
    for part in (Slice(n, 2 * n, 0, has_loss=False), Slice(n, 2 * n, n, has_loss=False)):
        dx.upload(np.full(dx.shape, np.nan, np.float32))
        launched |= send(op.forward(part))
        found.append(dx.download().tobytes())
        assert log.step.download()[0] == step + part.is_last
    assert (log.loss.download().tobytes(), log.correct.download().tobytes()) == before, (
        "a loss was written that nobody asked for"
    )
    log.step.upload(np.array([step], np.int32))
    dx.upload(np.full(dx.shape, np.nan, np.float32))
    launched |= send(op.forward(Slice(n, 2 * n, 0)))
    assert found == [dx.download().tobytes()] * 2
    return launched


def logged(log: Log, step: int, loss: float, limit: float, correct: int) -> None:
    found = log.loss.download()
    assert abs(found[step] - loss) <= limit, f"the loss of step {step} is {found[step]}, not {loss}"
    assert np.isnan(found[step + 1 :]).all()
    assert log.correct.download()[step:].tolist() == [correct, *[-7] * (2 - step)]
    assert log.step.download().tolist() == [step + 1]
