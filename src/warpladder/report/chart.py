"""A bar chart of times as inline SVG. Colours are the page's: the chart names classes only."""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape

from ..results import Results, RungResult
from . import words

BARS, TOP, ROW = 560, 44, 34  # in units of the view box; names stand left of the bars, times right of them
LETTER = 7.6  # what a letter takes at most, on average over a label, in the chart's type
SMALL = 6.2  # what a letter of a rung's options takes, below its name


def chart(results: Results) -> str:
    """Times per epoch on a logarithmic scale.

    A bar begins at its rung's own floor, so that its length says how many times slower than that the rung is. The floor of each unit that
    rungs compute on stands as a line.
    """
    timed = results.timed()
    if not timed:
        return ""
    floors = {rung.name: rung.floor_seconds or min(rung.timing.epochs) for rung in timed if rung.timing}
    times = [epoch for rung in timed if rung.timing for epoch in rung.timing.epochs]
    low, high = math.log10(min(*floors.values(), *times)), math.log10(max(*floors.values(), *times))
    low, high = low - 0.03 * (high - low) - 0.01, high + 0.01
    lines = _floors(results, timed)
    head = TOP + 16 * (len(lines) - 1)
    height = head + ROW * len(timed) + 12
    names = [words.parts_of(rung.name) for rung in timed]
    left = 20 + max(max(LETTER * len(name), SMALL * len(":".join(options))) for name, options in names)
    right = 20 + LETTER * max(len(_label(rung, floors[rung.name])) for rung in timed)
    width = round(left + BARS + right)

    def x(seconds: float) -> float:
        return round(left + BARS * (math.log10(seconds) - low) / (high - low), 1)

    out = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="Seconds per epoch of each rung, logarithmic">']
    for tick in _ticks(low, high):
        out.append(f'<line class="grid" x1="{x(tick)}" x2="{x(tick)}" y1="{head - 8}" y2="{height - 8}"/>')
        out.append(
            f'<text class="tick" x="{x(tick)}" y="{head - 14}">{words.seconds(tick).replace(".00 ", " ").replace(".0 ", " ")}</text>'
        )
    for at, (unit, floor) in enumerate(lines):
        out.append(f'<line class="floor" x1="{x(floor)}" x2="{x(floor)}" y1="{head - 8}" y2="{height - 8}"/>')
        anchor = "start" if x(floor) < width / 2 else "end"
        out.append(
            f'<text class="tick floor {anchor}" x="{x(floor)}" y="{14 + 16 * at}">floor of {escape(unit)}: {words.seconds(floor)}</text>'
        )
    for at, rung in enumerate(timed):
        out += _bar(rung, x, floors[rung.name], left, head + ROW * at)
    return "\n".join([*out, "</svg>"])


def _floors(results: Results, timed: list[RungResult]) -> list[tuple[str, float]]:
    """Each unit that rungs compute on, and the time that the net's own arithmetic takes it at least."""
    found: dict[str, float] = {}
    for rung in timed:
        peak = results.peak(rung)
        if rung.timing is not None and peak is not None:
            found.setdefault(words.unit_name(results, rung), results.net.train_flops * rung.timing.epoch_samples / peak)
    return list(found.items())


def _label(rung: RungResult, floor: float) -> str:
    assert rung.timing is not None
    time = rung.timing.seconds_per_epoch
    over = f", {words.three(time / floor)}x its floor" if rung.floor_seconds else ""
    return f"{words.seconds(time)}{'*' * rung.timing.scaled}{over}"


def _bar(rung: RungResult, x: Callable[[float], float], floor: float, left: float, y: float) -> list[str]:
    assert rung.timing is not None
    start, end = x(floor), x(rung.timing.seconds_per_epoch)
    kind = "peer" if rung.peer else "rung"
    lines = [
        *_name(rung, left - 10, y),
        f'<rect class="{kind}" x="{min(start, end)}" y="{y + 5}" width="{max(abs(end - start), 1):.1f}" height="{ROW - 12}" rx="2"/>',
        f'<text class="time" x="{max(end, x(max(rung.timing.epochs))) + 10}" y="{y + 20}">{escape(_label(rung, floor))}</text>',
    ]
    lines += [f'<circle class="sample" cx="{x(epoch)}" cy="{y + 16}" r="2.2"/>' for epoch in rung.timing.epochs]
    return lines


def _name(rung: RungResult, x: float, y: float) -> list[str]:
    """The rung's name beside its bar, its options in small letters below."""
    name, options = words.parts_of(rung.name)
    out = [f'<text class="name" x="{x:.1f}" y="{y + (14 if options else 20)}">{escape(name)}</text>']
    if options:
        out.append(f'<text class="options" x="{x:.1f}" y="{y + 26}">{escape(":".join(options))}</text>')
    return out


def _ticks(low: float, high: float) -> list[float]:
    """Round times between two powers of ten: every decade, and 2 and 5 as well where there are few decades."""
    steps = (1, 2, 5) if high - low < 2 else (1, 3) if high - low < 3.5 else (1,)
    decades = range(math.floor(low), math.ceil(high) + 1)
    return [step * 10.0**decade for decade in decades for step in steps if low <= math.log10(step * 10.0**decade) <= high]
