"""Printed outcome of a check: each fault with its lines of source and its usual remedy."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from .shared.console import console

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from ..checker.faults import Outcome, Problem

#: Most lines of kernels' output that are shown.
PRINTED = 20


def show(outcome: Outcome) -> None:
    """Print the outcome of a check: each fault, refused kernels, remarks, and a last line with the verdict."""
    from rich.text import Text

    out = console()
    for number, problem in enumerate(outcome.problems, 1):
        show_problem(number, problem, out)
    if outcome.printed:
        lines = outcome.printed.splitlines()
        more = f"\n... and {len(lines) - PRINTED:,} more lines" if len(lines) > PRINTED else ""
        out.print(Text("Printed by the kernels:\n" + "\n".join(lines[:PRINTED]) + more + "\n"))
    for kernel, why in outcome.refused:
        reason = why if why.startswith(f"kernel {kernel} ") else f"kernel {kernel}: {why}"
        out.print(Text(f"refused: {reason}", "bold yellow"), soft_wrap=True)
    if outcome.refused:
        out.print()
    for remark in outcome.remarks:
        out.print(_wrapped(f"Remark: {remark}.", out, ""))
        out.print()
    modes = [mode for mode in outcome.ran if not mode.endswith("order")]
    orders = len(outcome.ran) - len(modes)
    ran = " + ".join([*modes, *([count(orders, "order")] if orders else [])])
    launches = count(outcome.launches, "launch")
    problems = f"{count(len(outcome.problems), 'problem')} in {launches}"
    if outcome.stopped:
        out.print(
            f"stopped: {problems} until then{f', after {ran}' if ran else ', no mode was done'}", style="bold red"
        )
    elif outcome.problems:
        out.print(f"{problems}: {ran}", style="bold red")
    elif outcome.refused:
        out.print(
            f"not checked: {count(len(outcome.refused), 'kernel')}; no problem found in the others: {launches}, {ran}",
            style="bold yellow",
        )
    else:
        out.print(f"no problem found: {launches}, {ran}", style="bold green")


def show_problem(number: int, problem: Problem, out: Console) -> None:
    """Print a fault: a heading, its description, its lines of source, and its usual remedy."""
    from rich.text import Text

    from ..checker.faults import HINTS, hint

    on = f" on {problem.array}" if problem.array else ""
    out.print(
        Text(f"{number}. ")
        .append(problem.kind + on, "bold red")
        .append(f", kernel {problem.kernel}" if problem.kernel else "")
    )
    out.print(_wrapped(problem.message, out))
    shown = _source(problem, out.width)
    for line in [Text(), *shown, Text()] if shown else []:
        out.print(line, no_wrap=True, crop=False)
    if problem.kind in HINTS:
        out.print(_wrapped(f"Usually: {hint(problem)}", out), style="cyan")
    also = [str(line) for _, line in sorted(problem.also)]
    more = f"also in line{'s' * (len(also) > 1)} {_together(tuple(also))}" if also else ""
    if problem.places and problem.seen:
        times = f"{problem.count:,} times, " if problem.count > 1 else ""
        more = ", ".join(filter(None, [f"seen {times}by {_together(problem.seen)}", more]))
    if more:
        out.print(_wrapped(f"{more[0].upper()}{more[1:]}.", out), style="dim")
    out.print()


def _wrapped(text: str, out: Console, indent: str = "   ") -> Text:
    from rich.text import Text

    return Text(
        textwrap.fill(
            text, min(out.width, 120) - 1, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
        )
    )


def _source(problem: Problem, width: int) -> list[Text]:
    """Lines of source of a fault, each with its file and line number, and marks below where it accesses the array."""
    from rich.text import Text

    places = list(dict.fromkeys(problem.places))
    names = [f"{Path(file).name}:{line}" for file, line in places]
    margin = max(map(len, names), default=0) + 5
    shown = []
    for (file, line), name in zip(places, names, strict=True):
        text = _line(file, line)
        marks = _marks(text, problem.array)
        columns = width - margin - 4
        beyond = min(len(marks.rstrip()) - columns + 1, marks.find("^"))
        if beyond > 0:  # the important part is at the right
            text, marks = "\N{HORIZONTAL ELLIPSIS}" + text[beyond + 1 :], " " + marks[beyond + 1 :]
        if len(text) > columns:
            text, marks = text[: columns - 1] + "\N{HORIZONTAL ELLIPSIS}", marks[: columns - 1]
        shown.append(Text(f"{name:>{margin}} | ", "dim").append(text, "not dim"))
        if marks.strip():
            shown.append(Text(" " * margin + " | ", "dim").append(marks.rstrip(), "red not dim"))
    return shown


def _line(file: str, line: int) -> str:
    """Line of a file without the blanks around it; "" if the file cannot be read."""
    try:
        return Path(file).read_text(encoding="utf-8").splitlines()[line - 1].expandtabs(4).strip()
    except (OSError, UnicodeDecodeError, IndexError):
        return ""


def _marks(text: str, array: str) -> str:
    """Marks below a line of source: ^ under every use of the array and its index, a blank elsewhere."""
    marks = [" "] * len(text)
    for match in (
        re.finditer(rf"\b{re.escape(array)}\b(?:\s*\[[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\])*", text) if array else ()
    ):
        marks[match.start() : match.end()] = "^" * len(match[0])
    return "".join(marks)


def _together(words: tuple[str, ...]) -> str:
    """Words joined as in "a, b and c"."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def count(number: int, what: str) -> str:
    """Number with its noun, as "1 launch" or "3 launches"."""
    return f"{number:,} {what}{'' if number == 1 else 'es' if what.endswith('ch') else 's'}"
