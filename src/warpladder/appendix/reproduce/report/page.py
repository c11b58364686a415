"""Page of a reproduced report, or of several reproductions of one report: one HTML file without other files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape

from ....files.atomic import write_atomically
from ....results.report.classes_html import scores as class_table
from ....results.report.html import note, pairs, plot
from ....results.report.html import table as drawn_table
from ....results.report.page import document
from ....results.text.words import seconds
from ..results import Reproduction, Section
from ..texts import counted
from . import pictures
from .figures import legend, ratio
from .prose import claims, diagram, prose
from .side_by_side import aligned, check_alike
from .tables import table


def write_page(
    found: Reproduction | Sequence[Reproduction], path: str | os.PathLike[str], labels: Sequence[str] = ()
) -> None:
    """Write the page of a reproduced report to a file, atomically."""
    write_atomically(path, page(found, labels))


def page(found: Reproduction | Sequence[Reproduction], labels: Sequence[str] = ()) -> str:
    """HTML of the page of a reproduced report.

    Parameters
    ----------
    found : Reproduction or sequence of Reproduction
        One reproduction, or several of one report, whose figures are shown next to each other.
    labels : sequence of str
        Names of the reproductions, as "H100" and "H200".

    Raises
    ------
    ResultsError
        The reproductions are not of one report, or their tables differ.
    """
    every = [found] if isinstance(found, Reproduction) else list(found)
    labels = list(labels) or ([""] if len(every) == 1 else [f"{at}" for at in range(1, len(every) + 1)])
    check_alike(every, labels)
    every = aligned(every)
    first = every[0]
    made = [("start", "", _start(every, labels))]
    for at, section in enumerate(first.sections):
        made.append((f"p{at}", section.title, _section([each.sections[at] for each in every], labels, f"p{at}")))
    made.append(
        ("machine", "Machine", "".join(_machine(each, label) for each, label in zip(every, labels, strict=True)))
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


def _start(every: Sequence[Reproduction], labels: Sequence[str]) -> str:
    """HTML of the first section: the report, remarks, and the largest differences."""
    out = [prose(every[0].about)]
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
        if disturbed := [name for name, made in each.experiments.items() if made.disturbed]:
            notes.append(
                "Disturbed: other processes kept more than a tenth of the cores busy during these experiments: "
                f"{', '.join(disturbed)}. Their times, marked \N{DAGGER}, may be too long, and ratios mean little."
            )
        out += [f'<p class="warning">{escape(named + text)}</p>' for text in notes]
        if each.claims:
            out.append(prose(f"{named}{counted(each.claims)}", "conclusion"))
        ends.append(note(named + _measured(each)))
    return "".join(out + ends)


def _measured(found: Reproduction) -> str:
    """HTML of the number of measured figures, and the meanings of the signs."""
    values = [
        value for section in found.sections for table in section.tables for row in table.rows for value in row.values
    ]
    stated = sum(ratio(value) is not None for value in values)
    text = (
        f"{sum(value.here is not None for value in values):,} figures were measured in "
        f"{seconds(found.seconds)}, {stated:,} of them are in the report too."
    )
    return " ".join([text, *(f"{sign}." for sign in legend(found.values))])


def _section(same: Sequence[Section], labels: Sequence[str], name: str) -> str:
    """HTML of a section: bars first, then tables, reasons for differences, and the other pictures."""
    first = same[0]
    out = [prose(first.text)] if first.text else []
    out.append(claims([section.claims for section in same], labels))
    named = list(enumerate(zip(same, labels, strict=True)))
    for number, (section, label) in named:
        for at, bars in enumerate(section.bars):
            drawn = plot(f"{name}-{number}-b{at}", pictures.bars_alt(bars), pictures.bars(bars), bars.text)
            out.append(_head(label, bars.title) + drawn)
    for at, each in enumerate(first.tables):
        if each.title != first.title:
            out.append(_head("", each.title))
        out.append(table([section.tables[at] for section in same], labels))
        out += [prose(each.text)] * bool(each.text)
    everywhere = [text for text in first.findings if all(text in section.findings for section in same)]
    out += [prose(str(finding), "finding") for finding in everywhere]
    for section, label in zip(same, labels, strict=True):
        out += [prose(f"{label}: {text}", "finding") for text in section.findings if text not in everywhere]
    for section, label in zip(same, labels, strict=True):
        out += [_head(label, each.title) + diagram(each) for each in section.diagrams]
    for number, (section, label) in named:
        for at, lines in enumerate(section.lines):
            drawn = plot(f"{name}-{number}-l{at}", pictures.lines_alt(lines), pictures.lines(lines), lines.text)
            out.append(_head(label, lines.title) + drawn)
        for photo in section.photos:
            image = f'<img class="photo" alt="{escape(photo.alt)}" src="data:image/png;base64,{escape(photo.png)}">'
            below = f"<figcaption>{escape(photo.text)}</figcaption>" if photo.text else ""
            out.append(f'{_head(label, photo.title)}<figure class="plot">{image}{below}</figure>')
        for one in section.classified:
            out.append(
                _head(label, one.title) + class_table(one.scores, one.title) + (note(one.text) if one.text else "")
            )
    return "\n".join(out)


def _head(label: str, title: str) -> str:
    return f"<h3>{escape(f'{label}: {title}' if label else title)}</h3>"


def _machine(found: Reproduction, label: str) -> str:
    """HTML of the facts of a reproduction: machine, versions, data, and the record of each experiment."""
    machine, gpu = found.machine, found.machine.gpu
    facts = [("processor", f"{machine.cpu}, {machine.cores} cores")]
    if gpu:
        facts.append(("GPU", f"{gpu.name}, {gpu.multiprocessors} multiprocessors"))
        facts.append(("driver", f"{gpu.driver or '-'}, CUDA {gpu.cuda}, NVRTC {gpu.nvrtc}"))
    facts += [
        ("system", f"{machine.system}, {machine.python}"),
        ("packages", ", ".join(f"{name} {version}" for name, version in machine.packages.items())),
        ("commit", "-" if machine.commit is None else machine.commit + (" and changes" if machine.dirty else "")),
    ]
    facts += [(f"data: {name}", f"SHA-256 of its arrays {digest}") for name, digest in found.data.items()]
    heads = ("experiment", "took, s", "others kept busy, cores", "measured, times", "made")
    rows = [
        (
            "bad" if made.disturbed else "rung",
            [
                escape(name),
                f"{made.seconds:.3g}",
                ("" if made.others is None else f"{made.others:.2g}") + "\N{DAGGER}" * made.disturbed,
                str(made.times),
                f'{escape(made.created)}<span class="options">{escape((made.commit or "-")[:10])}</span>',
            ],
        )
        for name, made in found.experiments.items()
    ]
    made = drawn_table("How each experiment was made", heads, rows, (0,)) if rows else ""
    return (f"<h3>{escape(label)}</h3>" if label else "") + pairs(facts) + made
