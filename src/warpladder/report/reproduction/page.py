"""The page of a reproduced report, or of several reproductions of it beside each other: one HTML file that needs nothing else."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from html import escape

from ...results import Machine
from ...results.files import write_whole
from ...results.reproduction import Reproduction, Section
from ..classes_html import scores as class_table
from ..html import note, pairs, plot
from ..page import document
from ..words import seconds
from . import pictures
from .figures import ratio
from .tables import table
from .terminal import scaled


def write_page(found: Reproduction | Sequence[Reproduction], path: str | os.PathLike[str], labels: Sequence[str] = ()) -> None:
    """Write the page; an old one stays whole until the new one is on the disk."""
    write_whole(path, page(found, labels))


def page(found: Reproduction | Sequence[Reproduction], labels: Sequence[str] = ()) -> str:
    """The page's text.

    Parameters
    ----------
    found : Reproduction or sequence of Reproduction
        One, or several of the same report: their figures stand beside each other.
    labels : sequence of str
        What each of several is called, as "H100" and "H200".
    """
    every = [found] if isinstance(found, Reproduction) else list(found)
    labels = list(labels) or [""] * len(every)
    first = every[0]
    made = [("start", "", _start(every, labels))]
    for at, section in enumerate(first.sections):
        made.append((f"p{at}", section.title, _section([each.sections[at] for each in every], labels, f"p{at}")))
    made.append(("machine", "Machine", "".join(_machine(each.machine, label) for each, label in zip(every, labels, strict=True))))
    made.append(("again", "Do it again", f'<pre tabindex="0" aria-label="Command">{escape(first.command)}</pre>' if first.command else ""))
    title = f"{first.report.upper()}: {first.title}"
    return document(
        title,
        f"warpladder, a report reproduced, {first.created.replace('T', ' ').replace('Z', ' UTC')}",
        [each for each in made if each[2]],
    )


def _start(every: Sequence[Reproduction], labels: Sequence[str]) -> str:
    """What the report is, what must be known, and the largest differences."""
    first = every[0]
    out = [note(first.about)]
    if first.quick:
        out.append(
            '<p class="warning">A first look: on a part of the data, and fewer epochs. Accuracies are those of so little training.</p>'
        )
    for each, label in zip(every, labels, strict=True):
        if each.missing:
            out.append(
                f'<p class="warning">{escape(f"{label}: " if label else "")}Not measured yet: {escape(", ".join(each.missing))}.</p>'
            )
        out += [f'<p class="warning">{escape(text)}</p>' for text in each.notes]
    return "".join(out) + note(_measured(first))


def _measured(found: Reproduction) -> str:
    """How many figures there are, and what the signs mean."""
    values = [value for section in found.sections for table in section.tables for row in table.rows for value in row.values]
    beside = sum(ratio(value) is not None for value in values)
    text = f"{sum(value.here is not None for value in values):,} figures were measured in {seconds(found.seconds)}, {beside:,} of them beside one of the report."
    if scaled(found):
        text += " A star marks what was measured on a part of the work and scaled up."
    return text


def _section(same: Sequence[Section], labels: Sequence[str], name: str) -> str:
    """A section: bars first, then tables, why they differ, and the other pictures."""
    first = same[0]
    out = [note(first.text)] if first.text else []
    named = list(zip(same, labels, strict=True))
    for section, label in named:
        for at, bars in enumerate(section.bars):
            drawn = plot(_tag(name, label, f"b{at}"), pictures.bars_alt(bars), pictures.bars(bars), bars.text)
            out.append(_head(label, bars.title) + drawn)
    for at, each in enumerate(first.tables):
        if each.title != first.title:
            out.append(_head("", each.title))
        out.append(table([section.tables[at] for section in same], labels))
        out += [note(each.text)] * bool(each.text)
    out += [f'<p class="conclusion">{escape(finding)}</p>' for finding in first.findings]
    for section, label in named:
        for at, lines in enumerate(section.lines):
            drawn = plot(_tag(name, label, f"l{at}"), pictures.lines_alt(lines), pictures.lines(lines), lines.text)
            out.append(_head(label, lines.title) + drawn)
        for photo in section.photos:
            image = f'<img class="photo" alt="{escape(photo.alt)}" src="data:image/png;base64,{photo.png}">'
            below = f"<figcaption>{escape(photo.text)}</figcaption>" if photo.text else ""
            out.append(f'{_head(label, photo.title)}<figure class="plot">{image}{below}</figure>')
        for one in section.classified:
            out.append(_head(label, one.title) + class_table(one.scores, one.title) + (note(one.text) if one.text else ""))
    return "\n".join(out)


def _tag(name: str, label: str, which: str) -> str:
    """A name for a picture's ids, which no other picture of the page has."""
    return "-".join(filter(None, (name, re.sub(r"[^a-zA-Z0-9]+", "-", label), which)))


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
