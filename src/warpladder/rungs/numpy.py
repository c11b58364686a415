"""The numpy rung."""

from __future__ import annotations

from ..config import TrainConfig
from ..nets import Net
from ..trainers.base import State, Trainer
from .base import Rung


def build(net: Net, config: TrainConfig, state: State) -> Trainer:
    from ..ops.array import TABLE
    from ..trainers.layerwise import LayerwiseTrainer

    return LayerwiseTrainer(net, config, state, TABLE)


RUNG = Rung(
    name="numpy",
    title="array expressions on BLAS",
    idea="The same sums as whole-array expressions: matrix products go to BLAS, convolutions become matrix products.",
    build=build,
)
