"""Losses with settings or weights of samples as kernels: a step of one batch, then one whose batch comes in slices."""

from __future__ import annotations

import numpy as np
from kernel_losses import log_of, logged, without_loss
from kernel_tools import BATCHES, Runs, close, nan, send, slices, untouched
from losses import NEW

from warpladder.config import TrainConfig
from warpladder.device import Device
from warpladder.nets import BCEWithLogitsLoss, CrossEntropyLoss, Loss
from warpladder.ops.engine.base import Buffers
from warpladder.ops.engine.chain import GeneralLoss, Slice, Subgraph
from warpladder.ops.engine.segments import LossSegment, Operands, Segment
from warpladder.ops.loss import reference
from warpladder.proof.tolerance import bound

#: Outputs of a sample; the losses' weights of classes and outputs have as many.
SIZE = 4


def general_loss_cases(kind: type[Segment]) -> Runs:
    """Each loss once, without weights of samples and with them by turns; the last one in both ways."""
    lists = [(loss, number % 2 == 1) for number, loss in enumerate(NEW)] + [(NEW[-1], True), (NEW[0], True)]
    for number, (loss, weighted) in enumerate(lists):
        capacity, n = BATCHES[number % len(BATCHES)]
        name = f"{loss}{', weighted' if weighted else ''}, {n} of {capacity}"
        yield name, lambda device, a=(loss, weighted, capacity, n): _general(device, kind, *a)  # type: ignore[misc]


def _general(device: Device, kind: type[Segment], loss: Loss, weighted: bool, capacity: int, n: int) -> set[str]:
    random, has_labels = np.random.default_rng(n), isinstance(loss, CrossEntropyLoss)
    x, dx = nan(capacity, SIZE), nan(capacity, SIZE)
    goal = np.full(capacity, -1, np.int32) if has_labels else nan(capacity, SIZE)
    arrays = device.array(x, "x"), device.array(goal, "target"), device.array(dx, "dx")
    shares = random.uniform(0, 2 / n, 2 * capacity + 2 * n).astype(np.float32)
    log = log_of(device)
    operands = Operands(
        Buffers(arrays[0], None, arrays[2]), target=arrays[1], log=log,
        shares=device.array(shares, "data") if weighted else None,
    )  # fmt: skip
    nodes = (GeneralLoss(loss),)
    op = kind(
        device, Subgraph(nodes, (None,), ((SIZE,),), capacity, capacity, device.limits, TrainConfig()), operands, 64
    )
    assert isinstance(op, LossSegment)
    launched: set[str] = set()
    for step, parts in enumerate(([n], [n, max(1, n // 2)])):
        batch = sum(parts)
        out = 3 * random.normal(size=(batch, SIZE)).astype(np.float32)
        targets = random.normal(size=(batch, SIZE)).astype(np.float32)
        if isinstance(loss, BCEWithLogitsLoss):
            targets = (targets > 0).astype(np.float32)
        wanted: np.ndarray = random.integers(0, SIZE, batch).astype(np.int32) if has_labels else targets
        share = shares[step * capacity :][:batch].astype(float) if weighted else None
        exact = out.astype(float), wanted if has_labels else wanted.astype(float)
        slope = reference.backward(loss, *exact, share)
        scale = (np.ones(batch) / batch if share is None else share)[:, None] * (8 + abs(out))
        for rows in slices(parts):
            x[: len(rows)], goal[: len(rows)] = out[rows], wanted[rows]
            for array, host in zip(arrays, (x, goal, dx), strict=True):
                array.upload(host)
            launched |= send(op.forward(Slice(len(rows), batch, int(rows[0]))))
            found = arrays[2].download()
            close(found[: len(rows)], slope[rows], scale[rows], bound("float32", SIZE), "dx")
            untouched(found, len(rows), "dx")
        size = bound("float32", SIZE + batch) * (8 + 2 * abs(out).max()) * (1 if share is None else share.sum())
        right = reference.correct(loss, *exact) if has_labels else 0
        logged(log, step, reference.forward(loss, *exact, share), size, right)
    return launched | (set() if weighted else without_loss(op, log, arrays[2], n))
