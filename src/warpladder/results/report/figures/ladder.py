"""Picture of the ladder: the time of an epoch on each rung, as a mark on one logarithmic axis; and of several climbs
next to each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ... import Results, RungResult
from ...text import words
from .svg import FLOOR, INK, PAPER, PEER, RUNG, SERIES, SOFT, WIDTH, Canvas, clipped, rows_of, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEFT, RIGHT, TOP = 20, 16, 28  # margins of the axes in pixels
NAME, LINE, SHORT = 24, 40, 26  # most letters of a name, of a line of options, and of a line next to figures


def alt(results: Results) -> str:
    """Alternative text of the picture of the ladder."""
    timed = results.timed()
    parts = ", ".join(f"{rung.name} {words.seconds(_time(rung))}" for rung in timed)
    return f"Time per epoch of each rung and peer, on a logarithmic scale: {parts}."


def ladder(results: Results) -> Callable[[Canvas], None]:
    """Drawing function for a row for each timed rung and peer: a line from the start of the axis to a mark at the
    median, and a tick at the rung's floor. Name, precision and figures are above it.

    Small dots are the repetitions. The speed-up is omitted from a climb that other processes disturbed.
    """
    rungs = sorted(results.timed(), key=lambda rung: rung.peer)

    def draw(canvas: Canvas) -> None:
        low, high = bounds([time for rung in rungs for time in (*_epochs(rung), rung.floor_seconds or _time(rung))])
        lines = max(1, *(max(len(_options(rung)), _crowded(rung) + 1) for rung in rungs))
        row = 42 + 12 * lines
        gap = 0.5 * any(rung.peer for rung in rungs) * any(not rung.peer for rung in rungs)
        ax = canvas.axes(TOP + row * (len(rungs) + gap) + 30, LEFT, RIGHT, TOP, 30)
        ax.set_xscale("log")
        ax.set_xlim(low, high)
        rows_of(ax, len(rungs))
        ax.set_ylim(len(rungs) - 0.5 + gap, -0.5)
        time_axis(ax, low, high, WIDTH - LEFT - RIGHT)
        for at, rung in enumerate(rungs):
            top = at + gap * rung.peer - 0.5
            _row(ax, rung, top + (28 + 12 * lines) / row, 16 / row)
            _figures(ax, results, rung, top)
        _key(canvas, any(rung.peer for rung in rungs))

    return draw


def _options(rung: RungResult) -> list[str]:
    """Options of a rung as lines of about `LINE` letters."""
    lines: list[str] = []
    for option in words.parts_of(rung.name)[1][:12]:
        option = clipped(option, 34)
        if lines and len(lines[-1]) + len(option) < LINE:
            lines[-1] += f":{option}"
        else:
            lines.append(f":{option}")
    return lines


def _row(ax: Axes, rung: RungResult, y: float, height: float) -> None:
    """Draw line, repetitions, mark and floor of one row."""
    colour, mark = (PEER, "D") if rung.peer else (RUNG, "o")
    ax.plot([ax.get_xlim()[0], _time(rung)], [y, y], color=colour, linewidth=2, zorder=2, solid_capstyle="butt")
    if rung.floor_seconds:
        ends = [y - height / 2, y + height / 2]
        ax.plot([rung.floor_seconds] * 2, ends, color=FLOOR, linewidth=2, zorder=2.5, solid_capstyle="butt")
    ax.plot(_epochs(rung), [y] * len(_epochs(rung)), "o", color=INK, markersize=3, zorder=4)
    face = PAPER if rung.peer else colour
    ax.plot([_time(rung)], [y], mark, color=face, markeredgecolor=colour, markeredgewidth=2, markersize=9, zorder=3)


def _figures(ax: Axes, results: Results, rung: RungResult, top: float) -> None:
    """Write name and options at the left; time, speed-up over the rung below, precision and times of the floor at
    the right.
    """
    gain = "" if results.disturbed else words.times(results.over_below(rung))
    write(ax, clipped(words.parts_of(rung.name)[0], NAME), (0, top), (0, -13), weight="bold")
    write(ax, f"{words.epoch_time(rung)}{f', {gain} over below' if gain else ''}", (1, top), (0, -13), ha="right")
    for at, line in enumerate(_options(rung)):
        write(ax, line, (0, top), (0, -26 - 12 * at), color=SOFT, fontsize=10)
    text = f"{words.three(_time(rung) / rung.floor_seconds)}x its floor" if rung.floor_seconds else ""
    place = (0, -26 - 12 * _crowded(rung))
    write(ax, ", ".join(filter(None, [rung.precision, text])), (1, top), place, ha="right", color=SOFT, fontsize=10)


def _crowded(rung: RungResult) -> int:
    """Number of option lines that are too long for figures next to them."""
    lines = _options(rung)
    return max((at + 1 for at, line in enumerate(lines) if len(line) > SHORT), default=0)


def _key(canvas: Canvas, with_peers: bool) -> None:
    """Draw a legend of the marks, in one line above the rows."""
    from matplotlib.lines import Line2D

    keys = [(Line2D([], [], marker="o", color=RUNG, linewidth=0, markersize=8), "rung")]
    if with_peers:
        peer = Line2D(
            [], [], marker="D", color=PEER, linewidth=0, markersize=8, markerfacecolor=PAPER, markeredgewidth=2
        )
        keys.append((peer, "peer"))
    keys.append((Line2D([], [], marker="|", color=FLOOR, linewidth=0, markersize=11, markeredgewidth=2), "its floor"))
    canvas.figure.legend(
        *zip(*keys, strict=True), loc="upper left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0.2, handlelength=1
    )


def bounds(times: Sequence[float]) -> tuple[float, float]:
    """Ends of a logarithmic axis for these times, with small margins."""
    low, high = math.log10(min(times)), math.log10(max(times))
    room = 0.04 * max(high - low, 0.3)
    return 10 ** (low - room), 10 ** (high + room)


def time_axis(ax: Axes, low: float, high: float, width: float) -> None:
    """Set round times as ticks of a logarithmic axis, as many as fit its width."""
    from matplotlib.ticker import NullFormatter, NullLocator

    sparse = math.ceil(math.log10(high / low) * 62 / width)
    for steps, each in (((1, 2, 5), 1), ((1, 3), 1), ((1,), sparse)):
        decades = [d for d in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1) if d % each == 0]
        ticks = [step * 10.0**decade for decade in decades for step in steps if low <= step * 10.0**decade <= high]
        if len(ticks) * 62 <= width:
            break
    ax.set_xticks(ticks, [words.short(words.seconds(tick)) for tick in ticks])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.grid(visible=False, axis="y")


def compared(names: Sequence[str], climbs: Sequence[Results], labels: Sequence[str]) -> Callable[[Canvas], None]:
    """Drawing function for the time of these rungs and peers in each climb: a line from the fastest to the slowest
    repetition, with a mark at the median.
    """
    times = {
        (name, at): rung for at, climb in enumerate(climbs) for rung in climb.timed() if (name := rung.name) in names
    }

    def draw(canvas: Canvas) -> None:
        low, high = bounds([time for rung in times.values() for time in _epochs(rung)])
        top = 10 + 16 * len(labels)
        ax = canvas.axes(top + 48 * len(names) + 30, LEFT, RIGHT, top, 30)
        ax.set_xscale("log")
        ax.set_xlim(low, high)
        rows_of(ax, len(names))
        time_axis(ax, low, high, WIDTH - LEFT - RIGHT)
        for y, name in enumerate(names):
            write(ax, clipped(name, 40), (0, y - 0.28), weight="bold")
            for number in range(len(climbs)):
                if (rung := times.get((name, number))) is None:
                    continue
                height = y + 0.2 + 0.4 * ((number + 0.5) / len(climbs) - 0.5)
                colour, mark = SERIES[number % len(SERIES)], "osD^v<>P"[number % 8]
                ends = [min(_epochs(rung)), max(_epochs(rung))]
                ax.plot(ends, [height] * 2, color=colour, linewidth=3, solid_capstyle="round")
                ax.plot(
                    [_time(rung)], [height], mark, color=colour, markeredgecolor=PAPER, markersize=8,
                    label=clipped(labels[number], 45),
                )  # fmt: skip
        handles = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
        canvas.figure.legend(
            handles.values(), handles.keys(), loc="upper left", bbox_to_anchor=(0, 1), borderaxespad=0, labelspacing=0.2
        )

    return draw


def _epochs(rung: RungResult) -> tuple[float, ...]:
    assert rung.timing is not None
    return rung.timing.epochs


def _time(rung: RungResult) -> float:
    assert rung.timing is not None
    return rung.timing.seconds_per_epoch
