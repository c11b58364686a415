"""The streamed rung."""

from __future__ import annotations

from ..config import TrainConfig
from ..nets import Net
from ..trainers.base import State, Trainer
from .base import KERNEL_OPTIONS, Rung


def build(net: Net, config: TrainConfig, state: State) -> Trainer:
    from ..ops.naive import TABLE
    from ..trainers.kernelwise.trainer import KernelTrainer
    from ..trainers.kernelwise.where import open_device

    return KernelTrainer(net, config, state, open_device(config.device), TABLE, feed="streamed")


def unsupported(net: Net, config: TrainConfig) -> str | None:
    from ..trainers.kernelwise.where import why_not

    return why_not(config)


RUNG = Rung(
    name="streamed",
    title="copies overlap computing",
    idea="The naive kernels. Three page-locked host buffers and three device buffers take turns: batches travel while one trains. The loss stays on the GPU.",
    build=build,
    unsupported=unsupported,
    options=KERNEL_OPTIONS,
)
