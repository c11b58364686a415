"""Results of a climb, as frozen data with a JSON file.

Seconds are wall time, memory is in bytes, rates are per second. None means not measured
(or, for an error, not finite); the field `reason` has the reason.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from ..errors import ResultsError
from .machine import Machine
from .stored import ResultsFile
from .timing import History, Timing

#: Status of a rung: timed; unable to train this net; failed its proof or broke; refused, with an impossible time;
#: unjudged by its proof; or missing, not reached before the climb ended.
STATUSES = ("timed", "unsupported", "failed", "refused", "unjudged", "missing")

#: Share of the cores. A time is disturbed if other processes used more of them meanwhile.
DISTURBED = 0.1

#: A setting of a training run, or of its optimizer or schedule.
Setting = bool | int | float | str | None | tuple[float, ...]


@dataclass(frozen=True)
class NetFacts:
    """Facts of the net. train_flops : FLOPs of one sample's training step."""

    name: str
    in_shape: tuple[int, ...]
    layers: tuple[str, ...]
    loss: str
    parameters: int
    train_flops: int

    def __post_init__(self) -> None:
        if min(self.parameters, self.train_flops) < 1:
            raise ResultsError("a net wants at least one parameter and one FLOP")


@dataclass(frozen=True)
class DataFacts:
    """Facts of the data set: numbers of samples, their shape and their stored type."""

    name: str
    train: int
    test: int
    in_shape: tuple[int, ...]
    dtype: str
    classes: int

    def __post_init__(self) -> None:
        if self.train < 1 or min(self.test, self.classes) < 0:
            raise ResultsError("a data set wants at least one training sample")


@dataclass(frozen=True)
class Checked:
    """Verdict of a proof against the float64 reference: worst normwise relative error of an update, its bound, and a
    line of text.

    seconds : time of the proof. kept : True if an earlier climb made it, with the same code, data and settings.
    """

    passed: bool
    error: float | None
    bound: float | None
    reason: str
    seconds: float | None = None
    kept: bool = False


@dataclass(frozen=True)
class RungResult:
    """Result of one rung or peer in a climb.

    status : one of `STATUSES`; `reason` is the reason if it is not "timed", else a remark on the figures, or empty.
    deviations : differences between a peer's training and ours, as the peer declares them.
    build_seconds, load_seconds, first_seconds : time to build the trainer (imports, compilation), to load the data, and
    of the first steps; concurrent proofs may run meanwhile.
    spans : seconds of the same parts by the trainer's own clock.
    same_bits : True if an untimed run of the timed steps ended in the same bits; None without this run.
    flops : declared FLOPs of one sample's training. floor_seconds : time of an epoch's FLOPs at the peak of the
    computing unit.
    precision, sums, unit : type of the products, type of the sums of gradients over samples, and multiplying unit of a
    GPU, as in `Rung`; they determine the peak of the floor.
    test_loss, test_accuracy : after `trained_epochs` epochs from the initial weights; accuracy is None for a net
    without classes.
    test_seconds : time of one pass over the test samples, the second of two; of a single pass if it takes longer than a
    timed repetition may; None if the net is not trained for its accuracy either.
    history : loss, accuracy and seconds of each whole epoch, timed or trained for the test accuracy; seconds are from
    timed epochs. None without whole epochs.
    sources : names of the files and classes of its code, as in `Results.sources`.
    peak_rss_bytes : largest resident set of a new process that loads an equal data set and trains with this rung alone.
    held_bytes : memory that the trainer reports, by component.
    """

    name: str
    title: str
    idea: str
    peer: bool
    deviations: tuple[str, ...] = ()
    status: str = "unsupported"
    reason: str = ""
    check: Checked | None = None
    build_seconds: float | None = None
    load_seconds: float | None = None
    first_seconds: float | None = None
    spans: dict[str, float] | None = None
    timing: Timing | None = None
    same_bits: bool | None = None
    flops: int | None = None
    floor_seconds: float | None = None
    trained_epochs: int | None = None
    test_loss: float | None = None
    test_accuracy: float | None = None
    peak_rss_bytes: int | None = None
    held_bytes: dict[str, int] | None = None
    precision: str = "fp32"
    test_seconds: float | None = None
    history: History | None = None
    sums: str = "fp32"
    unit: str | None = None
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ResultsError(f"rung {self.name!r}: status wants one of {', '.join(STATUSES)}, got {self.status!r}")
        if (self.timing is not None) != (self.status == "timed"):
            raise ResultsError(
                f"rung {self.name!r}: a timing belongs to the status 'timed' and to no other, got {self.status!r}"
            )
        for name, least in (("flops", 1), ("floor_seconds", 1e-30), ("test_seconds", 0)):
            value = getattr(self, name)
            if value is not None and not least <= value <= 1e30:
                raise ResultsError(
                    f"rung {self.name!r}: {name} wants at least {least:g}, and at most 1e30, got {value!r}"
                )


@dataclass(frozen=True, repr=False)
class Results(ResultsFile):
    """Results of a climb, complete or so far.

    config : the settings from `TrainConfig.as_dict`.
    command : command that repeats the climb; empty if none can, for example with arrays in memory.
    stopped : reason why the climb is incomplete; empty for a complete one. notes : further remarks on the figures.
    sources : text of the files and classes of the rungs' code, by name, as lines.
    """

    KIND: ClassVar[str] = "a results file of a climb: it has no schema"
    AGAIN: ClassVar[str] = "run the climb"

    schema: int
    created: str
    command: str
    machine: Machine
    net: NetFacts
    data: DataFacts
    config: dict[str, Setting | dict[str, Setting]]
    epochs: int
    repeats: int
    rungs: tuple[RungResult, ...]
    stopped: str = ""
    notes: tuple[str, ...] = ()
    sources: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [rung.name for rung in self.rungs]
        if len(set(names)) != len(names):
            raise ResultsError("rungs: two have the same name")

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the JSON file atomically. Raises `ResultsError` if it exists and `overwrite` is False."""
        if os.path.lexists(path) and not overwrite:
            raise ResultsError(f"{os.fspath(path)}: is there already: name another file, or insist (overwrite=True)")
        super().save(path)

    @classmethod
    def from_tree(cls, tree: Any) -> Self:
        """Results from a JSON tree. Raises `ResultsError` for a file of several tasks."""
        if isinstance(tree, dict) and "tasks" in tree:
            raise ResultsError("holds several tasks: Sweep.load reads them")
        return super().from_tree(tree)

    def timed(self) -> list[RungResult]:
        """Results of the rungs and peers with a time, in order."""
        return [rung for rung in self.rungs if rung.timing is not None]

    def fastest(self, *, peers: bool) -> RungResult | None:
        """Result with the smallest time per epoch among the rungs, or among rungs and peers."""
        return min((r for r in self.timed() if peers or not r.peer), key=_seconds, default=None)

    def over_first(self, rung: RungResult) -> float | None:
        """Speed-up over the first timed rung of the ladder; None if either has no time, or if kernels were emulated."""
        first = next((r for r in self.timed() if not r.peer), None)
        return _seconds(first) / _seconds(rung) if first and rung.timing and not self.emulated else None

    def over_below(self, rung: RungResult) -> float | None:
        """Speed-up over the nearest timed rung below; None for peers, for the first rung, and if kernels were
        emulated.
        """
        ladder = [r for r in self.timed() if not r.peer]
        at = next((i for i, r in enumerate(ladder) if r.name == rung.name), 0)
        return _seconds(ladder[at - 1]) / _seconds(rung) if at > 0 and not (rung.peer or self.emulated) else None

    def share(self, rung: RungResult) -> float | None:
        """Rung's declared FLOPs per second as a share of the peak of its computing unit."""
        return (
            None
            if rung.timing is None or rung.floor_seconds is None
            else rung.floor_seconds / rung.timing.seconds_per_epoch
        )

    def peak(self, rung: RungResult) -> float | None:
        """Peak FLOP/s of the rung's computing unit, from its floor."""
        if rung.timing is None or rung.flops is None or not rung.floor_seconds:
            return None
        return rung.flops * rung.timing.epoch_samples / rung.floor_seconds

    def on_cpu(self, rung: RungResult) -> bool:
        """True if the rung's floor uses the peak of the processor's vector units, which the climb measured."""
        peak = self.peak(rung)
        return peak is None or math.isclose(peak, self.machine.peak(rung.precision), rel_tol=1e-3)

    @property
    def disturbance(self) -> float:
        """Number of processors that other processes used, averaged over the repetitions of the most disturbed rung."""
        return max((rung.timing.disturbance for rung in self.timed() if rung.timing), default=0.0)

    def is_disturbed(self, rung: RungResult) -> bool:
        """True if other processes used so many cores while a rung was timed that its time is unreliable."""
        return rung.timing is not None and not rung.timing.disturbance <= DISTURBED * self.machine.cores

    @property
    def disturbed(self) -> bool:
        """True if a rung was disturbed, so that ratios of times are unreliable."""
        return any(map(self.is_disturbed, self.rungs))

    @property
    def emulated(self) -> bool:
        """True if a rung's CUDA kernels ran on the CPU: these times must not be compared."""
        return any("device=emulated" in rung.name.split(":") for rung in self.timed())

    @property
    def leader(self) -> RungResult | None:
        """Fastest rung or peer; None if times must not be compared, in a disturbed or emulated climb."""
        return None if self.disturbed or self.emulated else self.fastest(peers=True)

    def table(self) -> str:
        """Table of the climb as text, as wide as the terminal: a row for each rung, remarks, and the fastest rung."""
        from .text.plain import as_plain

        return as_plain(self)

    def __repr__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        from .text.plain import as_cell

        return as_cell(self)


def _seconds(rung: RungResult) -> float:
    assert rung.timing is not None
    return rung.timing.seconds_per_epoch


def load(path: str | os.PathLike[str]) -> Results:
    """Read the results file of a climb.

    Raises
    ------
    ResultsError
        One line with the file and its first fault: missing, not JSON, another schema,
        or a field that is missing, unknown, of the wrong type or out of range.
    """
    return Results.load(path)


def parse(raw: bytes) -> Results:
    """Results from the bytes of a results file. Raises `ResultsError` as in `load`."""
    return Results.parse(raw)
