"""Draw the pictures of README and docs from results that are stored in benchmarks/: python docs/make_pictures.py.

`write_pages` makes the pages of the reports, when Sphinx builds the docs.
"""

from __future__ import annotations

from pathlib import Path

from warpladder.appendix.reproduce.report.page import write_page
from warpladder.appendix.reproduce.results import Reproduction
from warpladder.report.figures.alone import alone
from warpladder.report.figures.ladder import alt, ladder
from warpladder.results import Results, load

DOCS = Path(__file__).parent

#: The climb that the README shows.
CLIMB = DOCS.parent / "benchmarks" / "h200" / "climb-cnn" / "results.json"

#: The reports that were reproduced on an H200, a folder each, and those that were reproduced on an H100 as well.
H200, H100 = (DOCS.parent / "benchmarks" / gpu / "reproduce" for gpu in ("h200", "h100"))


def picture(results: Results) -> str:
    """The ladder of a climb as an SVG file."""
    return alone(alt(results), ladder(results))


def write_pages(folder: Path) -> None:
    """Write a page for each report of the H200, and one with both GPUs for each report of the H100."""
    folder.mkdir(exist_ok=True)
    for stored in sorted(H200.glob("*/results.json")):
        write_page(Reproduction.load(stored), folder / f"{stored.parent.name}.html")
    for stored in sorted(H100.glob("*/results.json")):
        name = stored.parent.name
        both = [Reproduction.load(gpu / name / "results.json") for gpu in (H200, H100)]
        write_page(both, folder / f"{name}-h200-h100.html", ["H200", "H100"])


if __name__ == "__main__":
    (DOCS / "ladder.svg").write_text(picture(load(CLIMB)), encoding="utf-8")
