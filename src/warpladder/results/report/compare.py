"""Comparison of a few climbs: two machines, two commits, two students. A change beyond the noise of the repetitions is
marked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from .. import Results, RungResult
from ..text import words
from .figures import ladder
from .html import note, plot, rung_name, table

#: Largest probability that repetitions of the same program differ as much by chance, for a change to be marked.
CHANCE = 0.05


def comparison(climbs: Sequence[Results], labels: Sequence[str], pictures: bool) -> str:
    """HTML of a comparison: the picture, the times of every rung in each climb relative to the first, and other
    differences.
    """
    first, others = climbs[0], climbs[1:]
    names = list(dict.fromkeys(rung.name for climb in climbs for rung in climb.timed()))
    out = "".join(f'<p class="warning">{escape(text)}</p>' for text in _warnings(climbs, labels))
    both = [name for name in names if sum(any(rung.name == name for rung in climb.timed()) for climb in climbs) > 1]
    if both and pictures:
        alt = "Time per epoch of each rung in each climb; the table below has the figures."
        caption = (
            "A mark is the median of the repetitions, a line reaches from the fastest to the slowest; "
            "the scale is logarithmic."
        )
        out += plot("compare", alt, ladder.compared(both, climbs, labels), caption)
    heads = ["rung", *map(escape, labels)]
    rows = []
    for name in names:
        timed = next(rung for climb in climbs for rung in climb.timed() if rung.name == name)
        base = _find(first, name)
        cells, changed = [_time(base)], False
        for other in others:
            text, marked = change(first, base, other, _find(other, name))
            cells.append(_time(_find(other, name)) + (f'<span class="options">{text}</span>' if text else ""))
            changed |= marked
        rows.append(("changed" if changed else "", [rung_name(timed), *cells]))
    if rows:
        text = (
            f"Each against {labels[0]}. Marked with ▲ (slower) or ▼ (faster): all repetitions of one lie "
            "on the same side of all of the other's, which "
            f"repetitions of one program would do by chance at most once in {1 / CHANCE:.0f} times. That "
            "is the noise within a climb: two climbs of one "
            "commit may differ by more, since machines warm up and share."
        )
        out += note(text) + table("Times in each climb", heads, rows)
    return f"{out}<h3>What differs</h3>{differences(climbs, labels)}"


def change(first: Results, base: RungResult | None, other: Results, rung: RungResult | None) -> tuple[str, bool]:
    """Change of a rung's time from one climb to another, as text, and True if it is beyond the noise."""
    if base is None or rung is None or base.timing is None or rung.timing is None:
        return "", False
    ratio = rung.timing.seconds_per_epoch / base.timing.seconds_per_epoch
    if first.disturbed or other.disturbed:
        return "disturbed: not compared", False
    if task(first) != task(other):
        return "another task", False
    factor = f"{words.times(1 / ratio)} as fast" if ratio <= 1 else f"{words.times(ratio)} the time"
    chance = 2 / math.comb(len(base.timing.epochs) + len(rung.timing.epochs), len(rung.timing.epochs))
    if chance > CHANCE:
        return f"{factor}; too few repetitions to say more", False
    if max(rung.timing.epochs) < min(base.timing.epochs):
        return f"<b>▼ {factor}</b>", True
    if min(rung.timing.epochs) > max(base.timing.epochs):
        return f"<b>▲ {factor}</b>", True
    return "within the noise", False


def task(results: Results) -> dict[str, object]:
    """Net, data and settings of a climb, by name: times of different tasks are not compared."""
    net, data = results.net, results.data
    facts: dict[str, object] = {
        "net": net.name,
        "layers": net.layers,
        "loss": net.loss,
        "data": data.name,
        "training samples": data.train,
    }
    return facts | {
        name: value for name, value in results.config.items() if name not in ("seed", "epochs", "log_every")
    }


def _find(climb: Results, name: str) -> RungResult | None:
    return next((rung for rung in climb.rungs if rung.name == name), None)


def _time(rung: RungResult | None) -> str:
    return "not climbed" if rung is None else escape(words.epoch_time(rung))


def _warnings(climbs: Sequence[Results], labels: Sequence[str]) -> list[str]:
    out = []
    for climb, label in zip(climbs[1:], labels[1:], strict=True):
        one, two = task(climbs[0]), task(climb)
        differing = [
            f"{name} {words.setting(one.get(name))} and {words.setting(two.get(name))}"
            for name in dict.fromkeys([*one, *two])
            if one.get(name) != two.get(name)
        ]
        if differing:
            out.append(
                f"{labels[0]} and {label} did not train the same task, so their times are not compared: "
                f"{'; '.join(differing)}."
            )
    for climb, label in zip(climbs, labels, strict=True):
        if climb.disturbed:
            out.append(f"{label} was disturbed by other processes: no change of it is marked.")
        if climb.stopped:
            out.append(f"{label} did not come to its end: {climb.stopped.rstrip('.')}.")
    return out


def differences(climbs: Sequence[Results], labels: Sequence[str]) -> str:
    """HTML of facts of machine, packages and outcome that differ: a row for each climb if they are many, else a row for
    each fact.
    """
    facts = [_facts(climb) for climb in climbs]
    names = [
        name
        for name in dict.fromkeys(name for each in facts for name in each)
        if len({each.get(name, "-") for each in facts}) > 1
    ]
    if not names:
        return note("Machine, packages and outcome are the same in all of them.")
    cells = [[escape(each.get(name, "-")) for each in facts] for name in names]
    heads, rows = list(map(escape, labels)), [[escape(name), *row] for name, row in zip(names, cells, strict=True)]
    if len(climbs) > len(names):
        heads = list(map(escape, names))
        rows = [[escape(label), *row] for label, *row in zip(labels, *cells, strict=True)]
    return table("What differs", ["", *heads], [("", row) for row in rows], tuple(range(len(heads) + 1)))


def _facts(results: Results) -> dict[str, str]:
    m = results.machine
    best = results.fastest(peers=True)
    found = {
        "fastest": "none" if best is None else "not known of a disturbed climb" if results.disturbed else best.name,
        "when": results.created.replace("T", " ").replace("+00:00", " UTC"),
        "commit": "-" if m.commit is None else m.commit[:12] + (" and changes" if m.dirty else ""),
        "processor": f"{m.cpu}, {m.threads} of {m.cores} cores",
        "GPU": m.gpu.name if m.gpu else "none",
        "system": f"{m.system}, {m.python}",
        "repetitions": str(results.repeats),
    }
    found |= m.packages
    for rung in words.shown(results):
        found[f"{rung.name}: proof"] = words.proof(rung)
        if words.score(rung):
            found[f"{rung.name}: test score"] = words.score(rung)
    return found
