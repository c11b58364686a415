"""Tuner: it times the variants of each layer on the training device, and uses the fastest.

The choice depends on a clock, and the last bits of trained weights on the choice. So it is made once: a run stores it
and resumes with it (`Trainer.tuned`), and equal runs on an equal device find it in `plan_cache`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

from ...checkpoint.plan import NetPlan, Record, net_plan
from ...device import Call, Device
from ...device.dry_run import RecordingDevice
from ...device.timing import in_turn
from ...errors import OutOfMemoryError
from ...errors.warning import warn
from ...ops.engine.chain import timed
from ...ops.engine.segments import KernelTable
from ..kernelwise.chain import Chain
from . import plan_cache
from .candidates import Choice, Variant, products, segments

#: Share of the time by which a variant must be faster than those before it, so that noise does not decide.
MARGIN = 0.02

#: Multiply-adds from which a choice is timed: fewer take less than a tenth of the time of their launch.
WORTH = 3_000_000


def tune(
    chain: Chain, table: KernelTable, below: frozenset[int], stored: NetPlan | None, say: Callable[[str], None] | None
) -> NetPlan | None:
    """Choose the segments of a chain that compute layers alone, and the tiles of their products, for the samples that
    it holds. Returns None if the device's times mean nothing, or no choice is worth timing.

    For fewer samples, in an epoch's last batch, the same segments are used with the cost model's tiles. Timing
    overwrites activations, gradients and running statistics, but not parameters, momentum and the log of steps.

    table, below : table of the chain's segments, with their alternatives, and layers on the rung below.
    say : called when timing begins and ends.
    stored : plan of the resumed run, whose choices are used without timing.
    """
    device = chain.device
    if stored is not None and stored.hardware != device.hardware:
        follows = "the model's are used here" if device.hardware is None else "they are timed again"
        warn(
            f"the stored plans were timed on {stored.hardware}, and this is {device.hardware or device.name}: {follows}"
        )
        stored = None
    if device.hardware is None:
        return None
    tuner = (DryTuner if isinstance(device, RecordingDevice) else Tuner)(chain, device.hardware, stored, say)
    # Known segments are bound first, so that only the tiles of segments in use are timed. The other segments are timed
    # with their best tiles.
    every = [choice for choice in segments(chain, table, below) if choice.work >= WORTH]
    unknown = [choice for choice in every if not tuner.follow(choice)]
    for tiles in products(chain, chain.multiplying):
        tuner.settle(tiles)
    for choice in unknown:
        tuner.settle(choice)
    tuner.end()
    used = [tiles for tiles in products(chain, chain.multiplying) if tiles.work >= WORTH]
    done: list[Record] = [
        *(choice.record(choice.now) for choice in every),
        *(tiles.record(tiles.now) for tiles in used),
    ]
    return net_plan(device.hardware, done) if done else None


class Tuner:
    """Tuner that settles one choice after another: from the resumed run's plan, from the plan cache, or by timing."""

    def __init__(self, chain: Chain, hardware: str, stored: NetPlan | None, say: Callable[[str], None] | None) -> None:
        self.chain, self.hardware, self.stored, self.say = chain, hardware, stored, say
        self.device = chain.device
        self.began: float | None = None  # with timing

    def settle(self, choice: Choice[Variant]) -> None:
        """Settle a choice, if it is worth timing."""
        if choice.work < WORTH or self.follow(choice):
            return
        if self.began is None:
            self._begin()
        variant = fastest(self.device, choice)
        choice.settle(variant)
        plan_cache.write(choice.key(self.hardware), net_plan(self.hardware, [choice.record(variant)]))

    def follow(self, choice: Choice[Variant]) -> bool:
        """Use the variant of the resumed run or of the plan cache; returns True if there is one."""
        variant = self._stored(choice) or self._found(choice)
        if variant is not None:
            choice.settle(variant)
        return variant is not None

    def end(self) -> None:
        """Report the duration of timing."""
        if self.began is not None and self.say is not None:
            self.say(
                f"Timed in {perf_counter() - self.began:.1f} s; "
                f"later runs find the result in {plan_cache.PLANS.place()}"
            )

    def _begin(self) -> None:
        """Fill the buffers as in a step, since kernels read indices, which must be valid."""
        if self.say is not None:
            self.say(f"Timing the kernels of this net's layers on {self.device.name}")
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

    def _stored(self, choice: Choice[Variant]) -> Variant | None:
        records = self.stored.records if self.stored is not None else ()
        stored = next((record for record in records if choice.matches(record)), None)
        variant = choice.find(stored) if stored is not None else None
        if stored is not None and variant is None:
            warn(f"the stored plan of {choice.name} is none of this version: it is chosen anew")
        return variant

    def _found(self, choice: Choice[Variant]) -> Variant | None:
        key = choice.key(self.hardware)
        kept = plan_cache.read(key)
        if kept is None:
            return None
        mine = kept.hardware == self.hardware and len(kept.records) == 1
        variant = (
            choice.find(replace(kept.records[0], layer=choice.layer)) if mine else None
        )  # the same for any layer of this shape
        if variant is None:
            warn(f"plan {plan_cache.PLANS.path(key)} is one of something else, and is timed again")
        return variant


class DryTuner(Tuner):
    """Tuner for dry runs: it requests the kernels of all candidates, and times none of them."""

    def settle(self, choice: Choice[Variant]) -> None:
        if choice.work < WORTH or self.follow(choice):
            return
        first, *others = choice.candidates()
        for variant in (*others, first):
            choice.calls(variant)
        choice.settle(first)


def fastest(device: Device, choice: Choice[Variant]) -> Variant:
    """First candidate that no later one beats by more than MARGIN."""
    variants: list[Variant] = []
    works: list[list[Call]] = []
    for variant in choice.candidates():
        try:
            works.append(choice.calls(variant))
        except OutOfMemoryError:  # the others take the memory; the first variant is bound already
            continue
        variants.append(variant)
    seconds = in_turn(device, works)
    return next(
        variant for variant, taken in zip(variants, seconds, strict=True) if taken <= min(seconds) * (1 + MARGIN)
    )
