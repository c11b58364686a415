"""HTML of a report's texts: sentences with commands, and claims with their verdicts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from ....results.report.html import inline
from ..claims import Claim
from ..results import Diagram
from .figures import measured, spread, stated


def prose(text: str, kind: str = "note") -> str:
    """HTML of a paragraph; its `commands` break between words and never within an option."""
    return f'<p class="{kind}">{inline(text)}</p>'


def glued(text: str, unit: str) -> str:
    """Text whose unit stands on no line alone."""
    return re.sub(rf" (?={re.escape(unit)}(?!\w))", "\u00a0", text) if unit else text


#: CSS class of each verdict.
LOOKS = {"holds": "good", "holds here only": "partly", "does not hold": "bad", "cannot be judged": "open"}


def claims(same: Sequence[Sequence[Claim]], labels: Sequence[str]) -> str:
    """HTML of the claims of a section, with the verdicts of each of several reproductions."""
    out = []
    for number, first in enumerate([*max(same, key=len)]):
        unit = _unit(first).strip()
        lines = [f"<b>{inline(first.claim)}</b>", glued(escape(wanted(first)), unit)]
        for each, label in zip(same, labels, strict=True):
            claim = each[number] if number < len(each) and each[number].claim == first.claim else None
            if claim is None:
                continue
            name = f"{label}: " if label else ""
            found = f", measured {figure(claim)}" if claim.value is not None else ""
            why = f" ({inline(claim.reason)})" if claim.reason else ""
            verdict = f'<span class="verdict {LOOKS[claim.verdict]}">{claim.verdict}</span>'
            lines.append(f"{escape(name)}{verdict}{glued(escape(found), unit)}{why}")
        if first.command:
            lines.append(inline(f"`{first.command}`"))
        out.append("<li>" + "".join(f"<span>{line}</span>" for line in lines if line) + "</li>")
    return f'<ul class="claims">{"".join(out)}</ul>' if out else ""


def figure(claim: Claim) -> str:
    """Text of a claim's measured figure, with its unit and range."""
    if claim.value is None:
        return ""
    between = spread(claim.value, claim.unit)
    return f"{measured(claim.value, claim.unit)}{_unit(claim)}" + (f", {between}" if between else "")


def wanted(claim: Claim) -> str:
    """Text of the report's figure and the tolerance of a claim."""
    ends = [None if end is None else stated(end, claim.unit) for end in (claim.least, claim.most)]
    if ends == [None, None]:
        return ""
    low, high = ends
    bound = f"from {low} to {high}" if low and high else f"at least {low}" if low else f"at most {high}"
    reported = "" if claim.reported is None else f"reported {stated(claim.reported, claim.unit)}{_unit(claim)}; "
    return f"{reported}holds if {bound}{_unit(claim)}"


def _unit(claim: Claim) -> str:
    return " times" if claim.unit == "x" else f" {claim.unit}" if claim.unit else ""


def diagram(planned: Diagram) -> str:
    """HTML of boxes in a row, with arrows between them if the diagram flows."""
    boxes = []
    for box in planned.boxes:
        text = f'<span class="options">{inline(box.text)}</span>' if box.text else ""
        boxes.append(f'<li style="--size:{min(1.0, max(0.2, box.size)):.2g}"><b>{inline(box.label)}</b>{text}</li>')
    kind = "boxes flows" if planned.flows else "boxes"
    return f'<ol class="{kind}">{"".join(boxes)}</ol>' + (prose(planned.text) if planned.text else "")
