"""The naive rung."""

from __future__ import annotations

from ..config import TrainConfig
from ..nets import Net
from ..trainers.base import State, Trainer
from .base import Rung
from .options import KernelOptions
from .reasons import of_kernels


def build(net: Net, config: TrainConfig, state: State, options: KernelOptions = KernelOptions()) -> Trainer:
    from ..ops.tables.naive import TABLE
    from ..trainers.kernelwise.trainer import KernelTrainer
    from ..trainers.kernelwise.where import open_device

    return KernelTrainer(
        net, config, state, open_device(options.device), TABLE, options.feed or "sync", options.block_size
    )


RUNG = Rung(
    name="naive",
    title="one thread per output, blocking copies",
    idea="Hand-written CUDA, one thread for each output element. Each batch is copied, trained and its loss read back, one after the other.",
    build=build,
    unsupported=of_kernels,
    options=KernelOptions(),
)
