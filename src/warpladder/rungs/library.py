"""The library rung."""

from __future__ import annotations

from ..config import TrainConfig
from ..nets import Net
from ..trainers.base import State, Trainer
from .base import Rung


def build(net: Net, config: TrainConfig, state: State) -> Trainer:
    from ..ops.library import table
    from ..trainers.kernelwise.trainer import KernelTrainer
    from ..trainers.kernelwise.where import open_device

    return KernelTrainer(net, config, state, open_device(config.device), table(config.library), feed="resident")


def unsupported(net: Net, config: TrainConfig) -> str | None:
    """It needs a GPU, and the packages through which the libraries are called."""
    from ..ops import library
    from ..trainers.kernelwise.where import why_not

    if config.device is not None:
        return "cuBLAS and cuDNN run on a GPU alone: leave the device out"
    return why_not(config) or library.why_not(config.library)


RUNG = Rung(
    name="library",
    title="cuBLAS and cuDNN",
    idea="The vendor's libraries: cuBLASLt multiplies matrices, cuDNN convolves and takes the softmax; each can be given back to the resident rung's kernels.",
    build=build,
    unsupported=unsupported,
    options=("feed", "block_size", "library"),
)
