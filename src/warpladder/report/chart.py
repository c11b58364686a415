"""A bar chart of times as inline SVG. Colours are the page's: the chart names classes only."""

from __future__ import annotations

import math
from html import escape

from ..results import Results, RungResult
from . import words

WIDTH, LEFT, RIGHT, TOP, ROW = 860, 110, 190, 44, 34  # in units of the view box; names stand left of the bars, times right of them


def chart(results: Results) -> str:
    """Times per epoch on a logarithmic scale. Bars begin at the floor, so that their length says how many times slower than it a rung is."""
    timed = results.timed()
    if not timed:
        return ""
    floor = results.net.train_flops * results.data.train / results.machine.fma_peak
    times = [rung.timing.seconds_per_epoch for rung in timed if rung.timing]
    low, high = math.log10(min(floor, *times)), math.log10(max(*times, floor))
    low, high = low - 0.03 * (high - low) - 0.01, high + 0.01
    height = TOP + ROW * len(timed) + 12

    def x(seconds: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (math.log10(seconds) - low) / (high - low), 1)

    out = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="Seconds per epoch of each rung, logarithmic">']
    for tick in _ticks(low, high):
        out.append(f'<line class="grid" x1="{x(tick)}" x2="{x(tick)}" y1="{TOP - 8}" y2="{height - 8}"/>')
        if abs(x(tick) - x(floor)) > 30:
            out.append(
                f'<text class="tick" x="{x(tick)}" y="{TOP - 14}">{words.seconds(tick).replace(".00 ", " ").replace(".0 ", " ")}</text>'
            )
    for at, rung in enumerate(timed):
        out += _bar(rung, x, x(floor), floor, TOP + ROW * at)
    out.append(f'<line class="floor" x1="{x(floor)}" x2="{x(floor)}" y1="{TOP - 8}" y2="{height - 8}"/>')
    out.append(f'<text class="tick floor" x="{x(floor)}" y="{TOP - 28}">floor {words.seconds(floor)}</text>')
    return "\n".join([*out, "</svg>"])


def _bar(rung: RungResult, x: object, start: float, floor: float, y: float) -> list[str]:
    assert rung.timing is not None and callable(x)
    end = x(rung.timing.seconds_per_epoch)
    kind = "peer" if rung.peer else "rung"
    label = f"{words.seconds(rung.timing.seconds_per_epoch)}{'*' * rung.timing.scaled}, {words.three(rung.timing.seconds_per_epoch / floor)}x the floor"
    reach = x(max(rung.timing.epochs))
    lines = [
        f'<text class="name" x="{LEFT - 10}" y="{y + 20}">{escape(rung.name)}</text>',
        f'<rect class="{kind}" x="{min(start, end)}" y="{y + 5}" width="{max(abs(end - start), 1):.1f}" height="{ROW - 12}" rx="2"/>',
        f'<text class="time" x="{max(end, reach) + 10}" y="{y + 20}">{escape(label)}</text>',
    ]
    lines += [f'<circle class="sample" cx="{x(epoch)}" cy="{y + 16}" r="2.2"/>' for epoch in rung.timing.epochs]
    return lines


def _ticks(low: float, high: float) -> list[float]:
    """Round times between two powers of ten: every decade, and 2 and 5 as well where there are few decades."""
    steps = (1, 2, 5) if high - low < 2 else (1, 3) if high - low < 3.5 else (1,)
    decades = range(math.floor(low), math.ceil(high) + 1)
    return [step * 10.0**decade for decade in decades for step in steps if low <= math.log10(step * 10.0**decade) <= high]
