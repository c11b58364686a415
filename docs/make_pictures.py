"""Draw the pictures of README and docs from results that are stored in benchmarks/: python docs/make_pictures.py.

`write_pages` makes the pages of the reports, when Sphinx builds the docs.
"""

from __future__ import annotations

from pathlib import Path

from warpladder.appendix.reproduce.report.page import write_page
from warpladder.appendix.reproduce.results import Reproduction
from warpladder.results import Results, load
from warpladder.results.report.figures.alone import alone
from warpladder.results.report.figures.ladder import alt, ladder

DOCS = Path(__file__).parent

#: The climb that the README shows.
CLIMB = DOCS.parent / "benchmarks" / "h200" / "climb-cnn" / "results.json"

#: The five reports as they were reproduced, a folder each.
H200, H100 = (DOCS.parent / "benchmarks" / gpu / "reproduce" for gpu in ("h200", "h100"))


def picture(results: Results) -> str:
    """The ladder of a climb as an SVG file."""
    return alone(alt(results), ladder(results))


def write_pages(folder: Path) -> None:
    """Write a page for each report of the H100, and one with both GPUs."""
    folder.mkdir(exist_ok=True)
    for stored in sorted(H100.glob("*/results.json")):
        name = stored.parent.name
        both = [Reproduction.load(gpu / name / "results.json") for gpu in (H100, H200)]
        write_page(both[0], folder / f"{name}.html")
        write_page(both, folder / f"{name}-h100-h200.html", ["H100", "H200"])


if __name__ == "__main__":
    (DOCS / "ladder.svg").write_text(picture(load(CLIMB)), encoding="utf-8")
