"""A picture as an SVG file of its own, for documents: with the page's colours, in light and in dark."""

from __future__ import annotations

import re
from collections.abc import Callable

from ..style import STYLE
from .raster import raster
from .svg import Canvas, drawn

FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'


def alone(alt: str, draw: Callable[[Canvas], None]) -> str:
    """The text of an SVG file.

    Parameters
    ----------
    alt : str
        What the picture shows, for those who do not see it.
    draw : callable
        Draws on a `Canvas`, as wide as a screen.

    Raises
    ------
    NoPictures
        matplotlib is missing or broken.
    """
    light, dark = re.findall(r":root \{ *([^}]*)\}", STYLE)[:2]
    look = f"svg {{ {light} font-family: {FONT}; stroke-linejoin: round; }} @media (prefers-color-scheme: dark) {{ svg {{ {dark} }} }}"
    body = drawn("picture", "wide", alt, draw)
    opening, rest = body[: body.index(">") + 1], body[body.index(">") + 1 :]
    opening = opening.replace(
        "<svg ", '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" ', 1
    )
    return f"{opening}<style>{look}</style>{rest.rstrip()}\n"


def as_png(draw: Callable[[Canvas], None]) -> bytes:
    """The bytes of a PNG file, in the page's colours for light screens, twice as fine as the screen.

    Raises
    ------
    NoPictures
        matplotlib is missing or broken.
    """
    light = dict(re.findall(r"--(\w+): *(#[0-9a-f]{3,6})", re.findall(r":root \{ *([^}]*)\}", STYLE)[0]))
    return raster(draw, light)
