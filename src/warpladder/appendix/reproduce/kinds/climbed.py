"""Figures and curves of a climb's results, and the smallest swept value from which one rung is faster than another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from ....results import DISTURBED, History, Results, RungResult
from ....results.sweep import Sweep
from ..experiments import NOT_QUICK, Found, canonical, no_measure
from ..results import Value
from . import averages


@dataclass(frozen=True)
class Climbed(Found):
    """Figures of climbs, one climb for each swept value.

    order : names of the rungs. full : epochs and samples to which times are scaled up, as in `TrainingTask.full`.
    """

    sweep: Sweep
    order: tuple[str, ...]
    full: dict[str, int]

    @property
    def whole(self) -> bool:  # type: ignore[override]
        """True if every climb is complete, with every rung."""
        return not self.sweep.missing and all(
            not task.stopped and {r.name for r in task.rungs} >= set(self.order) for task in self.sweep.tasks
        )

    def _rung(self, rung: str) -> tuple[Results, RungResult] | None:
        name, _, heading = rung.partition("@")
        name = canonical(name)
        tasks = dict(self.sweep.items())
        task = tasks.get(heading) if heading else self.sweep.tasks[0]
        found = None if task is None else next((each for each in task.rungs if each.name == name), None)
        return None if found is None or task is None else (task, found)

    @property
    def others(self) -> float:
        """Number of processors that other processes used while the most disturbed rung was timed."""
        return max((task.disturbance for task in self.sweep.tasks), default=0.0)

    @property
    def disturbed(self) -> bool:
        """True if the times of a rung are disturbed."""
        return any(task.disturbed for task in self.sweep.tasks)

    def value(self, rung: str, measure: str) -> Value | None:
        """Figure of `MEASURES` or of `COUNTED`; a rung of a sweep is named with its value, as "naive@batch_size=32"."""
        if measure.startswith("from:"):
            return self._crossing(rung, *measure.split(":", 2)[1:])
        if measure not in MEASURES and not is_counted(measure):
            raise no_measure(measure, (*MEASURES, *COUNTED))
        found = self._rung(rung)
        if found is None:
            return None
        results, result = found
        if measure.startswith("held:"):
            held = (result.held_bytes or {}).get(measure.removeprefix("held:"))
            return None if held is None else Value(here=float(held))
        value: Value | None
        if measure.startswith("seconds_of:"):
            samples = float(measure.removeprefix("seconds_of:"))
            value = _timed(result, samples / results.data.train)
            value = value and replace(value, scaled=samples != results.data.train or value.scaled)
        else:
            value = MEASURES[measure](results, result)
            factor = self._factor(measure, results)
            value = value if value is None or factor == 1 else scaled(value, factor)
        return value and replace(value, disturbed=self.is_time(measure) and is_disturbed(results, result))

    def is_time(self, measure: str) -> bool:
        return "seconds" in measure.replace("floor_seconds", "") or measure in ("floor_share", "flops_per_second")

    def _crossing(self, rung: str, measure: str, other: str) -> Value | None:
        own, others = (dict(zip(*(self.curve(each, measure) or ((), ())), strict=True)) for each in (rung, other))
        least = None
        for at in sorted(own.keys() & others.keys(), reverse=True):
            if not own[at] < others[at]:
                break
            least = at
        return None if least is None else Value(here=least)

    def without(self, rung: str, measure: str) -> str:
        if not measure.startswith("from:"):
            return self.reason(rung)
        name, other = measure.split(":", 2)[1:]
        there = [self.curve(each, name) for each in (rung, other)]
        return f"at none of these sizes faster than {other}" if all(there) else self.reason(rung) or self.reason(other)

    def _factor(self, measure: str, results: Results) -> float:
        """Factor from a shortened experiment to the whole one for times; 1 for other measures."""
        if not self.full or measure not in _EPOCHS + _TRAININGS + ("step_seconds",):
            return 1.0
        rows = (
            1.0
            if self.sweep.headings[0].startswith("limit=")
            else self.full.get("samples", results.data.train) / results.data.train
        )
        if measure == "step_seconds":
            return rows if results.config.get("batch_size") is None else 1.0
        return rows * (self.full["epochs"] / max(1, results.epochs) if measure in _TRAININGS else 1.0)

    def curve(self, rung: str, measure: str) -> tuple[list[float], list[float]] | None:
        """Points of a curve: over epochs "loss", "accuracy" or "seconds" (from the start); over the values of a sweep
        any measure; or "MEASURE against MEASURE".
        """
        if measure not in BY_EPOCH:
            there = self._swept(rung, measure)
            return ([x for _, x, _ in there], [y for _, _, y in there]) if there else None
        found = self._rung(rung)
        history = None if found is None else found[1].history
        if found is None or history is None:
            return None
        by_epoch = points_of(history, measure, found[0].epochs)
        factor = self._factor("epoch_seconds", found[0]) if measure == "seconds" else 1.0
        return by_epoch and (by_epoch[0], [y * factor for y in by_epoch[1]])

    def marks(self, rung: str, measure: str) -> tuple[str, ...]:
        return tuple(value for value, _, _ in self._swept(rung, measure)) if " against " in measure else ()

    def _swept(self, rung: str, measure: str) -> list[tuple[str, float, float]]:
        """Value, x and y of each climb of a sweep in which the rung has the measure; x is the swept value, or the
        second measure of "MEASURE against MEASURE".
        """
        measure, _, against = measure.partition(" against ")
        points = []
        for value in (heading.partition("=")[2] for heading, _ in self.sweep.items() if heading):
            place = f"{rung}@{self.sweep.headings[0].partition('=')[0]}={value}"
            y, x = self.value(place, measure), self.value(place, against) if against else Value(here=float(value))
            if y is not None and x is not None and y.here is not None and x.here is not None:
                points.append((value, x.here, y.here))
        return points

    def reason(self, rung: str) -> str:
        found = self._rung(rung)
        if found is not None:
            return found[1].reason
        cut = (
            rung.partition("@")[2] not in ("", *self.sweep.headings)
            or canonical(rung.partition("@")[0]) not in self.order
        )
        return NOT_QUICK if cut and self.full else ""

    def name_of(self, rung: str) -> str:
        found = self._rung(rung)
        return canonical(rung) if found is None else found[1].name


def is_disturbed(results: Results, result: RungResult) -> bool:
    """True if other processes used more than `DISTURBED` of the cores while a rung was timed."""
    return result.timing is not None and not result.timing.disturbance <= DISTURBED * results.machine.cores


#: Measures with an object after a colon: bytes of a component, seconds of a number of training samples, and the
#: smallest value of a sweep from which on the rung's measure is always below another rung's.
COUNTED = ("held:COMPONENT", "seconds_of:SAMPLES", "from:MEASURE:RUNG")


def is_counted(measure: str) -> bool:
    """True if a measure has an object after a colon, as "held:data"."""
    what, _, rest = measure.partition(":")
    return (what == "held" and bool(rest)) or (what == "seconds_of" and rest.isdigit() and int(rest) > 0)


#: Curves over the epochs of a training.
BY_EPOCH = ("loss", "accuracy", "seconds")

#: Measures in seconds of an epoch, and in seconds of all epochs.
_EPOCHS = "epoch_seconds", "later_seconds"
_TRAININGS = "train_seconds", "total_seconds"


def points_of(history: History, measure: str, epochs: int) -> tuple[list[float], list[float]] | None:
    """Points of a curve over epochs, from 1 to the last required one: loss, accuracy, or seconds from the start.
    Repetitions may have trained more epochs.
    """
    if measure == "seconds":
        ends = list(accumulate(history.seconds[:epochs]))
        return [float(at) for at in range(1, len(ends) + 1)], ends
    values = (getattr(history, measure) or ())[:epochs]
    there = [(float(at), value) for at, value in enumerate(values, 1) if value is not None]
    return ([x for x, _ in there], [y for _, y in there]) if there else None


def scaled(value: Value, factor: float) -> Value:
    """Figure of a part of the work, multiplied by `factor` for the whole."""
    assert value.here is not None
    most, least = (None if end is None else end * factor for end in (value.most, value.least))
    return replace(value, here=value.here * factor, least=least, most=most, scaled=True)


def _timed(result: RungResult, factor: float) -> Value | None:
    timing = result.timing
    if timing is None:
        return None
    return Value(
        here=factor * timing.seconds_per_epoch,
        least=factor * min(timing.epochs),
        most=factor * max(timing.epochs),
        scaled=timing.scaled,
    )


def _plain(name: str) -> Any:
    def value(results: Results, result: RungResult) -> Value | None:
        found = getattr(result, name)
        return None if found is None else Value(here=float(found))

    return value


def _of_history(name: str, at: int) -> Any:
    def value(results: Results, result: RungResult) -> Value | None:
        history = result.history
        if history is None or (at < 0 and len(history.seconds) < results.epochs):  # no last epoch yet
            return None
        points = points_of(history, name, results.epochs)
        return None if points is None else Value(here=points[1][at])

    return value


def _held(results: Results, result: RungResult) -> Value | None:
    return Value(here=float(sum(result.held_bytes.values()))) if result.held_bytes else None


def _rate(results: Results, result: RungResult) -> Value | None:
    return None if result.timing is None else Value(here=result.timing.samples_per_second)


#: Measures of a rung in a climb, by name, in base units.
MEASURES: dict[str, Any] = {
    "epoch_seconds": lambda results, result: _timed(result, 1.0),
    "train_seconds": lambda results, result: _timed(result, float(results.epochs)),
    "later_seconds": averages.later_epoch,
    "total_seconds": averages.total,
    "step_seconds": lambda results, result: result.timing and _timed(result, 1 / result.timing.epoch_steps),
    "samples_per_second": _rate,
    "test_seconds": _plain("test_seconds"),
    "test_accuracy": _plain("test_accuracy"),
    "test_loss": _plain("test_loss"),
    "first_loss": _of_history("loss", 0),
    "last_loss": _of_history("loss", -1),
    "last_accuracy": _of_history("accuracy", -1),
    "peak_bytes": _plain("peak_rss_bytes"),
    "held_bytes": _held,
    "floor_seconds": _plain("floor_seconds"),
    "floor_share": lambda results, result: None if (share := results.share(result)) is None else Value(here=share),
    "flops_per_second": lambda results, result: (
        result.flops and result.timing and Value(here=result.flops * result.timing.samples_per_second)
    ),
    "parameters": lambda results, result: Value(here=float(results.net.parameters)),
    "error": lambda results, result: (
        None if result.check is None or result.check.error is None else Value(here=result.check.error)
    ),
    "bound": lambda results, result: (
        None if result.check is None or result.check.bound is None else Value(here=result.check.bound)
    ),
}
