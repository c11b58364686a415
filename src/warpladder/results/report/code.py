"""HTML of each rung's idea and source code, next to the source code of the rung below."""

from __future__ import annotations

from html import escape

from .. import Results, RungResult


def rungs(results: Results, name: str) -> str:
    """HTML with a section that opens for each rung of the ladder, from the first up; code that a rung shares with the
    rung below is named and not repeated.
    """
    ladder = [rung for rung in results.rungs if not rung.peer and rung.status != "unsupported"]
    out = []
    below: RungResult | None = None
    for at, rung in enumerate(ladder):
        out.append(_rung(results, rung, below, f"{name}-rung{at}"))
        if rung.sources:
            below = rung
    peers = [rung for rung in results.rungs if rung.peer and rung.status != "unsupported"]
    out += [f"<p><b>{escape(rung.name)}</b>, a peer: {escape(rung.idea)}</p>" for rung in peers]
    return "".join(out)


def _rung(results: Results, rung: RungResult, below: RungResult | None, name: str) -> str:
    idea = f"<p>{escape(rung.idea)}</p>"
    known = [source for source in rung.sources if source in results.sources]
    if not known:
        return f'<section id="{name}"><h3>{escape(rung.name)}</h3>{idea}</section>'
    before = [source for source in below.sources if source in results.sources] if below else []
    new = [source for source in known if source not in before]
    left = [source for source in before if source not in known]
    shared = [source for source in known if source in before]
    shown: list[str] = []
    for source in new:
        partner = _partner(source, left)
        if partner is not None:
            left.remove(partner)
        shown.append(_pair(results, rung, source, below, partner, opened=not shown))
    if shared and below is not None:
        shown.append(f'<p class="note">As {escape(below.name)}: {escape(", ".join(shared))}.</p>')
    return f'<section id="{name}"><h3>{escape(rung.name)}</h3>{idea}{"".join(shown)}</section>'


def _partner(source: str, others: list[str]) -> str | None:
    """Name of the source of the rung below that does the same work: from the same folder, of the same kind if
    possible.
    """
    near = [other for other in others if _folder(other) == _folder(source)]
    return next((other for other in near if _kind(other) == _kind(source)), near[0] if near else None)


def _folder(source: str) -> str:
    """Folder of a source file, the same for an operation of any rung; the file itself for a class in it."""
    path, _, inside = source.partition(",")
    return path if inside else path.rpartition("/")[0]


def _kind(source: str) -> str:
    return source.partition(",")[0].rpartition(".")[2]


def _pair(
    results: Results, rung: RungResult, source: str, below: RungResult | None, partner: str | None, *, opened: bool
) -> str:
    lines = len(results.sources[source])
    summary = f"{escape(source)} <small>{lines:,} line{'s' * (lines != 1)}</small>"
    partner_text = ""
    if below is not None and partner is not None:
        summary += f" <small>next to {escape(below.name)}'s {escape(partner)}</small>"
        partner_text = _text(results, below.name, partner)
    return (
        f"<details{' open' * opened}><summary>{summary}</summary>"
        f'<div class="{"pair" if partner_text else "alone"}">{partner_text}'
        f"{_text(results, rung.name, source)}</div></details>"
    )


def _text(results: Results, name: str, source: str) -> str:
    label, text = escape(f"{name}: {source}"), escape("\n".join(results.sources[source]))
    return (
        f'<figure class="code"><figcaption>{label}</figcaption><pre tabindex="0" '
        f'aria-label="{label}">{text}</pre></figure>'
    )
