"""Nearest upsampling by 2 followed by a 3x3 convolution with padding 1, folded into one operation on the small image.

Each output pixel (2y + p, 2x + q) sees only 2x2 small pixels, because neighbours among its nine
are copies of each other. So each of the four parities (p, q) is a 2x2 convolution whose weights
are sums of the 3x3 kernel's: 16 instead of 36 products an enlarged pixel square, that is 4/9 of
the FLOPs, for the output and both gradients alike.

Kernel row r of parity p falls on tap t(p, r): rows 0 | 1, 2 for p = 0, rows 0, 1 | 2 for p = 1.
Folded weights: (parity p * 2 + q, panel, tap row, tap column, input channel, WIDTH).
"""

from __future__ import annotations

import numpy as np

from ..compiler.functions import inner
from ..compiler.vectors import WIDTH


@inner
def tap(parity, row):  # type: ignore[no-untyped-def]
    """On which of two small pixels a kernel row falls."""
    return (row + 1 - parity) // 2 if parity == 0 else row // 2


@inner
def fold(weights, w_at, inputs, panels, target, t_at, unit_range):  # type: ignore[no-untyped-def]
    """3x3 panels to four sets of 2x2 panels; a unit is one (parity, panel)."""
    line = inputs * WIDTH
    for unit in range(unit_range[0], unit_range[1]):
        parity, panel = divmod(unit, panels)
        out = target[t_at + unit * 4 * line :][: 4 * line]
        out[:] = np.float32(0)
        for row in range(3):
            for column in range(3):
                at = tap(parity // 2, row) * 2 + tap(parity % 2, column)
                source = weights[w_at + (panel * 9 + row * 3 + column) * line :][:line]
                part = out[at * line :][:line]
                for i in range(line):
                    part[i] += source[i]


@inner
def unfold(folded, f_at, inputs, panels, target, t_at, panel_range):  # type: ignore[no-untyped-def]
    """Gradients of the folded weights to gradients of the 3x3 weights: each 3x3 weight is in one tap of every parity."""
    line = inputs * WIDTH
    for panel in range(panel_range[0], panel_range[1]):
        for row in range(3):
            for column in range(3):
                out = target[t_at + (panel * 9 + row * 3 + column) * line :][:line]
                for parity in range(4):
                    at = tap(parity // 2, row) * 2 + tap(parity % 2, column)
                    source = folded[f_at + ((parity * panels + panel) * 4 + at) * line :][:line]
                    if parity == 0:
                        for i in range(line):
                            out[i] = source[i]
                    else:
                        for i in range(line):
                            out[i] += source[i]


@inner
def fold_transpose(folded, f_at, inputs, outputs, target, t_at, block_range):  # type: ignore[no-untyped-def]
    """Folded weights to those of the input gradient: a 4x4 convolution of stride 2 over dy.

    dx[y] = sum over k < 4 of w4[k] dy[2 y - 1 + k], where k belongs to parity (k + 1) % 2 and tap 1 - k // 2.
    target : (inputs / WIDTH, 4, 4, outputs, WIDTH). A block is WIDTH x WIDTH weights of one of the 16 taps.
    """
    columns = inputs // WIDTH
    panels = outputs // WIDTH
    for block in range(block_range[0], block_range[1]):
        rest, ci = divmod(block, columns)
        co, k = divmod(rest, 16)
        row, column = divmod(k, 4)
        parity = (row + 1) % 2 * 2 + (column + 1) % 2
        at = (1 - row // 2) * 2 + 1 - column // 2
        source = folded[f_at + (((parity * panels + co) * 4 + at) * inputs + ci * WIDTH) * WIDTH :][: WIDTH * WIDTH]
        out = target[t_at + ((ci * 16 + k) * outputs + co * WIDTH) * WIDTH :][: WIDTH * WIDTH]
        for i in range(WIDTH):
            for o in range(WIDTH):
                out[o * WIDTH + i] = source[i * WIDTH + o]
