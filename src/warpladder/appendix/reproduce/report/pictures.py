"""The pictures of a reproduced report: curves, and bars of what it says beside what was measured."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ....report.figures.curves import DASHES, MARKS
from ....report.figures.svg import INK, PAPER, PEER, RUNG, SERIES, SOFT, Canvas, clipped
from ..results import UNITS, Bars, Column, Lines, Series, Value
from .figures import head, measured, shown, stated

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: How curves of other sources than this reproduction are marked in words.
SOURCES = {"here": "", "reported": " (reported)", "theirs": " (their program)"}


def lines_alt(told: Lines) -> str:
    """The picture in words."""
    ends = [f"{_name(each)} ends at {shown(each.y[-1], told.y.unit)}" for each in told.series]
    return f"{told.title}: {head(told.y)} against {head(told.x)}. {', '.join(ends)}."


def _name(series: Series) -> str:
    return series.label + SOURCES[series.source]


def lines(told: Lines) -> Callable[[Canvas], None]:
    """Draws curves in one pair of axes; what a report states is hollow."""

    def draw(canvas: Canvas) -> None:
        letters = max(min(48, len(_name(each))) for each in told.series)
        across = max(1, min(2 if canvas.narrow else 4, (canvas.width - 30) // (50 + 7 * letters)))
        legend = 18 * math.ceil(len(told.series) / across) + 12
        ax = canvas.axes(legend + (280 if canvas.narrow else 360), 64 if canvas.narrow else 76, 16, 12, legend + 46)
        for each, (colour, mark, dash) in zip(told.series, _styles(), strict=False):
            x = [value / UNITS[told.x.unit] for value in each.x]
            y = [value / UNITS[told.y.unit] for value in each.y]
            hollow = each.source != "here"
            ax.plot(
                x, y, color=colour, linestyle=(0, (2, 2)) if hollow else dash, marker=mark, markersize=6 if len(x) < 2 else 5,
                markevery=1 if each.marks else max(1, len(x) // 10),
                markerfacecolor=PAPER if hollow else colour, markeredgecolor=colour if hollow else PAPER, markeredgewidth=1.2 if hollow else 0.6,
                label=clipped(_name(each), 48),
            )  # fmt: skip
            for text, at in zip(each.marks, zip(x, y, strict=True), strict=False):
                ax.annotate(
                    text,
                    at,
                    (0, 8),
                    textcoords="offset pixels",
                    ha="center",
                    fontsize=10,
                    color=SOFT,
                    annotation_clip=False,
                )
        _axes(ax, told)
        handles, labels = ax.get_legend_handles_labels()
        canvas.figure.legend(
            handles, labels, loc="lower left", bbox_to_anchor=(0, 0), ncols=across, borderaxespad=0.2, handlelength=2.6
        )

    return draw


def _styles() -> itertools.chain[tuple[str, str, object]]:
    rounds = [[(colour, mark, dash) for colour, mark in zip(SERIES, MARKS, strict=True)] for dash in DASHES]
    return itertools.chain.from_iterable(itertools.cycle(rounds))


def _axes(ax: Axes, told: Lines) -> None:
    """Scales, ticks and labels."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    for name, axis, column in (("x", ax.xaxis, told.x), ("y", ax.yaxis, told.y)):
        if name in told.log:
            (ax.set_xscale if name == "x" else ax.set_yscale)("log")
            axis.set_major_locator(LogLocator(subs=(1, 2, 5) if _decades(told, name) < 1.5 else (1,), numticks=9))
            axis.set_minor_locator(NullLocator())
        else:
            axis.set_major_locator(
                MaxNLocator(
                    nbins=7, integer=name == "x" and all(float(v).is_integer() for s in told.series for v in s.x)
                )
            )
        axis.set_major_formatter(lambda value, _: f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}")
        (ax.set_xlabel if name == "x" else ax.set_ylabel)(head(column))
    ax.grid(visible=True, axis="y")


def _decades(told: Lines, name: str) -> float:
    values = [value for each in told.series for value in getattr(each, name) if value > 0]
    return math.log10(max(values) / min(values)) if values else 1.0


def bars_alt(told: Bars) -> str:
    """The picture in words."""
    parts = []
    for label, value in zip(told.labels, told.values, strict=True):
        figures = [f"{called} {text}" for called, text in _texts(value, told.column) if text]
        if figures:
            parts.append(f"{label}: {', '.join(figures)}")
    return f"{told.title}, {head(told.column)}. {'; '.join(parts)}."


def _texts(value: Value, column: Column) -> list[tuple[str, str]]:
    return [
        ("reported", stated(value.reported, column.unit)),
        ("their program", stated(value.theirs, column.unit)),
        ("here", measured(value, column.unit)),
    ]


#: How the bars of each source look: hatched paper, grey, or filled.
_LOOKS: tuple[tuple[str, str, dict], ...] = (
    ("reported", "reported", {"facecolor": PAPER, "edgecolor": PEER, "hatch": "////", "linewidth": 1.2}),
    ("theirs", "their program, H200", {"facecolor": PAPER, "edgecolor": INK, "linewidth": 1.2}),
    ("here", "here", {"color": RUNG}),
)


def bars(told: Bars) -> Callable[[Canvas], None]:
    """Draws up to three bars for each row: what the report says, what its authors' program did, what was measured."""
    looks = [look for look in _LOOKS if any(getattr(value, look[0]) is not None for value in told.values)]

    def draw(canvas: Canvas) -> None:
        from matplotlib.ticker import NullLocator

        rows = [
            (at, value)
            for at, value in enumerate(told.values)
            if any(getattr(value, name) is not None for name, _, _ in looks)
        ]
        row = (24 if canvas.narrow else 10) + 18 * len(looks)
        letters = max(len(told.labels[at]) for at, _ in rows)
        left = 16.0 if canvas.narrow else min(320.0, 20 + 6.9 * letters)
        ax = canvas.axes(row * len(rows) + 84, left, 84, 8, 76)
        ax.set_ylim(len(rows) - 0.4, -0.6)
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        ax.grid(visible=False, axis="y")
        figures = [
            getattr(value, name) / UNITS[told.column.unit]
            for _, value in rows
            for name, _, _ in looks
            if getattr(value, name) is not None
        ]
        low = 0.0
        if told.log and min(figures) > 0:
            ax.set_xscale("log")
            ax.xaxis.set_minor_locator(NullLocator())
            low = min(figures) / 2
        ax.set_xlim(low, max(figures) * (1.6 if told.log else 1.05))
        ax.set_xlabel(head(told.column))
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.4g}" if value < 1000 else f"{value:,.0f}")
        place: dict = {
            "xycoords": ax.get_yaxis_transform(),
            "textcoords": "offset pixels",
            "va": "center",
            "annotation_clip": False,
        }
        for y, (at, value) in enumerate(rows):
            if canvas.narrow:
                ax.annotate(clipped(told.labels[at], 44), (0, y - 0.5 + 8 / row), (0, 0), **place)
            else:
                ax.annotate(clipped(told.labels[at], 44), (0, y), (-10, 0), ha="right", **place)
            for number, (name, called, look) in enumerate(looks):
                figure = getattr(value, name)
                if figure is None:
                    continue
                figure /= UNITS[told.column.unit]
                shift = (number - (len(looks) - 1) / 2) * 17 / row + (10 / row if canvas.narrow else 0)
                ax.barh(y + shift, figure - low, 13 / row, low, zorder=2, label=called if y == 0 else None, **look)
                text = (
                    measured(value, told.column.unit)
                    if name == "here"
                    else stated(getattr(value, name), told.column.unit)
                )
                ax.annotate(
                    text,
                    (figure, y + shift),
                    (6, 0),
                    textcoords="offset pixels",
                    va="center",
                    fontsize=10,
                    color=SOFT,
                    annotation_clip=False,
                )
        handles = _handles(looks)
        canvas.figure.legend(
            handles=handles, loc="lower left", bbox_to_anchor=(0, 0), ncols=len(looks), borderaxespad=0.2
        )

    return draw


def _handles(looks: Sequence[tuple[str, str, dict]]) -> list:
    from matplotlib.patches import Patch

    return [Patch(label=called, **look) for _, called, look in looks]
