"""What the modes of a check wrote down, put together: each fault once, whoever saw it and how often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

MODES = ("check", "asan", "fast")

Place = tuple[str, int]


@dataclass(frozen=True)
class Problem:
    """One fault.

    kind : race, out of bounds, ...: a heading.
    message : what happened, by which threads, in a sentence.
    places : file and line of each access that it takes, the later one first.
    array : whose memory, "" where there is none.
    kernel, launch : which kernel, and in which launch, counted from 1, it was first seen.
    seen : what saw it: check, asan, forward, ...
    count : how often.
    also : further lines in which it shows: of races, or of copies used too early, on one array that have a line in
    common.
    """

    kind: str
    message: str
    places: tuple[Place, ...]
    array: str
    kernel: str
    launch: int
    seen: tuple[str, ...]
    count: int = 1
    also: tuple[Place, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What came of a check.

    problems : each fault once.
    remarks : what is worth knowing and no fault.
    launches : how many were asked for.
    ran : modes that came to their end, and the orders of the fast one.
    printed : what the kernels printed, in the first mode.
    refused : kernels that could not be run, each with the reason in a line.
    stopped : whether somebody ended it before all modes had.
    """

    problems: tuple[Problem, ...]
    remarks: tuple[str, ...]
    launches: int
    ran: tuple[str, ...]
    printed: str
    refused: tuple[tuple[str, str], ...] = ()
    stopped: bool = False


Entries = Sequence[Mapping[str, Any]]

#: What a process may die of.
CAUSES = ("trap", "out of bounds", "misaligned", "undefined behaviour")

#: Kinds that take two places: one fault may show in many pairs of them.
_PAIRS = ("race", "unfinished copy", "unfinished product", "proxy fence")

#: Kinds that one fault may go by: what ends a thread in one mode is a signal or a message in another, and what waits
#: for ever runs until its time is over.
_ALIKE = (
    {"trap", "undefined behaviour", "crash"},
    {"deadlock", "barrier", "warp mask", "phase", "warpgroup", "time limit"},
    {"out of bounds", "crash"},
)


def found(entries: Mapping[str, Entries]) -> tuple[tuple[Problem, ...], tuple[str, ...]]:
    """Every fault once, and remarks. What the fast mode shows is a consequence where another mode knows the cause."""
    problems: list[Problem] = []
    remarks: list[str] = []
    unfilled: list[str] = []
    for mode in MODES:
        known = bool(problems)
        running: Mapping[str, Any] = {"kernel": "", "launch": 0, "order": "forward"}
        for entry in entries.get(mode, ()):
            if "order" in entry:
                running = entry
            elif "remark" in entry:
                remarks.append(entry["remark"])
            elif "unfilled" in entry:
                unfilled.append(entry["unfilled"])
            elif "kind" in entry:
                problem = _problem({**running, **entry}, mode)
                consequence = problem.kind in ("order", "crash", "uninitialised local") and not any(
                    _same(old, problem) for old in problems
                )
                if known and mode == "fast" and consequence:
                    remarks.append(f"The fast mode shows it: {problem.message}")
                else:
                    _add(problems, problem)
    if unfilled and "check" not in entries:
        remarks.append(
            f"Nobody has filled __constant__ {', '.join(dict.fromkeys(unfilled))}, and only the check mode sees whether it is read"
        )
    return tuple(_causes(problems)), tuple(dict.fromkeys(remarks))


def refused(entries: Mapping[str, Entries]) -> tuple[tuple[str, str], ...]:
    """Kernels that some mode could not run, and why, once each."""
    out: dict[str, str] = {}
    for mode in entries:
        for entry in entries[mode]:
            if "refused" in entry:
                out.setdefault(entry["refused"], entry["why"])
    return tuple(out.items())


def _problem(entry: Mapping[str, Any], mode: str) -> Problem:
    kind, message = entry["kind"], entry["message"]
    seen = mode if mode != "fast" else "fast" if entry["order"] == "locals" else f"{entry['order']} order"
    if entry["order"] == "locals" and kind in ("crash", "time limit"):
        kind, message = "uninitialised local", f"with zeros or rubbish in local variables that have no value {message}"
    places = tuple((file, line) for file, line in entry["places"])
    return Problem(kind, message, places, entry["array"], entry["kernel"], entry["launch"], (seen,))


def _add(problems: list[Problem], new: Problem) -> None:
    """Count a fault that is there already: the same in the same lines, perhaps of another kernel, or seen in one of
    them by another mode.
    """
    for position, old in enumerate(problems):
        if _same(old, new):
            seen = tuple(dict.fromkeys(old.seen + new.seen))
            further = (
                tuple(place for place in (*old.also, *new.places) if place not in old.places)
                if old.kind == new.kind and new.kind in _PAIRS
                else old.also
            )
            problems[position] = replace(
                old, seen=seen, count=old.count + (old.seen == new.seen), also=tuple(dict.fromkeys(further))
            )
            return
    problems.append(new)


def _same(old: Problem, new: Problem) -> bool:
    if (
        old.kind == new.kind
        and (old.array, set(old.places)) == (new.array, set(new.places))
        and (old.places or old.message == new.message)
    ):
        return bool(old.places) or old.kernel == new.kernel
    if old.kind == new.kind == "unfilled" and old.array == new.array:
        return True
    if old.kind == new.kind and new.kind in _PAIRS and (old.kernel, old.array) == (new.kernel, new.array):
        return bool({*old.places, *old.also} & set(new.places))
    if old.kernel != new.kernel or old.seen == new.seen:
        return False
    if new.kind == "crash" and not new.places and old.kind in CAUSES:
        return True
    waits = {old.kind, new.kind} <= _ALIKE[1] and "time limit" in (old.kind, new.kind)
    alike = old.kind == new.kind or any({old.kind, new.kind} <= kinds for kinds in _ALIKE)
    return waits or (alike and bool(set(old.places) & set(new.places)))


def _causes(problems: list[Problem]) -> list[Problem]:
    """Without what follows from another fault among them: reads that a race lets come too early, races where an index
    runs out of its row, crashes.
    """
    races = {(p.kernel, p.array, place) for p in problems if p.kind == "race" for place in p.places}
    outside = {
        (p.kernel, p.array, place) for p in problems if p.kind == "out of bounds" and p.array for place in p.places
    }
    named = {p.kernel for p in problems if p.kind in CAUSES and p.places}
    return [
        p
        for p in problems
        if not (p.kind == "uninitialised" and any((p.kernel, p.array, place) in races for place in p.places))
        and not (p.kind == "race" and all((p.kernel, p.array, place) in outside for place in p.places))
        and not (p.kind == "crash" and not p.places and p.kernel in named)
    ]
