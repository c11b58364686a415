"""Experiments that climb: rungs proven, timed in turns, trained for their accuracy and weighed, on one task or on one for each value of a setting."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar

from ..bench import climb
from ..bench.contender import finite
from ..errors import WarpladderError
from ..ladder import find
from ..nets import with_hidden
from ..results import SCHEMA, Checked, History, Results, RungResult
from ..results.reproduction import Value
from ..results.sweep import Sweep, load
from ..rungs.base import Rung
from ..verify import verify
from . import averages
from .experiments import NOT_QUICK, Bench, Found, Task, canonical, file_of, no_measure, optional

#: A rung that came so far is not measured again: its time is whole, and its bits and its training are behind it.
_WHOLE = "failed", "refused", "unjudged"


@dataclass(frozen=True)
class Climb(Task):
    """A climb.

    repeats, budget : as for `climb`.
    sweep : a setting, limit, or hidden, the width of hidden layers, and its values: one climb for each.
    emulated : rungs among `rungs` that are proven on the emulator where there is no GPU.
    """

    kind: ClassVar[str] = "climbs"
    repeats: int = optional(3)
    budget: float = optional(2.0)
    sweep: dict[str, tuple[int, ...]] = optional({})
    emulated: tuple[str, ...] = optional(())

    @property
    def headings(self) -> list[str]:
        """What each climb is trained with, as "batch_size=32"; one empty text where nothing is swept."""
        return [f"{key}={value}" for key, values in self.sweep.items() for value in values] or [""]

    def measure(self, name: str, bench: Bench) -> None:
        before = self._stored(name, bench.folder)
        headings = self.headings
        tasks: dict[str, Results] = dict(before.items()) if before else {}
        for at, heading in enumerate(headings):

            def keep(results: Results, news: RungResult | None = None, heading: str = heading) -> None:
                tasks[heading] = merged(tasks.get(heading), results, [canonical(rung) for rung in self.rungs])
                # a sweep's climbs stand in its order: those before were made before
                Sweep(SCHEMA, tuple(headings), tuple(tasks[each] for each in headings if each in tasks)).save(file_of(name, bench.folder))
                if news is not None:
                    bench.watcher.news(news)
                bench.written()

            self._climb(heading, tasks.get(heading), bench, keep, at)

    def _climb(self, heading: str, before: Results | None, bench: Bench, keep: Any, at: int) -> None:
        task = self._task(heading)
        have = done(before)
        rungs = [find(rung) for rung in task.rungs if canonical(rung) not in have]
        if not rungs:
            return
        data = task.dataset(bench)
        net = bench.net(self.net, data)
        if heading.startswith("hidden="):
            net = with_hidden(net, int(heading.removeprefix("hidden=")))
        if before is not None and not before.stopped and all(rung.unsupported(net, task.config) for rung in rungs):
            return  # nothing has come since
        results = climb(
            net, data, task.config, rungs, repeats=self.repeats, budget=self.budget, progress=bench.watcher.progress, found=keep, command=""
        )
        emulated = {canonical(each) for each in self.emulated}
        if emulated and at == 0:
            results = replace(
                results,
                rungs=tuple(
                    on_emulator(rung, net, task, data, bench) if rung.name in emulated and rung.status == "unsupported" else rung
                    for rung in results.rungs
                ),
            )
        keep(results)

    def _task(self, heading: str) -> Task:
        key, _, value = heading.partition("=")
        if key == "limit":
            return replace(self, limit=int(value))
        if key == "hidden":
            return self
        return replace(self, settings={**self.settings, key: int(value)}) if key else self

    def found(self, name: str, folder: Path) -> Climbed | None:
        sweep = self._stored(name, folder)
        return None if sweep is None else Climbed(sweep, tuple(canonical(rung) for rung in self.rungs), self.full)

    def check_measure(self, measure: str) -> None:
        known = (*MEASURES, *(f"curve:{curve}" for curve in (*_BY_EPOCH, *(MEASURES if self.sweep else ()))))
        kind, _, rest = measure.partition(":")
        if kind == "from" and rest.partition(":")[0] in MEASURES and canonical(rest.partition(":")[2]) in map(canonical, self.rungs):
            return
        if measure not in known and not _counted(measure) and not self._is_pair(measure):
            raise no_measure(measure, (*known, *COUNTED))

    def _is_pair(self, measure: str) -> bool:
        """Whether this asks for one measure against another, over what is swept: "curve:test_accuracy against train_seconds"."""
        return bool(self.sweep) and {*measure.removeprefix("curve:").split(" against ")} <= MEASURES.keys()

    def _stored(self, name: str, folder: Path) -> Sweep | None:
        return load(file_of(name, folder)) if file_of(name, folder).exists() else None


def done(results: Results | None) -> set[str]:
    """Names of the rungs that need not be measured again. What was not here may have come: an installed package, a GPU."""
    if results is None:
        return set()
    return {
        rung.name
        for rung in results.rungs
        if rung.same_bits is not None or rung.status in _WHOLE or (rung.status == "timed" and not results.stopped)
    }


def merged(before: Results | None, now: Results, order: list[str]) -> Results:
    """A climb with the rungs that an earlier one of the same task has measured, in order."""
    if before is None:
        return now
    here = {rung.name for rung in now.rungs}
    kept = done(before)
    rungs = [*now.rungs, *(rung for rung in before.rungs if rung.name in kept and rung.name not in here)]
    rungs.sort(key=lambda rung: order.index(rung.name) if rung.name in order else len(order))
    return replace(now, rungs=tuple(rungs), sources={**before.sources, **now.sources})


def on_emulator(rung: RungResult, net: Any, task: Task, data: Any, bench: Bench) -> RungResult:
    """A rung that needs a GPU, with the verdict of its proof on the emulator; as it is where it cannot be emulated."""
    found: Rung = find(rung.name)
    if not found.has("device"):
        return rung
    found = found.but(device="emulated")
    config = task.config.but(batch_size=min(task.config.batch(len(data.train_x)), EMULATED))
    bench.say(f"proving {rung.name} on the emulator", 0, 1)
    try:
        if found.unsupported(net, config):
            return rung
        verdict = verify(found.build, net, config, dataset=data, precision=found.precision, sums=found.sums, transforms=found.transforms)
    except WarpladderError as error:
        return replace(rung, reason=f"{rung.reason}; on the emulator: {error}")
    words = "proven on the emulator" if verdict.passed else "not proven on the emulator"
    checked = Checked(
        verdict.passed,
        finite(verdict.error),
        finite(verdict.bound),
        f"{words}, in batches of {config.batch_size}: {verdict.reason}",
        verdict.seconds,
    )
    made = replace(rung, check=checked, reason=f"{words}, which has no clock of a GPU")
    bench.watcher.news(f"{rung.name}: {words}, in {verdict.seconds:.2g} s")
    return made


#: Samples in a batch of a proof on the emulator, at most.
EMULATED = 7


@dataclass(frozen=True)
class Climbed(Found):
    """Climbs, one for each value that is swept.

    order : names of the rungs. full : epochs and samples that times are scaled up to, as `Task.full` has them.
    """

    sweep: Sweep
    order: tuple[str, ...]
    full: dict[str, int]

    @property
    def whole(self) -> bool:  # type: ignore[override]
        """Whether every climb came to its end with every rung."""
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

    def value(self, rung: str, measure: str) -> Value | None:
        """A measure of `MEASURES`, or one of `COUNTED`; a rung of a sweep is named with its value, as "naive@batch_size=32"."""
        if measure.startswith("from:"):
            return self._crossing(rung, *measure.split(":", 2)[1:])
        if measure not in MEASURES and not _counted(measure):
            raise no_measure(measure, (*MEASURES, *COUNTED))
        found = self._rung(rung)
        if found is None:
            return None
        results, result = found
        if measure.startswith("held:"):
            held = (result.held_bytes or {}).get(measure.removeprefix("held:"))
            return None if held is None else Value(here=float(held))
        if measure.startswith("seconds_of:"):
            samples = float(measure.removeprefix("seconds_of:"))
            timed = _timed(result, samples / results.data.train)
            return timed and replace(timed, scaled=samples != results.data.train or timed.scaled)
        value: Value | None = MEASURES[measure](results, result)
        factor = self._factor(measure, results)
        return value if value is None or factor == 1 else scaled(value, factor)

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
        """How many times as long the whole experiment takes as this first look at it; 1 for what is no time."""
        if not self.full or measure not in _EPOCHS + _TRAININGS + ("step_seconds",):
            return 1.0
        rows = 1.0 if self.sweep.headings[0].startswith("limit=") else self.full.get("samples", results.data.train) / results.data.train
        if measure == "step_seconds":
            return rows if results.config.get("batch_size") is None else 1.0
        return rows * (self.full["epochs"] / max(1, results.epochs) if measure in _TRAININGS else 1.0)

    def curve(self, rung: str, measure: str) -> tuple[list[float], list[float]] | None:
        """Of epochs: "loss", "accuracy", "seconds" (from the beginning). Of a sweep, by its values: any measure, or one against another."""
        if measure not in _BY_EPOCH:
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
        """Value, x and y of each climb of a sweep in which the rung has the measure: x is the value, or what the measure stands against."""
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
        cut = rung.partition("@")[2] not in ("", *self.sweep.headings) or canonical(rung.partition("@")[0]) not in self.order
        return NOT_QUICK if cut and self.full else ""

    def name_of(self, rung: str) -> str:
        found = self._rung(rung)
        return canonical(rung) if found is None else found[1].name


#: Measures that say of what after a colon: bytes of a component, seconds of so many training samples, and the least value of a sweep from which on the
#: rung's measure is always below that of another rung.
COUNTED = ("held:COMPONENT", "seconds_of:SAMPLES", "from:MEASURE:RUNG")


def _counted(measure: str) -> bool:
    what, _, rest = measure.partition(":")
    return (what == "held" and bool(rest)) or (what == "seconds_of" and rest.isdigit() and int(rest) > 0)


_BY_EPOCH = ("loss", "accuracy", "seconds")

#: Measures that are seconds of an epoch, and seconds of all epochs.
_EPOCHS = "epoch_seconds", "later_seconds"
_TRAININGS = "train_seconds", "total_seconds"


def points_of(history: History, measure: str, epochs: int) -> tuple[list[float], list[float]] | None:
    """Epochs from 1 to the last that was asked for, with loss, accuracy, or seconds from the beginning; timed repetitions may have trained more."""
    if measure == "seconds":
        ends = list(accumulate(history.seconds[:epochs]))
        return [float(at) for at in range(1, len(ends) + 1)], ends
    values = (getattr(history, measure) or ())[:epochs]
    there = [(float(at), value) for at, value in enumerate(values, 1) if value is not None]
    return ([x for x, _ in there], [y for _, y in there]) if there else None


def scaled(value: Value, factor: float) -> Value:
    """A figure that was measured on a part, for the whole."""
    assert value.here is not None
    most, least = (None if end is None else end * factor for end in (value.most, value.least))
    return replace(value, here=value.here * factor, least=least, most=most, scaled=True)


def _timed(result: RungResult, factor: float) -> Value | None:
    timing = result.timing
    if timing is None:
        return None
    return Value(
        here=factor * timing.seconds_per_epoch, least=factor * min(timing.epochs), most=factor * max(timing.epochs), scaled=timing.scaled
    )


def _plain(name: str) -> Any:
    def value(results: Results, result: RungResult) -> Value | None:
        found = getattr(result, name)
        return None if found is None else Value(here=float(found))

    return value


def _of_history(name: str, at: int) -> Any:
    def value(results: Results, result: RungResult) -> Value | None:
        points = None if result.history is None else points_of(result.history, name, results.epochs)
        return None if points is None else Value(here=points[1][at])

    return value


def _held(results: Results, result: RungResult) -> Value | None:
    return Value(here=float(sum(result.held_bytes.values()))) if result.held_bytes else None


def _rate(results: Results, result: RungResult) -> Value | None:
    return None if result.timing is None else Value(here=result.timing.samples_per_second)


#: What is known of a rung in a climb, by name, in base units.
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
    "error": lambda results, result: None if result.check is None or result.check.error is None else Value(here=result.check.error),
}
