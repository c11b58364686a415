"""The streamed rung."""

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
        net, config, state, open_device(options.device), TABLE, options.feed or "streamed", options.block_size
    )


RUNG = Rung(
    name="streamed",
    title="copies overlap computing",
    idea="The naive kernels. Three page-locked host buffers and three device buffers take turns: batches travel while one trains. The loss stays on the GPU.",
    build=build,
    unsupported=of_kernels,
    options=KernelOptions(),
)
