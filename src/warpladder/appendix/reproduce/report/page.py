"""The page of a reproduced report, or of several reproductions of it next to each other: one HTML file that needs
nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape

from ....errors import ResultsError
from ....files.atomic import write_atomically
from ....report.classes_html import scores as class_table
from ....report.html import note, pairs, plot
from ....report.page import document
from ....results import Machine
from ....results.text.words import seconds
from ..results import Reproduction, Section
from . import pictures
from .figures import ratio
from .tables import table
from .terminal import scaled


def write_page(
    found: Reproduction | Sequence[Reproduction], path: str | os.PathLike[str], labels: Sequence[str] = ()
) -> None:
    """Write the page; an old one stays whole until the new one is on the disk."""
    write_atomically(path, page(found, labels))


def page(found: Reproduction | Sequence[Reproduction], labels: Sequence[str] = ()) -> str:
    """The page's text.

    Parameters
    ----------
    found : Reproduction or sequence of Reproduction
        One, or several of the same report: their figures stand next to each other.
    labels : sequence of str
        What each of several is called, as "H100" and "H200".

    Raises
    ------
    ResultsError
        They are not of one report, or their tables are not the same.
    """
    every = [found] if isinstance(found, Reproduction) else list(found)
    labels = list(labels) or ([""] if len(every) == 1 else [f"{at}" for at in range(1, len(every) + 1)])
    check_alike(every, labels)
    first = every[0]
    made = [("start", "", _start(every, labels))]
    for at, section in enumerate(first.sections):
        made.append((f"p{at}", section.title, _section([each.sections[at] for each in every], labels, f"p{at}")))
    made.append(
        (
            "machine",
            "Machine",
            "".join(_machine(each.machine, label) for each, label in zip(every, labels, strict=True)),
        )
    )
    commands = dict.fromkeys(each.command for each in every if each.command)
    made.append(
        (
            "again",
            "Do it again",
            "".join(f'<pre tabindex="0" aria-label="Command">{escape(command)}</pre>' for command in commands),
        )
    )
    title = f"{first.report.upper()}: {first.title}"
    when = [each.created.replace("T", " ").replace("Z", " UTC") for each in every]
    subtitle = (
        f"a report reproduced, {when[0]}"
        if len(every) == 1
        else f"reproductions of a report, compared, {' and '.join(when)}"
    )
    return document(title, f"warpladder, {subtitle}", [each for each in made if each[2]])


def check_alike(every: Sequence[Reproduction], names: Sequence[str]) -> None:
    """Raise `ResultsError`, which names the first that does not fit, where these are not reproductions of one report
    with the same tables.
    """
    first = every[0]
    for other, name in zip(every[1:], names[1:], strict=True):
        if other.report != first.report:
            raise ResultsError(
                f"{name}: reproduces {other.report}, and {names[0]} reproduces {first.report}: only those of "
                "one report are compared"
            )
        if _shape(other) != _shape(first):
            raise ResultsError(
                f"{name}: its tables are not those of {names[0]}: another version of warpladder made them; run "
                "both again with one version"
            )


def _shape(found: Reproduction) -> list[object]:
    """All that tables must have in common to stand next to each other: titles, heads, units, and the rows' labels."""
    return [
        (
            section.title,
            [(each.title, each.heads, each.columns, [row.label for row in each.rows]) for each in section.tables],
        )
        for section in found.sections
    ]


def _start(every: Sequence[Reproduction], labels: Sequence[str]) -> str:
    """What the report is, what must be known, and the largest differences."""
    out = [note(every[0].about)]
    ends = []
    for each, label in zip(every, labels, strict=True):
        named = f"{label}: " if label else ""
        notes = [*each.notes]
        if each.missing:
            notes.insert(0, f"Not measured yet: {', '.join(each.missing)}.")
        if each.quick:
            notes.insert(
                0, "A first look: on a part of the data, and fewer epochs. Accuracies are those of so little training."
            )
        out += [f'<p class="warning">{escape(named + text)}</p>' for text in notes]
        ends.append(note(named + _measured(each)))
    return "".join(out + ends)


def _measured(found: Reproduction) -> str:
    """How many figures there are, and what the signs mean."""
    values = [
        value for section in found.sections for table in section.tables for row in table.rows for value in row.values
    ]
    stated = sum(ratio(value) is not None for value in values)
    text = (
        f"{sum(value.here is not None for value in values):,} figures were measured in "
        f"{seconds(found.seconds)}, {stated:,} of them are in the report too."
    )
    if scaled(found):
        text += " A star marks what was measured on a part of the work and scaled up."
    return text


def _section(same: Sequence[Section], labels: Sequence[str], name: str) -> str:
    """A section: bars first, then tables, why they differ, and the other pictures."""
    first = same[0]
    out = [note(first.text)] if first.text else []
    named = list(enumerate(zip(same, labels, strict=True)))
    for number, (section, label) in named:
        for at, bars in enumerate(section.bars):
            drawn = plot(f"{name}-{number}-b{at}", pictures.bars_alt(bars), pictures.bars(bars), bars.text)
            out.append(_head(label, bars.title) + drawn)
    for at, each in enumerate(first.tables):
        if each.title != first.title:
            out.append(_head("", each.title))
        out.append(table([section.tables[at] for section in same], labels))
        out += [note(each.text)] * bool(each.text)
    out += [f'<p class="conclusion">{escape(finding)}</p>' for finding in first.findings]
    for number, (section, label) in named:
        for at, lines in enumerate(section.lines):
            drawn = plot(f"{name}-{number}-l{at}", pictures.lines_alt(lines), pictures.lines(lines), lines.text)
            out.append(_head(label, lines.title) + drawn)
        for photo in section.photos:
            image = f'<img class="photo" alt="{escape(photo.alt)}" src="data:image/png;base64,{photo.png}">'
            below = f"<figcaption>{escape(photo.text)}</figcaption>" if photo.text else ""
            out.append(f'{_head(label, photo.title)}<figure class="plot">{image}{below}</figure>')
        for one in section.classified:
            out.append(
                _head(label, one.title) + class_table(one.scores, one.title) + (note(one.text) if one.text else "")
            )
    return "\n".join(out)


def _head(label: str, title: str) -> str:
    return f"<h3>{escape(f'{label}: {title}' if label else title)}</h3>"


def _machine(machine: Machine, label: str) -> str:
    found = [("processor", f"{machine.cpu}, {machine.cores} cores")]
    if machine.gpu:
        found.append(("GPU", f"{machine.gpu.name}, {machine.gpu.multiprocessors} multiprocessors"))
    found += [
        ("system", f"{machine.system}, {machine.python}"),
        ("packages", ", ".join(f"{name} {version}" for name, version in machine.packages.items())),
        ("commit", "-" if machine.commit is None else machine.commit + (" and changes" if machine.dirty else "")),
    ]
    return (f"<h3>{escape(label)}</h3>" if label else "") + pairs(found)
