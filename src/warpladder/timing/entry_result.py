"""Result of one timed rung, and the smallest time that is possible for it."""

from __future__ import annotations

import math

from ..ladder import is_peer
from ..nets import CrossEntropyLoss
from ..results import History, Machine, RungResult, Timing
from .entry import TimedEntry, line
from .gpu_clock import POWER_LIMIT
from .turn import Refused


def doubt(entry: TimedEntry, machine: Machine) -> str | None:
    """Reason why the fastest repetition is impossible: its time is below the floor; None if it is possible.

    Stores the floor in seconds: the rung's declared FLOPs at the peak of its unit and precision.
    """
    peak = entry.peak or machine.peak(entry.rung.precision)
    floor = entry.found["flops"] / peak
    entry.found["floor_seconds"] = floor * entry.task.samples(entry.task.steps)
    fastest = min(entry.seconds) / entry.samples
    if fastest >= floor:
        return None
    return (
        f"{fastest * 1e6:.3g} us a sample is below the floor of {floor * 1e6:.3g} us: {entry.found['flops']:,} FLOPs "
        f"at the {peak / 1e9:.0f} GFLOP/s that {'its GPU' if entry.peak else 'this machine'} can do in "
        f"{entry.rung.precision}"
    )


def believe(entry: TimedEntry, machine: Machine) -> None:
    """Refuse an entry's time if it is below its floor."""
    with entry.guarded("floor"):
        if (reason := doubt(entry, machine)) is not None:
            raise Refused(reason)


def result(entry: TimedEntry, machine: Machine, stopped: str = "") -> RungResult:
    """Result of an entry, as it is stored; `stopped` is the reason why the climb ended early, or empty."""
    found, task, rung = dict(entry.found), entry.task, entry.rung
    if entry.alive and not entry.seconds:
        reason = f"{'proven, but not timed' if 'check' in found else 'not reached'}: {line(stopped)}"
        found |= {"status": "missing", "reason": reason}
    elif entry.alive and (reason := doubt(entry, machine) or ""):
        found |= {"status": "refused", "reason": reason}
    elif entry.alive:
        found |= {"status": "timed", "timing": entry.timing(), "floor_seconds": entry.found["floor_seconds"]}
        times = len(entry.seconds)
        missing = [f"timed {times} of {task.repeats} times"] if times < task.repeats else []
        missing += _set_aside(found["timing"])
        missing += ["its bits were not compared with an untimed run's"] if not entry.is_repeated else []
        found["reason"] = "; ".join(filter(None, (found.get("reason", ""), *missing)))
    return RungResult(
        rung.name,
        rung.title,
        found.pop("idea", rung.idea),
        is_peer(rung),
        tuple(rung.deviations),
        precision=rung.precision,
        sums=rung.sums,
        unit=found.pop("unit", rung.unit),
        history=_history(entry),
        sources=tuple(entry.sources),
        **found,
    )


def _set_aside(timing: Timing) -> list[str]:
    """Remarks: one on repetitions at another GPU clock than the others, one on a lowered clock."""
    remarks = []
    if others := timing.set_aside:
        clocks = [f"{clock:,.0f}" for clock in timing.clocks or ()]
        usual = next(clock for i, clock in enumerate(clocks) if i not in others)
        odd = ", ".join(clocks[i] for i in others)
        remarks.append(
            f"{len(others)} of {len(clocks)} repetitions are set aside: the GPU's clock was {odd} MHz, not {usual}"
        )
    reasons = {reason for each in timing.slowed or () for reason in each.split(", ")}
    if slowed := sorted(reasons - {"", POWER_LIMIT}):  # every busy GPU reaches the power limit
        remarks.append(f"the GPU lowered its clock: {', '.join(slowed)}")
    return remarks


def _history(entry: TimedEntry) -> History | None:
    """History of the consecutive epochs from the first; None if one is missing or not finite."""
    whole = [entry.epochs[epoch] for epoch in range(len(entry.epochs)) if epoch in entry.epochs]
    if not whole or not all(math.isfinite(value) for epoch in whole for value in epoch if value is not None):
        return None
    loss, accuracy, seconds = zip(*whole, strict=True)
    return History(loss, accuracy if isinstance(entry.task.net.loss, CrossEntropyLoss) else None, seconds)
