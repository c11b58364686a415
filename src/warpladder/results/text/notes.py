"""Remarks on the figures of a climb: a line for each kind below the terminal's table, the details on the page."""

from __future__ import annotations

from collections import Counter

from .. import Results, RungResult
from .words import parts_of, shown

#: Sentence that refers to the list of rungs that cannot train here.
LISTED = "'warpladder rungs' lists what cannot train here, each with its reason."

SCALED = "* is scaled up: only the first steps of each epoch were timed"
DEVIATING = "trained with deviations of its own, which the page lists"
EMULATED = "CUDA kernels were emulated on the CPU: their times say nothing of a GPU, so none is compared. Proofs hold."

#: Most names in a line; more are counted.
NAMED = 3


def remarks(results: Results) -> list[tuple[str, str]]:
    """Remarks in full, with the names of their rungs: reasons for missing times, scaled times, deviations of peers."""
    texts: dict[str, list[str]] = {}
    for rung in shown(results):
        notes = [rung.reason] if rung.timing is None else []
        if rung.timing is not None and rung.timing.scaled:
            of, each = rung.timing.of_epochs, rung.timing.steps // rung.timing.of_epochs
            which = f"{each:,} of its {rung.timing.epoch_steps:,} steps" + (
                f", taken of each of {of} epochs" if of > 1 else ""
            )
            notes.append(f"seconds per epoch are scaled up from {which}")
        if rung.timing is not None and rung.reason:
            notes.append(rung.reason)
        if rung.same_bits is False and rung.timing is not None:
            notes.append("its runs do not repeat bit for bit")
        if rung.deviations and rung.status != "missing":  # a rung that was not reached has no figures
            notes.append(f"it deviates: {'; '.join(rung.deviations)}")
        if notes:
            texts.setdefault("; ".join(note.rstrip(".") for note in notes) + ".", []).append(rung.name)
    lines = [(", ".join(names), text) for text, names in texts.items()]
    return lines + [("note", f"{note.rstrip('.')}.") for note in results.notes]


def notes(results: Results) -> list[tuple[str, str]]:
    """Remarks for the terminal: names, and one line for each kind. The reason of a failed rung is printed in full."""
    timed, kinds = results.timed(), dict[str, list[RungResult]]()
    out = [
        (rung.name, f"{rung.reason.rstrip('.')}.")
        for rung in shown(results)
        if rung.timing is None and rung.status != "missing"
    ]
    for rung in results.rungs:
        if rung.status == "missing":
            kinds.setdefault(rung.reason, []).append(rung)
    for rung in timed:
        assert rung.timing is not None
        found = [SCALED] if rung.timing.scaled else []
        found += [part.split(": ")[0] for part in rung.reason.split("; ") if part]
        found += ["its runs do not repeat bit for bit"] if rung.same_bits is False else []
        for kind in found + ([DEVIATING] if rung.deviations else []):
            kinds.setdefault(kind, []).append(rung)
    for kind, rungs in kinds.items():
        out.append((_names(rungs, timed), f"{kind.rstrip('.')}."))
    out += [("note", f"{note.rstrip('.')}.") for note in results.notes]
    reasons = absent(results)
    if len(reasons) > 1:
        gone = [rung for rung in results.rungs if rung.status == "unsupported"]
        reasons = [(_counted(gone), f"not here: {LISTED}")]
    return out + reasons


def absent(results: Results) -> list[tuple[str, str]]:
    """Rungs that cannot train here: names and reason, an entry for each reason."""
    reasons: dict[str, list[RungResult]] = {}
    for rung in results.rungs:
        if rung.status == "unsupported":
            reasons.setdefault(rung.reason.rstrip("."), []).append(rung)
    return [(_names(rungs, []), f"not here: {reason}.") for reason, rungs in reasons.items()]


def _names(rungs: list[RungResult], timed: list[RungResult]) -> str:
    """Names of a few rungs as text; the number of many, and "all" for several that are all timed ones."""
    if len(rungs) == len(timed) > 1:
        return "all"
    return ", ".join(rung.name for rung in rungs) if len(rungs) <= NAMED else _counted(rungs)


def _counted(rungs: list[RungResult]) -> str:
    """Names of two rungs, as "cupy and jax"; the number of more."""
    if len(rungs) < 3:
        return " and ".join(rung.name for rung in rungs)
    counts = (("rung", sum(not rung.peer for rung in rungs)), ("peer", sum(rung.peer for rung in rungs)))
    return " and ".join(f"{number} {kind}{'s' * (number != 1)}" for kind, number in counts if number)


def warnings(results: Results) -> list[str]:
    """Sentences about the validity of the figures, to be shown above them: stopped, disturbed, emulated."""
    out = []
    if results.stopped:
        left = [rung.name for rung in results.rungs if rung.status == "missing"]
        without = f" Without a time: {', '.join(left)}." if left else ""
        out.append(f"This climb did not come to its end: {results.stopped.rstrip('.')}.{without}")
    if results.disturbed:
        short = Counter(parts_of(rung.name)[0] for rung in results.timed())
        loud = [(rung.name, parts_of(rung.name)[0]) for rung in results.timed() if results.is_disturbed(rung)]
        names = ", ".join(base if short[base] == 1 else name for name, base in loud)
        out.append(
            f"Disturbed: other processes kept up to {results.disturbance:.2g} of {results.machine.cores} processors "
            f"busy while {names} had the clock. These times may be too long, and their ratios mean little: measure "
            "again on a quiet machine."
        )
    if results.emulated:
        out.append(EMULATED)
    return out
