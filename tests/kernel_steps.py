"""What a step needs besides layers and a loss, as kernels: the update, the gathering of samples, the sum over slices."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernel_tools import BLOCKS, Runs, close, nan, send, untouched
from warpladder.config import TrainConfig
from warpladder.device import Device
from warpladder.nets import Shape
from warpladder.ops.gather import reference as gather
from warpladder.ops.kernels import KernelTable
from warpladder.ops.sgd import reference as sgd
from warpladder.order import Order
from warpladder.tolerance import bound


def update_cases(table: KernelTable) -> Runs:
    settings: list[dict[str, Any]] = [
        {}, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1, "clip_value": 0.5}, {"momentum": 0.9, "weight_decay": 0.1}, {"clip_value": 0.5},
    ]  # fmt: skip
    for size, block, more in zip((1, 1001, 257, 64), BLOCKS, settings, strict=False):
        config = TrainConfig(learning_rate=0.3, **more)
        yield f"{more} of {size}, block {block}", lambda device, a=(config, size, block): _update(device, table, *a)  # type: ignore[misc]


def _update(device: Device, table: KernelTable, config: TrainConfig, size: int, block: int) -> set[str]:
    w, g, v = (np.random.default_rng(seed).normal(size=size).astype(np.float32) for seed in range(3))
    params, grads, velocity = device.array(w, "params"), device.array(g, "grads"), device.array(v, "velocity")
    launched = send(table.update(device, config, params, grads, velocity, block).launches())
    w, g, v = w.astype(float), g.astype(float), v.astype(float)
    wanted = sgd.step(w, g, v, config)
    terms = abs(w) + abs(g) + abs(v)
    close(params.download(), wanted[0], terms, bound("float32", 8), "params")
    close(velocity.download(), wanted[1], terms, bound("float32", 4), "velocity")
    return launched


def gather_cases(table: KernelTable) -> Runs:
    for dtype, shape, labels, order, block in (
        (np.uint8, (7,), True, True, 32), (np.float32, (3, 2, 5), True, True, 96), (np.uint8, (1, 5, 7), False, True, 256),
        (np.uint8, (3, 2, 5), True, False, 256), (np.float32, (1,), False, False, 1024),
    ):  # fmt: skip
        name = f"{np.dtype(dtype)} {shape}{' with labels' if labels else ''}{' by an order' if order else ''}, block {block}"
        yield name, lambda device, a=(dtype, shape, labels, order, block): _gather(device, table, *a)  # type: ignore[misc]


def _gather(device: Device, table: KernelTable, dtype: type, shape: Shape, labels: bool, shuffled: bool, block: int) -> set[str]:
    random = np.random.default_rng(7)
    source: np.ndarray = random.integers(0, 256, (53, *shape)).astype(dtype)
    label = random.integers(0, 10, 53).astype(np.int32)
    order = Order(3, 2, 53)
    step, batch, offset, n = (2, 13, 4, 5) if shuffled else (0, 9, 0, 9)
    x, target = device.array(nan(n + 2, *shape), "x"), device.array(np.full(n + 2, -7, np.int32), "target")
    op = table.gather(
        device, device.array(source, "source"), 1 / 255, x, device.array(label, "labels") if labels else None, target if labels else None,
        device.array(order.words, "order") if shuffled else None, device.array(np.array([step], np.int32), "step"), block,
    )  # fmt: skip
    launched = send(op.launches(n, batch, offset))
    rows = order.indices(step * batch + offset, step * batch + offset + n) if shuffled else np.arange(n)
    found = x.download()
    assert np.array_equal(found[:n], gather.rows(source, rows, 1 / 255)), "x is not the samples to the bit"
    untouched(found, n, "x")
    assert target.download().tolist() == [*(label[rows].tolist() if labels else [-7] * n), -7, -7]
    return launched


def accumulate_cases(table: KernelTable) -> Runs:
    for size, parts, block in ((1, 2, 32), (1001, 3, 96), (256, 4, 256), (33, 1, 64)):
        yield f"{parts} parts of {size}, block {block}", lambda device, a=(size, parts, block): _accumulate(device, table, *a)  # type: ignore[misc]


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
