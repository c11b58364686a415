"""The ladder: every rung in order, and the peers beside it."""

from __future__ import annotations

from difflib import get_close_matches

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
    """The rung or peer of this name; `RungError` says what may have been meant."""
    for rung in LADDER + PEERS:
        if rung.name == name:
            return rung
    near = get_close_matches(str(name).lower(), [rung.name for rung in LADDER + PEERS])
    meant = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    raise RungError(f"there is no rung {str(name)[:40]!r}: {meant}'warpladder rungs' lists all")
