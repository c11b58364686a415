"""Graph rung: steps replayed as CUDA graphs."""

from __future__ import annotations

from ..config import TrainConfig
from ..nets import Net
from ..trainers.base import State, Trainer
from .base import Rung
from .options import GraphOptions
from .reasons import of_kernels


def build(net: Net, config: TrainConfig, state: State, options: GraphOptions = GraphOptions()) -> Trainer:
    from ..ops.tables.graph import TABLE
    from ..trainers.graphed import GraphedTrainer
    from ..trainers.kernelwise.where import open_device

    return GraphedTrainer(net, config, state, open_device(options.device), TABLE, options.block_size)


RUNG = Rung(
    name="graph",
    title="many steps in one CUDA graph",
    idea="The gemm rung's kernels; the launches of many steps are recorded once and sent by one call, so "
    "that the GPU never waits for the host.",
    build=build,
    unsupported=of_kernels,
    options=GraphOptions(),
    tunes=True,
)
