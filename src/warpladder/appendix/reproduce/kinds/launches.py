"""Experiments that list launches: the grid, block, registers, shared memory and occupancy of each kernel of a
training step. Nothing is timed.

Without a GPU, the kernels are still compiled for one, and the compiler's figures are shown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from ....data.dataset import Dataset
from ....device import Device
from ....device.gpu import why_not
from ....errors import WarpladderError
from ....ladder import find
from ....nets import Net
from ....rungs.base import Rung
from ....timing.profile.kernels import shape
from ....trainers.base import State
from ....trainers.kernelwise.trainer import KernelTrainer
from ..experiments import NOT_QUICK, NOT_YET, Bench, Found, TrainingTask, canonical, file_of, no_measure
from ..results import Column, LaunchList, ReportRow, ReportTable, Value
from .launched import Launched, Launches


@dataclass(frozen=True)
class Launching(TrainingTask):
    """Experiment that lists the launches of a training step by several rungs."""

    kind: ClassVar[str] = "launches"
    has_times: ClassVar[bool] = False

    def measure(self, name: str, bench: Bench) -> None:
        path, here = file_of(name, bench.folder), why_not() is None
        data = self.dataset(bench)
        net = bench.net(self.net, data)
        found = Launches(Launches.SCHEMA, "", here, {}, {})
        for at, rung in enumerate(map(find, self.rungs)):
            bench.say(f"looking at the launches of {rung.name}", at, len(self.rungs))
            try:
                called, calls = self._calls(rung, net, data, here)
                found = replace(found, device=called, rungs={**found.rungs, rung.name: calls})
                bench.watcher.news(f"{rung.name}: {len(calls)} calls a step, on {called}")
            except WarpladderError as error:
                found = replace(found, reasons={**found.reasons, rung.name: str(error)})
                bench.watcher.news(f"{rung.name}: not here: {error}")
        found.save(path)

    def _calls(self, rung: Rung, net: Net, data: Dataset, here: bool) -> tuple[str, tuple[Launched, ...]]:
        """Name of the device, and the launches of a step of a full batch."""
        if not here:
            if not rung.has("device"):
                raise WarpladderError(rung.unsupported(net, self.config) or f"{rung.name} needs a GPU")
            rung = rung.but(device="emulated")  # built on the emulator; its dry run gives the launches
        if reason := rung.unsupported(net, self.config):
            raise WarpladderError(reason)
        with rung.build(net, self.config, State.drawn(net, self.config)) as built:
            if not isinstance(built, KernelTrainer):
                raise WarpladderError(f"{rung.name} has no launches to look at")
            with built if here else built.on_device(_offline()) as trainer:
                trainer.load(data)
                stages = trainer.stages(trainer.parts()[0])
                calls = [
                    Launched(stage.phase, call.name, shape(trainer.device, call))
                    for stage in stages
                    for call in stage.launches
                ]
                return trainer.device.limits.device.replace(" (offline)", ", which is not here"), tuple(calls)

    def check_measure(self, measure: str) -> None:
        if measure != "launches":
            raise no_measure(measure, ("launches",))

    def found(self, name: str, folder: Path) -> Looked | None:
        path = file_of(name, folder)
        return Looked(Launches.load(path)) if path.exists() else None


def _offline() -> Device:
    """Device to compile for on a machine without a GPU: a data centre GPU of compute capability 9.0."""
    try:
        from ....device.gpu import OfflineDevice

        return OfflineDevice("sm_90")
    except ImportError:
        raise WarpladderError(
            "cuda-core, which compiles kernels, is not installed: pip install 'warpladder[cuda13]'"
        ) from None


@dataclass(frozen=True)
class Looked(Found):
    """Launches of a training step by rung, read from a results file."""

    launches: Launches

    def value(self, rung: str, measure: str) -> Value | None:
        raise no_measure(measure, ())

    def reason(self, rung: str) -> str:
        return self.launches.reasons.get(canonical(rung), "")


#: Columns of a table of launches.
COLUMNS = (Column("registers"), Column("shared memory", "kB"), Column("occupancy", "%"))

_NOTHING = (Value(),) * len(COLUMNS)


def launch_table(planned: LaunchList, found: dict[str, Found | None]) -> ReportTable:
    """Table with a row for each launch of a step, or one row with the reason why no launches are known."""
    name, _, rung = planned.here.partition("/")
    looked, called = found.get(name), canonical(rung)
    heads = ("kernel", "grid", "block")
    calls = looked.launches.rungs.get(called, ()) if isinstance(looked, Looked) else ()
    if not isinstance(looked, Looked) or not calls:
        why = looked.reason(rung) if looked is not None else NOT_YET if name in found else NOT_QUICK
        return ReportTable(
            planned.title, heads, COLUMNS, (ReportRow(("every kernel", "", ""), _NOTHING, called, why),), planned.text
        )
    where = "" if looked.launches.here else f"Compiled for {looked.launches.device}: nothing ran."
    return ReportTable(
        planned.title, heads, COLUMNS, tuple(map(_row, calls)), " ".join(filter(None, (planned.text, where)))
    )


def _row(call: Launched) -> ReportRow:
    made = call.shape
    if made is None:
        return ReportRow((call.kernel, "-", "-"), _NOTHING, remark="a library's call, which does not report them")
    values = (
        Value(here=float(made.registers)),
        Value(here=float(made.shared + made.static_shared)),
        Value(here=made.occupancy),
    )
    return ReportRow((call.kernel, _axes(made.grid), _axes(made.block)), values)


def _axes(size: tuple[int, int, int]) -> str:
    """Sizes of a grid or block without trailing axes of size one, as "8 x 32"."""
    used = max((at for at, each in enumerate(size) if each > 1), default=0)
    return " x ".join(map(str, size[: used + 1]))
