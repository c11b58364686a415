"""Texts and verdicts of a report, computed from measured figures, so that no sentence contradicts a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from .claims import Claim, Finding
from .experiments import NOT_HERE, NOT_QUICK, Found
from .expressions import Expression, Unmeasured, filled
from .figure import UNITS, Value
from .report.figures import stated
from .results import Diagram

#: Measures of how well a net has learnt, which a quick reproduction lacks.
LEARNT = ("accuracy", "loss")


@dataclass
class Figures:
    """Named figures of a report.

    known : places and measures by name, from the report's file. value_of : function that returns a figure by place and
    measure.
    found : experiments by name. report : the report's name. quick : True for a quick reproduction.
    """

    known: Mapping[str, str]
    value_of: Callable[[str, str], Value | None]
    found: Mapping[str, Found | None]
    report: str
    quick: bool

    def places(self, name: str) -> list[tuple[str, str]]:
        """Results that can give a figure, the preferred one first: pairs (name of a result, measured quantity)."""
        return [each.strip().partition(" ")[::2] for each in self.known[name].split(" | ")]

    def lookup(self, name: str) -> Value | None:
        """Figure by its name; None if no result has measured it."""
        return next((value for each in self.places(name) if (value := self.value_of(*each)) is not None), None)

    def text_of(self, finding: Finding | str) -> str | None:
        """Text of a finding with its figures; None if a figure is not measured, or the finding's condition is false."""
        try:
            if isinstance(finding, str):
                return filled(finding, self.known, self.lookup)
            met = Expression(finding.when, self.known).value(self.lookup)
            return filled(finding.text, self.known, self.lookup) if met else None
        except Unmeasured:
            return None

    def drawn(self, diagram: Diagram) -> Diagram:
        """Diagram with its figures filled in; the text of a box with missing figures is empty."""
        boxes = [replace(box, text=self.text_of(box.text) or "") for box in diagram.boxes]
        return replace(diagram, boxes=tuple(boxes))

    def judged(self, claim: Claim) -> Claim:
        """Claim with its measured figure, verdict and reason."""
        unit = UNITS[claim.unit]
        reported = None if claim.reported is None else claim.reported * unit
        least, most = (None if end is None else end * unit for end in (claim.least, claim.most))
        claim = replace(claim, reported=reported, least=least, most=most)
        if not claim.figure:
            return replace(claim, verdict="cannot be judged", reason=claim.because)
        expression = Expression(claim.figure, self.known)
        command = self.command(expression.names)
        values = {name: value for name in expression.names if (value := self.lookup(name)) is not None}
        try:
            here = expression.value(self.lookup)
        except Unmeasured as error:
            return replace(claim, verdict="cannot be judged", reason=self.why(error.name), command=command)
        least_here, most_here = expression.ends(self.lookup)
        value = Value(
            here=float(here),
            least=least_here,
            most=most_here,
            scaled=any(each.scaled for each in values.values()),
            disturbed=any(each.disturbed for each in values.values()),
        )
        claim = replace(claim, value=value, command=command)
        measures = [measure for name in expression.names for _, measure in self.places(name)]
        if self.quick and any(each in measure for measure in measures for each in LEARNT):
            return replace(claim, verdict="cannot be judged", reason="a first look trains too little for it")
        if value.disturbed:
            return replace(claim, verdict="cannot be judged", reason="it was measured while other processes ran")
        if claim.unit == "x" and most is None and least is not None and _is_open(value, least):
            return replace(claim, verdict="cannot be judged", reason="the ranges of what is compared overlap")
        if not math.isfinite(float(here)) or not _within(float(here), least, most):
            return replace(claim, verdict="does not hold", reason=claim.because)
        own = None if claim.own is None else claim.own * unit
        if own is not None and not _within(own, least, most):
            theirs = f"the report's own figures or program give {stated(own, claim.unit)} {claim.unit}".rstrip(" x")
            return replace(claim, verdict="holds here only", reason="; ".join(filter(None, (theirs, claim.because))))
        return replace(claim, verdict="holds", reason=claim.because)

    def command(self, names: Sequence[str]) -> str:
        """Command that measures figures."""
        used = dict.fromkeys(place.partition("/")[0] for name in names for place, _ in self.places(name))
        return f"warpladder reproduce {self.report} --only {','.join(used)}"

    def why(self, name: str) -> str:
        """Reason why a figure was not measured."""
        for place, measure in self.places(name):
            experiment, _, rung = place.partition("/")
            found = self.found.get(experiment)
            if found is not None and (reason := found.without(rung, measure)):
                return reason
        return NOT_QUICK if self.quick else NOT_HERE


def _is_open(value: Value, least: float) -> bool:
    """True if repetitions contradict each other: some show a gain of at least `least` times, others a loss."""
    return value.least is not None and value.most is not None and value.least < 1 <= least <= value.most


def _within(value: float, least: float | None, most: float | None) -> bool:
    return (least is None or value >= least) and (most is None or value <= most)


def counted(claims: Sequence[Claim], of: str = "the report") -> str:
    """Sentence with the number of claims of each verdict; empty without claims. of : whose claims they are."""
    if not claims:
        return ""
    number = {verdict: sum(claim.verdict == verdict for claim in claims) for verdict in VERBS}
    parts = [f"{count} {VERBS[verdict][count != 1]}" for verdict, count in number.items() if count]
    return f"{len(claims)} claim{'s' * (len(claims) != 1)} of {of}: {', '.join(parts)}."


#: Verbs of each verdict, for one claim and for several.
VERBS = {
    "holds": ("holds", "hold"),
    "holds here only": ("holds here only", "hold here only"),
    "does not hold": ("does not hold", "do not hold"),
    "cannot be judged": ("cannot be judged", "cannot be judged"),
}
