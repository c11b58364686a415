"""Draws the pictures of README and docs from results that are stored in benchmarks/: python docs/make_pictures.py."""

from __future__ import annotations

from pathlib import Path

from warpladder.report.figures.alone import alone
from warpladder.report.figures.ladder import alt, ladder
from warpladder.results import Results, load

DOCS = Path(__file__).parent

#: The climb that the README shows.
CLIMB = DOCS.parent / "benchmarks" / "h200" / "climb-cnn" / "results.json"


def picture(results: Results) -> str:
    """The ladder of a climb as an SVG file."""
    return alone(alt(results), ladder(results))


if __name__ == "__main__":
    (DOCS / "ladder.svg").write_text(picture(load(CLIMB)), encoding="utf-8")
