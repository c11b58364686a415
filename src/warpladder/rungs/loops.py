"""The loops rung."""

from __future__ import annotations

from ..config import TrainConfig
from ..nets import Net
from ..trainers.base import State, Trainer
from .base import Rung
from .reasons import of_loops


def build(net: Net, config: TrainConfig, state: State) -> Trainer:
    from ..ops.loops import TABLE
    from ..trainers.layerwise import LayerwiseTrainer

    return LayerwiseTrainer(net, config, state, TABLE)


RUNG = Rung(
    name="loops",
    title="nested loops, compiled, one thread",
    idea="Every sum is the loop that its formula describes, compiled as it stands: no blocking, no vector instructions asked for, one core.",
    build=build,
    unsupported=of_loops,
    proof_flops=1e8,
)
