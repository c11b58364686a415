"""From a matplotlib figure to SVG that stands inside a page: text as text, colours by the page's CSS variables, no name
that clashes.

A picture is drawn once, as wide as a phone's screen; on a wider screen it grows a little. matplotlib is imported when
something is drawn, without pyplot, and neither a user's matplotlibrc nor a HOME that cannot be written changes the
result.
"""

from __future__ import annotations

import io
import logging
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 360  # pixels of a picture: the width of a phone's screen. The smallest text has 10 pixels.

#: Colours for matplotlib, and the CSS variable that each becomes. No other colour is drawn with.
INK, SOFT, LINE, PAPER = "#010101", "#020202", "#030303", "#040404"
RUNG, PEER, FLOOR, BAD, GOOD = "#050505", "#060606", "#070707", "#080808", "#090909"
SERIES = tuple(f"#1{at}1{at}1{at}" for at in range(8))
PALETTE = {
    INK: "ink", SOFT: "soft", LINE: "line", PAPER: "paper", RUNG: "rung", PEER: "peer", FLOOR: "floor", BAD: "bad",
    GOOD: "good",
    **{colour: f"s{at}" for at, colour in enumerate(SERIES)},
}  # fmt: skip

#: matplotlib's settings. Those of a matplotlibrc are reset first.
SETTINGS: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "warpladder", "text.parse_math": False, "font.size": 11.5,
    "text.color": INK,
    "axes.labelcolor": SOFT, "axes.edgecolor": LINE, "axes.titlecolor": INK, "axes.titlesize": 12,
    "axes.labelsize": 11, "axes.linewidth": 1,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True,
    "axes.facecolor": "none",
    "figure.facecolor": "none", "figure.dpi": 72, "savefig.dpi": 72, "grid.color": LINE, "grid.linewidth": 0.8,
    "hatch.linewidth": 1.4,
    "xtick.color": LINE, "ytick.color": LINE, "xtick.labelcolor": SOFT, "ytick.labelcolor": SOFT,
    "xtick.labelsize": 10.5,
    "ytick.labelsize": 10.5, "legend.frameon": False, "legend.fontsize": 11, "lines.linewidth": 1.8,
}  # fmt: skip


@dataclass(frozen=True)
class Canvas:
    """Figure that a picture is drawn on, `WIDTH` pixels wide."""

    figure: Figure

    def axes(self, height: float, left: float, right: float, top: float, bottom: float) -> Axes:
        """The one pair of axes of a picture `height` pixels high, with margins in pixels."""
        self.figure.set_size_inches(WIDTH / 72, height / 72)
        ax = self.figure.add_axes(
            (left / WIDTH, bottom / height, 1 - (left + right) / WIDTH, 1 - (top + bottom) / height)
        )
        ax.tick_params(length=0)
        return ax

    def column(self, rows: int, height: float, bottom: float) -> list[Axes]:
        """Axes one below the other in a picture `height` pixels high, `bottom` of them left for a legend."""
        self.figure.set_size_inches(WIDTH / 72, height / 72)
        made = self.figure.subplots(rows, 1, squeeze=False)
        edges = {"left": 52 / WIDTH, "right": 1 - 14 / WIDTH, "top": 1 - 26 / height, "bottom": bottom / height}
        self.figure.subplots_adjust(**edges, hspace=0.5)
        for ax in made.flat:
            ax.tick_params(length=0)
        return list(made.flat)

    def legend(self, handles: Sequence[Any], labels: Sequence[str], columns: int, length: float = 2.6) -> None:
        """A legend in the lower left corner; `length` is that of a line in letters."""
        self.figure.legend(
            handles, labels, loc="lower left", bbox_to_anchor=(0, 0), ncols=columns, borderaxespad=0.2,
            handlelength=length,
        )  # fmt: skip


def rows_of(ax: Axes, rows: int) -> None:
    """Make room for rows from top to bottom: no ticks, no line and no grid at the left."""
    ax.set_ylim(rows - 0.5, -0.5)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.grid(visible=False, axis="y")


def write(ax: Axes, text: str, place: tuple[float, float], shift: tuple[float, float] = (0, 0), **look: Any) -> None:
    """Write a text at x, a share of the axes' width, and y, a row; `shift` is in pixels."""
    ax.annotate(
        text, place, shift, xycoords=ax.get_yaxis_transform(), textcoords="offset points",
        **{"va": "center", "annotation_clip": False, **look},
    )  # fmt: skip


def clipped(text: str, letters: int) -> str:
    """A text of at most `letters` letters: nothing in results pushes a picture off its page."""
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


class NoPictures(Exception):
    """A picture cannot be drawn; the reason."""


def picture(name: str, alt: str, draw: Callable[[Canvas], None]) -> str:
    """A picture as an element of SVG.

    Parameters
    ----------
    name : str
        Begins all its ids; no other picture of the page has it.
    alt : str
        The picture in words, for readers who do not see it.
    draw : callable
        Draws on a `Canvas`.

    Raises
    ------
    NoPictures
        matplotlib is missing or broken, or a picture of these figures cannot be drawn.
    """
    try:
        return drawn(name, alt, draw)
    except NoPictures:
        raise
    except Exception as error:
        raise NoPictures(f"drawing it failed ({type(error).__name__}: {' '.join(str(error).split())})") from error


def drawn(name: str, alt: str, draw: Callable[[Canvas], None]) -> str:
    """SVG element of a picture, as `picture` makes it; errors of drawing are raised as they are."""
    matplotlib = imported()
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a letter that matplotlib's own font lacks is the browser's to draw
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        figure = Figure()
        FigureCanvasSVG(figure)
        draw(Canvas(figure))
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return inlined(file.getvalue(), name, alt)


def imported() -> ModuleType:
    """matplotlib, with what draws; `NoPictures` where it cannot be imported."""
    log = logging.getLogger("matplotlib")
    level = log.level
    log.setLevel(logging.ERROR)  # its warnings are of a HOME that cannot be written, and of its font cache
    try:
        import matplotlib
        import matplotlib.backends.backend_svg
        import matplotlib.figure
    except Exception as error:  # also what a broken installation raises
        raise NoPictures(
            f"matplotlib cannot be imported ({' '.join(str(error).split())}): pip install matplotlib, and "
            "make the page again"
        ) from None
    finally:
        log.setLevel(level)
    return matplotlib


def inlined(svg: str, name: str, alt: str) -> str:
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
    return f'<svg viewBox="{box[1]}" role="img" aria-label="{escape(alt)}">{rest}\n'


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
