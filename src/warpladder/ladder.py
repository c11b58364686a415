"""The ladder: every rung in order, and the peers beside it."""

from __future__ import annotations

from .errors import RungError
from .peers import jax, sklearn, torch, torch_gpu
from .rungs import cupy, gemm, graph, library, loops, naive, native, numpy, resident, streamed, tiled
from .rungs.base import Rung

LADDER: tuple[Rung, ...] = (
    loops.RUNG,
    numpy.RUNG,
    native.RUNG,
    cupy.RUNG,
    naive.RUNG,
    streamed.RUNG,
    resident.RUNG,
    tiled.RUNG,
    gemm.RUNG,
    library.RUNG,
    graph.RUNG,
)
PEERS: tuple[Rung, ...] = (torch.PEER, torch.CHANNELS_LAST, sklearn.PEER, jax.PEER, *torch_gpu.PEERS, *jax.GPU_PEERS)


def find(name: str) -> Rung:
    """The rung or peer of this name; `RungError` lists the names there are."""
    for rung in LADDER + PEERS:
        if rung.name == name:
            return rung
    names = ", ".join(rung.name for rung in LADDER + PEERS)
    raise RungError(f"there is no rung {name!r}; there are {names}")
