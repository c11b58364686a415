"""Device time of calls: graphs of their repetitions between two events, without the host's time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

from ..errors import DeviceError
from .base import Device, Graph
from .kernel import Call

ROUNDS = 5
LEAST = 1e-3  # seconds of repetitions in one measurement
MOST = 100  # repetitions

_alone: ContextVar[Callable[[], AbstractContextManager[None]]] = ContextVar("alone", default=nullcontext)


@contextmanager
def timed_in(alone: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Time calls in a context that `alone` returns, such as one in which other proofs are paused."""
    token = _alone.set(alone)
    try:
        yield
    finally:
        _alone.reset(token)


def clocked(device: Device, graph: Graph) -> float:
    """Seconds of a graph on the device. Raises `DeviceError` if the clock gives an impossible time."""
    begin = device.stream.record()
    graph.send()
    end = device.stream.record()
    end.synchronize()
    seconds = end.seconds_since(begin)
    if not 0 < seconds < math.inf:
        raise DeviceError(f"the clock of {device.name} gives a graph {seconds} s: nothing can be timed with it")
    return seconds


def in_turn(device: Device, works: list[list[Call]]) -> list[float]:
    """Minimum of each list's seconds, over rounds that time all lists once, so that slow moments affect all."""
    with _alone.get()():
        repeated = []
        for calls in works:
            once = device.graph(calls)
            clocked(device, once)  # its code and numbers are now where they are needed
            repeats = max(1, min(MOST, math.ceil(LEAST / clocked(device, once))))
            repeated.append((device.graph(calls * repeats), repeats))
        rounds = [[clocked(device, graph) / repeats for graph, repeats in repeated] for _ in range(1 + ROUNDS)]
    return [min(found) for found in zip(*rounds[1:], strict=True)]
