"""Picture as a PNG file: the same drawing as in a page, in fixed colours."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .svg import PALETTE, PAPER, SETTINGS, Canvas, imported

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FINER = 3  # pixels of the file for each pixel of the page


def raster(draw: Callable[[Canvas], None], look: Mapping[str, str]) -> bytes:
    """Bytes of a PNG file.

    Parameters
    ----------
    draw : callable
        Function that draws on a `Canvas`.
    look : mapping
        The page's CSS variables for light screens, as "ink": "#1c2024".

    Raises
    ------
    NoPictures
        matplotlib is missing or broken.
    """
    matplotlib = imported()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    colours = {colour: look[name] for colour, name in PALETTE.items()}
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {name: colours.get(value, value) if isinstance(value, str) else value for name, value in SETTINGS.items()}
        )
        figure = Figure()
        FigureCanvasAgg(figure)
        draw(Canvas(figure))
        figure.canvas.draw()  # which makes the ticks
        _recolour(figure, colours)
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=72 * FINER, facecolor=colours[PAPER], metadata={"Software": None})
    return file.getvalue()


def _recolour(figure: Figure, colours: Mapping[str, str]) -> None:
    """Replace the placeholder colours of a figure by the page's colours."""
    from matplotlib.colors import to_hex

    for artist in figure.findobj():
        for part in ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor"):
            get, put = (getattr(artist, f"{what}_{part}", None) for what in ("get", "set"))
            if get is None or put is None:
                continue
            value: Any = get()
            try:
                colour = to_hex(value)
            except ValueError:  # several colours, or none
                continue
            if colour in colours and colour != colours[colour]:
                put(colours[colour])
