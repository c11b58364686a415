"""Picture as a separate SVG file, for documents: with the page's colours, in light and in dark."""

from __future__ import annotations

import re
from collections.abc import Callable

from ..style import STYLE
from .raster import raster
from .svg import WIDTH, Canvas, drawn

FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'


def alone(alt: str, draw: Callable[[Canvas], None]) -> str:
    """Text of an SVG file.

    Parameters
    ----------
    alt : str
        Alternative text of the picture.
    draw : callable
        Function that draws on a `Canvas`.

    Raises
    ------
    NoPictures
        matplotlib is missing or broken.
    """
    light, dark = re.findall(r":root \{ *([^}]*)\}", STYLE)[:2]
    look = (
        f"svg {{ {light} font-family: {FONT}; stroke-linejoin: round; }} @media (prefers-color-scheme: "
        f"dark) {{ svg {{ {dark} }} }}"
    )
    body = drawn("picture", alt, draw)
    opening, rest = body[: body.index(">") + 1], body[body.index(">") + 1 :]
    opening = opening.replace(
        "<svg ",
        f'<svg width="{WIDTH + 40}" xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" ',
        1,
    )
    return f"{opening}<style>{look}</style>{rest.rstrip()}\n"


def as_png(draw: Callable[[Canvas], None]) -> bytes:
    """Bytes of a PNG file, in the page's colours for light screens, with three times the resolution of the screen.

    Raises
    ------
    NoPictures
        matplotlib is missing or broken.
    """
    light = dict(re.findall(r"--(\w+): *(#[0-9a-f]{3,6})", re.findall(r":root \{ *([^}]*)\}", STYLE)[0]))
    return raster(draw, light)
