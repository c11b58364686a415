"""Streams of a captured step: launches that touch different memory run concurrently on side streams of a CUDA graph.

`Overlapped` is one step: launches on which no later one depends, such as a weight gradient, leave the main stream.
`Interleaved` is several steps, in which a launch waits only for the launches that it depends on, of its own step or of
earlier ones: the next step's samples are gathered while this step's gradients are computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..device import Call, Device, Event, Stream
from .kernelwise.chain import Stage

#: Phases that use gradients, after the launches that compute them.
USING = ("sum", "update")

#: Side streams of interleaved steps, at most: more launches than that never run at the same time.
SIDES = 7


def depends(later: Call, earlier: Call) -> bool:
    """True if a later call must wait: one call writes memory that the other touches, or their memory is unknown."""
    return earlier.touches is None or later.touches is None or earlier.touches.before(later.touches)


def on_side_stream(stages: Sequence[Stage]) -> list[list[bool]]:
    """True for each call of each stage of one step that runs on a side stream.

    All `prepare` calls run on side streams. So does a call on which no later call depends, except side calls of its own
    stage, whose order the stage's stream preserves. The last calls of the last stage stay on the main stream.
    """
    sides = [[stage.phase == "prepare"] * len(stage.launches) for stage in stages]
    later: list[tuple[int, bool, Call]] = []
    for number in reversed(range(len(stages))):
        for place in reversed(range(len(stages[number].launches))):
            call = stages[number].launches[place]
            if not sides[number][place]:
                sides[number][place] = not any(
                    depends(other, call) and not (side and stage == number) for stage, side, other in later
                )
            later.append((number, sides[number][place], call))
    last: list[bool] = next(
        (sides[at] for at in reversed(range(len(stages))) if sides[at] and stages[at].phase != "prepare"), []
    )
    for place in reversed(range(len(last))):
        if not last[place]:
            break
        last[place] = False
    return sides


class Overlapped(Call):
    """Stages of one step in order, with the calls of `on_side_stream` on two side streams.

    A forward pass waits for its segment's prepared data. Stages alternate between the side streams, because one layer's
    weight gradient seldom fills a GPU. The main stream waits for both side streams at the end.
    """

    name = "overlapped calls"

    def __init__(self, device: Device, stages: list[Stage]) -> None:
        self.device, self.stages = device, stages
        self.on_side = on_side_stream(stages)
        self.sides = device.new_stream(), device.new_stream()

    def send(self, stream: Stream | None = None) -> None:
        main = stream or self.device.stream
        prepared: dict[range, Event] = {}
        used = 0
        for stage, on_side in zip(self.stages, self.on_side, strict=True):
            side = self.sides[used % 2]
            for number, (call, is_side) in enumerate(zip(stage.launches, on_side, strict=True)):
                if stage.phase == "forward" and stage.layers in prepared and self._needs_prepared(stage, number):
                    main.wait(prepared.pop(stage.layers))
                if is_side:
                    side.wait(main.record())
                call.send(side if is_side else main)
            used += any(on_side)
            if stage.phase == "prepare":
                prepared[stage.layers] = side.record()
        for side in self.sides[:used]:
            main.wait(side.record())

    def _needs_prepared(self, stage: Stage, number: int) -> bool:
        """True if call `number` of a forward pass waits for prepared data; the last one always waits."""
        prepares = [
            call
            for other in self.stages
            if other.phase == "prepare" and other.layers == stage.layers
            for call in other.launches
        ]
        return number == len(stage.launches) - 1 or any(depends(stage.launches[number], call) for call in prepares)


@dataclass(frozen=True)
class ScheduledCall:
    """Call of interleaved steps: number in a step, stream (0 is the main one), and calls for which it waits."""

    call: int
    stream: int
    after: tuple[int, ...]


class Interleaved(Call):
    """Calls of several equal steps: calls with dependents in order on the main stream, all others on side streams.

    stages : stages of a step that follows an equal step, in an order in which one stream could run them.
    """

    name = "interleaved steps"

    def __init__(self, device: Device, stages: Sequence[Stage], steps: int) -> None:
        self.calls = [call for stage in stages for call in stage.launches]
        waits = dependences(self.calls)
        self.scheduled = schedule(waits, on_side_of_steps(stages, waits), steps)
        self.device = device
        self.sides = [device.new_stream() for _ in range(max((each.stream for each in self.scheduled), default=0))]

    def send(self, stream: Stream | None = None) -> None:
        main = stream or self.device.stream
        streams, begun = [main, *self.sides], main.record()
        for side in self.sides:
            side.wait(begun)
        waited_for = {number for each in self.scheduled for number in each.after}
        ended: dict[int, Event] = {}
        for number, each in enumerate(self.scheduled):
            for earlier in each.after:
                streams[each.stream].wait(ended[earlier])
            self.calls[each.call].send(streams[each.stream])
            if number in waited_for:
                ended[number] = streams[each.stream].record()
        for side in self.sides:
            main.wait(side.record())


def dependences(calls: Sequence[Call]) -> list[list[int]]:
    """Direct dependences of each call of a step, as distances back in the sequence of all calls.

    A call that writes anything depends on itself in the previous step, and so on all that precedes it: two steps
    back are enough.
    """
    count = len(calls)
    meet = [[depends(calls[i], calls[j]) for j in range(i + 1)] for i in range(count)]
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


def on_side_of_steps(stages: Sequence[Stage], waits: list[list[int]]) -> list[bool]:
    """True for each call of an interleaved step that runs on a side stream.

    These are the calls of `on_side_stream`, the calls that depend on nothing in their own step, such as the gathering
    of samples, and the updates on which the next step's first call on the main stream does not depend.
    """
    computing = iter(on_side_stream([stage for stage in stages if stage.phase not in USING]))
    sides = [
        side
        for stage in stages
        for side in (next(computing) if stage.phase not in USING else [False] * len(stage.launches))
    ]
    sides = [side or all(back > number for back in waits[number]) for number, side in enumerate(sides)]
    calls = [(stage.phase, call) for stage in stages for call in stage.launches]
    first = next((call for (_, call), side in zip(calls, sides, strict=True) if not side), None)
    return [
        side or (phase == "update" and first is not None and not depends(first, call))
        for (phase, call), side in zip(calls, sides, strict=True)
    ]


def schedule(waits: list[list[int]], on_side: list[bool], steps: int) -> list[ScheduledCall]:
    """Calls of several steps, each on the main stream, an idle side stream, or else the least recently used one."""
    out: list[ScheduledCall] = []
    lengths, latest = [0], [-1]  # calls on each stream, and the number of the last one
    ended: list[list[int]] = []  # by number: how many calls of each stream have ended when it has
    for number in range(len(waits) * steps):
        call = number % len(waits)
        after = [number - back for back in waits[call] if back <= number]
        idle = [
            stream
            for stream in range(1, len(lengths))
            if max((_ended_on(ended[each], stream) for each in after), default=0) == lengths[stream]
        ]
        if not on_side[call]:
            stream = 0
        elif idle:
            stream = max(idle, key=lambda each: latest[each])
        elif len(lengths) <= SIDES:
            stream = len(lengths)
            lengths.append(0)
            latest.append(-1)
        else:
            stream = min(range(1, SIDES + 1), key=lambda each: latest[each])
        before = ended[latest[stream]] if latest[stream] >= 0 else []  # the stream has waited for these already
        others = tuple(
            each for each in after if _ended_on(before, out[each].stream) < _ended_on(ended[each], out[each].stream)
        )
        lengths[stream] += 1
        latest[stream] = number
        known = [
            max((_ended_on(counts, each) for counts in (before, *(ended[one] for one in after))), default=0)
            for each in range(len(lengths))
        ]
        known[stream] = lengths[stream]
        ended.append(known)
        out.append(ScheduledCall(call, stream, others))
    return out


def _ended_on(counts: list[int], stream: int) -> int:
    """Number of calls of a stream that have ended; 0 for a stream that began later."""
    return counts[stream] if stream < len(counts) else 0
