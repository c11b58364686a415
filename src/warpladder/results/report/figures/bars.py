"""Bar charts: the parts of a step from a profile, and memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ... import Results, RungResult
from ...profiled import Profile
from ...text import words
from .svg import INK, PAPER, PEER, RUNG, SERIES, SOFT, Canvas, clipped, rows_of, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LETTERS = 36  # most letters of a row's label
SHIFT, HEIGHT = 0.22, 0.3  # offset of a bar below its row's middle, and its height, in rows

#: Colours of a step's phases, by number.
PHASES = {"forward": 0, "backward": 1, "loss": 2, "update": 3}


def parts_alt(found: Profile) -> str:
    """Alternative text of the picture of a profile."""
    texts = ", ".join(
        f"{label} {words.seconds(part.seconds)}" for label, part in zip(part_labels(found), found.parts, strict=True)
    )
    return f"Time of each part of a training step on {found.rung}: {texts}."


def part_labels(found: Profile, letters: int = 500) -> list[str]:
    """Label of each part: its number, its layers and its phase, in at most `letters` letters; only layers are cut."""
    out = []
    for at, part in enumerate(found.parts, 1):
        phase = f", {part.phase}" if part.phase not in part.name.split(", ") else ""
        number = f"{at}. "
        out.append(f"{number}{clipped(part.name, letters - len(number) - len(phase))}{phase}")
    return out


def parts(found: Profile) -> Callable[[Canvas], None]:
    """Drawing function for a bar for each part of a step, in order, with a line at the part's floor."""

    def draw(canvas: Canvas) -> None:
        def note(at: int) -> str:
            return (
                f"{words.seconds(found.parts[at].seconds)}, "
                f"{words.percent(found.parts[at].seconds / found.parts_seconds)}"
            )

        labels = part_labels(found, LETTERS)
        times = [part.seconds for part in found.parts]
        ax = _rows(canvas, labels, note)
        for y, part in enumerate(found.parts):
            series = PHASES.get(part.phase, 4)
            ax.barh(y + SHIFT, part.seconds, HEIGHT, color=SERIES[series], zorder=2)
            least = part.floor.seconds(found.flops_per_second, found.bytes_per_second)
            if 0 < least < float("inf"):
                _line(ax, least, y)
        ax.set_xlim(0, 1.02 * max([*times, 1e-12]))

    return draw


def with_memory(results: Results) -> list[RungResult]:
    """Rungs and peers whose memory is known."""
    return [rung for rung in results.timed() if rung.peak_rss_bytes or sum((rung.held_bytes or {}).values())]


def memory_alt(results: Results) -> str:
    """Alternative text of the picture of memory."""
    texts = ", ".join(f"{rung.name} {_megabytes(rung)}" for rung in with_memory(results))
    return f"Memory of each rung and peer: {texts}."


def memory(results: Results) -> Callable[[Canvas], None]:
    """Drawing function for a bar for the largest resident set of each rung's process, with a line at the bytes of its
    trainer; without a resident set, the bar shows these bytes.
    """
    rungs = with_memory(results)

    def draw(canvas: Canvas) -> None:
        sizes = [max(rung.peak_rss_bytes or 0, sum((rung.held_bytes or {}).values())) / 1e6 for rung in rungs]
        ax = _rows(canvas, [rung.name for rung in rungs], lambda at: _megabytes(rungs[at]))
        with_peak = any(rung.peak_rss_bytes for rung in rungs)
        for y, rung in enumerate(rungs):
            peak, held = (rung.peak_rss_bytes or 0) / 1e6, sum((rung.held_bytes or {}).values()) / 1e6
            peak, held = (peak, held) if with_peak else (held, 0.0)
            look: dict = (
                {"facecolor": PAPER, "edgecolor": PEER, "hatch": "////", "linewidth": 1.2}
                if rung.peer
                else {"color": RUNG}
            )
            ax.barh(y + SHIFT, peak, HEIGHT, zorder=2, **look)
            if held:
                _line(ax, held, y)
        ax.set_xlim(0, 1.02 * max([*sizes, 1e-6]))
        ax.xaxis.set_major_formatter(
            lambda value, _: f"{value:,.0f} MB" if value >= 10 or value == 0 else f"{value:.2g} MB"
        )

    return draw


def _line(ax: Axes, x: float, row: int) -> None:
    """Draw a line across a bar at x, in a neutral colour that is visible on the bar."""
    ends = [row + SHIFT - HEIGHT / 2 - 0.1, row + SHIFT + HEIGHT / 2 + 0.1]
    for colour, width in ((PAPER, 5.0), (INK, 2.2)):
        ax.plot([x] * 2, ends, color=colour, linewidth=width, zorder=3, solid_capstyle="butt")


def _megabytes(rung: RungResult) -> str:
    held = sum((rung.held_bytes or {}).values()) / 1e6
    texts = [f"{words.megabytes(rung.peak_rss_bytes)} MB"] if rung.peak_rss_bytes else []
    return ", ".join([*texts, *([f"{words.three(held)} MB held"] if held else [])])


def _rows(canvas: Canvas, labels: list[str], note: Callable[[int], str]) -> Axes:
    """Axes with a row for each label: label and note are above the row's bar."""
    from matplotlib.ticker import MaxNLocator

    ax = canvas.axes(44 * len(labels) + 36, 20, 16, 6, 30)
    rows_of(ax, len(labels))
    ax.xaxis.set_major_locator(MaxNLocator(nbins=4))
    ax.xaxis.set_major_formatter(lambda value, _: words.short(words.seconds(value)) if value > 0 else "0")
    for at, label in enumerate(labels):
        write(ax, clipped(label, LETTERS), (0, at - 0.24))
        write(ax, note(at), (1, at - 0.24), ha="right", color=SOFT, fontsize=10)
    return ax
