"""Rooflines: the peak speed of a unit for each FLOP per byte, and the rungs, or the parts of a step, below it.

After Williams, Waterman and Patterson, "Roofline: an insightful visual performance model" (2009).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ... import Results
from ...profiled import Profile
from ...text import words
from .svg import FLOOR, PAPER, PEER, RUNG, SERIES, SOFT, Canvas, clipped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEIGHT = 380  # pixels

ITEMSIZES = {"uint8": 1, "int8": 1, "float16": 2, "float32": 4, "float64": 8}


@dataclass(frozen=True)
class Roof:
    """Peaks of a computing unit: FLOP/s, and bytes/s to and from its memory, None if unknown."""

    name: str
    flops: float
    bandwidth: float | None


@dataclass(frozen=True)
class Dot:
    """Point of a roofline: FLOPs per byte, FLOP/s and name; `mark` and `colour` depend on its kind."""

    name: str
    intensity: float
    speed: float
    mark: str
    colour: str


def of_climb(results: Results) -> tuple[list[Roof], list[Dot]]:
    """Roofs of the computing units of a climb's rungs, and a dot for each rung and peer: a whole step that reads every
    sample once, and reads and writes every weight once.
    """
    data, net = results.data, results.net
    chosen = results.config.get("batch_size")
    batch = min(
        chosen if isinstance(chosen, int) and not isinstance(chosen, bool) and chosen > 0 else data.train, data.train
    )
    size = math.prod(max(1, each) for each in data.in_shape) * ITEMSIZES.get(data.dtype, 4)
    moved = batch * size + 8 * net.parameters
    roofs: dict[str, Roof] = {}
    dots = []
    for rung in results.timed():
        peak = results.peak(rung)
        if peak is None or rung.timing is None or rung.flops is None:
            continue
        name = words.unit_name(results, rung)
        roofs.setdefault(name, Roof(name, peak, results.machine.bandwidth if results.on_cpu(rung) else None))
        mark, colour = ("s", PEER) if rung.peer else ("o", RUNG)
        dots.append(
            Dot(rung.name, rung.flops * batch / moved, rung.flops * rung.timing.samples_per_second, mark, colour)
        )
    return list(roofs.values()), dots


def of_profile(found: Profile) -> tuple[list[Roof], list[Dot]]:
    """Roof of a profile's computing unit, and a dot for each part with arithmetic, named by its number."""
    bandwidth = found.bytes_per_second if math.isfinite(found.bytes_per_second) else None
    dots = [
        Dot(str(at), part.floor.flops / part.floor.bytes, part.floor.flops / part.seconds, "D", SERIES[0])
        for at, part in enumerate(found.parts, 1)
        if part.floor.flops > 0 and part.floor.bytes > 0 and part.seconds > 0
    ]
    return [Roof(found.device, found.flops_per_second, bandwidth)], dots


def alt(dots: Sequence[Dot]) -> str:
    """Alternative text of a roofline: the speed and FLOPs per byte of each dot."""
    parts = ", ".join(
        f"{dot.name} {words.three(dot.speed / 1e9)} GFLOP/s at {words.three(dot.intensity)} FLOP/byte" for dot in dots
    )
    return f"Roofline, both scales logarithmic: {parts}."


def roofline(roofs: Sequence[Roof], dots: Sequence[Dot]) -> Callable[[Canvas], None]:
    """Drawing function for GFLOP/s over FLOP per byte: the roofs as lines, a dot for each rung or part, with its
    name.
    """

    def draw(canvas: Canvas) -> None:
        ridges = [roof.flops / roof.bandwidth for roof in roofs if roof.bandwidth]
        inside = [dot.intensity for dot in dots] + ridges
        left, right = min(inside) / 3, max(inside) * 12
        speeds = [dot.speed for dot in dots] + [roof.flops for roof in roofs]
        low, high = min(speeds) / 2.5, max(speeds) * 3
        ax = canvas.axes(HEIGHT, 58, 16, 26, 40)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlim(left, right)
        ax.set_ylim(low, high)
        for at, roof in enumerate(roofs):
            ridge = left if roof.bandwidth is None else roof.flops / roof.bandwidth
            xs, ys = [ridge, right], [roof.flops, roof.flops]
            if roof.bandwidth is not None and ridge > left:
                xs, ys = [left, *xs], [left * roof.bandwidth, *ys]
            ax.plot(xs, ys, color=FLOOR, linestyle=("-", (0, (6, 2)), (0, (2, 2)))[at % 3], linewidth=2)
            label = f"{clipped(roof.name, 34)}: {words.three(roof.flops / 1e9)} GFLOP/s"
            ax.annotate(
                label, (right, roof.flops), (0, 5), textcoords="offset points", ha="right", color=FLOOR, fontsize=10
            )
            if roof.bandwidth is not None and ridge > left:
                x = max(left, low / roof.bandwidth)
                label = f"{words.three(roof.bandwidth / 1e9)} GB/s"
                ax.annotate(
                    label,
                    (x, x * roof.bandwidth),
                    (14, -4),
                    textcoords="offset points",
                    va="top",
                    color=FLOOR,
                    fontsize=10,
                )
        _dots(ax, dots, math.log10(high / low))
        ax.set_xlabel("FLOP for each byte that must move")
        ax.set_title("GFLOP/s", loc="left", color=SOFT, fontsize=11)
        _plain(ax)

    return draw


def _dots(ax: Axes, dots: Sequence[Dot], decades: float) -> None:
    """Draw the dots, and their names at the right, shifted if they would overlap; a thin line leads to each shifted
    name.
    """
    for dot in dots:
        ax.plot([dot.intensity], [dot.speed], dot.mark, color=dot.colour, markeredgecolor=PAPER, markersize=8, zorder=3)
    pixels = HEIGHT - 66
    taken: list[tuple[float, float]] = []
    for dot in sorted(dots, key=lambda dot: dot.speed):
        y = math.log10(dot.speed) / decades * pixels
        near = [height for x, height in taken if abs(math.log10(x / dot.intensity)) < 0.35]
        place = max([y, *(height + 13 for height in near)])
        taken.append((dot.intensity, place))
        name = clipped(dot.name, 24)
        low, high = ax.get_xlim()
        side = -1 if math.log(dot.intensity / low) > 0.5 * math.log(high / low) else 1  # on the side with more space
        line = (
            {"arrowstyle": "-", "color": SOFT, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3} if place - y > 4 else None
        )
        ax.annotate(
            name, (dot.intensity, dot.speed), (10 * side, place - y), textcoords="offset points", va="center",
            ha="left" if side > 0 else "right", fontsize=10, arrowprops=line, annotation_clip=False,
        )  # fmt: skip


def _plain(ax: Axes) -> None:
    """Set plain numbers on both axes, only powers of ten if these suffice."""
    from matplotlib.ticker import LogLocator, NullLocator

    for axis, scale in ((ax.xaxis, 1.0), (ax.yaxis, 1e9)):
        axis.set_major_locator(LogLocator(numticks=5))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(partial(_number, scale))


def _number(scale: float, value: float, position: int | None = None) -> str:
    """Text of a tick's value in units of `scale`."""
    shown = value / scale
    return words.short(words.three(shown)) if 1e-3 <= shown < 1e6 else f"{shown:.0e}"
