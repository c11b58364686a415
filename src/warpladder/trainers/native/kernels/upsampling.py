"""Nearest upsampling, alone and folded into the convolution after it.

Upsampling by 2 and a 3x3 convolution with padding 1 become one operation on the small image. Output pixel (2y + p, 2x +
q) reads only 2x2 small pixels, since neighbours among its nine are copies of each other. So each parity (p, q) is a 2x2
convolution whose weights are sums of the 3x3 kernel's: 4/9 of the FLOPs, for the output and both gradients.

Kernel row r of parity p falls on tap t(p, r): rows 0 | 1, 2 for p = 0, rows 0, 1 | 2 for p = 1.
Folded weights: (parity p * 2 + q, panel, tap row, tap column, input channel, WIDTH).
"""

import numpy as np

from ..compiler.functions import inner
from ..compiler.vectors import WIDTH
from ..program.access import activations_of, floats, own_samples, place, reader, share
from ..program.memory import GRADIENTS, PACKED, WEIGHTS
from ..program.operands import FoldOperands, TransposeFoldedOperands, UnfoldOperands, UpsampleOperands

_read, _read_fold = reader(UpsampleOperands), reader(FoldOperands)
_read_unfold, _read_transpose = reader(UnfoldOperands), reader(TransposeFoldedOperands)


def upsample(operands, memory, work):  # type: ignore[no-untyped-def]
    """Upsampling operation: copy each small pixel to scale x scale large pixels."""
    it, a = _read(operands), activations_of(memory, work)
    small, large, scale = it.small, it.large, it.scale
    first, last = own_samples(work)
    for sample in range(first, last):
        for row in range(large.height):
            for column in range(large.width):
                start, out = place(small, sample, row // scale, column // scale), place(large, sample, row, column)
                for channel in range(small.channels):
                    a[out + channel] = a[start + channel]
    return 0.0, 0.0


def upsample_gradient(operands, memory, work):  # type: ignore[no-untyped-def]
    """Upsampling gradient: a small pixel's gradient is the sum of its copies' gradients."""
    it, a = _read(operands), activations_of(memory, work)
    small, large, scale = it.small, it.large, it.scale
    first, last = own_samples(work)
    for sample in range(first, last):
        for row in range(small.height):
            for column in range(small.width):
                out = place(small, sample, row, column)
                result = a[out : out + small.channels]
                result[:] = 0
                for tap in range(scale * scale):
                    start = place(large, sample, row * scale + tap // scale, column * scale + tap % scale)
                    copy = a[start : start + small.channels]
                    for channel in range(small.channels):
                        result[channel] += copy[channel]
    return 0.0, 0.0


@inner
def tap(parity, row):  # type: ignore[no-untyped-def]
    """Number of the small pixel, 0 or 1, on which a kernel row falls."""
    return (row + 1 - parity) // 2 if parity == 0 else row // 2


def fold_weights(operands, memory, work):  # type: ignore[no-untyped-def]
    """Folding operation: 3x3 panels to four sets of 2x2 panels; a unit of work is one (parity, panel)."""
    it, weights, target = _read_fold(operands), floats(memory, WEIGHTS, 0), floats(memory, PACKED, 0)
    line, panels = it.inputs * WIDTH, it.panels
    first, last = share(4 * panels, work.part, work.parts)
    for unit in range(first, last):
        parity, panel = divmod(unit, panels)
        out = target[it.target + unit * 4 * line :][: 4 * line]
        out[:] = np.float32(0)
        for row in range(3):
            for column in range(3):
                at = tap(parity // 2, row) * 2 + tap(parity % 2, column)
                source = weights[it.weights + (panel * 9 + row * 3 + column) * line :][:line]
                part = out[at * line :][:line]
                for i in range(line):
                    part[i] += source[i]
    return 0.0, 0.0


def unfold_gradients(operands, memory, work):  # type: ignore[no-untyped-def]
    """Unfolding operation: gradients of folded weights to gradients of 3x3 weights, each in one tap of every parity."""
    it, gradients = _read_unfold(operands), floats(memory, GRADIENTS, work.slot)
    line, panels = it.inputs * WIDTH, it.panels
    first, last = share(panels, work.part, work.parts)
    for panel in range(first, last):
        for row in range(3):
            for column in range(3):
                out = gradients[it.gradient + (panel * 9 + row * 3 + column) * line :][:line]
                for parity in range(4):
                    at = tap(parity // 2, row) * 2 + tap(parity % 2, column)
                    source = gradients[it.folded + ((parity * panels + panel) * 4 + at) * line :][:line]
                    if parity == 0:
                        for i in range(line):
                            out[i] = source[i]
                    else:
                        for i in range(line):
                            out[i] += source[i]
    return 0.0, 0.0


def transpose_folded(operands, memory, work):  # type: ignore[no-untyped-def]
    """Transposition of folded weights for the input gradient, a 4x4 convolution of stride 2 over dy.

    dx[y] = sum over k < 4 of w4[k] dy[2 y - 1 + k], where k belongs to parity (k + 1) % 2 and tap 1 - k // 2.
    target : (inputs / WIDTH, 4, 4, outputs, WIDTH). A block is WIDTH x WIDTH weights of one of the 16 taps.
    """
    it, packed = _read_transpose(operands), floats(memory, PACKED, 0)
    columns, panels = it.inputs // WIDTH, it.outputs // WIDTH
    first, last = share(it.blocks, work.part, work.parts)
    for block in range(first, last):
        rest, ci = divmod(block, columns)
        co, k = divmod(rest, 16)
        row, column = divmod(k, 4)
        parity = (row + 1) % 2 * 2 + (column + 1) % 2
        at = (1 - row // 2) * 2 + 1 - column // 2
        source = packed[it.folded + (((parity * panels + co) * 4 + at) * it.inputs + ci * WIDTH) * WIDTH :][
            : WIDTH * WIDTH
        ]
        out = packed[it.target + ((ci * 16 + k) * it.outputs + co * WIDTH) * WIDTH :][: WIDTH * WIDTH]
        for i in range(WIDTH):
            for o in range(WIDTH):
                out[o * WIDTH + i] = source[i * WIDTH + o]
    return 0.0, 0.0
