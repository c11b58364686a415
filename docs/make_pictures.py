"""Draws the pictures of README and docs, and the pages of the reports, from results that are stored in benchmarks/:
python docs/make_pictures.py.
"""

from __future__ import annotations

from pathlib import Path

from warpladder.appendix.reproduce.report.page import page
from warpladder.appendix.reproduce.results import load_reproduction
from warpladder.report.figures.alone import alone
from warpladder.report.figures.ladder import alt, ladder
from warpladder.results import Results, load

DOCS = Path(__file__).parent

#: The climb that the README shows.
CLIMB = DOCS.parent / "benchmarks" / "h200" / "climb-cnn" / "results.json"

#: The reports that were reproduced on an H200, a folder each, and where their pages go.
REPRODUCED, PAGES = DOCS.parent / "benchmarks" / "h200" / "reproduce", DOCS / "reproduced"

#: What was reproduced on an H100 as well, and goes beside it.
OTHER = DOCS.parent / "benchmarks" / "h100" / "reproduce"


def picture(results: Results) -> str:
    """The ladder of a climb as an SVG file."""
    return alone(alt(results), ladder(results))


if __name__ == "__main__":
    (DOCS / "ladder.svg").write_text(picture(load(CLIMB)), encoding="utf-8")
    for stored in sorted(REPRODUCED.glob("*/results.json")):
        (PAGES / f"{stored.parent.name}.html").write_text(page(load_reproduction(stored)), encoding="utf-8")
    for stored in sorted(OTHER.glob("*/results.json")):
        name = stored.parent.name
        both = [load_reproduction(REPRODUCED / name / "results.json"), load_reproduction(stored)]
        (PAGES / f"{name}-h200-h100.html").write_text(page(both, ["H200", "H100"]), encoding="utf-8")
