"""Claims of a report with verdicts, texts that depend on figures, and how experiments were made, as frozen data."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import ResultsError
from ...errors.arguments import shown
from .figure import UNITS, Value, filled, place


@dataclass(frozen=True)
class Finding:
    """A text that stands on the page if a condition on measured figures is met. when : an expression."""

    text: str
    when: str


@dataclass(frozen=True)
class Claim:
    """A claim of a report, and whether it is borne out here.

    claim : in words. unit : of its figures. reported : the figure that the report gives, None where it gives none.
    least, most : the tolerance, which is fixed before anything is measured: the claim holds if the figure measured here
    is not outside. A claim of a gain, "x" with `least` alone, cannot be judged if repetitions contradict each other.
    figure : an expression of it, in base units. own : the same of the report's own figures or of its own program, where
    that is known: if it is outside the tolerance and the figure measured here is not, the claim holds here only.
    because : why it cannot be judged anywhere, for a claim without a figure; else what must be known.
    value, verdict, reason, command : the figure measured here; one of `VERDICTS`; why it is that; how to measure it.
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
        if self.figure and self.least is None and self.most is None:
            raise ResultsError(f"claim {shown(self.claim)}: wants a tolerance: least, most or both")
        if not self.figure and not self.verdict and not self.because:
            raise ResultsError(f"claim {shown(self.claim)}: wants a figure, or the reason why there is none")


#: Verdicts on a claim.
VERDICTS = ("holds", "holds here only", "does not hold", "cannot be judged")


@dataclass(frozen=True)
class Made:
    """How an experiment was made.

    seconds : how long it took, all runs together. created, commit : when, and with which commit of warpladder.
    others : processors that other processes kept busy meanwhile, on average; None where the system does not report it.
    times : how often it was measured: a disturbed one is measured again. disturbed : True if it still is.
    """

    seconds: float
    created: str
    commit: str | None
    others: float | None
    times: int
    disturbed: bool
