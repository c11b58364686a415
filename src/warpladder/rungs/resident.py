"""The resident rung."""

from __future__ import annotations

from ..config import TrainConfig
from ..nets import Net
from ..trainers.base import State, Trainer
from .base import Rung
from .options import KernelOptions
from .reasons import of_kernels


def build(net: Net, config: TrainConfig, state: State, options: KernelOptions = KernelOptions()) -> Trainer:
    from ..ops.tables.resident import TABLE
    from ..trainers.kernelwise.trainer import KernelTrainer
    from ..trainers.kernelwise.where import open_device

    return KernelTrainer(
        net, config, state, open_device(options.device), TABLE, options.feed or "resident", options.block_size
    )


RUNG = Rung(
    name="resident",
    title="the data set lives on the GPU",
    idea="The naive kernels, with loss, gradient and accuracy in one. The data set is on the GPU as bytes and is shuffled there: nothing is copied while it trains.",
    build=build,
    unsupported=of_kernels,
    options=KernelOptions(),
)
