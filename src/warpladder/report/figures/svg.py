"""From a matplotlib figure to SVG that stands inside a page: text as text, colours by the page's CSS variables, no name
that clashes.

Each picture is drawn twice, for a wide screen and paper and for a phone; the page's style shows one of them. matplotlib
is imported when something is drawn, without pyplot, and neither a user's matplotlibrc nor a HOME that cannot be written
changes what comes out.
"""

from __future__ import annotations

import io
import logging
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDE, NARROW = 900, 360  # pixels: a picture's width on a screen of its size

#: Colours as matplotlib is told them, and the CSS variable that each becomes. No other colour is drawn with.
INK, SOFT, LINE, PAPER = "#010101", "#020202", "#030303", "#040404"
RUNG, PEER, FLOOR, BAD, GOOD = "#050505", "#060606", "#070707", "#080808", "#090909"
SERIES = tuple(f"#1{at}1{at}1{at}" for at in range(8))
PALETTE = {
    INK: "ink", SOFT: "soft", LINE: "line", PAPER: "paper", RUNG: "rung", PEER: "peer", FLOOR: "floor", BAD: "bad", GOOD: "good",
    **{colour: f"s{at}" for at, colour in enumerate(SERIES)},
}  # fmt: skip

#: matplotlib's settings: everything that a matplotlibrc could say otherwise is reset before these count.
SETTINGS: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "warpladder", "text.parse_math": False, "font.size": 11.5, "text.color": INK,
    "axes.labelcolor": SOFT, "axes.edgecolor": LINE, "axes.titlecolor": INK, "axes.titlesize": 12, "axes.labelsize": 11, "axes.linewidth": 1,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True, "axes.facecolor": "none",
    "figure.facecolor": "none", "figure.dpi": 72, "savefig.dpi": 72, "grid.color": LINE, "grid.linewidth": 0.8, "hatch.linewidth": 1.4,
    "xtick.color": LINE, "ytick.color": LINE, "xtick.labelcolor": SOFT, "ytick.labelcolor": SOFT, "xtick.labelsize": 10.5,
    "ytick.labelsize": 10.5, "legend.frameon": False, "legend.fontsize": 11, "lines.linewidth": 1.8,
}  # fmt: skip


@dataclass(frozen=True)
class Canvas:
    """What a picture is drawn on.

    width : in pixels. narrow : whether it is for a phone.
    """

    figure: Figure
    width: int
    narrow: bool

    def axes(self, height: float, left: float, right: float, top: float, bottom: float) -> Axes:
        """The one pair of axes of a picture so many pixels high, with margins in pixels."""
        self.figure.set_size_inches(self.width / 72, height / 72)
        ax = self.figure.add_axes(
            (left / self.width, bottom / height, 1 - (left + right) / self.width, 1 - (top + bottom) / height)
        )
        ax.tick_params(length=0)
        return ax

    def grid(self, rows: int, columns: int, height: float, bottom: float) -> list[Axes]:
        """Axes in rows and columns over a picture so many pixels high, `bottom` of them left for a legend."""
        self.figure.set_size_inches(self.width / 72, height / 72)
        made = self.figure.subplots(rows, columns, squeeze=False)
        self.figure.subplots_adjust(
            left=52 / self.width,
            right=1 - 14 / self.width,
            top=1 - 26 / height,
            bottom=bottom / height,
            wspace=0.16,
            hspace=0.5 if self.narrow else 0.32,
        )
        for ax in made.flat:
            ax.tick_params(length=0)
        return list(made.flat)


def clipped(text: str, letters: int) -> str:
    """A text of so many letters at most: nothing that results may hold pushes a picture off its page."""
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


class NoPictures(Exception):
    """A picture cannot be drawn; the reason."""


def picture(name: str, alt: str, draw: Callable[[Canvas], None]) -> str:
    """A picture as two elements of SVG, one for wide screens and one for phones.

    Parameters
    ----------
    name : str
        Begins all its ids; no other picture of the page has it.
    alt : str
        What it shows, for those who do not see it.
    draw : callable
        Draws on a `Canvas`.

    Raises
    ------
    NoPictures
        matplotlib is missing or broken, or a picture of these figures cannot be drawn: a climb of hours does not end
        for that.
    """
    try:
        return "".join(drawn(f"{name}-{size}", size, alt, draw) for size in ("wide", "narrow"))
    except NoPictures:
        raise
    except Exception as error:
        raise NoPictures(f"drawing it failed ({type(error).__name__}: {' '.join(str(error).split())})") from error


def drawn(name: str, size: str, alt: str, draw: Callable[[Canvas], None]) -> str:
    """A picture as one element of SVG; size is "wide" or "narrow"."""
    matplotlib = imported()
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a letter that matplotlib's own font lacks is the browser's to draw
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        figure = Figure()
        FigureCanvasSVG(figure)
        narrow = size == "narrow"
        draw(Canvas(figure, NARROW if narrow else WIDE, narrow))
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return inlined(file.getvalue(), name, size, alt)


def imported() -> ModuleType:
    """matplotlib, with what draws; `NoPictures` where it cannot be imported."""
    log = logging.getLogger("matplotlib")
    level = log.level
    log.setLevel(
        logging.ERROR
    )  # it tells of a HOME that cannot be written, and of its font cache: nothing that a reader can mend
    try:
        import matplotlib
        import matplotlib.backends.backend_svg
        import matplotlib.figure
    except Exception as error:  # also what a broken installation raises
        raise NoPictures(
            f"matplotlib cannot be imported ({' '.join(str(error).split())}): pip install matplotlib, and make the page again"
        ) from None
    finally:
        log.setLevel(level)
    return matplotlib


def inlined(svg: str, name: str, size: str, alt: str) -> str:
    """matplotlib's file as an element of the page: without what only files need, its ids begun by `name`, its colours
    as variables.
    """
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", body, flags=re.DOTALL)
    opening, rest = body[: body.index(">") + 1], body[body.index(">") + 1 :]
    box = re.search(r'viewBox="([^"]*)"', opening)
    assert box is not None
    used = set(re.findall(r'(?:xlink:href="|url\()#([\w.-]+)', rest))
    rest = re.sub(r"<[^>]*>", lambda tag: _tag(tag[0], name, used), rest)  # what stands between tags is text, and stays
    rest = re.sub(r"\n\s*", "\n", rest).strip()
    return f'<svg class="{size}" viewBox="{box[1]}" role="img" aria-label="{escape(alt)}">{rest}\n'


def _tag(tag: str, name: str, used: set[str]) -> str:
    """One tag of a picture's SVG, with ids that are referred to begun by `name`, and other ids gone."""
    tag = re.sub(r' id="([^"]*)"', lambda found: f' id="{name}-{found[1]}"' if found[1] in used else "", tag)
    tag = re.sub(r'xlink:href="#', f'href="#{name}-', tag)
    tag = re.sub(r"url\(#", f"url(#{name}-", tag)
    tag = re.sub(r"font-family: [^;\"]*;? ?", "", tag)
    tag = re.sub(r' transform="rotate\(-0 [^)]*\)"', "", tag)
    tag = re.sub(
        r"#[0-9a-f]{6}\b", lambda found: f"var(--{PALETTE[found[0]]})" if found[0] in PALETTE else found[0], tag
    )
    return re.sub(r"(\d\.\d\d)\d+", r"\1", tag)  # hundredths of a pixel
