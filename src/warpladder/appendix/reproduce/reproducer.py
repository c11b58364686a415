"""Reproduction of a report: experiment after experiment, each written when finished, continued after an
interruption.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from ...device.gpu.support import found_gpu
from ...errors import ConfigError, ResultsError, WarpladderError
from ...errors.arguments import shown
from ...machine import facts as machine
from ...results import DISTURBED, Machine
from .claims import Made
from .definition import Definition
from .experiments import NOT_QUICK, Bench, Lacking, Watcher
from .kinds.climbed import Climbed
from .of_machine import MACHINE, OfMachine
from .provenance import Provenance
from .resolve import FAULTS, Measured, sections
from .results import Reproduction

#: Folder of measured figures in the folder of a reproduction, and the file with all results.
MEASURED, RESULTS = "measured", "results.json"


@dataclass
class Reproducer:
    """Reproduction of a report in a folder.

    command : command that makes the reproduction. begun : True if the folder was opened, so that results exist.
    """

    report: Definition
    folder: Path
    quick: bool
    data_dir: Path | None
    watcher: Watcher
    command: str = ""
    begun: bool = field(default=False, init=False)
    failed: dict[str, str] = field(default_factory=dict, init=False)

    def run(self, only: tuple[str, ...] = ()) -> Reproduction:
        """Measure every incomplete experiment; or those named in `only`.

        An experiment that fails, for example without its data set, is reported in a line; the others continue. The next
        run tries it again.

        Raises
        ------
        ResultsError
            The folder has a reproduction of another report, another length, or another machine.
        ConfigError
            An experiment's name is unknown.
        """
        if unknown := [name for name in only if name not in self.report.experiments]:
            raise ConfigError(
                f"{self.report.name} has no experiment {shown(unknown[0])}; it has {', '.join(self.report.experiments)}"
            )
        self._begin()
        names = [name for name in self.report.experiments if not only or name in only]

        def written() -> None:
            self.watcher.written(self.write())

        bench = Bench(self.folder / MEASURED, self.data_dir, self.report.nets, self.watcher, written)
        bench.loading = self.provenance.note_data
        try:
            for at, name in enumerate(names, 1):
                if self._is_whole(name):
                    continue
                self.watcher.begin(name, at, len(names))
                try:
                    self._make(name, bench)
                except (WarpladderError, *FAULTS) as error:
                    self.failed[name] = _reason(error)
                    # what another experiment makes may come later
                    is_final = isinstance(error, WarpladderError) and not isinstance(error, ResultsError)
                    if is_final and len(self.failed) == len(names):  # no experiment can be made
                        raise
                    bench.watcher.news(f"{name} cannot be made: {self.failed[name]}")
                written()
        finally:
            whole = self.write()
        return whole

    def _is_whole(self, name: str) -> bool:
        """True if all figures of an experiment are measured; False for a damaged file, which is measured anew."""
        try:
            found = self.report.experiments[name].found(name, self.folder / MEASURED)
        except WarpladderError as error:
            self.watcher.news(f"{error}: it is set aside as {name}.damaged, and {name} is measured anew")
            for path in (self.folder / MEASURED).glob(f"{name}.*json"):
                path.replace(path.with_suffix(".damaged"))
            return False
        return found is not None and found.whole

    def _make(self, name: str, bench: Bench) -> None:
        """Measure one experiment; twice if other processes disturbed it, except in a quick reproduction."""
        experiment, record = self.report.experiments[name], self.provenance
        if not experiment.files(name, bench.folder):
            record.forget(name)
        with record.making(name):
            experiment.measure(name, bench)
        self._note(name)
        made = record.experiments[name]
        if not made.disturbed or self.quick or made.times > 1:
            return
        bench.watcher.news(f"{name} is disturbed: other processes kept {_others(made)} processors busy: once more")
        with record.making(name):
            experiment.again(name, bench, lambda: record.experiments[name].others or 0.0)
        self._note(name)

    def _note(self, name: str) -> None:
        """Record if an experiment is disturbed: a climb by the load during timing, any other by the load over its
        whole time.
        """
        found = self.report.experiments[name].found(name, self.folder / MEASURED)
        made = self.provenance.experiments[name]
        others = found.others if isinstance(found, Climbed) else made.others
        limit = DISTURBED * self.machine.cores
        disturbed = self.report.experiments[name].has_times and others is not None and not others <= limit
        self.provenance.note(name, others=others, disturbed=disturbed)

    def _begin(self) -> None:
        """Continue the folder's reproduction, or begin a new one."""
        (self.folder / MEASURED).mkdir(parents=True, exist_ok=True)
        self.began, self.before = perf_counter(), 0.0
        self.machine = Machine(**machine.facts(), gpu=found_gpu())
        self.provenance = Provenance(self.folder, self.machine.commit)
        stored = self.folder / RESULTS
        if stored.exists():
            try:
                before = Reproduction.load(stored)
            except ResultsError as error:
                raise ResultsError(
                    f"{error}: remove it, and the same command makes it again from the figures in {MEASURED}"
                ) from None
            self._check(before)
        self.begun = True

    def _check(self, before: Reproduction) -> None:
        """Raise `ResultsError` if the folder has another reproduction; else take over its measuring time so far."""
        if (before.report, before.quick) != (self.report.name, self.quick):
            length = "a first look at " if before.quick else ""
            raise ResultsError(
                f"{self.folder} holds {length}{before.report}: name another folder with --out, or replace it "
                "with --overwrite"
            )
        was, now = _place(before.machine), _place(self.machine)
        if was != now:
            raise ResultsError(
                f"{self.folder} was begun on {was}, and this is {now}: name another folder with --out, and "
                "compare both with 'warpladder report'"
            )
        self.before = before.seconds

    def measured(self) -> Measured:
        """Figures of each experiment, or the reason why it has none, by name."""
        found = Measured({name: Lacking(NOT_QUICK) for name in self.report.skipped})
        found.disturbed = frozenset(name for name, made in self.provenance.experiments.items() if made.disturbed)
        found[MACHINE] = OfMachine(self.machine)
        for name, experiment in self.report.experiments.items():
            try:
                found[name] = experiment.found(name, self.folder / MEASURED)
            except WarpladderError as error:
                found[name] = Lacking(str(error))
            if isinstance(found[name], Climbed):  # a climb records its disturbed rungs
                found.disturbed -= {name}
            if found[name] is None and name in self.failed:
                found[name] = Lacking(self.failed[name])
        return found

    def results(self) -> Reproduction:
        """Results so far: the report's tables and pictures with all known figures."""
        found = self.measured()
        whole = [name for name, each in found.items() if each is not None and each.whole and name != MACHINE]
        missing = [name for name in self.report.experiments if name not in whole]
        faults: list[str] = []
        made = sections(self.report, found, faults)
        return Reproduction(
            schema=Reproduction.SCHEMA,
            report=self.report.name,
            title=self.report.title,
            about=self.report.about,
            created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            quick=self.quick,
            command=self.command,
            machine=self.machine,
            sections=made,
            measured=tuple(whole),
            missing=tuple(missing),
            seconds=self.before + perf_counter() - self.began,
            headline=self.report.headline,
            notes=(*(f"{', '.join(names)}: {reason}" for reason, names in self._reasons().items()), *faults),
            experiments=dict(self.provenance.experiments),
            data=dict(self.provenance.data),
        )

    def _reasons(self) -> dict[str, list[str]]:
        """Reasons why experiments failed, each with the experiments' names."""
        found: dict[str, list[str]] = {}
        for name, reason in self.failed.items():
            found.setdefault(reason, []).append(name)
        return found

    def write(self) -> Reproduction:
        """Write the results file, and return its content."""
        found = self.results()
        found.save(self.folder / RESULTS)
        return found


def _reason(error: Exception) -> str:
    """Error as one line; an error that is no message for users begins with its class."""
    text = " ".join(str(error).split())
    return text if isinstance(error, WarpladderError) else f"{type(error).__name__}: {text}"


def _others(made: Made) -> str:
    return f"{made.others or 0.0:.2g}"


def _place(found: Machine) -> str:
    """Identity of a machine: processor, cores and GPU."""
    return f"{found.cpu} with {found.cores} cores" + (f" and {found.gpu.name}" if found.gpu else "")
