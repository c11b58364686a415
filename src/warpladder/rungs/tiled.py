"""The tiled rung."""

from __future__ import annotations

from ..config import TrainConfig
from ..nets import Net
from ..trainers.base import State, Trainer
from .base import KERNEL_OPTIONS, Rung


def build(net: Net, config: TrainConfig, state: State) -> Trainer:
    from ..ops.tiled import TABLE
    from ..trainers.kernelwise.trainer import KernelTrainer
    from ..trainers.kernelwise.where import open_device

    return KernelTrainer(net, config, state, open_device(config.device), TABLE, feed="resident")


def unsupported(net: Net, config: TrainConfig) -> str | None:
    from ..trainers.kernelwise.where import why_not

    return why_not(config)


RUNG = Rung(
    name="tiled",
    title="tiles in shared memory",
    idea="Blocks bring tiles of images, weights and matrices to shared memory and read them many times; warps add up gradients by shuffles; ReLU needs no pass.",
    build=build,
    unsupported=unsupported,
    options=KERNEL_OPTIONS,
)
