"""Claims of a report with verdicts, texts that depend on figures, and records of experiments, as frozen data."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import ResultsError
from ...errors.arguments import shown
from .figure import UNITS, Value, filled, place


@dataclass(frozen=True)
class Finding:
    """Text on the page that is shown if a condition on measured figures is true. when : the condition, an
    expression.
    """

    text: str
    when: str


#: Verdicts on a claim.
VERDICTS = ("holds", "holds here only", "does not hold", "cannot be judged")


@dataclass(frozen=True)
class Claim:
    """Claim of a report, with the verdict of this reproduction.

    claim : text of the claim. unit : unit of its figures. reported : the report's figure, or None.
    least, most : tolerance, fixed before anything is measured: the claim holds if the measured figure is within. A
    gain, "x" with `least` alone, cannot be judged if repetitions contradict each other.
    figure : expression of the claim's figure, in base units. own : known value of it for the report's own figures or
    program: if it is outside the tolerance and the measured figure is within, the claim holds here only.
    because : reason why a claim without a figure cannot be judged anywhere; else its prerequisite.
    value, verdict, reason, command : measured figure; one of `VERDICTS`; reason for the verdict; command that measures
    it.
    """

    claim: str
    unit: str = ""
    reported: float | None = None
    least: float | None = None
    most: float | None = None
    because: str = ""
    value: Value | None = filled(None)
    verdict: str = filled("")
    reason: str = filled("")
    command: str = filled("")
    figure: str = place()
    own: float | None = place(None)

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise ResultsError(f"claim {shown(self.claim)}: there is no unit {self.unit!r}")
        if self.verdict not in ("", *VERDICTS):
            raise ResultsError(f"claim {shown(self.claim)}: there is no verdict {shown(self.verdict)}")
        if self.figure and self.least is None and self.most is None:
            raise ResultsError(f"claim {shown(self.claim)}: wants a tolerance: least, most or both")
        if not self.figure and not self.verdict and not self.because:
            raise ResultsError(f"claim {shown(self.claim)}: wants a figure, or the reason why there is none")


@dataclass(frozen=True)
class Made:
    """Record of an experiment: its time and its circumstances.

    seconds : wall time of all its runs together. created, commit : date and commit of warpladder.
    others : mean number of processors that other processes used meanwhile; None if the system does not report it.
    times : number of measurements: a disturbed one is repeated. disturbed : True if the last one is still disturbed.
    """

    seconds: float
    created: str
    commit: str | None
    others: float | None
    times: int
    disturbed: bool
