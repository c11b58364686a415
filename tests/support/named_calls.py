"""Calls and streams that record what is sent where, and nets' steps as such calls."""

from __future__ import annotations

from typing import Any, ClassVar
from unittest import mock

from clockwork import Clockwork
from strategies import Case

from warpladder.device import Call, Stream
from warpladder.device.touches import Touches
from warpladder.ops.engine.segments import KernelTable
from warpladder.trainers.graphed import GraphedTrainer
from warpladder.trainers.kernelwise.chain import Stage
from warpladder.trainers.streams import Overlapped


class Told(Stream):
    """A stream that tells what it is asked for, and knows which calls have ended before what comes next: so many of
    each stream.
    """

    def __init__(self, name: str, told: list[str]) -> None:
        self.name, self.told = name, told
        self.ended: dict[str, int] = {name: 0}

    def record(self) -> Any:
        return self.name, dict(self.ended)

    def wait(self, event: Any) -> None:
        name, ended = event
        self.told.append(f"{self.name} waits for {name}")
        self.ended |= {stream: max(count, self.ended.get(stream, 0)) for stream, count in ended.items()}

    def synchronize(self) -> None:
        raise AssertionError("nothing is waited for on the host")


class Named(Call):
    """A call that tells on which stream it is sent.

    reads, writes : the places that it touches, by name; without either it is not known what it touches.
    """

    places: ClassVar[dict[str, int]] = {}

    def __init__(self, name: str, reads: str = "", writes: str = "", touches: Touches | None = None) -> None:
        self.what, self.touches = name, touches
        if reads or writes:
            self.touches = Touches(*(tuple(self._place(place) for place in some.split()) for some in (reads, writes)))

    @classmethod
    def _place(cls, name: str) -> range:
        at = 100 * cls.places.setdefault(name, len(cls.places))
        return range(at, at + 100)

    @property
    def name(self) -> str:
        return self.what

    def send(self, stream: Stream | None = None) -> None:
        assert isinstance(stream, Told)
        stream.told.append(f"{self.what} on {stream.name}")
        self.after = dict(stream.ended)  # what has ended when it begins
        stream.ended[stream.name] += 1
        self.place = stream.name, stream.ended[stream.name]


def sent(stages: list[Stage]) -> tuple[list[str], Told]:
    """The same, and the stream that goes on afterwards."""
    told: list[str] = []
    sides = iter(("first", "second"))
    device = mock.Mock(new_stream=lambda: Told(next(sides), told))
    main = Told("main", told)
    Overlapped(device, stages).send(main)
    return told, main


def copied(stage: Stage) -> Stage:
    """The stage with calls that touch the same, and tell where they are sent."""
    return Stage(stage.phase, stage.layers, [Named(call.name, touches=call.touches) for call in stage.launches])


def ordered(stages: list[Stage]) -> list[str]:
    """Send a step's stages: every call has to begin after the end of all that it has to wait for. Gives what was asked
    of which stream.
    """
    stages = [copied(stage) for stage in stages]
    told, main = sent(stages)
    calls: list[Any] = [call for stage in stages for call in stage.launches]
    for number, call in enumerate(calls):
        assert call.touches is not None
        for earlier in calls[:number]:
            stream, count = earlier.place
            if earlier.touches.before(call.touches):
                assert call.after.get(stream, 0) >= count, (
                    f"{call.name} runs beside {earlier.name}, which it has to wait for"
                )
    for call in calls:
        stream, count = call.place
        assert main.ended.get(stream, 0) >= count, f"nobody waits for {call.name}"
    return told


def steps(drawn: Case, table: KernelTable) -> list[list[str]]:
    """What is asked of which stream for each kind of slice of an epoch."""
    out = []
    with GraphedTrainer(
        drawn.net, drawn.config, drawn.state, Clockwork(lambda launch: 1e-5, hardware=None), table
    ) as trainer:
        trainer.load(drawn.dataset)
        for part in trainer.parts():
            out.append(ordered([stage for stage in trainer.stages(part) if stage.phase not in ("sum", "update")]))
    return out
