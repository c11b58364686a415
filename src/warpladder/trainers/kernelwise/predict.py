"""Predictions of a `KernelTrainer` by a chain without gathering and loss, for up to PREDICTED samples at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...ops.engine.chain import Gather, whole
from .boundaries import allocate
from .chain import Chain, Stage
from .feeds import RowGather

if TYPE_CHECKING:
    from .trainer import KernelTrainer

#: Samples that are predicted at a time, at most.
PREDICTED = 256


def predict(trainer: KernelTrainer, x: np.ndarray, scale: float) -> np.ndarray:
    """Net's outputs (n, *out_shape) float32 for stored samples x (n, *in_shape) times scale."""
    device, net = trainer.device, trainer.net
    out = np.empty((len(x), *net.out_shape), np.float32)
    capacity = trainer.slice_capacity(PREDICTED, train=False)
    boundaries = trainer.boundaries(capacity, train=False)
    device.check_room(boundaries.sizes(capacity, train=False))
    arrays = allocate(boundaries, device, capacity, train=False)
    leaving = arrays.values[len(boundaries.cut)].reshape((capacity, *net.out_shape))
    w = trainer.layout.views(trainer.params)
    layers = Chain(device, arrays, w, {}, trainer.block_size, running=trainer.buffers)
    raw = device.empty((capacity, *net.in_shape), x.dtype, "input")
    rows = RowGather(device, trainer.table.segments[Gather,], arrays.x, None, trainer.step, trainer.block_size)
    scaling = rows.of(raw, scale, None)
    for first in range(0, len(x), capacity):
        some = np.ascontiguousarray(x[first : first + capacity])
        n = len(some)
        part = whole(n)
        raw[:n].upload(some)
        for stage in [*layers.prepare(part), Stage("feed", range(0), scaling.forward(part)), *layers.forward(part)]:
            for launch in stage.launches:
                launch.send()
        device.download(out[first : first + n], leaving[:n])
    return out
