"""Layers that the rung below computes faster: whole steps are timed with none of them, with all, and with a mix.

Tensor cores do not pay for every layer: a small product takes as long to pack as to multiply. So the tensor rung's
table names the graph rung's, and a net's fastest division between the two is chosen once, as `tuner` chooses kernels.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path

from ...checkpoint.plan import NetPlan
from ...device import Device
from ...device.timing import in_turn
from ...errors import OutOfMemoryError
from ...ops import engine
from ...ops.engine.chain import timed
from ..kernelwise.chain import Chain
from . import plan_cache
from .tuner import MARGIN

#: Layers of a net, by number.
Layers = frozenset[int]

#: Seconds of consecutive segments: the number of their first layer, and the time of their launches.
Times = list[tuple[int, float]]


def fastest_division(every: Layers, bind: Callable[[Layers], Chain], step_seconds: Callable[[], float]) -> Layers:
    """Layers for the rung below, so that a step is fastest; none unless it saves more than MARGIN.

    every : all layers of the net. bind : binds the chain with these layers on the rung below.
    step_seconds : time of a training step of the chain that is bound, in seconds.
    """
    own: Layers = frozenset()
    found: dict[Layers, float] = {}
    times: list[Times] = []
    front: Layers = frozenset()
    for below in (own, every):
        try:
            chain = bind(below)
        except OutOfMemoryError:
            if below == own:
                raise
            continue
        found[below] = step_seconds()
        times.append(segment_seconds(chain))
        front = _front(chain)
    mixes = mixtures(every, front, *times) if len(times) == 2 else []
    for mix in mixes:
        if mix in found:
            continue
        try:
            bind(mix)
            found[mix] = step_seconds()
        except OutOfMemoryError:
            pass
    least = min(found.values())
    return next(below for below, seconds in found.items() if seconds <= least * (1 + MARGIN))


def segment_seconds(chain: Chain) -> Times:
    """Seconds of each segment that has layers, alone, in a step without the update; a gathering or loss of its own
    counts with the next or previous layers.
    """
    part = timed(chain.capacity)
    works = [[*segment.prepare(part), *segment.forward(part), *segment.backward(part)] for segment in chain.segments]
    seconds = iter(in_turn(chain.device, [work for work in works if work]))
    out: Times = []
    before = 0.0
    for segment, work in zip(chain.segments, works, strict=True):
        taken = next(seconds) if work else 0.0
        if segment.layers:
            out.append((segment.subgraph.layers_at.start, before + taken))
            before = 0.0
        elif out:
            out[-1] = out[-1][0], out[-1][1] + taken
        else:
            before += taken
    return out


def faster_below(every: Layers, own: Times, below: Times) -> Layers:
    """Layers whose segments are faster on the rung below, compared between layers at which segments of both begin."""
    starts = sorted({first for first, _ in own} & {first for first, _ in below})
    out: set[int] = set()
    for at, first in enumerate(starts):
        layers = {n for n in every if n >= first and (at + 1 == len(starts) or n < starts[at + 1])}
        mine, theirs = (sum(seconds for start, seconds in times if start in layers) for times in (own, below))
        if theirs < mine * (1 - MARGIN):
            out |= layers
    return frozenset(out)


def _front(chain: Chain) -> Layers:
    """Layers of a first segment that has several with parameters, and not the loss."""
    first = chain.segments[0]
    several = first.subgraph.gathers and not first.subgraph.turns and len(first.operands.params) > 2
    return frozenset(first.subgraph.layers_at) if several else frozenset()


def mixtures(every: Layers, front: Layers, own: Times, below: Times) -> list[Layers]:
    """Divisions worth timing: the faster segments on the rung below; and these with some layers of its `front` there
    and the others on this rung, cut where a segment of this rung begins.
    """
    mix = faster_below(every, own, below)
    inside = [start for start, _ in own[1:] if start in front]
    return [mix, *(mix - front | {n for n in every if n < start} for start in inside)]


def division_key(hardware: str, *what: object) -> str:
    """Key of a division in the plan cache: the device, the net with its settings, and all kernels of the package."""
    return sha256(json.dumps([hardware, _kernels(), *map(repr, what)]).encode()).hexdigest()[:40]


@cache
def _kernels() -> str:
    """Digest of the package's CUDA files."""
    digest = sha256()
    folder = Path(engine.__file__).parents[1]
    for path in sorted([*folder.rglob("*.cu"), *folder.rglob("*.cuh")]):
        digest.update(f"{path.relative_to(folder).as_posix()}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def stored_division(device: Device, key: str) -> Layers | None:
    """Division in the plan cache; None if there is none."""
    plan = plan_cache.read(key)
    return frozenset(plan.below) if plan is not None and plan.hardware == device.hardware else None


def store_division(device: Device, key: str, below: Layers) -> None:
    """Store a division in the plan cache."""
    assert device.hardware is not None
    plan_cache.write(key, NetPlan(device.hardware, (), (), tuple(sorted(below))))
