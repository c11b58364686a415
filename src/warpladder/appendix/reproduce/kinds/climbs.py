"""Experiments that climb: rungs proven, timed in turns, trained for their accuracy, and their memory measured, once or
for each value of a setting.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from ....errors import WarpladderError
from ....ladder import find
from ....nets import with_hidden
from ....proof import verify
from ....results import SCHEMA, Checked, Results, RungResult
from ....results.sweep import Sweep
from ....rungs.base import Rung
from ....timing import climb
from ....timing.entry import finite
from ..experiments import Bench, TrainingTask, canonical, file_of, no_measure
from .climbed import BY_EPOCH, COUNTED, MEASURES, Climbed, is_counted, is_disturbed

#: Status of further rungs that are not measured again; rungs with compared bits are not either.
_WHOLE = "failed", "refused", "unjudged"


@dataclass(frozen=True)
class Climb(TrainingTask):
    """Experiment that climbs once, or once for each value of a setting.

    repeats, budget : parameters of `climb`.
    sweep : swept setting (a setting, "limit", or "hidden" for the width of hidden layers), and its values.
    emulated : rungs that are proven on the emulator if there is no GPU.
    """

    kind: ClassVar[str] = "climbs"
    repeats: int = 3
    budget: float = 2.0
    sweep: dict[str, tuple[int, ...]] = field(default_factory=dict)
    emulated: tuple[str, ...] = ()

    @property
    def headings(self) -> list[str]:
        """Swept setting of each climb, as "batch_size=32"; one empty text without a sweep."""
        return [f"{key}={value}" for key, values in self.sweep.items() for value in values] or [""]

    def measure(self, name: str, bench: Bench) -> None:
        before = self._stored(name, bench.folder)
        headings = self.headings
        tasks: dict[str, Results] = dict(before.items()) if before else {}
        for at, heading in enumerate(headings):

            def keep(results: Results, news: RungResult | None = None, heading: str = heading) -> None:
                tasks[heading] = merged(tasks.get(heading), results, [canonical(rung) for rung in self.rungs])
                # climbs are stored in the sweep's order: earlier ones are complete
                Sweep(SCHEMA, tuple(headings), tuple(tasks[each] for each in headings if each in tasks)).save(
                    file_of(name, bench.folder)
                )
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
            return  # no new results since
        results = climb(
            net,
            data,
            task.config,
            rungs,
            repeats=self.repeats,
            budget=self.budget,
            progress=bench.watcher.progress,
            found=keep,
            command="",
        )
        emulated = {canonical(each) for each in self.emulated}
        if emulated and at == 0:
            results = replace(
                results,
                rungs=tuple(
                    on_emulator(rung, net, task, data, bench)
                    if rung.name in emulated and rung.status == "unsupported"
                    else rung
                    for rung in results.rungs
                ),
            )
        keep(results)

    def again(self, name: str, bench: Bench, others: Callable[[], float]) -> None:
        """Repeat the disturbed rungs; for each, store the measurement that was disturbed less."""
        path = file_of(name, bench.folder)
        before = Sweep.load(path)
        calm = [
            replace(task, rungs=tuple(rung for rung in task.rungs if not is_disturbed(task, rung)))
            for task in before.tasks
        ]
        replace(before, tasks=tuple(calm)).save(path)
        try:
            self.measure(name, bench)
        finally:
            after = self._stored(name, bench.folder) or before
            tasks = [calmer(old, new) for old, new in zip(before.tasks, after.tasks, strict=False)]
            replace(before, tasks=tuple(tasks)).save(path)

    def _task(self, heading: str) -> TrainingTask:
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
        known = (*MEASURES, *(f"curve:{curve}" for curve in (*BY_EPOCH, *(MEASURES if self.sweep else ()))))
        kind, _, rest = measure.partition(":")
        if (
            kind == "from"
            and rest.partition(":")[0] in MEASURES
            and canonical(rest.partition(":")[2]) in map(canonical, self.rungs)
        ):
            return
        if measure not in known and not is_counted(measure) and not self._is_pair(measure):
            raise no_measure(measure, (*known, *COUNTED))

    def _is_pair(self, measure: str) -> bool:
        """True if this is one measure against another over a sweep, as "curve:test_accuracy against train_seconds"."""
        return bool(self.sweep) and {*measure.removeprefix("curve:").split(" against ")} <= MEASURES.keys()

    def _stored(self, name: str, folder: Path) -> Sweep | None:
        return Sweep.load(file_of(name, folder)) if file_of(name, folder).exists() else None


def done(results: Results | None) -> set[str]:
    """Names of the rungs that are measured. Rungs that lacked a package or a GPU are tried again."""
    if results is None:
        return set()
    return {
        rung.name
        for rung in results.rungs
        if rung.same_bits is not None or rung.status in _WHOLE or (rung.status == "timed" and not results.stopped)
    }


def merged(before: Results | None, now: Results, order: list[str]) -> Results:
    """Climb with the rungs of an earlier climb of the same task added, in order."""
    if before is None:
        return now
    here = {rung.name for rung in now.rungs}
    kept = done(before)
    rungs = [*now.rungs, *(rung for rung in before.rungs if rung.name in kept and rung.name not in here)]
    rungs.sort(key=lambda rung: order.index(rung.name) if rung.name in order else len(order))
    return replace(now, rungs=tuple(rungs), sources={**before.sources, **now.sources})


def calmer(before: Results, after: Results) -> Results:
    """Climb with the less disturbed measurement of each rung, from the first or the repeated climb."""
    new = {rung.name: rung for rung in after.rungs}
    rungs = []
    for old in before.rungs:
        now = new.get(old.name, old)
        better = old.timing and not (now.timing and now.timing.disturbance < old.timing.disturbance)
        rungs.append(old if better else now)
    return replace(before, rungs=tuple(rungs))


def on_emulator(rung: RungResult, net: Any, task: TrainingTask, data: Any, bench: Bench) -> RungResult:
    """Result of a rung that needs a GPU, with the verdict of its proof on the emulator; unchanged if it cannot be
    emulated.
    """
    found: Rung = find(rung.name)
    if not found.has("device"):
        return rung
    found = found.but(device="emulated")
    config = task.config.but(batch_size=min(task.config.batch(len(data.train_x)), EMULATED))
    bench.say(f"proving {rung.name} on the emulator", 0, 1)
    try:
        if found.unsupported(net, config):
            return rung
        verdict = verify(
            found.build,
            net,
            config,
            dataset=data,
            precision=found.precision,
            sums=found.sums,
            transforms=found.transforms,
        )
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


#: Most samples of a batch in a proof on the emulator.
EMULATED = 7
