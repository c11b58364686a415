"""The rungs of the ladder, each where it can run on this machine.

A CUDA rung stands here once for the emulator, and once more for the GPU where there is one.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

from warpladder.config import TrainConfig
from warpladder.ladder import LADDER, PEERS
from warpladder.nets import Net, softmax
from warpladder.rungs.base import Rung
from warpladder.trainers.base import State, Trainer


def emulated(rung: Rung) -> Rung:
    """The rung with its kernels on the CPU, whatever a config says."""

    def build(net: Net, config: TrainConfig, state: State) -> Trainer:
        return rung.build(net, config.but(device="emulated"), state)

    def unsupported(net: Net, config: TrainConfig) -> str | None:
        return rung.unsupported(net, config.but(device="emulated"))

    return replace(rung, name=f"{rung.name}-emulated", build=build, unsupported=unsupported)


def _here() -> tuple[Rung, ...]:
    out = []
    for rung in LADDER:
        if rung.unsupported(softmax(), TrainConfig()) is None:
            out.append(rung)
        if "device" in rung.options and find_spec("warpladder.emulator.device"):
            out.append(emulated(rung))
    return tuple(out)


HERE = _here()

#: The names of those that need no setting to run here.
NAMES = [rung.name for rung in HERE if rung in LADDER]

#: Peers that train on the CPU; tests/gpu has those on the GPU, which say so in their names.
CPU_PEERS = tuple(peer for peer in PEERS if "-gpu" not in peer.name)
