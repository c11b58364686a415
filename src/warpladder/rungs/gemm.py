"""The gemm rung."""

from __future__ import annotations

from ..config import TrainConfig
from ..nets import Net
from ..trainers.base import State, Trainer
from .base import KERNEL_OPTIONS, Rung


def build(net: Net, config: TrainConfig, state: State) -> Trainer:
    from ..ops.gemm import TABLE
    from ..trainers.kernelwise.trainer import KernelTrainer
    from ..trainers.kernelwise.where import open_device

    return KernelTrainer(net, config, state, open_device(config.device), TABLE, feed="resident")


def unsupported(net: Net, config: TrainConfig) -> str | None:
    from ..trainers.kernelwise.where import why_not

    return why_not(config)


RUNG = Rung(
    name="gemm",
    title="register tiles, implicit im2col",
    idea="Layers are products of matrices, with sums in registers: convolutions unfold on their way to shared memory; bias, ReLU and pooling ride along.",
    build=build,
    unsupported=unsupported,
    options=KERNEL_OPTIONS,
)
