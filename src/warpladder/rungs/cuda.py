"""`cuda_rung`: constructor of rungs that train layer by layer with a table of CUDA kernels."""

from __future__ import annotations

from functools import partial
from importlib import import_module

from ..config import TrainConfig
from ..nets import Net
from ..trainers.base import State, Trainer
from .base import Rung
from .options import KernelOptions
from .reasons import of_kernels


def cuda_rung(name: str, title: str, idea: str, table: str, feed: str) -> Rung:
    """Rung of CUDA kernels; name, title, idea : as in `Rung`.

    table : module of `ops.tables` with the kernels of each layer: "tiled" for `ops/tables/tiled.py`.
    feed : "sync", "streamed" or "resident" transfer of samples, if the option `feed` is not set.
    """
    build = partial(_build, table, feed)
    return Rung(name, title, idea, build, unsupported=of_kernels, options=KernelOptions())


def _build(
    table: str, feed: str, net: Net, config: TrainConfig, state: State, options: KernelOptions = KernelOptions()
) -> Trainer:
    from ..trainers.kernelwise.trainer import KernelTrainer
    from ..trainers.kernelwise.where import open_device

    kernels = import_module(f"..ops.tables.{table}", __package__).TABLE
    device = open_device(options.device)
    return KernelTrainer(net, config, state, device, kernels, options.feed or feed, options.block_size)
