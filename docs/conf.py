"""Sphinx: `python -m sphinx -W docs <out>` builds these pages; docs/make_api.py writes the reference among them."""

import re
import sys
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from make_pictures import write_pages

project = "warpladder"
author = "The warpladder authors"
version = release = installed("warpladder")
extensions = ["myst_parser"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "warpladder"
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["pages.css"]
exclude_patterns = ["_build"]

#: A link to the stored results of a report, whose page the build writes.
STORED = re.compile(r"\[([^\]]+)\]\(\.\./benchmarks/(h200|h100)/reproduce/(s\d)/results\.json\)")


def link_page(app: Any, name: str, source: list[str]) -> None:
    """Lead links to a report's stored results to its page."""
    both = {"h100": "", "h200": "-h100-h200"}
    source[0] = STORED.sub(lambda link: f'<a href="reproduced/{link[3]}{both[link[2]]}.html">{link[1]}</a>', source[0])


def finish(app: Any, error: Exception | None) -> None:
    """Write the pages of the reports, where HTML was built."""
    if error is None and app.builder.format == "html":
        write_pages(Path(app.outdir) / "reproduced")


def setup(app: Any) -> None:
    """Connect both."""
    app.connect("source-read", link_page)
    app.connect("build-finished", finish)
