"""The gemm rung."""

from __future__ import annotations

from ..config import TrainConfig
from ..nets import Net
from ..trainers.base import State, Trainer
from .base import Rung
from .options import KernelOptions
from .reasons import of_kernels


def build(net: Net, config: TrainConfig, state: State, options: KernelOptions = KernelOptions()) -> Trainer:
    from ..ops.tables.gemm import TABLE
    from ..trainers.kernelwise.trainer import KernelTrainer
    from ..trainers.kernelwise.where import open_device

    return KernelTrainer(
        net, config, state, open_device(options.device), TABLE, options.feed or "resident", options.block_size
    )


RUNG = Rung(
    name="gemm",
    title="register tiles, implicit im2col",
    idea="Layers are products of matrices, with sums in registers: convolutions unfold on their way to shared memory; bias, ReLU and pooling ride along.",
    build=build,
    unsupported=of_kernels,
    options=KernelOptions(),
)
