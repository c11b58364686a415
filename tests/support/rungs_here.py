"""The rungs of the ladder that train every net, each where it can run on this machine.

A CUDA rung stands here once for the emulator, and once more for the GPU where there is one.
"""

from __future__ import annotations

from dataclasses import replace

from warpladder.config import TrainConfig
from warpladder.ladder import LADDER, PEERS
from warpladder.nets import cnn, softmax
from warpladder.rungs.base import Rung


def emulated(rung: Rung) -> Rung:
    """The rung with its kernels on the CPU."""
    return replace(rung.but(device="emulated"), name=f"{rung.name}-emulated")


def _here() -> tuple[Rung, ...]:
    out = []
    for rung in LADDER:
        if all(rung.unsupported(net, TrainConfig()) is None for net in (softmax(), cnn())):
            out.append(rung)
        if rung.has("device") and rung.name not in (*INSTANCES, *CHAINS):
            out.append(emulated(rung))
    return tuple(out)


#: Rungs whose kernels are templates: each net has instances of its own, and on the emulator each takes seconds to
#: compile.
INSTANCES = ("gemm", "graph", "tensor")

#: Rungs that train chains of Linear layers alone: tests/trainers/test_persistent.py.
CHAINS = ("persistent",)

HERE = _here()

#: Those on the emulator, for tests of a few nets.
TEMPLATED = tuple(emulated(rung) for rung in LADDER if rung.name in INSTANCES)

#: The names of those that need no setting to run here.
NAMES = [rung.name for rung in HERE if rung in LADDER]

#: Peers that train on the CPU; tests/gpu has those on the GPU, which say so in their names.
CPU_PEERS = tuple(peer for peer in PEERS if "device=cuda" not in peer.name)
