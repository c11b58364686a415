"""What a step needs besides layers and a loss, as kernels: the update, the gathering of samples, the sum over slices."""

from __future__ import annotations

from typing import Any

import numpy as np
from kernel_tools import BLOCKS, Runs, close, nan, send, untouched
from segments_here import for_gather, stored
from updates import OPTIMIZERS, drawn, named

from warpladder.data.order import Order
from warpladder.device import Device
from warpladder.nets import Shape
from warpladder.ops.engine.chain import Slice
from warpladder.ops.engine.segments import KernelTable, Segment
from warpladder.ops.gather import reference as gather
from warpladder.optimizers import Optimizer
from warpladder.proof.tolerance import bound


def update_cases(table: KernelTable) -> Runs:
    for number, optimizer in enumerate(OPTIMIZERS):
        size, block = (1, 1001, 257, 64)[number % 4], BLOCKS[number % len(BLOCKS)]
        limit: dict[str, Any] = ({}, {"clip_value": 0.5}, {"clip_norm": 0.7})[number % 3]
        a = (optimizer, size, block, limit)
        yield (
            f"{named(optimizer)}, limit {limit or None}, of {size}, block {block}",
            lambda device, a=a: _update(device, table, *a),  # type: ignore[misc]
        )


def _update(
    device: Device, table: KernelTable, optimizer: Optimizer, size: int, block: int, limit: dict[str, Any]
) -> set[str]:
    """At a step whose row of numbers is one of several."""
    case = drawn(optimizer, size, **limit)
    params, grads = device.array(case.w, "params"), device.array(case.g, "grads")
    slots = tuple(device.array(slot, name) for name, slot in zip(optimizer.slots, case.slots, strict=True))
    rows = nan(3, len(case.numbers))
    rows[1] = case.numbers
    update = table.update(device, case.config, params, grads, slots, block)
    launched = send(update.launches(device.array(rows, "numbers"), device.array(np.array([2], np.int32), "step")))
    close(params.download(), case.after, case.terms, bound("float32", 16), "params")
    for name, slot, wanted, terms in zip(optimizer.slots, slots, case.slots_after, case.slot_terms, strict=True):
        close(slot.download(), wanted, terms, bound("float32", 8), name)
    return launched


def gather_cases(kind: type[Segment]) -> Runs:
    for dtype, shape, labels, order, block in (
        (np.uint8, (7,), True, True, 32), (np.float32, (3, 2, 5), True, True, 96), (np.uint8, (1, 5, 7), False, True, 256),
        (np.uint8, (3, 2, 5), True, False, 256), (np.float32, (1,), False, False, 1024),
    ):  # fmt: skip
        name = f"{np.dtype(dtype)} {shape}{' with labels' if labels else ''}{' by an order' if order else ''}, block {block}"
        yield name, lambda device, a=(dtype, shape, labels, order, block): _gather(device, kind, *a)  # type: ignore[misc]


def _gather(
    device: Device, kind: type[Segment], dtype: type, shape: Shape, labels: bool, shuffled: bool, block: int
) -> set[str]:
    random = np.random.default_rng(7)
    source: np.ndarray = random.integers(0, 256, (53, *shape)).astype(dtype)
    label = random.integers(0, 10, 53).astype(np.int32)
    order = Order(3, 2, 53)
    step, batch, offset, n = (2, 13, 4, 5) if shuffled else (0, 9, 0, 9)
    x, target = device.array(nan(n + 2, *shape), "x"), device.array(np.full(n + 2, -7, np.int32), "target")
    samples = stored(device, source, 1 / 255, label if labels else None, order.words if shuffled else None, step)
    op = for_gather(kind, device, samples, x, target if labels else None, batch, block)
    launched = send(op.forward(Slice(n, batch, offset)))
    rows = order.indices(step * batch + offset, step * batch + offset + n) if shuffled else np.arange(n)
    found = x.download()
    assert np.array_equal(found[:n], gather.rows(source, rows, 1 / 255)), "x is not the samples to the bit"
    untouched(found, n, "x")
    assert target.download().tolist() == [*(label[rows].tolist() if labels else [-7] * n), -7, -7]
    return launched


def accumulate_cases(table: KernelTable) -> Runs:
    for size, parts, block in ((1, 2, 32), (1001, 3, 96), (256, 4, 256), (33, 1, 64)):
        yield (
            f"{parts} parts of {size}, block {block}",
            lambda device, a=(size, parts, block): _accumulate(device, table, *a),  # type: ignore[misc]
        )


def _accumulate(device: Device, table: KernelTable, size: int, parts: int, block: int) -> set[str]:
    hosts = np.random.default_rng(size).normal(size=(parts, size)).astype(np.float32)
    total, part = device.array(nan(size), "total"), device.array(nan(size), "part")
    op = table.accumulate(device, total, part, block)
    launched: set[str] = set()
    for number, host in enumerate(hosts):
        part.upload(host)
        launched |= send(op.launches(number == 0, number == parts - 1))
    wanted = hosts[0]
    for host in hosts[1:]:
        wanted = wanted + host
    assert np.array_equal(part.download(), wanted)
    return launched
