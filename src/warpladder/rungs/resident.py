"""The resident rung."""

from __future__ import annotations

from ..config import TrainConfig
from ..nets import Net
from ..trainers.base import State, Trainer
from .base import KERNEL_OPTIONS, Rung


def build(net: Net, config: TrainConfig, state: State) -> Trainer:
    from ..ops.resident import TABLE
    from ..trainers.kernelwise.trainer import KernelTrainer
    from ..trainers.kernelwise.where import open_device

    return KernelTrainer(net, config, state, open_device(config.device), TABLE, feed="resident")


def unsupported(net: Net, config: TrainConfig) -> str | None:
    from ..trainers.kernelwise.where import why_not

    return why_not(config)


RUNG = Rung(
    name="resident",
    title="the data set lives on the GPU",
    idea="The naive kernels, with loss, gradient and accuracy in one. The data set is on the GPU as bytes and is shuffled there: nothing is copied while it trains.",
    build=build,
    unsupported=unsupported,
    options=KERNEL_OPTIONS,
)
