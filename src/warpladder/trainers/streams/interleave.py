"""Steps that interleave: in a graph of many steps each call begins when those have ended that it has to wait for, be
they of its own step or of the one before.

A step that begins when all of the one before has ended leaves a GPU idle twice: while the last small calls run, and
while its own samples are brought. Here the samples of the next step are brought while the gradients of this one are
computed, and its first layer begins when that layer's weights are new.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...device import Call, Device, Event, Stream
from ..kernelwise.chain import Stage
from .overlap import USING, beside, waits

#: Streams at most for what runs beside the main one; more calls than that never do at the same time.
SIDES = 7


@dataclass(frozen=True)
class Place:
    """Where a call goes: its number in a step, its stream, 0 for the main one, and the places, by their number in the
    graph, that the stream waits for before.
    """

    call: int
    stream: int
    after: tuple[int, ...]


class Interleaved(Call):
    """A step's calls, so many times: on the main stream, in order, those that the next ones wait for, and beside it all
    others.

    stages : of a step that comes behind one like it, in an order in which they could be sent one behind the other.
    steps : how many times.
    """

    name = "interleaved steps"

    def __init__(self, device: Device, stages: Sequence[Stage], steps: int) -> None:
        self.calls = [call for stage in stages for call in stage.launches]
        needed = needs(self.calls)
        self.places = placed(needed, aside(stages, needed), steps)
        self.device = device
        self.sides = [device.new_stream() for _ in range(max((place.stream for place in self.places), default=0))]

    def send(self, stream: Stream | None = None) -> None:
        main = stream or self.device.stream
        streams, begun = [main, *self.sides], main.record()
        for side in self.sides:
            side.wait(begun)
        waited_for = {number for place in self.places for number in place.after}
        ended: dict[int, Event] = {}
        for number, place in enumerate(self.places):
            for earlier in place.after:
                streams[place.stream].wait(ended[earlier])
            self.calls[place.call].send(streams[place.stream])
            if number in waited_for:
                ended[number] = streams[place.stream].record()
        for side in self.sides:
            main.wait(side.record())


def needs(calls: Sequence[Call]) -> list[list[int]]:
    """For each call of a step those that it waits for, by how many calls earlier they come; other calls that it has to
    wait for are behind these.

    A call that writes anything waits for itself in the step before, and so for all that came before that: two steps are
    enough to look at.
    """
    count = len(calls)
    meet = [[waits(calls[i], calls[j]) for j in range(i + 1)] for i in range(count)]
    known: list[set[int]] = []  # by number in three steps: all calls that have ended when it begins
    found: list[list[int]] = []
    for number in range(3 * count):
        mine, all_known = [], set[int]()
        for earlier in range(number - 1, max(-1, number - 2 * count), -1):
            i, j = sorted((number % count, earlier % count), reverse=True)
            if earlier not in all_known and meet[i][j]:
                mine.append(number - earlier)
                all_known |= known[earlier] | {earlier}
        known.append(all_known)
        found.append(mine)
    return found[2 * count :]


def aside(stages: Sequence[Stage], needed: list[list[int]]) -> list[bool]:
    """For each call of a step whether it runs beside the main stream.

    What `beside` says does; so does what needs nothing of its own step, as samples do that are brought, and an update
    that the next step's first call on the main stream does not wait for.
    """
    computing = iter(beside([stage for stage in stages if stage.phase not in USING]))
    flags = [
        flag
        for stage in stages
        for flag in (next(computing) if stage.phase not in USING else [False] * len(stage.launches))
    ]
    flags = [flag or all(back > number for back in needed[number]) for number, flag in enumerate(flags)]
    calls = [(stage.phase, call) for stage in stages for call in stage.launches]
    first = next((call for (_, call), flag in zip(calls, flags, strict=True) if not flag), None)
    return [
        flag or (phase == "update" and first is not None and not waits(call, first))
        for (phase, call), flag in zip(calls, flags, strict=True)
    ]


def placed(needed: list[list[int]], aside: list[bool], steps: int) -> list[Place]:
    """All calls of so many steps, each on a stream: the main one, or beside it one on which nothing runs that the call
    does not wait for.

    Where there are no more streams, a call goes behind what was begun longest ago.
    """
    out: list[Place] = []
    lengths, latest = [0], [-1]  # calls on each stream, and the number of the last one
    ended: list[list[int]] = []  # by number: how many calls of each stream have ended when it has
    for number in range(len(needed) * steps):
        call = number % len(needed)
        after = [number - back for back in needed[call] if back <= number]
        free = [
            stream
            for stream in range(1, len(lengths))
            if max((_of(ended[each], stream) for each in after), default=0) == lengths[stream]
        ]
        if not aside[call]:
            stream = 0
        elif free:
            stream = max(free, key=lambda each: latest[each])
        elif len(lengths) <= SIDES:
            stream = len(lengths)
            lengths.append(0)
            latest.append(-1)
        else:
            stream = min(range(1, SIDES + 1), key=lambda each: latest[each])
        before = (
            ended[latest[stream]] if latest[stream] >= 0 else []
        )  # what its stream has waited for needs no further wait
        others = tuple(each for each in after if _of(before, out[each].stream) < _of(ended[each], out[each].stream))
        lengths[stream] += 1
        latest[stream] = number
        known = [
            max((_of(counts, each) for counts in (before, *(ended[one] for one in after))), default=0)
            for each in range(len(lengths))
        ]
        known[stream] = lengths[stream]
        ended.append(known)
        out.append(Place(call, stream, others))
    return out


def _of(counts: list[int], stream: int) -> int:
    """Calls of a stream that have ended; none of one that came later."""
    return counts[stream] if stream < len(counts) else 0
