"""The tiled rung."""

from __future__ import annotations

from ..config import TrainConfig
from ..nets import Net
from ..trainers.base import State, Trainer
from .base import Rung
from .options import KernelOptions
from .reasons import of_kernels


def build(net: Net, config: TrainConfig, state: State, options: KernelOptions = KernelOptions()) -> Trainer:
    from ..ops.tables.tiled import TABLE
    from ..trainers.kernelwise.trainer import KernelTrainer
    from ..trainers.kernelwise.where import open_device

    return KernelTrainer(
        net, config, state, open_device(options.device), TABLE, options.feed or "resident", options.block_size
    )


RUNG = Rung(
    name="tiled",
    title="tiles in shared memory",
    idea="Blocks bring tiles of images, weights and matrices to shared memory and read them many times; warps add up gradients by shuffles; ReLU needs no pass.",
    build=build,
    unsupported=of_kernels,
    options=KernelOptions(),
)
