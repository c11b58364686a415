"""First Linear layer on samples of which most numbers are 0: products with 0 are left out.

A sample is a list of its numbers other than 0, in blocks of LISTED inputs: the weights of a block and of up to four
panels, or their gradients, stay in the first-level cache while all samples pass::

    sample   0 0 3 0 0 0 7 0 | 0 0 0 0 0 0 0 0 | 0 5 0 0 ...      lists   (2, 3) (6, 7) | | (1, 5) ...
    y        += 3 * weights[2],  += 7 * weights[6]                y in registers, weights in the cache
    dw[2]    += 3 * dy,   dw[6]  += 7 * dy                        dy in registers, dw in the cache

Each sum has its terms in the order of the dense product, without those that are 0: it has the same bits, but for the
sign of a 0. 0 times an infinity or NaN is NaN: if a block's weights, or dy, have either, its lists include the zeros.
"""

from llvmlite import ir
from numba import types

from ...compiler.emit import F32 as FLOAT
from ...compiler.emit import (
    I64,
    INTEGERS,
    chosen,
    counted,
    emitted,
    fma,
    horizontal,
    load,
    splat,
    store,
    zeros,
)  # fmt: skip
from ...compiler.functions import inner
from ...compiler.vectors import LANES, WIDTH
from ...program.access import (
    activations_of,
    cut,
    floats,
    floats_2d,
    gradient_target,
    indices_of,
    int32s,
    int64s,
    reader,
    rows_and_panels,
    sgd_numbers,
)  # fmt: skip
from ...program.memory import ENTRIES, LINE, SCRATCH, STARTS, WEIGHTS
from ...program.operands import ConvolveOperands, WeightGradientOperands, WeightStepOperands
from ..matmul_tile import relu_or_mask, sgd_step
from ..samples import prefetch
from ..tile_sizes import ADD, BIAS, LISTED, LISTED_PANELS, LISTED_PITCH, RELU, STORE, ZERO
from ..update import call_optimizer, clip_all

_read = reader(ConvolveOperands)
_read_gradient, _read_step = reader(WeightGradientOperands), reader(WeightStepOperands)

PER_PANEL = WIDTH // LANES  # vectors of a panel's row
AHEAD, LINES = 3, 3  # samples between the prefetch of a list and its use, and cache lines of it
INFINITE = 0x7F800000  # the bits of an infinity


def _entry(builder, entries, number):  # type: ignore[no-untyped-def]
    """Place of a list's entry in a block of weights, int64, and its value in all lanes."""
    at = builder.shl(number, I64(1))
    place = builder.sext(builder.load(builder.gep(entries, [at])), I64)
    value = builder.bitcast(builder.gep(entries, [builder.add(at, I64(1))]), FLOAT.as_pointer())
    return place, splat(builder, builder.load(value))


def _columns(builder, panels, stride):  # type: ignore[no-untyped-def]
    """Offsets of the vectors of `panels` panels that are `stride` apart."""
    return [
        builder.add(builder.mul(stride, I64(panel)), I64(v * LANES))
        for panel in range(panels)
        for v in range(PER_PANEL)
    ]


def _make_sum(panels):  # type: ignore[no-untyped-def]
    """Intrinsic for y = finish(start + sum of the listed rows of weights, each times its entry's value)."""

    @emitted()
    def tile(builder, row, weights, result, ends):  # type: ignore[no-untyped-def]
        (entries, first, count), (w, w_at, w_stride), (y, y_at) = row, weights, result
        start, bias, bias_at, finish = ends
        own, other = _columns(builder, panels, I64(WIDTH)), _columns(builder, panels, w_stride)
        places = [builder.add(y_at, column) for column in own]

        def begun(kind):  # type: ignore[no-untyped-def]
            if kind == ZERO:
                return [zeros() for _ in own]
            if kind == ADD:
                return [load(builder, y, place) for place in places]
            return [load(builder, bias, builder.add(bias_at, column)) for column in own]

        bases = [builder.gep(w, [builder.add(w_at, column)]) for column in other]
        k, sums, close = counted(builder, count, chosen(builder, start, (ZERO, BIAS, ADD), begun), hidden=True)
        place, value = _entry(builder, entries, builder.add(first, k))
        close([fma(builder, value, load(builder, base, place), s) for base, s in zip(bases, sums, strict=True)])
        for place, total in zip(
            places,
            chosen(builder, finish, (STORE, RELU), lambda kind: relu_or_mask(builder, sums, kind, list)),
            strict=True,
        ):
            store(builder, y, place, total)

    return tile


def _make_add(panels):  # type: ignore[no-untyped-def]
    """Intrinsic that adds dy, times its entry's value, to each listed row of gradients."""

    @emitted()
    def tile(builder, row, gradients, source):  # type: ignore[no-untyped-def]
        (entries, first, count), (g, g_at, g_stride), (dy, dy_at) = row, gradients, source
        own, other = _columns(builder, panels, I64(WIDTH)), _columns(builder, panels, g_stride)
        factors = [load(builder, dy, builder.add(dy_at, column)) for column in own]
        bases = [builder.gep(g, [builder.add(g_at, column)]) for column in other]
        k, _, close = counted(builder, count, [], hidden=True)
        place, value = _entry(builder, entries, builder.add(first, k))
        for base, factor in zip(bases, factors, strict=True):
            store(builder, base, place, fma(builder, value, factor, load(builder, base, place)))
        close([])

    return tile


_sum_4, _sum_2, _sum_1 = _make_sum(4), _make_sum(2), _make_sum(1)
_add_4, _add_2, _add_1 = _make_add(4), _make_add(2), _make_add(1)


@emitted(types.int64)
def _largest(builder, array, at, step, count):  # type: ignore[no-untyped-def]
    """Largest magnitude of `count` vectors `step` apart, as its bits; an infinity's or more if one is not finite."""
    k, (most,), close = counted(builder, count, [ir.Constant(INTEGERS, [0] * LANES)])
    bits = builder.bitcast(load(builder, array, builder.add(at, builder.mul(k, step))), INTEGERS)
    bits = builder.and_(bits, ir.Constant(INTEGERS, [0x7FFFFFFF] * LANES))
    close([builder.select(builder.icmp_signed(">", bits, most), bits, most)])

    def larger(one, other):  # type: ignore[no-untyped-def]
        return builder.select(builder.icmp_signed(">", one, other), one, other)

    return builder.zext(horizontal(builder, most, larger), I64)


@emitted()
def _clear(builder, array, at, count):  # type: ignore[no-untyped-def]
    """Set `count` vectors to 0."""
    k, _, close = counted(builder, count, [])
    store(builder, array, builder.add(at, builder.mul(k, I64(LANES))), zeros())
    close([])


@emitted()
def _sgd_block(builder, weights, gradients, count, step):  # type: ignore[no-untyped-def]
    """Step of SGD of `count` vectors. weights, gradients : array and offset. step : rate, clip and decay."""
    (w, w_at), (g, g_at) = weights, gradients
    k, _, close = counted(builder, count, [])
    at = builder.mul(k, I64(LANES))
    there = builder.add(w_at, at)
    store(builder, w, there, sgd_step(builder, load(builder, g, builder.add(g_at, at)), load(builder, w, there), step))
    close([])


@inner
def _panels_at_once(left):  # type: ignore[no-untyped-def]
    """Number of panels that a tile takes of those that are left."""
    return 4 if left >= 4 else 2 if left >= 2 else 1


@inner
def _list_of(memory, work, sample, start, rows, whole):  # type: ignore[no-untyped-def]
    """Entries of a sample in the block of `rows` inputs from `start`: their array, the first, and how many.

    whole : True for a list with the zeros too, in scratch.
    """
    entries, starts = int32s(memory, ENTRIES, 0), int64s(memory, STARTS, sample)
    first = starts[start // LISTED]
    count = starts[start // LISTED + 1] - first
    if whole:
        full = cut(int32s(memory, SCRATCH, work.thread), LISTED_PANELS * LISTED_PITCH, 2 * LISTED)
        for k in range(rows):
            full[2 * k], full[2 * k + 1] = k * WIDTH, 0
        for entry in range(first, first + count):
            full[2 * (entries[2 * entry] // WIDTH) + 1] = entries[2 * entry + 1]
        entries, first, count = full, 0, rows
    return entries, first, count


@inner
def _prefetch_list(memory, indices, sample, start):  # type: ignore[no-untyped-def]
    """Prefetch the list of a block of sample `sample`, if there is one."""
    if sample < indices.shape[0]:
        entries, starts = floats_2d(memory, ENTRIES), int64s(memory, STARTS, indices[sample])
        for line in range(LINES):
            prefetch(entries, 0, 2 * starts[start // LISTED] + line * (LINE // 4))


@inner
def _sum_block(it, memory, work, which, block, samples):  # type: ignore[no-untyped-def]
    """Add a block's products to y. which : first panel, and number of panels. block : first input, number of inputs."""
    (panel, panels), (start, rows), indices = which, block, indices_of(memory, work)
    weights, biases, a = floats(memory, it.array, 0), floats(memory, WEIGHTS, 0), activations_of(memory, work)
    depth, at = it.x.channels, panel * WIDTH
    right = (weights, it.weights + (panel * depth + start) * WIDTH, depth * WIDTH)
    whole = False
    for each in range(panels):
        whole |= _largest(weights, right[1] + each * right[2], LANES, rows * PER_PANEL) >= INFINITE
    begin = ADD if start > 0 else BIAS if it.bias >= 0 else ZERO
    ends = (begin, biases, it.bias + at, it.finish if start + rows == depth else STORE)
    for sample in range(samples[0], samples[1]):
        _prefetch_list(memory, indices, sample + AHEAD, start)
        row = _list_of(memory, work, indices[sample], start, rows, whole)
        result = (a, it.y.offset + sample * it.y.pixel + at)
        if panels == 4:
            _sum_4(row, right, result, ends)
        elif panels == 2:
            _sum_2(row, right, result, ends)
        else:
            _sum_1(row, right, result, ends)


def nonzero_product(operands, memory, work):  # type: ignore[no-untyped-def]
    """Forward operation: y = finish(bias + weights * x), each thread for its panels, or its samples of one panel."""
    it = _read(operands)
    samples, (panel, last) = rows_and_panels(work.n, it.panels, it.by_panel, work)
    while panel < last:
        panels = _panels_at_once(last - panel)
        for start in range(0, it.x.channels, LISTED):
            block = (start, min(LISTED, it.x.channels - start))
            _sum_block(it, memory, work, (panel, panels), block, samples)
        panel += panels
    return 0.0, 0.0


@inner
def _is_infinite(dy, memory, work, which):  # type: ignore[no-untyped-def]
    """True if dy of some panels has an infinity or NaN."""
    a, found = activations_of(memory, work), False
    for vector in range(which[1] * PER_PANEL):
        found |= _largest(a, dy.offset + which[0] * WIDTH + vector * LANES, dy.pixel, work.n) >= INFINITE
    return found


@inner
def _add_block(dy, memory, work, which, block, whole, gradients):  # type: ignore[no-untyped-def]
    """Add the gradients of a block's weights; see `_sum_block`. gradients : array, offset, distance of panels."""
    (panel, panels), (start, rows), indices = which, block, indices_of(memory, work)
    a = activations_of(memory, work)
    for sample in range(work.n):
        _prefetch_list(memory, indices, sample + AHEAD, start)
        row = _list_of(memory, work, indices[sample], start, rows, whole)
        source = (a, dy.offset + sample * dy.pixel + panel * WIDTH)
        if panels == 4:
            _add_4(row, gradients, source)
        elif panels == 2:
            _add_2(row, gradients, source)
        else:
            _add_1(row, gradients, source)


@inner
def _own_blocks(it, work):  # type: ignore[no-untyped-def]
    """First input of a thread's blocks, and the one after the last; first panel, and the one after the last."""
    blocks, panels = rows_and_panels((it.x.channels + LISTED - 1) // LISTED, it.panels, it.by_panel, work)
    return (blocks[0] * LISTED, min(blocks[1] * LISTED, it.x.channels)), panels


def nonzero_weight_gradient(operands, memory, work):  # type: ignore[no-untyped-def]
    """Weight gradient operation: dw (panel, input, WIDTH) = sum over samples of x^T dy; or a step of SGD by dw."""
    it = _read_gradient(operands)
    (begin, end), (panel, last) = _own_blocks(it, work)
    steps, depth, scratch = it.steps_weights != 0, it.x.channels, floats(memory, SCRATCH, work.thread)
    target = gradient_target(memory, work, steps)
    while panel < last:
        panels = _panels_at_once(last - panel)
        whole = _is_infinite(it.dy, memory, work, (panel, panels))
        for start in range(begin, end, LISTED):
            rows, at = min(LISTED, end - start), it.gradient + (panel * depth + start) * WIDTH
            sums = (scratch, 0, LISTED_PITCH) if steps else (target, at, depth * WIDTH)
            if work.add == 0:
                for each in range(panels):
                    _clear(sums[0], sums[1] + each * sums[2], rows * PER_PANEL)
            _add_block(it.dy, memory, work, (panel, panels), (start, rows), whole, sums)
            if steps:
                for each in range(panels):
                    weights = (target, at + each * depth * WIDTH)
                    _sgd_block(weights, (scratch, each * sums[2]), rows * PER_PANEL, sgd_numbers(memory, work))
        panel += panels
    return 0.0, 0.0


def nonzero_weight_step(operands, memory, work):  # type: ignore[no-untyped-def]
    """Fused operation: update of the weights by dw, by the optimizer's loop, without storing dw."""
    it = _read_step(operands)
    (begin, end), (panel, last) = _own_blocks(it, work)
    depth, scratch = it.x.channels, floats(memory, SCRATCH, work.thread)
    while panel < last:
        panels = _panels_at_once(last - panel)
        whole = _is_infinite(it.dy, memory, work, (panel, panels))
        for start in range(begin, end, LISTED):
            rows = min(LISTED, end - start)
            _clear(scratch, 0, panels * LISTED_PITCH // LANES)
            _add_block(it.dy, memory, work, (panel, panels), (start, rows), whole, (scratch, 0, LISTED_PITCH))
            for each in range(panels):
                g, at = cut(scratch, each * LISTED_PITCH, rows * WIDTH), it.weights
                at += ((panel + each) * depth + start) * WIDTH
                clip_all(g, work.settings.clip)
                call_optimizer(memory, work, g, at, at + rows * WIDTH)
        panel += panels
    return 0.0, 0.0


def request_nonzeros(operands, memory, work):  # type: ignore[no-untyped-def]
    """Operation in the place of gathering samples: prefetch of the lists that are read first."""
    indices = indices_of(memory, work)
    for sample in range(AHEAD):
        _prefetch_list(memory, indices, sample, 0)
    return 0.0, 0.0
