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
from .svg import FLOOR, INK, PAPER, PEER, RUNG, SERIES, SOFT, Canvas, clipped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW, NARROW_ROW = 34, 46  # pixels
NARROW_LETTERS = 50  # in a line of options on a phone
LETTER, BOLD = 6.9, 8.3  # pixels of a letter of 11.5, at most on average


def alt(results: Results) -> str:
    """The picture in words."""
    timed = results.timed()
    told = ", ".join(f"{rung.name} {words.seconds(_time(rung))}" for rung in timed)
    return f"Time per epoch of each rung and peer, on a logarithmic scale: {told}."


def ladder(results: Results) -> Callable[[Canvas], None]:
    """Draws a bar for each rung and peer with a time: it begins at the floor, so that its length says how many times
    slower than that it is.

    Dots are the repetitions. A dotted step leads from each rung to the next, and the gain stands beside it, unless
    others disturbed the climb.
    """
    rungs = sorted(results.timed(), key=lambda rung: rung.peer)
    floors = words.floors(results)

    def draw(canvas: Canvas) -> None:
        times = [
            time
            for rung in rungs
            if rung.timing
            for time in (*rung.timing.epochs, rung.floor_seconds or rung.timing.epochs[0])
        ]
        low, high = bounds([*times, *(floor for _, floor in floors)])
        lines = max(len(_folded(_named(rung)[1], NARROW_LETTERS if canvas.narrow else 26)) for rung in rungs)
        row, head = (NARROW_ROW + 11 * lines, 20) if canvas.narrow else (max(ROW, 20 + 12 * lines), 40)
        gap = 0.6 * any(rung.peer for rung in rungs) * any(not rung.peer for rung in rungs)
        places = [at + gap * rung.peer for at, rung in enumerate(rungs)]
        top = head + 16 * len(floors)
        left, right = (20.0, 16.0) if canvas.narrow else (16 + max(map(_letters, rungs)), 248.0)
        ax = canvas.axes(top + row * (len(rungs) + gap) + 30, left, right, top, 30)
        ax.set_xscale("log")
        ax.set_xlim(low, high)
        ax.set_ylim(len(rungs) - 0.5 + gap, -0.5)
        time_axis(ax, low, high, canvas.width - left - right)
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        bar = 13 / row if canvas.narrow else 17 / row
        shift = 9 / row + 5.5 * lines / row if canvas.narrow else 0.0
        for rung, y in zip(rungs, places, strict=True):
            _bar(ax, rung, y + shift, bar, low)
            (_above if canvas.narrow else _beside)(ax, results, rung, y)
        steps = [(rung, y + shift) for rung, y in zip(rungs, places, strict=True) if not rung.peer]
        for (one, y), (two, below) in itertools.pairwise(steps):
            ax.plot([_time(one), _time(one), _time(two)], [y, below, below], ":", color=SOFT, linewidth=1.1, zorder=1.5)
        _floor_lines(ax, canvas, floors, left, top, right)
        if not canvas.narrow:
            heads = ("an epoch", "" if results.disturbed else "over below", "of its floor")
            for text, x in zip(heads, _COLUMNS, strict=True):
                ax.annotate(
                    text,
                    (1, 1),
                    (x, 6),
                    xycoords="axes fraction",
                    textcoords="offset pixels",
                    ha="right",
                    color=SOFT,
                    fontsize=10,
                )

    return draw


_COLUMNS = (72, 148, 236)  # pixels to the right of the axes, where figures end


def _letters(rung: RungResult) -> float:
    name, options = _named(rung)
    return max(BOLD * len(name), *(LETTER * 0.87 * len(option) for option in ("", *_folded(options))))


def _named(rung: RungResult, letters: int = 34) -> tuple[str, list[str]]:
    name, options = words.parts_of(rung.name)
    return clipped(name, letters), [clipped(option, letters) for option in options[:12]]


def _folded(options: list[str], letters: int = 26) -> list[str]:
    """A rung's options on lines of about so many letters."""
    lines: list[str] = []
    for option in options:
        if lines and len(lines[-1]) + len(option) < letters:
            lines[-1] += f":{option}"
        else:
            lines.append(f":{option}")
    return lines


def _bar(ax: Axes, rung: RungResult, y: float, height: float, low: float) -> None:
    assert rung.timing is not None
    start = max(low, rung.floor_seconds or min(rung.timing.epochs))
    end = _time(rung)
    start, end = min(start, end), max(start, end)
    if rung.peer:  # also told apart without colours
        ax.barh(y, end - start, height, start, facecolor=PAPER, edgecolor=PEER, hatch="////", linewidth=1.2, zorder=2)
    else:
        ax.barh(y, end - start, height, start, color=RUNG, zorder=2)
    epochs = rung.timing.epochs
    ax.plot(
        epochs, [y] * len(epochs), "o", color=INK, markeredgecolor=PAPER, markeredgewidth=0.8, markersize=5, zorder=3
    )


def _figures(results: Results, rung: RungResult) -> tuple[str, str, str]:
    """Time, gain over the rung below, and how many times its floor it takes."""
    assert rung.timing is not None
    time = words.seconds(_time(rung)) + "*" * rung.timing.scaled
    gain = "" if results.disturbed else words.times(results.over_below(rung))
    return time, gain, f"{words.three(_time(rung) / rung.floor_seconds)}x" if rung.floor_seconds else ""


def _beside(ax: Axes, results: Results, rung: RungResult, y: float) -> None:
    """The name to the left of the bar, its figures to the right of the axes."""
    name, options = _named(rung)
    folded = _folded(options)
    place: dict = {
        "xycoords": ax.get_yaxis_transform(),
        "textcoords": "offset pixels",
        "va": "center",
        "annotation_clip": False,
    }
    ax.annotate(name, (0, y), (-10, 6 * len(folded)), ha="right", weight="bold", **place)
    for at, line in enumerate(folded):
        ax.annotate(line, (0, y), (-10, 6 * len(folded) - 12 * (at + 1)), ha="right", color=SOFT, fontsize=10, **place)
    for at, (text, x) in enumerate(zip(_figures(results, rung), _COLUMNS, strict=True)):
        ax.annotate(
            text,
            (1, y),
            (x, 0),
            ha="right",
            weight="bold" if at == 1 else "normal",
            color=SOFT if at == 2 else INK,
            **place,
        )


def _above(ax: Axes, results: Results, rung: RungResult, y: float) -> None:
    """Name and figures above the bar."""
    name, options = _named(rung, 24)
    time, gain, _ = _figures(results, rung)
    place: dict = {
        "xycoords": ax.get_yaxis_transform(),
        "textcoords": "offset pixels",
        "va": "center",
        "annotation_clip": False,
    }
    ax.annotate(name, (0, y - 0.5), (0, -13), weight="bold", **place)
    for at, line in enumerate(_folded(options, NARROW_LETTERS)):
        ax.annotate(line, (0, y - 0.5), (0, -25 - 11 * at), color=SOFT, fontsize=9, **place)
    ax.annotate(f"{time}{f', {gain} over below' if gain else ''}", (1, y - 0.5), (0, -13), ha="right", **place)


def _floor_lines(
    ax: Axes, canvas: Canvas, floors: Sequence[tuple[str, float]], left: float, top: float, right: float
) -> None:
    low, high = ax.get_xlim()
    room = canvas.width - left - right
    for at, (unit, floor) in enumerate(floors):
        text, size = f"floor of {clipped(unit, 34)}: {words.seconds(floor)}", 9.5 if canvas.narrow else 10.5
        x = left + room * math.log(floor / low) / math.log(high / low)
        half = len(text) * size * 0.3
        x = min(max(x, half + 2), canvas.width - half - 2)
        above = 16 * (len(floors) - at) - (8 if canvas.narrow else -8)
        ax.axvline(floor, color=FLOOR, linestyle=(0, (5, 3)), linewidth=1.3, zorder=2.5)
        ax.annotate(
            text,
            (0, 1),
            (x - left, above),
            xycoords="axes fraction",
            textcoords="offset pixels",
            ha="center",
            color=FLOOR,
            fontsize=size,
        )


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
        low, high = bounds([t for rung in times.values() if rung.timing for t in rung.timing.epochs])
        row, left = (48, 20.0) if canvas.narrow else (36, 16 + max(BOLD * min(40, len(name)) for name in names))
        top = 10 + 16 * len(labels)
        ax = canvas.axes(top + row * len(names) + 30, left, 16, top, 30)
        ax.set_xscale("log")
        ax.set_xlim(low, high)
        ax.set_ylim(len(names) - 0.5, -0.5)
        time_axis(ax, low, high, canvas.width - left - 16)
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        shift = 0.2 if canvas.narrow else 0.0
        for y, name in enumerate(names):
            place: dict = {
                "xycoords": ax.get_yaxis_transform(),
                "textcoords": "offset pixels",
                "va": "center",
                "annotation_clip": False,
            }
            at, ha = ((0, y - 0.28), "left") if canvas.narrow else ((0, y), "right")
            ax.annotate(clipped(name, 40), at, (0 if canvas.narrow else -10, 0), ha=ha, weight="bold", **place)
            for number in range(len(climbs)):
                if (rung := times.get((name, number))) is None or rung.timing is None:
                    continue
                height = y + shift + 0.4 * ((number + 0.5) / len(climbs) - 0.5)
                colour, mark = SERIES[number % len(SERIES)], "osD^v<>P"[number % 8]
                ax.plot(
                    [min(rung.timing.epochs), max(rung.timing.epochs)],
                    [height] * 2,
                    color=colour,
                    linewidth=3,
                    solid_capstyle="round",
                )
                ax.plot(
                    [_time(rung)],
                    [height],
                    mark,
                    color=colour,
                    markeredgecolor=PAPER,
                    markersize=8,
                    label=clipped(labels[number], 45),
                )
        handles = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
        canvas.figure.legend(
            handles.values(), handles.keys(), loc="upper left", bbox_to_anchor=(0, 1), borderaxespad=0, labelspacing=0.2
        )

    return draw


def _time(rung: RungResult) -> float:
    assert rung.timing is not None
    return rung.timing.seconds_per_epoch
