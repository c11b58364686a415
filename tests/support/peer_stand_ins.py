"""Peers of the GPU as they run on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from warpladder.config import TrainConfig
from warpladder.ladder import find
from warpladder.nets import Net
from warpladder.rungs.base import Rung
from warpladder.trainers.base import State, Trainer


def graph(net: Net, config: TrainConfig, state: State, **options: Any) -> Trainer:
    """What the peers on the GPU do between their graphs, on the CPU."""
    from warpladder.rungs.peers.torch.graph import GraphTrainer

    return GraphTrainer(net, config, state, device="cpu", **options)


def stand_in(
    name: str, build: Callable[[Net, TrainConfig, State], Trainer], precision: str = "fp32", like: str = "torch"
) -> Rung:
    """A peer of the GPU as it is on the CPU, for tests; `like` names the peer of the CPU whose limits it has."""
    return Rung(name, name, "", build, find(like).unsupported, precision=precision)


STAND_INS = (
    stand_in("graph", graph),
    stand_in("graph-nhwc", partial(graph, images_last=True), like="torch:images=last"),
    find("torch:loader=yes:workers=0"),
)
