"""Which operation multiplies for a layer: tiles of any pixels, or stretches of neighbouring ones where rows have the
pixels for them (stretches.py).
"""

from __future__ import annotations

from ..compiler.vectors import TOGETHER, WIDTH
from ..kernels.tile_sizes import PAIR, STRETCH, TAPS
from .job import Row, instruction
from .views import View


def product(panels: int) -> str:
    """The operation of a Linear layer's product with panels."""
    return "multiply" if TOGETHER > 1 and panels == 1 else "convolve"


def convolutions(
    views: list[View],
    size: int,
    stride: int,
    weights: tuple[int, int, int],
    finish: int,
    panels: int,
    border: int,
    inside: View,
) -> list[Row]:
    """Rows that convolve: by stretches where rows have the pixels for them, panels in pairs and a last one alone.

    views : of "convolve"; that of the input begins `border` rows and columns of zeros before `inside`. weights : their
    array, where they lie in it, the bias.
    """
    goes = size == TAPS and stride == 1 and inside.pixel == inside.channels
    lone = goes and (panels % TOGETHER == 1 if TOGETHER > 1 else panels == 1) and _fills(views[1].width, STRETCH)
    pairs = (
        goes and TOGETHER > 1 and panels - lone > 0 and (panels - lone) % TOGETHER == 0 and _fills(views[1].width, PAIR)
    )
    stretched = "stretched_convolve", views, max(0, border), inside.height, inside.width, *weights, finish
    rows = []
    if pairs:
        rows.append(instruction(*stretched, 0, panels - lone, 1))
    elif panels > lone:
        rows.append(instruction("convolve", views, 0, size, size, stride, *weights, finish, panels - lone, 0))
    if lone:
        rows.append(instruction(*stretched, panels - 1, panels, 0))
    return rows


def stretched_gradient(size: int, stride: int, outputs: int) -> bool:
    """Whether a convolution's weight gradient has an operation of its own: kernels of TAPS x TAPS, and one panel of
    outputs.
    """
    return TOGETHER > 1 and outputs == WIDTH and size == TAPS and stride == 1


def _fills(width: int, length: int) -> bool:
    """Whether rows of so many pixels leave less than a tenth of the sums of stretches of this length for nothing."""
    return width >= length and -(-width // length) * length <= 1.1 * width
