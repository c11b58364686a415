"""The page of a reproduced report, or of several reproductions of it beside each other: one HTML file that needs nothing else."""

from __future__ import annotations

import os
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
    """A section: its tables, why they differ, and its pictures."""
    first = same[0]
    out = [note(first.text)] if first.text else []
    for at, each in enumerate(first.tables):
        if each.title != first.title:
            out.append(f"<h3>{escape(each.title)}</h3>")
        out.append(table([section.tables[at] for section in same], labels))
        out += [note(each.text)] * bool(each.text)
    out += [f'<p class="conclusion">{escape(finding)}</p>' for finding in first.findings]
    for section, label in zip(same, labels, strict=True):
        tag = f"{name}-{label}" if label else name
        above = f"{label}: " if label else ""
        for at, lines in enumerate(section.lines):
            out.append(
                f"<h3>{escape(above + lines.title)}</h3>{plot(f'{tag}-l{at}', pictures.lines_alt(lines), pictures.lines(lines), lines.text)}"
            )
        for at, bars in enumerate(section.bars):
            out.append(
                f"<h3>{escape(above + bars.title)}</h3>{plot(f'{tag}-b{at}', pictures.bars_alt(bars), pictures.bars(bars), bars.text)}"
            )
        for photo in section.photos:
            image = f'<img class="photo" alt="{escape(photo.alt)}" src="data:image/png;base64,{photo.png}">'
            below = f"<figcaption>{escape(photo.text)}</figcaption>" if photo.text else ""
            out.append(f'<h3>{escape(above + photo.title)}</h3><figure class="plot">{image}{below}</figure>')
        for one in section.classified:
            out.append(f"<h3>{escape(above + one.title)}</h3>{class_table(one.scores, one.title)}{note(one.text) if one.text else ''}")
    return "\n".join(out)


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
