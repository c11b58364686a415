"""The graph rung."""

from __future__ import annotations

from ..config import TrainConfig
from ..nets import Net
from ..trainers.base import State, Trainer
from .base import Rung


def build(net: Net, config: TrainConfig, state: State) -> Trainer:
    from ..ops.graphed import TABLE
    from ..trainers.graphed import GraphedTrainer
    from ..trainers.kernelwise.where import open_device

    return GraphedTrainer(net, config, state, open_device(config.device), TABLE)


def unsupported(net: Net, config: TrainConfig) -> str | None:
    from ..trainers.kernelwise.where import why_not

    return why_not(config)


RUNG = Rung(
    name="graph",
    title="many steps in one CUDA graph",
    idea="The gemm rung's kernels; the launches of many steps are recorded once and sent by one call, so that the GPU never waits for the host.",
    build=build,
    unsupported=unsupported,
    options=("device", "block_size"),
    tunes=True,
)
