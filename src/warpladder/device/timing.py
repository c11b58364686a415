"""How long calls take on a device: graphs of their repetitions between two events, so that the host's time does not
count.
"""

from __future__ import annotations

import math

from ..errors import DeviceError
from .base import Device, Graph
from .kernel import Call

ROUNDS = 5
LEAST = 1e-3  # seconds of repetitions in one measurement
MOST = 100  # repetitions


def clocked(device: Device, graph: Graph) -> float:
    """Seconds that the device takes for a graph.

    Raises DeviceError: the clock gives a time that is impossible.
    """
    begin = device.stream.record()
    graph.send()
    end = device.stream.record()
    end.synchronize()
    seconds = end.seconds_since(begin)
    if not 0 < seconds < math.inf:
        raise DeviceError(
            f"the clock of {device.name} says that a graph took {seconds} s: nothing can be timed with it"
        )
    return seconds


def in_turn(device: Device, works: list[list[Call]]) -> list[float]:
    """Seconds that each of several lists of calls takes: the least of some rounds, in each of which all are timed once,
    so that a slow moment falls on all.
    """
    repeated = []
    for calls in works:
        once = device.graph(calls)
        clocked(device, once)  # its code and numbers are now where they are needed
        repeats = max(1, min(MOST, math.ceil(LEAST / clocked(device, once))))
        repeated.append((device.graph(calls * repeats), repeats))
    rounds = [[clocked(device, graph) / repeats for graph, repeats in repeated] for _ in range(1 + ROUNDS)]
    return [min(found) for found in zip(*rounds[1:], strict=True)]
