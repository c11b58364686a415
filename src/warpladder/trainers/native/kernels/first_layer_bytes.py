"""A thin first layer on the data set's own bytes: no gathered copy, four times less to read.

Shapes: pixels (all samples, features) uint8 where they lie in the data set, indices (samples,) which of
them are meant; w (outputs, pitch), y and dy (samples, WIDTH) as in thin.py. The bytes become
floats in registers, on units that the multiplications leave idle; the scale is applied to sums.
features is a multiple of LANES.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from ..compiler.emit import I64, VECTOR, chosen, counted, fma, intrinsic, load, opaque, pointers, splat, store, zeros
from ..compiler.functions import inner
from ..compiler.vectors import LANES, VECTORS, WIDE, WIDTH
from ..program.views import OFFSET, SAMPLE
from ..threads.pages import LINE
from .dot_products import make_dot
from .few_outputs import OUTPUTS, SAMPLES
from .matmul_tile import sgd_step
from .prefetch import prefetch
from .tile_sizes import ADD, STEP, STORE, ZERO

GROUP = 8 if WIDE else 16  # samples that one tile's outputs are worked out for, before the next outputs'


def _row(context, builder, kind, value, index):  # type: ignore[no-untyped-def]
    """Pointer to a row of a 2-D array of bytes."""
    view = context.make_array(kind)(context, builder, value)
    return builder.gep(view.data, [builder.mul(index, cgutils.unpack_tuple(builder, view.strides)[0])])


def _floats(builder: ir.IRBuilder, row: ir.Value, at: ir.Value) -> ir.Value:
    """LANES bytes as floats."""
    eight = ir.VectorType(ir.IntType(8), LANES)
    return builder.uitofp(builder.load(builder.bitcast(builder.gep(row, [at]), eight.as_pointer()), align=1), VECTOR)


def _make_tile(vectors: int):  # type: ignore[no-untyped-def]
    @intrinsic
    def tile(
        typing,
        pixels,
        indices,
        column,
        samples,
        slopes,
        at,
        slopes_step,
        scale,
        target,
        start,
        finish,
        rate,
        clip,
        decay,
    ):  # type: ignore[no-untyped-def]
        """sums[m, n] = start + scale * sum over k < samples of slopes[at[m] + k * slopes_step] * pixels[indices[k],
        column + n].

        For m < OUTPUTS and n < vectors * LANES; the result goes to target[at[OUTPUTS + m] + n]. start : ZERO, or ADD
        (what target holds). finish : STORE, or STEP, one of SGD.
        """
        i64, f32 = types.int64, types.float32
        signature = types.void(pixels, indices, i64, i64, slopes, at, i64, f32, target, i64, i64, f32, f32, f32)

        def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
            (_, indices, column, samples, slopes, at, slopes_step, scale, target, start, finish, rate, clip, decay) = (
                pointers(context, builder, signature, values)
            )
            where = [builder.load(builder.gep(at, [I64(i)])) for i in range(2 * OUTPUTS)]
            slope = [builder.gep(slopes, [where[m]]) for m in range(OUTPUTS)]
            cells = [(m, v) for m in range(OUTPUTS) for v in range(vectors)]
            k, sums, close = counted(builder, samples, [zeros() for _ in cells])
            k = opaque(builder, k)
            row = _row(context, builder, signature.args[0], values[0], builder.load(builder.gep(indices, [k])))
            floats = [_floats(builder, row, builder.add(column, I64(v * LANES))) for v in range(vectors)]
            here = builder.mul(k, slopes_step)
            scalars = [splat(builder, builder.load(builder.gep(pointer, [here]))) for pointer in slope]
            close([fma(builder, scalars[m], floats[v], sums[m * vectors + v]) for m, v in cells])
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
                    return [sgd_step(builder, g, w, rate, clip, decay) for g, w in zip(results, before(), strict=True)]
                return results

            results = chosen(builder, start, (ZERO, ADD), started)
            # stored only now, so that a repeated output does not step its weights twice
            for place, value in zip(places, chosen(builder, finish, (STORE, STEP), finished), strict=True):
                store(builder, target, place, value)
            return context.get_dummy_value()

        return signature, emit

    return tile


_dot = make_dot(SAMPLES, OUTPUTS, _row, _floats)
_tile = _make_tile(VECTORS)
_half_tile = _make_tile(1)


@inner
def forward(
    at, pixels, indices, scale, weights, w_at, pitch, features, outputs, target, y, biases, bias_at, relu, first, last
):  # type: ignore[no-untyped-def]
    """y[first:last] = scale * pixels[indices] w^T + b, with a ReLU if asked for."""
    floor = np.float32(0) if relu else np.float32(-np.inf)  # no branch in the loop: nobody can predict a ReLU
    # a group's bytes and the weights of one tile's outputs stay in the first-level cache together; all outputs' would
    # not
    for group in range(first, last, GROUP):
        end = min(group + GROUP, last)
        for output in range(0, outputs, OUTPUTS):
            for j in range(OUTPUTS):
                at[SAMPLES + j] = w_at + min(output + j, outputs - 1) * pitch
            for sample in range(group, end, SAMPLES):
                for i in range(SAMPLES):
                    row = min(sample + i, end - 1)
                    at[i] = indices[row]
                    if output == 0 and sample + GROUP + i < last:  # shuffled samples lie where no hardware expects them
                        for line in range(0, features, LINE):
                            prefetch(pixels, indices[sample + GROUP + i], line)
                    at[SAMPLES + OUTPUTS + i] = y[OFFSET] + row * y[SAMPLE]
                bias, result = (biases, bias_at + output), (target, output)
                _dot(pixels, weights, at, features, bias, scale, floor, result, min(OUTPUTS, outputs - output))


@inner
def weight_gradient(  # type: ignore[no-untyped-def]
    at,
    pixels,
    indices,
    scale,
    features,
    slopes,
    dy,
    samples,
    target,
    w_at,
    pitch,
    outputs,
    add,
    panel_range,
    steps,
    step,
):
    """dw = scale * dy^T pixels[indices] for columns in a range of panels; `add`, `steps` and `step` as in
    conv.weight_gradient.
    """
    rate, clip, decay = step
    start, finish = ADD if add else ZERO, STEP if steps else STORE
    end = min(panel_range[1] * WIDTH, features)
    for column in range(panel_range[0] * WIDTH, end, VECTORS * LANES):
        half = column + VECTORS * LANES > end
        for output in range(0, outputs, OUTPUTS):
            for i in range(OUTPUTS):
                row = min(output + i, outputs - 1)
                at[i] = dy[OFFSET] + row
                at[OUTPUTS + i] = w_at + row * pitch + column
            if half:
                _half_tile(
                    pixels,
                    indices,
                    column,
                    samples,
                    slopes,
                    at,
                    dy[SAMPLE],
                    scale,
                    target,
                    start,
                    finish,
                    rate,
                    clip,
                    decay,
                )
            else:
                _tile(
                    pixels,
                    indices,
                    column,
                    samples,
                    slopes,
                    at,
                    dy[SAMPLE],
                    scale,
                    target,
                    start,
                    finish,
                    rate,
                    clip,
                    decay,
                )
