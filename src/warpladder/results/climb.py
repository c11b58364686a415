"""Results of a climb, as frozen data with a JSON file.

Seconds are wall-clock seconds, memory is in bytes, rates are per second. None means not measured
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

#: Status of a rung: timed; unable to train this net; failed the check or broke; timed, but with a time that is refused;
#: not judged by the check; or not reached before the climb ended.
STATUSES = ("timed", "unsupported", "failed", "refused", "unjudged", "missing")

#: Share of the cores. A time is disturbed if other processes kept more of them busy while the clock ran.
DISTURBED = 0.1

#: A setting of a training run, or of its optimizer or schedule.
Setting = bool | int | float | str | None | tuple[float, ...]


@dataclass(frozen=True)
class NetFacts:
    """The network: `train_flops` are FLOPs of one sample's training step."""

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
    """The data set: numbers of samples, and how they are stored."""

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
    """Verdict of the check against the float64 reference: worst normwise relative error of an update, its bound, and a
    line.

    seconds : what the check took. kept : it was made in an earlier climb, of the same code on the same data with the
    same settings.
    """

    passed: bool
    error: float | None
    bound: float | None
    reason: str
    seconds: float | None = None
    kept: bool = False


@dataclass(frozen=True)
class RungResult:
    """One rung or peer of a climb.

    status : one of `STATUSES`; `reason` states why it is not "timed", or else remarks on the figures; it may be empty.
    deviations : how a peer's training differs from ours, by its own declaration.
    build_seconds, load_seconds, first_seconds : making the trainer (imports, compilation), taking the data, and the
    first steps; measured while the last proofs run, where rungs are proven concurrently.
    spans : the trainer's own account of such parts.
    same_bits : True if an untimed run of the timed steps ended in the same bits; None where there was none.
    flops : what the rung declares to compute for one sample's training. floor_seconds : an epoch of them at the peak of
    the unit that computes.
    precision, sums, unit : what the rung computes products in, what it adds gradients of samples in, and what of a GPU
    multiplies, as `Rung` has them: what
        a floor's peak is taken for.
    test_loss, test_accuracy : after `trained_epochs` epochs from the initial weights; accuracy is None for a net
    without classes.
    test_seconds : one pass over the test samples, with what it needs in place: the second of two passes, or of one
    alone where that takes longer than a
        timed repetition may; None where it would, and the net is not trained for its accuracy.
    history : loss, accuracy and seconds of each epoch that was trained whole, the timed ones and those for the test
    accuracy, whose seconds are taken from the timed ones; None where there was none.
    sources : names of the files and classes that it computes with, as `Results.sources` has them.
    peak_rss_bytes : largest resident set of a fresh process that holds such a data set and trains with this rung alone.
    held_bytes : what the trainer reports to hold, by component.
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
    """A whole climb, or as much of one as there is.

    config : the settings as `TrainConfig.as_dict` gives them.
    command : repeats the climb; empty where no command can, as for arrays of a program's own.
    stopped : why the climb is not whole; empty for one that came to its end. notes : what else must be known of the
    figures.
    sources : the text of files and classes that rungs compute with, by name, a line each.
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
        """Write the JSON file, whole or not at all; `ResultsError` if it is there and `overwrite` is False."""
        if os.path.lexists(path) and not overwrite:
            raise ResultsError(f"{os.fspath(path)}: is there already: name another file, or insist (overwrite=True)")
        super().save(path)

    @classmethod
    def from_tree(cls, tree: Any) -> Self:
        """Results of a JSON tree; a file of several tasks is refused."""
        if isinstance(tree, dict) and "tasks" in tree:
            raise ResultsError("holds several tasks: Sweep.load reads them")
        return super().from_tree(tree)

    def timed(self) -> list[RungResult]:
        """The rungs and peers that have a time, in order."""
        return [rung for rung in self.rungs if rung.timing is not None]

    def fastest(self, *, peers: bool) -> RungResult | None:
        """The least time per epoch among the rungs, or among rungs and peers."""
        return min((r for r in self.timed() if peers or not r.peer), key=_seconds, default=None)

    def over_first(self, rung: RungResult) -> float | None:
        """Speed-up over the first timed rung of the ladder; None where either has no time, and where
        kernels were emulated.
        """
        first = next((r for r in self.timed() if not r.peer), None)
        return _seconds(first) / _seconds(rung) if first and rung.timing and not self.emulated else None

    def over_below(self, rung: RungResult) -> float | None:
        """Speed-up over the nearest timed rung below; None for peers, which stand on no ladder, for the
        first, and where kernels were emulated.
        """
        ladder = [r for r in self.timed() if not r.peer]
        at = next((i for i, r in enumerate(ladder) if r.name == rung.name), 0)
        return _seconds(ladder[at - 1]) / _seconds(rung) if at > 0 and not (rung.peer or self.emulated) else None

    def share(self, rung: RungResult) -> float | None:
        """The rung's own FLOPs per second as a share of the peak of the unit that it computes on."""
        return (
            None
            if rung.timing is None or rung.floor_seconds is None
            else rung.floor_seconds / rung.timing.seconds_per_epoch
        )

    def peak(self, rung: RungResult) -> float | None:
        """FLOP/s of the unit that the rung computes on, as its floor has it."""
        if rung.timing is None or rung.flops is None or not rung.floor_seconds:
            return None
        return rung.flops * rung.timing.epoch_samples / rung.floor_seconds

    def on_cpu(self, rung: RungResult) -> bool:
        """True if the rung's floor is that of the processor's vector units, whose peak the climb measured."""
        peak = self.peak(rung)
        return peak is None or math.isclose(peak, self.machine.peak(rung.precision), rel_tol=1e-3)

    @property
    def disturbance(self) -> float:
        """Processors that other processes kept busy, on average over the repetitions of the rung that suffered most."""
        return max((rung.timing.disturbance for rung in self.timed() if rung.timing), default=0.0)

    def is_disturbed(self, rung: RungResult) -> bool:
        """True if other processes used enough of the machine while a rung was timed that its time means little."""
        return rung.timing is not None and not rung.timing.disturbance <= DISTURBED * self.machine.cores

    @property
    def disturbed(self) -> bool:
        """True if a rung was disturbed, so that ratios of times mean little."""
        return any(map(self.is_disturbed, self.rungs))

    @property
    def emulated(self) -> bool:
        """True if a rung's CUDA kernels ran on the CPU: their times are not to be compared."""
        return any("device=emulated" in rung.name.split(":") for rung in self.timed())

    @property
    def leader(self) -> RungResult | None:
        """The fastest rung or peer; None where times are not to be compared, in a disturbed or emulated climb."""
        return None if self.disturbed or self.emulated else self.fastest(peers=True)

    def table(self) -> str:
        """The table of the command line as text, as wide as the terminal: a row for each rung, remarks, and which is
        fastest.
        """
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
    """Read a results file.

    Raises
    ------
    ResultsError
        One line that names the file and the first thing wrong in it: missing, not JSON, another schema,
        or a field that is missing, unknown, of the wrong type or out of range.
    """
    return Results.load(path)


def parse(raw: bytes) -> Results:
    """Check the bytes of a results file and make a `Results` of them; `ResultsError` as in `load`."""
    return Results.parse(raw)
