"""Small curve for a terminal, in plain characters."""

from __future__ import annotations

import math
from collections.abc import Sequence

LEAST = 3  # fewest points of a curve


def curve(title: str, values: Sequence[float | None], width: int = 72, height: int = 8) -> list[str]:
    """Lines of text with a curve over epochs 1, 2, ..., at most `width` wide; empty if fewer than `LEAST` epochs have a
    finite value.

    Parameters
    ----------
    title : str
        Title of the curve, as "loss by epoch".
    values : sequence of float or None
        Value of each epoch; None or a number that is not finite leaves a gap.
    width, height : int
        Columns, with the scale at the left, and rows of the curve itself.
    """
    points = [(at, value) for at, value in enumerate(values) if value is not None and math.isfinite(value)]
    if len(points) < LEAST:
        return []
    low, high = min(value for _, value in points), max(value for _, value in points)
    scale = [f"{high:.3g}", f"{low:.3g}"]
    left = max(map(len, scale))
    columns = max(2, min(width - left - 3, 4 * len(values)))
    rows = [[" "] * columns for _ in range(height)]
    for at, value in points:
        x = round(at * (columns - 1) / (len(values) - 1))
        y = round((high - value) / (high - low) * (height - 1)) if high > low else height - 1
        rows[y][x] = "o"
    labels = [scale[0], *[""] * (height - 2), scale[1]]
    lines = [f"{label:>{left}} |{''.join(row).rstrip()}" for label, row in zip(labels, rows, strict=True)]
    last = str(len(values))
    return [title, *lines, f"{'':{left}} +{'-' * columns}", f"{'':{left}}  1{last:>{columns - 1}}"]
