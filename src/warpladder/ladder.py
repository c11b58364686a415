"""The ladder: every rung in order, and the peers beside it; and what a rung from outside is made of and found by."""

from __future__ import annotations

import os
from difflib import get_close_matches

from .errors import RungError
from .peers import jax, sklearn, torch, torch_gpu
from .rungs import cupy, gemm, graph, library, loops, naive, native, numpy, resident, streamed, tiled
from .rungs import outside as _outside
from .rungs.base import Rung
from .trainers.base import State, StepLog, Trainer

__all__ = ["LADDER", "PEERS", "Rung", "State", "StepLog", "Trainer", "find", "load", "outside"]

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
    """The rung or peer of this name, or the rung that a file defines, as "./mine.py"; `RungError` says what may have been meant."""
    if _outside.is_path(name):
        return load(name)
    for rung in LADDER + PEERS:
        if rung.name == name:
            return rung
    if os.path.isfile(f"{name}.py"):
        raise RungError(f"there is no rung {name!r}: did you mean the file, ./{name}.py?")
    near = get_close_matches(str(name).lower(), [rung.name for rung in LADDER + PEERS])
    meant = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    raise RungError(f"there is no rung {str(name)[:40]!r}: {meant}'warpladder rungs' lists all")


def load(path: str | os.PathLike[str]) -> Rung:
    """The rung that a Python file of one's own defines as `RUNG`.

    Parameters
    ----------
    path : path
        Of a file that ends in .py. A file that was loaded before and has not changed since gives the same rung.

    Raises
    ------
    RungError
        The file is missing, fails, or defines no rung that could stand beside the ladder's: one line that says where and why.
    """
    return _outside.load(path, {rung.name for rung in LADDER + PEERS})


def outside(rung: Rung) -> bool:
    """Whether it is neither a rung nor a peer of warpladder's: nothing about its code can be taken from an earlier run."""
    return not any(rung is known for known in LADDER + PEERS)
