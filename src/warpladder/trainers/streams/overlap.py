"""Stages of a step that overlap: what nobody waits for runs on side streams, as the memory that launches touch allows."""

from __future__ import annotations

from ...device import Call, Device, Event, Stream
from ..kernelwise.chain import Stage

#: Phases in which gradients are used, behind all that computes them.
USING = ("sum", "update")


class Overlapped(Call):
    """Stages in order, but for what may run beside others: that goes to other streams, which are waited for where it is
    needed.

    What segments prepare from their parameters is needed by their own forward pass, and the samples are brought in
    meanwhile. A weight's gradient is needed by nobody but the update, and one layer's alone seldom fills a GPU: two
    segments take turns at the streams.
    """

    name = "overlapped calls"

    def __init__(self, device: Device, stages: list[Stage]) -> None:
        self.device, self.stages = device, stages
        self.beside = beside(stages)
        self.sides = device.new_stream(), device.new_stream()

    def send(self, stream: Stream | None = None) -> None:
        main = stream or self.device.stream
        prepared: dict[range, Event] = {}
        used = 0
        for stage, where in zip(self.stages, self.beside, strict=True):
            side = self.sides[used % 2]
            for number, (call, aside) in enumerate(zip(stage.launches, where, strict=True)):
                if stage.phase == "forward" and stage.layers in prepared and self._needs(stage, number):
                    main.wait(prepared.pop(stage.layers))
                if aside:
                    side.wait(main.record())
                call.send(side if aside else main)
            used += any(where)
            if stage.phase == "prepare":
                prepared[stage.layers] = side.record()
        for side in self.sides[:used]:
            main.wait(side.record())

    def _needs(self, stage: Stage, number: int) -> bool:
        """Whether a call of a forward pass, by its number, has to wait for what its segment prepared; the last one
        does, so that all behind the stage may.
        """
        ours = [
            call
            for other in self.stages
            if other.phase == "prepare" and other.layers == stage.layers
            for call in other.launches
        ]
        return number == len(stage.launches) - 1 or any(waits(call, stage.launches[number]) for call in ours)


def beside(stages: list[Stage]) -> list[list[bool]]:
    """For each call of each stage, whether it runs on a side stream.

    All that is prepared does. So does a call that no later one has to wait for, unless that is beside too and in the
    same stage, where one stream keeps them in order; but for the last calls of the last stage, which nothing of their
    own stage follows.
    """
    found = [[stage.phase == "prepare"] * len(stage.launches) for stage in stages]
    later: list[tuple[int, bool, Call]] = []
    for number in reversed(range(len(stages))):
        for place in reversed(range(len(stages[number].launches))):
            call = stages[number].launches[place]
            if not found[number][place]:
                found[number][place] = not any(
                    waits(call, other) and not (aside and stage == number) for stage, aside, other in later
                )
            later.append((number, found[number][place], call))
    last: list[bool] = next(
        (found[at] for at in reversed(range(len(stages))) if found[at] and stages[at].phase != "prepare"), []
    )
    for place in reversed(range(len(last))):
        if not last[place]:
            break
        last[place] = False
    return found


def waits(call: Call, later: Call) -> bool:
    """Whether a later call has to wait for this one: always, where it is not known what they touch."""
    return call.touches is None or later.touches is None or call.touches.before(later.touches)
