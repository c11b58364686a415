"""First layer with few outputs on the data set's own bytes: no gathered copy, and a fourth of the bytes to read.

Shapes: pixels (all samples, features) uint8 in the data set, indices (samples,) of the batch's rows;
weights (outputs, pitch), y and dy (samples, WIDTH) as in few_outputs.py. Idle units convert the bytes to floats in
registers; the scale is applied to sums. features is a multiple of LANES.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from ..compiler.emit import I64, VECTOR, Rows, chosen, counted, emitted, fma, load, opaque, splat, store, zeros
from ..compiler.vectors import LANES, VECTORS, WIDE, WIDTH
from ..program.access import (
    activations_of,
    bytes_2d,
    floats,
    gradient_target,
    indices_of,
    offsets_of,
    own_samples,
    sgd_numbers,
    share,
)
from ..program.memory import LINE, U8, WEIGHTS
from .dot_products import make_dot
from .few_outputs import OUTPUTS, SAMPLES, read_few_outputs, read_weight_gradient, relu_floor, weight_rows
from .matmul_tile import sgd_step
from .samples import prefetch
from .tile_sizes import ADD, STEP, STORE, ZERO

GROUP = 8 if WIDE else 16  # samples for which one tile's outputs are computed, before the next outputs'


def _row(builder: ir.IRBuilder, pixels: Rows, index: ir.Value) -> ir.Value:
    """Pointer to row `index` of the bytes."""
    return builder.gep(pixels.data, [builder.mul(index, pixels.stride)])


def _floats(builder: ir.IRBuilder, row: ir.Value, at: ir.Value) -> ir.Value:
    """Vector of LANES bytes as floats."""
    eight = ir.VectorType(ir.IntType(8), LANES)
    return builder.uitofp(builder.load(builder.bitcast(builder.gep(row, [at]), eight.as_pointer()), align=1), VECTOR)


def _make_tile(vectors: int) -> Any:
    """Intrinsic that computes OUTPUTS rows of the weight gradient.

    sums[m, n] = start + scale * sum over k < samples of dy[at[m] + k * dy_sample] * pixels[indices[k], column + n]

    for m < OUTPUTS and n < vectors * LANES, to target[at[OUTPUTS + m] + n]. start : ZERO, or ADD (to target). finish :
    STORE, or STEP, a step of SGD. step : rate, clip and decay.
    """

    @emitted()
    def tile(builder, pixels, batch, gradient, at, scale, result, step):  # type: ignore[no-untyped-def]
        (indices, samples, column), (dy, dy_sample), (target, start, finish) = batch, gradient, result
        where = [builder.load(builder.gep(at, [I64(i)])) for i in range(2 * OUTPUTS)]
        rows = [builder.gep(dy, [where[m]]) for m in range(OUTPUTS)]
        cells = [(m, v) for m in range(OUTPUTS) for v in range(vectors)]
        k, sums, close = counted(builder, samples, [zeros() for _ in cells])
        k = opaque(builder, k)
        sample = _row(builder, pixels, builder.load(builder.gep(indices, [k])))
        numbers = [_floats(builder, sample, builder.add(column, I64(v * LANES))) for v in range(vectors)]
        here = builder.mul(k, dy_sample)
        scalars = [splat(builder, builder.load(builder.gep(row, [here]))) for row in rows]
        close([fma(builder, scalars[m], numbers[v], sums[m * vectors + v]) for m, v in cells])
        gradients = [builder.fmul(value, splat(builder, scale)) for value in sums]
        places = [builder.add(where[OUTPUTS + m], I64(v * LANES)) for m, v in cells]

        def before() -> list[ir.Value]:
            return [load(builder, target, place) for place in places]

        def started(start: int) -> list[ir.Value]:
            if start == ADD:
                return [builder.fadd(held, value) for held, value in zip(before(), gradients, strict=True)]
            return gradients

        def finished(finish: int) -> list[ir.Value]:
            if finish == STEP:
                return [sgd_step(builder, g, w, step) for g, w in zip(results, before(), strict=True)]
            return results

        results = chosen(builder, start, (ZERO, ADD), started)
        # stored only now, so that a repeated output does not step its weights twice
        for place, value in zip(places, chosen(builder, finish, (STORE, STEP), finished), strict=True):
            store(builder, target, place, value)

    return tile


_dot = make_dot(SAMPLES, OUTPUTS, _row, _floats)
_tile = _make_tile(VECTORS)
_half_tile = _make_tile(1)


def few_outputs_of_bytes(operands, memory, work):  # type: ignore[no-untyped-def]
    """Linear operation on bytes: y = scale * pixels[indices] weights^T + bias, with a fused ReLU."""
    it, at, a = read_few_outputs(operands), offsets_of(memory, work), activations_of(memory, work)
    weights, pixels, indices = floats(memory, WEIGHTS, 0), bytes_2d(memory, U8), indices_of(memory, work)
    floor = relu_floor(it)
    first, last = own_samples(work)
    # a group's bytes and the weights of one tile's outputs fit the first-level cache; all outputs' weights do not
    for group in range(first, last, GROUP):
        end = min(group + GROUP, last)
        for output in range(0, it.outputs, OUTPUTS):
            weight_rows(at, it, output)
            for sample in range(group, end, SAMPLES):
                for i in range(SAMPLES):
                    row = min(sample + i, end - 1)
                    at[i] = indices[row]
                    if output == 0 and sample + GROUP + i < last:
                        for line in range(0, it.features, LINE):
                            prefetch(pixels, indices[sample + GROUP + i], line)
                    at[SAMPLES + OUTPUTS + i] = it.y.offset + row * it.y.sample
                bias, result = (weights, it.bias + output), (a, output, min(OUTPUTS, it.outputs - output))
                _dot(pixels, weights, at, it.features, bias, (work.settings.scale, floor), result)
    return 0.0, 0.0


def few_outputs_weight_gradient_of_bytes(operands, memory, work):  # type: ignore[no-untyped-def]
    """Weight gradient on bytes: dw = scale * dy^T pixels[indices] for the thread's panels; or a step of SGD by dw."""
    it, at, a = read_weight_gradient(operands), offsets_of(memory, work), activations_of(memory, work)
    pixels, indices, steps = bytes_2d(memory, U8), indices_of(memory, work), it.steps_weights != 0
    step, scale = sgd_numbers(memory, work), work.settings.scale
    result = (gradient_target(memory, work, steps), ADD if work.add else ZERO, STEP if steps else STORE)
    first, last = share(it.panels, work.part, work.parts)
    end = min(last * WIDTH, it.features)
    for column in range(first * WIDTH, end, VECTORS * LANES):
        for output in range(0, it.outputs, OUTPUTS):
            for i in range(OUTPUTS):
                row = min(output + i, it.outputs - 1)
                at[i] = it.dy.offset + row
                at[OUTPUTS + i] = it.gradient + row * it.pitch + column
            batch, gradient = (indices, work.n, column), (a, it.dy.sample)
            if column + VECTORS * LANES > end:
                _half_tile(pixels, batch, gradient, at, scale, result, step)
            else:
                _tile(pixels, batch, gradient, at, scale, result, step)
    return 0.0, 0.0
