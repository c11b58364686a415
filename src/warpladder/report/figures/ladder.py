"""The ladder as a picture: the time of an epoch on each rung, on a logarithmic scale, from its floor; and of two climbs
side by side.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...results import Results, RungResult
from ...results.text import words
from .svg import FLOOR, INK, PAPER, PEER, RUNG, SERIES, SOFT, WIDTH, Canvas, clipped, rows_of, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEFT, RIGHT = 20, 16  # pixels next to the axes
NAME, LINE = 24, 40  # letters of a name, and of a line of options


def alt(results: Results) -> str:
    """The picture in words."""
    timed = results.timed()
    parts = ", ".join(f"{rung.name} {words.seconds(_time(rung))}" for rung in timed)
    return f"Time per epoch of each rung and peer, on a logarithmic scale: {parts}."


def ladder(results: Results) -> Callable[[Canvas], None]:
    """Draws a bar for each rung and peer with a time: it begins at the floor, so that its length says how many times
    slower than that it is. Name and figures stand above it.

    Dots are the repetitions. A dotted step leads from each rung to the next. The gain is left out of a climb that other
    processes disturbed.
    """
    rungs = sorted(results.timed(), key=lambda rung: rung.peer)
    floors = words.floors(results)

    def draw(canvas: Canvas) -> None:
        every = [time for rung in rungs for time in (*_epochs(rung), rung.floor_seconds or _epochs(rung)[0])]
        low, high = bounds([*every, *(floor for _, floor in floors)])
        lines = max(1, *(len(_options(rung)) for rung in rungs))
        row = 40 + 12 * lines
        gap = 0.6 * any(rung.peer for rung in rungs) * any(not rung.peer for rung in rungs)
        places = [at + gap * rung.peer for at, rung in enumerate(rungs)]
        top = 20 + 16 * len(floors)
        ax = canvas.axes(top + row * (len(rungs) + gap) + 30, LEFT, RIGHT, top, 30)
        ax.set_xscale("log")
        ax.set_xlim(low, high)
        rows_of(ax, len(rungs))
        ax.set_ylim(len(rungs) - 0.5 + gap, -0.5)
        time_axis(ax, low, high, WIDTH - LEFT - RIGHT)
        shift = (8 + 6 * lines) / row
        for rung, y in zip(rungs, places, strict=True):
            _bar(ax, rung, y + shift, 13 / row, low)
            _figures(ax, results, rung, y - 0.5)
        steps = [(rung, y + shift) for rung, y in zip(rungs, places, strict=True) if not rung.peer]
        for (one, y), (two, below) in itertools.pairwise(steps):
            ax.plot([_time(one), _time(one), _time(two)], [y, below, below], ":", color=SOFT, linewidth=1.1, zorder=1.5)
        _floor_lines(ax, floors)

    return draw


def _options(rung: RungResult) -> list[str]:
    """A rung's options on lines of about `LINE` letters."""
    lines: list[str] = []
    for option in words.parts_of(rung.name)[1][:12]:
        option = clipped(option, 34)
        if lines and len(lines[-1]) + len(option) < LINE:
            lines[-1] += f":{option}"
        else:
            lines.append(f":{option}")
    return lines


def _bar(ax: Axes, rung: RungResult, y: float, height: float, low: float) -> None:
    epochs = _epochs(rung)
    start, end = sorted((max(low, rung.floor_seconds or min(epochs)), _time(rung)))
    if rung.peer:  # hatched, which needs no colour
        ax.barh(y, end - start, height, start, facecolor=PAPER, edgecolor=PEER, hatch="////", linewidth=1.2, zorder=2)
    else:
        ax.barh(y, end - start, height, start, color=RUNG, zorder=2)
    ax.plot(
        epochs, [y] * len(epochs), "o", color=INK, markeredgecolor=PAPER, markeredgewidth=0.8, markersize=5, zorder=3
    )


def _figures(ax: Axes, results: Results, rung: RungResult, top: float) -> None:
    """Name and options to the left; time, gain over the rung below, and times of the floor to the right."""
    assert rung.timing is not None
    time = words.seconds(_time(rung)) + "*" * rung.timing.scaled
    gain = "" if results.disturbed else words.times(results.over_below(rung))
    write(ax, clipped(words.parts_of(rung.name)[0], NAME), (0, top), (0, -13), weight="bold")
    write(ax, f"{time}{f', {gain} over below' if gain else ''}", (1, top), (0, -13), ha="right")
    for at, line in enumerate(_options(rung)):
        write(ax, line, (0, top), (0, -26 - 12 * at), color=SOFT, fontsize=10)
    if rung.floor_seconds:
        text = f"{words.three(_time(rung) / rung.floor_seconds)}x its floor"
        write(ax, text, (1, top), (0, -26), ha="right", color=SOFT, fontsize=10)


def _floor_lines(ax: Axes, floors: Sequence[tuple[str, float]]) -> None:
    low, high = ax.get_xlim()
    across = WIDTH - LEFT - RIGHT
    for at, (unit, floor) in enumerate(floors):
        text = f"floor of {clipped(unit, 34)}: {words.seconds(floor)}"
        half = len(text) * 3  # pixels of half the text, at most
        x = across * math.log(floor / low) / math.log(high / low)
        x = min(max(x, half + 2 - LEFT), across + RIGHT - half - 2)
        ax.axvline(floor, color=FLOOR, linestyle=(0, (5, 3)), linewidth=1.3, zorder=2.5)
        ax.annotate(
            text, (0, 1), (x, 16 * (len(floors) - at) - 8), xycoords="axes fraction", textcoords="offset pixels",
            ha="center", color=FLOOR, fontsize=10,
        )  # fmt: skip


def bounds(times: Sequence[float]) -> tuple[float, float]:
    """The ends of a logarithmic axis that holds these times, with a little room."""
    low, high = math.log10(min(times)), math.log10(max(times))
    room = 0.04 * max(high - low, 0.3)
    return 10 ** (low - room), 10 ** (high + room)


def time_axis(ax: Axes, low: float, high: float, width: float) -> None:
    """Round times below a logarithmic axis, as many as there is room for."""
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
    """Draws for each of these rungs and peers the time that it takes in each climb: a line from the fastest to the
    slowest repetition, a mark at the median.
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
