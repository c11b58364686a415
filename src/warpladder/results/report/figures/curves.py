"""Curves of loss and accuracy of each rung, over epochs and over seconds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ... import Results, RungResult
from .ladder import bounds, time_axis
from .svg import PAPER, SERIES, WIDTH, Canvas, clipped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 160  # most points of a curve: a page is small, and a screen shows no more
MARKS = "osD^vPX*"
DASHES: tuple = ("-", (0, (5, 2)), (0, (1, 1.4)))

#: Points of a curve: (epoch or seconds, value).
Points = list[tuple[float, float]]


def learned(results: Results) -> list[RungResult]:
    """Rungs and peers with a loss in their history."""
    return [
        rung
        for rung in results.rungs
        if rung.history is not None and _points(rung.history.loss, rung.history.seconds, False)
    ]


def alt(results: Results) -> str:
    """Alternative text of the picture of curves."""
    ends = []
    for rung in learned(results):
        assert rung.history is not None
        loss = _points(rung.history.loss, rung.history.seconds, True)[-1]
        ends.append(f"{rung.name} {loss[1]:.3g} after {loss[0]:.3g} s")
    what = "Loss and accuracy" if any(r.history and r.history.accuracy for r in results.rungs) else "Loss"
    return f"{what} of each epoch, against epochs and against seconds of training. Loss at the end: {', '.join(ends)}."


def curves(results: Results) -> Callable[[Canvas], None]:
    """Drawing function for the loss, and the accuracy if there are classes, over epochs and over seconds; a curve for
    each rung and peer.
    """
    rungs = learned(results)
    with_accuracy = any(rung.history is not None and rung.history.accuracy for rung in rungs)

    def draw(canvas: Canvas) -> None:
        kinds = ["loss", "accuracy"] if with_accuracy else ["loss"]
        panels = [(kind, clock) for kind in kinds for clock in (False, True)]
        across, legend = legend_size([clipped(rung.name, 45) for rung in rungs])
        axes = canvas.column(len(panels), 200 * len(panels) + legend + 30, legend + 34)
        for ax, (kind, clock) in zip(axes, panels, strict=True):
            _panel(ax, rungs, kind, clock)
        canvas.legend(*axes[0].get_legend_handles_labels(), across)

    return draw


def _panel(ax: Axes, rungs: Sequence[RungResult], kind: str, clock: bool) -> None:
    drawn = [_points(getattr(each.history, kind), each.history.seconds, clock) for each in rungs if each.history]
    every = [point for points in drawn for point in points]
    values = [y for _, y in every]
    is_log = kind == "loss" and bool(values) and min(values) > 0 and max(values) > 30 * min(values)
    for rung, points, below, style in zip(rungs, drawn, covered(drawn, is_log), styles(), strict=False):
        colour, mark, dash = style
        ax.plot(
            [x for x, _ in points], [y for _, y in points], color=colour, linestyle=dash, marker=mark,
            linewidth=line_width(below), markersize=6 if len(points) < 2 else 5, markevery=max(1, len(points) // 8),
            markeredgecolor=PAPER, markeredgewidth=0.6, label=clipped(rung.name, 45),
        )  # fmt: skip
    if is_log:
        from matplotlib.ticker import LogLocator, NullLocator

        ax.set_yscale("log")
        wide = math.log10(max(values)) - math.log10(min(values)) > 3
        ax.yaxis.set_major_locator(LogLocator(numticks=6) if wide else LogLocator(subs=(1, 3)))
        ax.yaxis.set_minor_locator(NullLocator())
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:.3g}")
    if kind == "accuracy":
        from matplotlib.ticker import PercentFormatter

        ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))
    ax.set_title(
        f"{'accuracy on training samples' if kind == 'accuracy' else 'loss'}, by {'seconds' if clock else 'epochs'}",
        loc="left",
    )
    if clock and every:
        ax.set_xscale("log")
        low, high = bounds([x for x, _ in every])
        ax.set_xlim(low, high)
        time_axis(ax, low, high, WIDTH - 70)
        ax.grid(visible=True, axis="y")
    elif every:
        from matplotlib.ticker import MaxNLocator

        ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))


def covered(curves: Sequence[Sequence[tuple[float, float]]], is_log: bool) -> list[int]:
    """Number of later curves on top of each curve: with equal points, as far as both go, to a hundredth of the axis.

    is_log : True if values lie on a logarithmic axis.
    """
    height = math.log if is_log else float
    ends = [height(y) for points in curves for _, y in points] or [0.0]
    near = (max(ends) - min(ends)) / 100

    def is_on(one: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]]) -> bool:
        both = list(zip(one, other, strict=False))
        return bool(both) and all(a[0] == b[0] and abs(height(a[1]) - height(b[1])) <= near for a, b in both)

    return [sum(is_on(points, later) for later in curves[at + 1 :]) for at, points in enumerate(curves)]


def line_width(below: int) -> float:
    """Width of a curve with so many curves on top of it: wider, so that all are visible."""
    return min(1.6 + 2.6 * below, 12.0)


def legend_size(names: Sequence[str]) -> tuple[int, int]:
    """Columns of a legend of curves with these names, and its height in pixels."""
    across = max(1, min(2, (WIDTH - 30) // (50 + 7 * max(map(len, names)))))
    return across, 18 * math.ceil(len(names) / across) + 12


def styles() -> itertools.chain[tuple[str, str, object]]:
    """Colour, mark and dashes of each curve in turn: the first 24 are all different."""
    rounds = [[(colour, mark, dash) for colour, mark in zip(SERIES, MARKS, strict=True)] for dash in DASHES]
    return itertools.chain.from_iterable(itertools.cycle(rounds))


def _points(values: Sequence[float | None] | None, seconds: Sequence[float], clock: bool) -> Points:
    """Points (epoch, value), or (seconds at the epoch's end, value) for `clock`; a part of them if they are many."""
    ends = list(itertools.accumulate(seconds)) if clock else [float(at) for at in range(1, len(seconds) + 1)]
    found = [
        (x, y) for x, y in zip(ends, values or (), strict=False) if y is not None and math.isfinite(y) and x > 1e-12
    ]
    stride = math.ceil(len(found) / POINTS)
    return found if stride < 2 else [*found[:-1:stride], found[-1]]
