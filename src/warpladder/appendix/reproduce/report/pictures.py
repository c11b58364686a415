"""Pictures of a reproduced report: curves, and bars of reported figures next to measured ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from ....results.report.figures.curves import covered, legend_size, line_width, styles
from ....results.report.figures.svg import INK, PAPER, PEER, RUNG, SOFT, Canvas, clipped, rows_of, write
from ..results import UNITS, Bars, Column, Lines, Series, Value
from .figures import head, measured, shown, stated

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Suffixes of the names of curves, by source.
SOURCES = {"here": "", "reported": " (reported)", "theirs": " (their program)"}


def lines_alt(picture: Lines) -> str:
    """Alternative text of a picture of curves: its axes and the end of each curve."""
    ends = [f"{_name(each)} ends at {shown(each.y[-1], picture.y.unit)}" for each in picture.series]
    return f"{picture.title}: {head(picture.y)} against {head(picture.x)}. {', '.join(ends)}."


def _name(series: Series) -> str:
    return series.label + SOURCES[series.source]


def lines(picture: Lines) -> Callable[[Canvas], None]:
    """Drawing function for curves in one pair of axes; curves stated by a report are hollow."""

    def draw(canvas: Canvas) -> None:
        across, legend = legend_size([clipped(_name(each), 48) for each in picture.series])
        ax = canvas.axes(legend + 280, 64, 16, 12, legend + 46)
        own = dict(zip((each.label for each in picture.series if each.source == "here"), styles(), strict=False))
        rest = islice(styles(), len(own), None)
        for number, (each, below) in enumerate(zip(picture.series, under(picture), strict=True)):
            style = own[each.label] if each.source == "here" else own.get(each.of) or next(rest)
            _curve(ax, each, picture, style, number, below)
        _axes(ax, picture)
        _marks(ax, picture)
        canvas.legend(*ax.get_legend_handles_labels(), across)

    return draw


def under(picture: Lines) -> list[int]:
    """Number of later curves on top of each curve."""
    curves = [list(zip(each.x, each.y, strict=True)) for each in picture.series]
    return covered(curves, "y" in picture.log and min(y for points in curves for _, y in points) > 0)


def _curve(ax: Axes, each: Series, picture: Lines, style: tuple[str, str, object], number: int, below: int) -> None:
    """Draw one curve. A curve under others is wider and has its markers at other points, so that all are visible.

    below : number of later curves on top of it.
    """
    x = [value / UNITS[picture.x.unit] for value in each.x]
    y = [value / UNITS[picture.y.unit] for value in each.y]
    colour, mark, dash = style
    hollow = each.source != "here"
    ax.plot(
        x, y, color=colour, linestyle=(0, (2, 2)) if hollow else dash, marker=mark, markersize=6 if len(x) < 2 else 5,
        markevery=1 if each.marks or len(x) < 12 else (number * 3 % (len(x) // 8), len(x) // 8),
        linewidth=line_width(below), markerfacecolor=PAPER if hollow else colour,
        markeredgecolor=colour if hollow else PAPER, markeredgewidth=1.2 if hollow else 0.6,
        label=clipped(_name(each), 48),
    )  # fmt: skip


#: Shifts in pixels of a mark from its point, in the order of preference.
SHIFTS = ((0, 8), (0, -16), (16, -4), (-16, -4), (14, 8), (-14, 8), (14, -16), (-14, -16))


def _marks(ax: Axes, picture: Lines) -> None:
    """Draw a text next to each marked point, if a place without other texts or points is free."""
    ax.get_xlim(), ax.get_ylim()  # these calls update the scales
    points = [
        (text, ax.transData.transform((x / UNITS[picture.x.unit], y / UNITS[picture.y.unit])))
        for each in picture.series
        for text, x, y in zip(each.marks, each.x, each.y, strict=False)
    ]
    taken = [(at[0] - 3, at[1] - 3, at[0] + 3, at[1] + 3) for _, at in points]
    for text, at in points:
        half = 3 * len(text) + 1
        for right, up in SHIFTS:
            box = (at[0] + right - half, at[1] + up, at[0] + right + half, at[1] + up + 9)
            if not any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken):
                taken.append(box)
                ax.annotate(
                    text, (at[0], at[1]), (right, up), xycoords="figure pixels", textcoords="offset points",
                    ha="center", fontsize=10, color=SOFT, annotation_clip=False,
                )  # fmt: skip
                break


def _axes(ax: Axes, picture: Lines) -> None:
    """Set scales, ticks and labels of the axes."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    for name, axis, column in (("x", ax.xaxis, picture.x), ("y", ax.yaxis, picture.y)):
        if name in picture.log:
            (ax.set_xscale if name == "x" else ax.set_yscale)("log")
            axis.set_major_locator(LogLocator(subs=(1, 2, 5) if _decades(picture, name) < 1.5 else (1,), numticks=9))
            axis.set_minor_locator(NullLocator())
        else:
            axis.set_major_locator(
                MaxNLocator(
                    nbins=7, integer=name == "x" and all(float(v).is_integer() for s in picture.series for v in s.x)
                )
            )
        axis.set_major_formatter(lambda value, _: f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}")
        (ax.set_xlabel if name == "x" else ax.set_ylabel)(head(column))
    ax.grid(visible=True, axis="y")


def _decades(picture: Lines, name: str) -> float:
    values = [value for each in picture.series for value in getattr(each, name) if value > 0]
    return math.log10(max(values) / min(values)) if values else 1.0


def bars_alt(picture: Bars) -> str:
    """Alternative text of a picture of bars: each row with its figures."""
    parts = []
    for label, value in zip(picture.labels, picture.values, strict=True):
        figures = [f"{called} {text}" for called, text in _texts(value, picture.column) if text]
        if figures:
            parts.append(f"{label}: {', '.join(figures)}")
    return f"{picture.title}, {head(picture.column)}. {'; '.join(parts)}."


def _texts(value: Value, column: Column) -> list[tuple[str, str]]:
    return [
        ("reported", stated(value.reported, column.unit)),
        ("their program", stated(value.theirs, column.unit)),
        ("here", measured(value, column.unit)),
    ]


#: Looks of the bars of each source: hatched, outlined or filled.
_LOOKS: tuple[tuple[str, str, dict], ...] = (
    ("reported", "reported", {"facecolor": PAPER, "edgecolor": PEER, "hatch": "////", "linewidth": 1.2}),
    ("theirs", "their program, H200", {"facecolor": PAPER, "edgecolor": INK, "linewidth": 1.2}),
    ("here", "here", {"color": RUNG}),
)


def bars(picture: Bars) -> Callable[[Canvas], None]:
    """Drawing function for up to three bars for each row: reported, of the authors' program, and measured here."""
    looks = [look for look in _LOOKS if any(getattr(value, look[0]) is not None for value in picture.values)]
    unit = UNITS[picture.column.unit]

    def draw(canvas: Canvas) -> None:
        rows = [
            (label, [(look, figure) for look in looks if (figure := getattr(value, look[0])) is not None], value)
            for label, value in zip(picture.labels, picture.values, strict=True)
        ]
        rows = [row for row in rows if row[1]]
        height = 24 + 18 * len(looks)
        ax = canvas.axes(height * len(rows) + 84, 16, 84, 8, 76)
        rows_of(ax, len(rows))
        ax.set_ylim(len(rows) - 0.4, -0.6)
        low = _bar_axis(ax, picture, [figure / unit for _, own, _ in rows for _, figure in own])
        for y, (label, own, value) in enumerate(rows):
            text = clipped(label, 80)
            write(ax, text, (0, y - 0.5 + 8 / height), fontsize=11.5 * min(1.0, 54 / max(1, len(text))))
            for number, ((name, _, look), figure) in enumerate(own):  # without a gap below the label
                at = y + ((number - (len(looks) - 1) / 2) * 17 + 10) / height
                ax.barh(at, figure / unit - low, 13 / height, low, zorder=2, **look)
                text = measured(value, picture.column.unit) if name == "here" else stated(figure, picture.column.unit)
                ax.annotate(
                    text, (figure / unit, at), (6, 0), textcoords="offset points", va="center", fontsize=10, color=SOFT,
                    annotation_clip=False,
                )  # fmt: skip
        canvas.legend([_patch(look) for _, _, look in looks], [called for _, called, _ in looks], len(looks), 2.0)

    return draw


def _bar_axis(ax: Axes, picture: Bars, figures: Sequence[float]) -> float:
    """Set scale and label of the bars' axis, for figures in the column's unit. Returns the start of the bars."""
    from matplotlib.ticker import MaxNLocator, NullLocator

    low = 0.0
    if picture.log and min(figures) > 0:
        ax.set_xscale("log")
        ax.xaxis.set_minor_locator(NullLocator())
        low = min(figures) / 2
    else:
        ax.xaxis.set_major_locator(MaxNLocator(nbins=4))
    ax.set_xlim(low, max(figures) * (1.6 if picture.log else 1.05))
    ax.set_xlabel(head(picture.column))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.4g}" if value < 1000 else f"{value:,.0f}")
    return low


def _patch(look: dict) -> Any:
    from matplotlib.patches import Patch

    return Patch(**look)
