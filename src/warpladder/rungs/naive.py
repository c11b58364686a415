"""The naive rung."""

from __future__ import annotations

from ..config import TrainConfig
from ..nets import Net
from ..trainers.base import State, Trainer
from .base import Rung
from .options import KernelOptions


def build(net: Net, config: TrainConfig, state: State, options: KernelOptions = KernelOptions()) -> Trainer:
    from ..ops.naive import TABLE
    from ..trainers.kernelwise.trainer import KernelTrainer
    from ..trainers.kernelwise.where import open_device

    return KernelTrainer(net, config, state, open_device(options.device), TABLE, options.feed or "sync", options.block_size)


def unsupported(net: Net, config: TrainConfig, options: KernelOptions = KernelOptions()) -> str | None:
    from ..trainers.kernelwise.where import why_not

    return why_not(options.device)


RUNG = Rung(
    name="naive",
    title="one thread per output, blocking copies",
    idea="Hand-written CUDA, one thread for each output element. Each batch is copied, trained and its loss read back, one after the other.",
    build=build,
    unsupported=unsupported,
    options=KernelOptions(),
)
