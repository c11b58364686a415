"""Conversion of a matplotlib figure to SVG in a page: text as text, colours by the page's CSS variables, unique ids.

A picture is drawn once, as wide as a phone's screen; on a wider screen it grows a little. matplotlib is imported when
something is drawn, without pyplot; a user's matplotlibrc or a read-only HOME does not change the result.
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

#: Placeholder colours for matplotlib; each becomes a CSS variable. No other colour is used.
INK, SOFT, LINE, PAPER = "#010101", "#020202", "#030303", "#040404"
RUNG, PEER, FLOOR, BAD, GOOD = "#050505", "#060606", "#070707", "#080808", "#090909"
SERIES = tuple(f"#1{at}1{at}1{at}" for at in range(8))
PALETTE = {
    INK: "ink", SOFT: "soft", LINE: "line", PAPER: "paper", RUNG: "rung", PEER: "peer", FLOOR: "floor", BAD: "bad",
    GOOD: "good",
    **{colour: f"s{at}" for at, colour in enumerate(SERIES)},
}  # fmt: skip

#: Settings of matplotlib; a user's matplotlibrc is reset first.
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
    """Figure for a picture, `WIDTH` pixels wide."""

    figure: Figure

    def axes(self, height: float, left: float, right: float, top: float, bottom: float) -> Axes:
        """Single axes of a picture `height` pixels high, with margins in pixels."""
        self.figure.set_size_inches(WIDTH / 72, height / 72)
        ax = self.figure.add_axes(
            (left / WIDTH, bottom / height, 1 - (left + right) / WIDTH, 1 - (top + bottom) / height)
        )
        ax.tick_params(length=0)
        return ax

    def column(self, rows: int, height: float, bottom: float) -> list[Axes]:
        """List of axes one below the other in a picture `height` pixels high, with `bottom` pixels free for a
        legend.
        """
        self.figure.set_size_inches(WIDTH / 72, height / 72)
        made = self.figure.subplots(rows, 1, squeeze=False)
        edges = {"left": 52 / WIDTH, "right": 1 - 14 / WIDTH, "top": 1 - 26 / height, "bottom": bottom / height}
        self.figure.subplots_adjust(**edges, hspace=0.5)
        for ax in made.flat:
            ax.tick_params(length=0)
        return list(made.flat)

    def legend(self, handles: Sequence[Any], labels: Sequence[str], columns: int, length: float = 2.6) -> None:
        """Draw a legend in the lower left corner; `length` is the length of its lines in letters."""
        self.figure.legend(
            handles, labels, loc="lower left", bbox_to_anchor=(0, 0), ncols=columns, borderaxespad=0.2,
            handlelength=length,
        )  # fmt: skip


def rows_of(ax: Axes, rows: int) -> None:
    """Prepare axes for rows from top to bottom: no ticks, no line and no grid at the left."""
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
    """Text cut to at most `letters` letters, so that it fits the picture."""
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


class NoPictures(Exception):
    """Error: a picture cannot be drawn, with the reason."""


def picture(name: str, alt: str, draw: Callable[[Canvas], None]) -> str:
    """SVG element of a picture.

    Parameters
    ----------
    name : str
        Prefix of all its ids, unique in the page.
    alt : str
        Alternative text of the picture.
    draw : callable
        Function that draws on a `Canvas`.

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
    """SVG element of a picture, as `picture` makes it; errors while drawing are raised unchanged."""
    matplotlib = imported()
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the browser draws letters that matplotlib's own font lacks
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        figure = Figure()
        FigureCanvasSVG(figure)
        draw(Canvas(figure))
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return inlined(file.getvalue(), name, alt)


def imported() -> ModuleType:
    """matplotlib with its drawing modules. Raises `NoPictures` if it cannot be imported."""
    log = logging.getLogger("matplotlib")
    level = log.level
    log.setLevel(logging.ERROR)  # its warnings are of a HOME that cannot be written, and of its font cache
    try:
        import matplotlib
        import matplotlib.backends.backend_svg
        import matplotlib.figure
    except Exception as error:  # or any error of a broken installation
        raise NoPictures(
            f"matplotlib cannot be imported ({' '.join(str(error).split())}): pip install matplotlib, and "
            "make the page again"
        ) from None
    finally:
        log.setLevel(level)
    return matplotlib


def inlined(svg: str, name: str, alt: str) -> str:
    """SVG element for the page from matplotlib's file: only the drawing, ids with the prefix `name`, colours as
    variables.
    """
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", body, flags=re.DOTALL)
    opening, rest = body[: body.index(">") + 1], body[body.index(">") + 1 :]
    box = re.search(r'viewBox="([^"]*)"', opening)
    assert box is not None
    used = set(re.findall(r'(?:xlink:href="|url\()#([\w.-]+)', rest))
    rest = re.sub(r"<[^>]*>", lambda tag: _tag(tag[0], name, used), rest)  # text between tags is unchanged
    rest = re.sub(r"\n\s*", "\n", rest).strip()
    return f'<svg viewBox="{box[1]}" role="img" aria-label="{escape(alt)}">{rest}\n'


def _tag(tag: str, name: str, used: set[str]) -> str:
    """Tag of a picture's SVG, with the prefix `name` on referenced ids, and without other ids."""
    tag = re.sub(r' id="([^"]*)"', lambda found: f' id="{name}-{found[1]}"' if found[1] in used else "", tag)
    tag = re.sub(r'xlink:href="#', f'href="#{name}-', tag)
    tag = re.sub(r"url\(#", f"url(#{name}-", tag)
    tag = re.sub(r"font-family: [^;\"]*;? ?", "", tag)
    tag = re.sub(r' transform="rotate\(-0 [^)]*\)"', "", tag)
    tag = re.sub(
        r"#[0-9a-f]{6}\b", lambda found: f"var(--{PALETTE[found[0]]})" if found[0] in PALETTE else found[0], tag
    )
    return re.sub(r"(\d\.\d\d)\d+", r"\1", tag)  # hundredths of a pixel
