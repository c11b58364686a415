"""Copies and sums of residual connections on the native rung, for inputs and for gradients."""

import numpy as np

from ..compiler.emit import counted, emitted, load, maximum, splat, store, zeros
from ..compiler.vectors import LANES
from ..program.access import activations_of, own_samples, place, reader
from ..program.elementwise_operands import ResidualOperands

_read = reader(ResidualOperands)


@emitted()
def _added(builder, a, places, count, has_other, least):  # type: ignore[no-untyped-def]
    """Write a row's vectors y = x or x + other, at least `least`; places : index and step of x, other and y."""
    x, x_step, other, other_step, y, y_step = places
    is_sum, least = builder.icmp_signed("!=", has_other, has_other.type(0)), splat(builder, least)
    k, _, close = counted(builder, count, [])
    first, second = (
        load(builder, a, builder.add(at, builder.mul(k, step))) for at, step in ((x, x_step), (other, other_step))
    )
    # a copy keeps x's bits, where x + 0 would change -0
    found = builder.select(is_sum, builder.fadd(first, builder.select(is_sum, second, zeros())), first)
    store(builder, a, builder.add(y, builder.mul(k, y_step)), maximum(builder, found, least))
    close([])


def add_inputs(operands, memory, work):  # type: ignore[no-untyped-def]
    """Add inputs operation: y = x or x + other, perhaps with a ReLU; padding stays 0."""
    it, a = _read(operands), activations_of(memory, work)
    first, last = own_samples(work)
    padded = it.x.channels % LANES == 0 and it.other.channels % LANES == 0 and it.y.channels % LANES == 0
    whole = (it.channels + (LANES - 1 if padded else 0)) // LANES * LANES
    least = np.float32(0 if it.has_relu != 0 else -np.inf)
    for sample in range(first, last):
        for row in range(it.y.height):
            x, other, y = place(it.x, sample, row, 0), place(it.other, sample, row, 0), place(it.y, sample, row, 0)
            for c in range(0, whole, LANES):
                _added(a, (x + c, it.x.pixel, other + c, it.other.pixel, y + c, it.y.pixel), it.y.width, it.has_other,
                    least)  # fmt: skip
            for c in range(whole, it.channels):
                for i in range(it.y.width):
                    found = a[x + i * it.x.pixel + c]
                    if it.has_other != 0:
                        found += a[other + i * it.other.pixel + c]
                    a[y + i * it.y.pixel + c] = least if found < least else found
    return 0.0, 0.0
