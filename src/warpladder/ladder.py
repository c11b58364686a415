"""Ladder: every rung in order, the peers, and rungs of users' files, found by their names."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from .errors import RungError
from .errors.arguments import called_by_name, meant, shown
from .rungs import (
    cupy,
    gemm,
    graph,
    library,
    loops,
    naive,
    native,
    numpy,
    persistent,
    resident,
    streamed,
    tensor,
    tiled,
)
from .rungs import outside as _outside
from .rungs import own_op as _own_op
from .rungs.base import Rung
from .rungs.options import (
    GraphOptions,
    KernelOptions,
    OneOf,
    Options,
    PrecisionOf,
    SomeOf,
    ThreadOptions,
    Whole,
    YesNo,
    option,
)
from .rungs.peers import jax, sklearn, torch
from .rungs.peers.torch.own import torch_peer
from .trainers.base import State, StepLog, Trainer

__all__ = [
    "LADDER",
    "PEERS",
    "GraphOptions",
    "KernelOptions",
    "OneOf",
    "Options",
    "PrecisionOf",
    "Rung",
    "SomeOf",
    "State",
    "StepLog",
    "ThreadOptions",
    "Trainer",
    "Whole",
    "YesNo",
    "find",
    "is_peer",
    "load",
    "option",
    "outside",
    "spelled",
    "torch_peer",
]

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
    tensor.RUNG,
    persistent.RUNG,
)
PEERS: tuple[Rung, ...] = (torch.PEER, torch.CHANNELS_LAST, sklearn.PEER, jax.PEER, *torch.GPU_PEERS, *jax.GPU_PEERS)


@called_by_name
def find(name: str, **options: Any) -> Rung:
    """Rung or peer of a name, or the rung that a file defines, with options.

    Parameters
    ----------
    name : str
        "naive"; "./mine.py" for a file; or an operation and its file, "linear.forward=mine.cu". Options may follow, as
        in "naive:block_size=512:feed=streamed".
    **options
        Options by name; they override those in `name`.

    Raises
    ------
    RungError
        The rung or the option is unknown: one line with the nearest names.

    Examples
    --------
    >>> find("naive", block_size=512).name
    'naive:block_size=512'
    """
    rung, options_text = _split(str(name))
    found = _plain(rung)
    return found.but(**(read_options(found, options_text) | options)) if options_text or options else found


def _split(name: str) -> tuple[str, list[str]]:
    """Name of a rung, or the path of its file, and the options after it, each as "block_size=512"."""
    if _own_op.is_own_op(name):
        return _own_op.split(name)
    place, ending, rest = name.partition(".py:")
    if ending:
        return f"{place}.py", rest.split(":")
    rung, *options = [name] if _outside.is_path(name) else name.split(":")
    return rung, options


def read_options(rung: Rung, texts: list[str]) -> dict[str, Any]:
    """Values of a rung's options by name, from texts such as "block_size=512"."""
    kinds = {name: kind for name, kind, _ in rung.options.known()}
    out: dict[str, Any] = {}
    for each in texts:
        option, equals, value = each.partition("=")
        if not equals or not value:
            raise RungError(
                f"rung {rung.name!r}: options are written as in 'naive:block_size=512:feed=streamed', got {shown(each)}"
            )
        if option in out:
            raise RungError(f"rung {rung.name!r}: option {option!r} is given twice")
        out[option] = kinds[option].read(value) if option in kinds else value
    return out


#: Questions about the fastest rungs of a device, whose name was given as a rung's.
_OF_DEVICES = {"cpu": "did you mean 'native'? ", **dict.fromkeys(("gpu", "cuda"), "did you mean 'graph' or 'tensor'? ")}


def _plain(name: str) -> Rung:
    """Rung of a name without options. Raises `RungError` for an unknown name."""
    if _own_op.is_own_op(name):
        return _own_op.load(name)
    if _outside.is_path(name):
        return load(name)
    for rung in LADDER + PEERS:
        if rung.name == name:
            return rung
    if os.path.isfile(f"{name}.py"):
        raise RungError(f"there is no rung {name!r}: did you mean the file, ./{name}.py?")
    near = _OF_DEVICES.get(str(name).lower()) or meant(name, _names(), 3, before="", after=" ")
    raise RungError(f"there is no rung {shown(name)}: {near}'warpladder rungs' lists all")


def _names() -> list[str]:
    """Names of all rungs and peers, without options."""
    return list(dict.fromkeys(rung.base.name for rung in LADDER + PEERS))


@called_by_name
def load(path: str | os.PathLike[str]) -> Rung:
    """Rung that a user's Python file defines as `RUNG`.

    Parameters
    ----------
    path : path
        Path of a file that ends in .py. An unchanged file that was loaded before gives the same rung object.

    Raises
    ------
    RungError
        The file is missing, fails, or defines no valid rung: one line with the position and the reason.
    """
    return _outside.load(path, _names())


def spelled(rung: Rung) -> str | None:
    """Text by which `find` gives this rung in another process, with absolute paths; None if no text does."""
    name = rung.name
    if _own_op.is_own_op(name):
        return _own_op.absolute(name)
    if rung.path is not None:
        name = ":".join([os.path.abspath(os.path.expanduser(rung.path)), *filter(None, [str(rung.options)])])
    try:
        found = find(name)
    except RungError:
        return None
    same = found.base is rung.base and (found is rung or _alike(rung, found))
    return name if same else None


def is_peer(rung: Rung) -> bool:
    """True if a rung is a peer: the program of another project, with options or without."""
    return rung.peer


def outside(rung: Rung) -> bool:
    """True if a rung, with any options, is not the package's own: its proofs are never cached."""
    base = rung.base
    ours = any(base is known.base for known in LADDER + PEERS)
    return not ours or not (rung is base or _alike(rung, base.but(**rung.options.chosen())))


def _alike(rung: Rung, made: Rung) -> bool:
    """True if a variant has the name and build that its options give it."""
    a, b = rung.build, made.build
    return (
        rung.name == made.name
        and isinstance(a, partial)
        and isinstance(b, partial)
        and (a.func, a.args, a.keywords) == (b.func, b.args, b.keywords)
    )
