"""The tuner: times the ways there are to compute each layer of a net on the device that trains it, and takes the
fastest.

Which one is chosen depends on a clock, and the last bits of what is trained on the choice. So it is made once: a run
keeps it and goes on with it (`Trainer.tuned`), and other runs of the same shapes on the same device find it
(`plan_cache`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

from ...checkpoint.plan import NetPlan, Record, net_plan
from ...device import Call, Device
from ...device.dry_run import RecordingDevice
from ...device.timing import in_turn
from ...errors import OutOfMemoryError
from ...ops.engine.chain import timed
from ...ops.engine.segments import Segment
from ..kernelwise.chain import Chain
from . import plan_cache
from .candidates import Choice, Way, products, segments

#: What a way must win by over those before it, so that noise does not decide.
MARGIN = 0.02

#: Multiply-adds from which a choice is timed: fewer take less than a tenth of the time of the launch that does them.
WORTH = 3_000_000


def tune(
    chain: Chain, rivals: tuple[type[Segment], ...], stored: NetPlan | None, say: Callable[[str], None] | None
) -> NetPlan | None:
    """Choose the segments of a chain that compute layers alone, and the tiles of their products, for as many samples as
    it holds.

    Fewer samples, an epoch's last batch, are computed by the same segments and by the model's tiles: an epoch has one
    of them. Activations and gradients are overwritten; parameters, momentum and the log of steps are not touched.

    Parameters
    ----------
    chain : Chain
    rivals : tuple of Segment types
        That may take a segment's place.
    stored : NetPlan or None
        The plan of the run that goes on: what it says is done, and not timed.
    say : callable or None
        Told when timing begins and ends.

    Returns
    -------
    NetPlan or None
        What is now done; None where the device's times mean nothing, or nothing is worth timing.
    """
    device = chain.device
    if stored is not None and stored.hardware != device.hardware:
        follows = "the model's are used here" if device.hardware is None else "they are timed again"
        warnings.warn(
            f"the stored plans were timed on {stored.hardware}, and this is {device.hardware or device.name}: {follows}",
            stacklevel=2,
        )
        stored = None
    if device.hardware is None:
        return None
    tuner = (DryTuner if isinstance(device, RecordingDevice) else Tuner)(chain, device.hardware, stored, say)
    # A segment that is known takes its place first, so that only tiles of segments that are used are asked for; the
    # others compete with their best.
    every = [choice for choice in segments(chain, rivals) if choice.work >= WORTH]
    unknown = [choice for choice in every if not tuner.follow(choice)]
    for tiles in products(chain, chain.multiplying):
        tuner.settle(tiles)
    for choice in unknown:
        tuner.settle(choice)
    tuner.end()
    used = [tiles for tiles in products(chain, chain.multiplying) if tiles.work >= WORTH]
    done: list[Record] = [*(choice.told(choice.now) for choice in every), *(tiles.told(tiles.now) for tiles in used)]
    return net_plan(device.hardware, done) if done else None


class Tuner:
    """Settles one choice after the other: as the run that goes on had it, as an earlier one found it, or by timing.

    chain : what is tuned.
    hardware : of its device.
    stored, say : as `tune`.
    """

    def __init__(self, chain: Chain, hardware: str, stored: NetPlan | None, say: Callable[[str], None] | None) -> None:
        self.chain, self.hardware, self.stored, self.say = chain, hardware, stored, say
        self.device = chain.device
        self.began: float | None = None  # with timing

    def settle(self, choice: Choice[Way]) -> None:
        """Make a choice that is worth it."""
        if choice.work < WORTH or self.follow(choice):
            return
        if self.began is None:
            self._begin()
        way = fastest(self.device, choice)
        choice.settle(way)
        plan_cache.write(choice.key(self.hardware), net_plan(self.hardware, [choice.told(way)]))

    def follow(self, choice: Choice[Way]) -> bool:
        """Do as the run that goes on did, or as an earlier one found to be fastest; whether either is known."""
        way = self._stored(choice) or self._found(choice)
        if way is not None:
            choice.settle(way)
        return way is not None

    def end(self) -> None:
        """Say how long timing took."""
        if self.began is not None and self.say is not None:
            self.say(
                f"Timed in {perf_counter() - self.began:.1f} s; later runs find the result in {plan_cache.PLANS.place()}"
            )

    def _begin(self) -> None:
        """Leave numbers in the buffers as a step would: what kernels read of places must be places."""
        if self.say is not None:
            self.say(f"Timing the ways to compute this net's layers on {self.device.name}")
        self.began = perf_counter()
        own = [self.chain.segments[number] for number in self.chain.layered]
        for array in (own[0].buffers.x, own[-1].buffers.dy) if own else ():
            self.device.fill(array, 0x3F)  # 0.747 in every element
        part = timed(self.chain.capacity)
        for segment in own:
            for call in (*segment.prepare(part), *segment.forward(part)):
                call.send()
        for segment in reversed(own):
            for call in segment.backward(part) if segment.buffers.dy is not None else ():
                call.send()

    def _stored(self, choice: Choice[Way]) -> Way | None:
        records = self.stored.records if self.stored is not None else ()
        told = next((told for told in records if choice.concerns(told)), None)
        way = choice.find(told) if told is not None else None
        if told is not None and way is None:
            warnings.warn(
                f"the stored plan of {choice.name} is none that this version has: it is chosen anew", stacklevel=2
            )
        return way

    def _found(self, choice: Choice[Way]) -> Way | None:
        key = choice.key(self.hardware)
        kept = plan_cache.read(key)
        if kept is None:
            return None
        mine = kept.hardware == self.hardware and len(kept.records) == 1
        way = (
            choice.find(replace(kept.records[0], layer=choice.layer)) if mine else None
        )  # the same for any layer of this shape
        if way is None:
            warnings.warn(
                f"plan {plan_cache.PLANS.path(key)} is one of something else, and is timed again", stacklevel=2
            )
        return way


class DryTuner(Tuner):
    """A tuner for dry runs: it requests the kernels of all candidates, and times none of them."""

    def settle(self, choice: Choice[Way]) -> None:
        if choice.work < WORTH or self.follow(choice):
            return
        first, *others = choice.candidates()
        for way in (*others, first):
            choice.calls(way)
        choice.settle(first)


def fastest(device: Device, choice: Choice[Way]) -> Way:
    """The first of the candidates that none after it beats by more than MARGIN."""
    ways: list[Way] = []
    works: list[list[Call]] = []
    for way in choice.candidates():
        try:
            works.append(choice.calls(way))
        except OutOfMemoryError:  # an op that there is no room for beside the others; the first is bound already
            continue
        ways.append(way)
    seconds = in_turn(device, works)
    return next(way for way, taken in zip(ways, seconds, strict=True) if taken <= min(seconds) * (1 + MARGIN))
