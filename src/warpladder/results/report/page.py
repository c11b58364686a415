"""Results as one self-contained HTML file: without scripts, fonts or pictures from other files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape

from ...files.atomic import write_atomically
from .. import Results
from ..profiled import Profile
from ..sweep import Sweep
from ..text import notes, words
from ..text.sweep import rows, score_name
from . import code, sections
from .compare import comparison, differences
from .html import table
from .ranking import ranking
from .style import STYLE

#: Most climbs that a page shows in full; more are ranked in one table, which keeps the page below a megabyte.
WHOLE = 4


def write_page(
    results: Results | Sequence[Results],
    path: str | os.PathLike[str],
    labels: Sequence[str] = (),
    profiles: Sequence[Profile] = (),
) -> None:
    """Write the page of climbs to a file, atomically."""
    write_atomically(path, page(results, labels, profiles))


def page(
    results: Results | Sequence[Results],
    labels: Sequence[str] = (),
    profiles: Sequence[Profile] = (),
    pictures: bool = True,
) -> str:
    """HTML of the page of one climb or several.

    Parameters
    ----------
    results : Results or sequence of Results
        One climb; several, compared with the first; or more than `WHOLE`, which are ranked.
    labels : sequence of str
        Names of several climbs.
    profiles : sequence of Profile
        Profiles of rungs of these climbs: each is shown with the first climb of its net that timed its rung, else with
        the first climb.
    pictures : bool
        False leaves out pictures, which take longest.
    """
    climbs = [results] if isinstance(results, Results) else list(results)
    titles = [_title(climb) for climb in climbs]
    if len(climbs) == 1:
        return document(titles[0], f"warpladder climb, {_when(climbs[0])}", _sections(climbs, [""], profiles, pictures))
    labels = list(labels) or [f"climb {at}" for at in range(1, len(climbs) + 1)]
    kinds = " and ".join(dict.fromkeys(titles))
    if len(climbs) > WHOLE:
        made = [
            ("compare", "Comparison", ranking(climbs, labels)),
            ("differ", "What differs", differences(climbs, labels)),
        ]
        return document(f"{kinds}: {len(climbs)} climbs", "warpladder, climbs ranked", made)
    named = [f"{label}: {title}" for label, title in zip(labels, titles, strict=True)]
    made = [
        ("compare", "Comparison", comparison(climbs, labels, pictures)),
        *_sections(climbs, labels, profiles, pictures, named),
    ]
    return document(f"{kinds}: {len(climbs)} climbs", "warpladder, climbs next to each other", made)


def write_sweep(sweep: Sweep, path: str | os.PathLike[str]) -> None:
    """Write the page of a climb of several tasks to a file, atomically."""
    write_atomically(path, sweep_page(sweep))


def sweep_page(sweep: Sweep, pictures: bool = True) -> str:
    """HTML of a page with all tasks: their times next to each other, then each task under its heading."""
    heads = ("rung", "task", "time per epoch", "samples per s", score_name(sweep.tasks[0]))
    cells = [
        ("rung", [f"<b>{escape(name)}</b>", escape(task), *map(escape, figures)]) for name, task, figures in rows(sweep)
    ]
    missing = "".join(f'<p class="warning">{escape(heading)}: not reached.</p>' for heading in sweep.missing)
    labels = [heading for heading, _ in sweep.items()]
    made = [
        ("tasks", "All tasks", missing + table("All tasks", heads, cells, (0, 1))),
        *_sections(sweep.tasks, labels, (), pictures, labels),
    ]
    return document(_title(sweep.tasks[-1]), f"warpladder climb of several tasks, {_when(sweep.tasks[-1])}", made)


#: Section of the page: the name of its anchor, its heading, its text.
Section = tuple[str, str, str]


def _title(results: Results) -> str:
    return f"{results.net.name} on {results.data.name}"


def _sections(
    climbs: Sequence[Results],
    labels: Sequence[str],
    profiles: Sequence[Profile],
    pictures: bool,
    headings: Sequence[str] = ("",),
) -> list[Section]:
    """Sections of each climb: the first under the climb's heading, the others under headings with the climb's label."""
    places = [_place(profile, climbs) for profile in profiles]
    made: list[Section] = []
    for at, (climb, label, heading) in enumerate(zip(climbs, labels, headings, strict=True)):
        name = f"c{at}" if len(climbs) > 1 else "c"
        own = [profile for profile, place in zip(profiles, places, strict=True) if place == at]
        found = [each for each in _climb(climb, own, name, pictures) if each[2]]
        made.append((name, heading, (_links(found, label) if label else "") + _head(climb, name, pictures)))
        made += [(ident, f"{title}, {label}" if label else title, text) for ident, title, text in found]
    return made


def _links(found: Sequence[Section], label: str) -> str:
    """HTML links to sections, by their anchors and headings."""
    items = "".join(f'<li><a href="#{ident}">{escape(heading)}</a></li>' for ident, heading, _ in found if heading)
    return f'<nav aria-label="{escape(label)}"><ul>{items}</ul></nav>'


def document(title: str, kind: str, made: Sequence[Section]) -> str:
    """HTML of the whole page, from its title, kind and sections."""
    several = any(ident == "c0" for ident, _, _ in made)  # each climb then links to its own sections
    first = [each for each in made if not several or "-" not in each[0]]
    parts = "\n".join(
        f'<section id="{ident}">{f"<h2>{escape(heading)}</h2>" if heading else ""}\n{text}\n</section>'
        for ident, heading, text in made
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{escape(title)} - warpladder</title>
<style>{STYLE}</style>
</head>
<body>
<a class="skip" href="#main">To the results</a>
<header>
<p class="kind">{escape(kind)}</p>
<h1>{escape(title)}</h1>
</header>
<main id="main">
{_links(first, "Contents")}
{parts}
</main>
</body>
</html>
"""


def _place(profile: Profile, climbs: Sequence[Results]) -> int:
    """Index of the climb that shows a profile."""
    own = (
        at
        for at, climb in enumerate(climbs)
        if climb.net.name == profile.net and any(r.name == profile.rung for r in climb.timed())
    )
    return next(own, 0)


def _when(results: Results) -> str:
    return results.created.replace("T", " ").replace("+00:00", " UTC")


def _head(results: Results, name: str, pictures: bool) -> str:
    """HTML of the first section: warnings, the closing sentence, the picture and the table."""
    warnings = "".join(f'<p class="warning">{escape(text)}</p>' for text in notes.warnings(results))
    conclusion = f'<p class="conclusion">{escape(words.conclusion(results))}</p>'
    return f"{warnings}{conclusion}{sections.picture(results, name, pictures)}{sections.climb(results)}"


def _climb(results: Results, profiles: Sequence[Profile], name: str, pictures: bool) -> list[Section]:
    """Sections of a climb after the first."""
    return [
        (f"{name}-learning", "Loss and accuracy", sections.learning(results, name, pictures)),
        (f"{name}-time", "Where the time goes", sections.parts(results, profiles, name, pictures)),
        (f"{name}-roof", "Roofline", sections.roof(results, name, pictures)),
        (f"{name}-memory-use", "Memory", sections.memory(results, name, pictures)),
        (f"{name}-verdicts", "Verdicts", sections.verdicts(results)),
        (f"{name}-rungs", "Each rung, next to the one below", code.rungs(results, name)),
        (f"{name}-settings", "Net, data and settings", sections.settings(results)),
        (f"{name}-machine", "Machine", sections.machine(results)),
        (f"{name}-again", "Do it again", sections.again(results)),
    ]
