"""The vector instructions that the kernels stand on, written in LLVM's terms.

numba compiles Python loops well but leaves register tiling to chance. Each function here is
an intrinsic: it emits its LLVM vector code itself and then reads like a function call inside
compiled code. Nothing below knows about layers.

A *tile* is ROWS x 2 vectors of sums that stay in registers while k runs. With 6 rows it keeps
12 sums, enough to hide the latency of two FMA units, in the 16 vector registers of AVX2.
"""

from __future__ import annotations

import platform

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _lanes() -> int:
    """float32 lanes of a vector register of this machine."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return 4
    return 16 if llvmlite.binding.get_host_cpu_features().get("avx512f") else 8


LANES = _lanes()
WIDTH = 2 * LANES  # columns of a tile, and of a panel of weights

_F32 = ir.FloatType()
_I64 = ir.IntType(64)
_VEC = ir.VectorType(_F32, LANES)
_INTS = ir.VectorType(ir.IntType(32), LANES)


def _fma(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    kind = "f32" if a.type == _F32 else f"v{LANES}f32"
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(a.type, [a.type] * 3), f"llvm.fmuladd.{kind}")
    return builder.call(function, [a, b, c])


def _splat(builder: ir.IRBuilder, scalar: ir.Value) -> ir.Value:
    empty = ir.Constant(ir.VectorType(scalar.type, LANES), ir.Undefined)
    one = builder.insert_element(empty, scalar, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, empty, ir.Constant(_INTS, [0] * LANES))


def _load(builder: ir.IRBuilder, base: ir.Value, index: ir.Value) -> ir.Value:
    pointer = builder.bitcast(builder.gep(base, [index]), _VEC.as_pointer())
    return builder.load(pointer, align=4)


def _store(builder: ir.IRBuilder, base: ir.Value, index: ir.Value, value: ir.Value) -> None:
    pointer = builder.bitcast(builder.gep(base, [index]), _VEC.as_pointer())
    builder.store(value, pointer, align=4)


def _maximum(builder: ir.IRBuilder, value: ir.Value, other: ir.Value) -> ir.Value:
    """NaN in value stays NaN: a diverged net must not look healthy behind a ReLU."""
    return builder.select(builder.fcmp_ordered("<", value, other), other, value)


def _minimum(builder: ir.IRBuilder, value: ir.Value, other: ir.Value) -> ir.Value:
    return builder.select(builder.fcmp_ordered(">", value, other), other, value)


def _pointers(context, builder, signature, values):  # type: ignore[no-untyped-def]
    """An intrinsic's arguments with arrays replaced by their data pointers."""
    return [
        context.make_array(kind)(context, builder, value).data if isinstance(kind, types.Array) else value
        for kind, value in zip(signature.args, values, strict=True)
    ]


def _zeros() -> ir.Constant:
    return ir.Constant(_VEC, [0.0] * LANES)


def _counted(builder: ir.IRBuilder, count: ir.Value, start: list[ir.Value]):  # type: ignore[no-untyped-def]
    """Open `for index in range(count)` that carries values in registers; returns index, carried, and a closer."""
    before = builder.block
    head, body, after = (builder.append_basic_block(name) for name in ("head", "body", "after"))
    builder.branch(head)
    builder.position_at_end(head)
    index = builder.phi(_I64)
    index.add_incoming(_I64(0), before)
    carried = []
    for value in start:
        phi = builder.phi(value.type)
        phi.add_incoming(value, before)
        carried.append(phi)
    builder.cbranch(builder.icmp_signed("<", index, count), body, after)
    builder.position_at_end(body)

    def close(values: list[ir.Value]) -> None:
        index.add_incoming(builder.add(index, _I64(1)), builder.block)
        for phi, value in zip(carried, values, strict=True):
            phi.add_incoming(value, builder.block)
        builder.branch(head)
        builder.position_at_end(after)

    return index, carried, close


def make_tile(rows: int, vectors: int, start: str, finish: str):  # type: ignore[no-untyped-def]
    """An intrinsic that multiplies and adds one tile.

    sums[m, n] = start + sum over run < runs, k < length of
                 a[a_add + at[m] + run * a_run + k * a_k] * b[b_at + run * b_run + k * b_k + n]

    for m < rows and n < vectors * LANES, finished into c[c_add + at[span + m] + n].
    Offsets count elements; `at` begins at entry `first` and holds `span` offsets of a kind. Rows that should not count repeat an
    offset pair of the same tile: they then store the same numbers twice.

    start : "zero", "bias" (d[d_add + n]) or "add" (what c holds).
    finish : "store"; "relu"; "mask" (0 where d[d_add + at[2 * span + m] + n] is not above 0); or
        "sgd", a step on c: c -= rate * (clip(sums) + decay * c).
    """

    @intrinsic
    def tile(typing, at, first, span, a, a_add, a_k, a_run, b, b_at, b_k, b_run, length, runs, c, c_add, d, d_add, rate, clip, decay):  # type: ignore[no-untyped-def]
        i64, f32 = types.int64, types.float32
        signature = types.void(at, i64, i64, a, i64, i64, i64, b, i64, i64, i64, i64, i64, c, i64, d, i64, f32, f32, f32)

        def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
            (at, first, span, a, a_add, a_k, a_run, b, b_at, b_k, b_run, length, runs, c, c_add, d, d_add, rate, clip, decay) = _pointers(
                context, builder, signature, values
            )

            def offset(kind: int, m: int, add: ir.Value) -> ir.Value:
                entry = builder.add(builder.add(first, _I64(m)), builder.mul(_I64(kind), span))
                return builder.add(add, builder.load(builder.gep(at, [entry])))

            a_row = [builder.gep(a, [offset(0, m, a_add)]) for m in range(rows)]
            c_at = [offset(1, m, c_add) for m in range(rows)]
            column = [_I64(v * LANES) for v in range(vectors)]
            cells = [(m, v) for m in range(rows) for v in range(vectors)]
            if start == "zero":
                sums = [_zeros() for _ in cells]
            elif start == "bias":
                bias = [_load(builder, d, builder.add(d_add, column[v])) for v in range(vectors)]
                sums = [bias[v] for m, v in cells]
            else:
                sums = [_load(builder, c, builder.add(c_at[m], column[v])) for m, v in cells]

            run, totals, close_runs = _counted(builder, runs, sums)
            # one pointer a row: the k loop then needs no address arithmetic but the shared k * a_k
            a_here = [builder.gep(row, [builder.mul(run, a_run)]) for row in a_row]
            b_here = builder.gep(b, [builder.add(b_at, builder.mul(run, b_run))])
            k, sums, close_k = _counted(builder, length, totals)
            columns = [_load(builder, b_here, builder.add(builder.mul(k, b_k), column[v])) for v in range(vectors)]
            scalars = [_splat(builder, builder.load(builder.gep(row, [builder.mul(k, a_k)]))) for row in a_here]
            close_k([_fma(builder, scalars[m], columns[v], sums[m * vectors + v]) for m, v in cells])
            close_runs(sums)

            values = []
            for m, v in cells:
                value = totals[m * vectors + v]
                if finish == "relu":
                    value = _maximum(builder, value, _zeros())
                elif finish == "mask":
                    gate = _load(builder, d, builder.add(offset(2, m, d_add), column[v]))
                    value = builder.select(builder.fcmp_ordered(">", gate, _zeros()), value, _zeros())
                elif finish == "sgd":
                    limit = _splat(builder, clip)
                    value = _maximum(builder, _minimum(builder, value, limit), builder.fneg(limit))
                    weight = _load(builder, c, builder.add(c_at[m], column[v]))
                    value = _fma(builder, _splat(builder, decay), weight, value)
                    value = _fma(builder, _splat(builder, builder.fneg(rate)), value, weight)
                values.append(value)
            # only now, so that a repeated row does not step its weights twice
            for (m, v), value in zip(cells, values, strict=True):
                _store(builder, c, builder.add(c_at[m], column[v]), value)
            return context.get_dummy_value()

        return signature, emit

    return tile


def make_dot(rows: int, columns: int):  # type: ignore[no-untyped-def]
    """An intrinsic for products of rows with rows: out[m * columns + n] = sum over k < length of a[at[m] + k] * b[at[rows + n] + k].

    The vectors run along k, so neither side needs to be transposed; length is a multiple of LANES, out a small buffer.
    """

    @intrinsic
    def dot(typing, a, b, at, length, out):  # type: ignore[no-untyped-def]
        signature = types.void(a, b, at, types.int64, out)

        def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
            a, b, at, length, out = _pointers(context, builder, signature, values)

            def pointer(base: ir.Value, which: int) -> ir.Value:
                return builder.gep(base, [builder.load(builder.gep(at, [_I64(which)]))])

            a_row = [pointer(a, m) for m in range(rows)]
            b_row = [pointer(b, rows + n) for n in range(columns)]
            step, sums, close = _counted(builder, builder.sdiv(length, _I64(LANES)), [_zeros()] * (rows * columns))
            k = builder.mul(step, _I64(LANES))
            left = [_load(builder, row, k) for row in a_row]
            new = []
            right = [_load(builder, row, k) for row in b_row]
            for m in range(rows):
                new += [_fma(builder, left[m], right[n], sums[m * columns + n]) for n in range(columns)]
            close(new)
            for i, vector in enumerate(sums):
                builder.store(_horizontal(builder, vector), builder.gep(out, [_I64(i)]))
            return context.get_dummy_value()

        return signature, emit

    return dot


def _horizontal(builder: ir.IRBuilder, vector: ir.Value) -> ir.Value:
    """The sum of a vector's lanes, halving it in a fixed order."""
    width = LANES
    while width > 1:
        width //= 2
        index = ir.VectorType(ir.IntType(32), width)
        undefined = ir.Constant(vector.type, ir.Undefined)
        low = builder.shuffle_vector(vector, undefined, ir.Constant(index, list(range(width))))
        high = builder.shuffle_vector(vector, undefined, ir.Constant(index, list(range(width, 2 * width))))
        vector = builder.fadd(low, high)
    return builder.extract_element(vector, ir.Constant(ir.IntType(32), 0))


@intrinsic
def exponentials(typing, source, source_at, shift, target, target_at):  # type: ignore[no-untyped-def]
    """target[i] = exp(source[i] - shift) for LANES neighbours; within 2 units in the last place for arguments in -87..88.

    exp(x) = 2^n e^r with n = round(x / ln 2) and |r| <= ln 2 / 2; e^r by its Taylor polynomial of
    degree 7, whose remainder is 1e-8; ln 2 in two parts so that r stays exact. Below -87 the result is 0 or nearly so.
    """
    signature = types.void(source, types.int64, types.float32, target, types.int64)

    def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
        source, source_at, shift, target, target_at = _pointers(context, builder, signature, values)

        def constant(value: float) -> ir.Constant:
            return ir.Constant(_VEC, [value] * LANES)

        x = builder.fsub(_load(builder, source, source_at), _splat(builder, shift))
        x = _minimum(builder, _maximum(builder, x, constant(-87.0)), constant(88.0))
        # adding and taking away 1.5 * 2^23 rounds to the nearest whole number
        magic = constant(12582912.0)
        n = builder.fsub(_fma(builder, x, constant(1.4426950408889634), magic), magic)
        r = _fma(builder, n, constant(-0.693359375), x)
        r = _fma(builder, n, constant(2.12194440e-4), r)
        value = constant(1 / 5040)
        for coefficient in (1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0, 1.0):
            value = _fma(builder, value, r, constant(coefficient))
        # a NaN has no whole part; the polynomial carries it on
        whole = builder.fptosi(builder.select(builder.fcmp_ordered("ord", n, n), n, _zeros()), _INTS)
        power = builder.shl(builder.add(whole, ir.Constant(_INTS, [127] * LANES)), ir.Constant(_INTS, [23] * LANES))
        _store(builder, target, target_at, builder.fmul(value, builder.bitcast(power, _VEC)))
        return context.get_dummy_value()

    return signature, emit


@intrinsic
def largest(typing, source, start, row_step, column_step, size, best, best_at, winners, winners_at):  # type: ignore[no-untyped-def]
    """The largest of size x size pixels, for LANES neighbouring channels, and which pixel it is: the first among equals, or the first NaN."""
    i64 = types.int64
    signature = types.void(source, i64, i64, i64, i64, best, i64, winners, i64)

    def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
        source, start, row_step, column_step, size, best, best_at, winners, winners_at = _pointers(context, builder, signature, values)
        nobody = ir.Constant(_INTS, [0] * LANES)
        row, carried, close_rows = _counted(builder, size, [_load(builder, source, start), nobody])
        line = builder.add(start, builder.mul(row, row_step))
        column, (old, winner), close_columns = _counted(builder, size, carried)
        new = _load(builder, source, builder.add(line, builder.mul(column, column_step)))
        number = builder.trunc(builder.add(builder.mul(row, size), column), ir.IntType(32))
        # "unordered or greater", except that a NaN once kept is not replaced
        larger = builder.and_(builder.fcmp_unordered(">", new, old), builder.fcmp_ordered("ord", old, old))
        close_columns([builder.select(larger, new, old), builder.select(larger, _splat(builder, number), winner)])
        close_rows([old, winner])
        value, winner = carried
        _store(builder, best, best_at, value)
        builder.store(winner, builder.bitcast(builder.gep(winners, [winners_at]), _INTS.as_pointer()), align=4)
        return context.get_dummy_value()

    return signature, emit


@intrinsic
def to_winner(typing, slopes, slopes_at, winners, winners_at, number, gates, gates_at, floor, target, target_at, add):  # type: ignore[no-untyped-def]
    """target = add * target + (slopes where winners is number and gates is above floor, else 0), for LANES neighbours; add is 0 or 1."""
    i64 = types.int64
    signature = types.void(slopes, i64, winners, i64, types.int32, gates, i64, types.float32, target, i64, types.boolean)

    def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
        (slopes, slopes_at, winners, winners_at, number, gates, gates_at, floor, target, target_at, add) = _pointers(
            context, builder, signature, values
        )
        which = builder.load(builder.bitcast(builder.gep(winners, [winners_at]), _INTS.as_pointer()), align=4)
        won = builder.icmp_signed("==", which, _splat(builder, number))
        passes = builder.fcmp_ordered(">", _load(builder, gates, gates_at), _splat(builder, floor))
        given = builder.select(builder.and_(won, passes), _load(builder, slopes, slopes_at), _zeros())
        before = builder.select(add, _load(builder, target, target_at), _zeros())
        _store(builder, target, target_at, builder.fadd(before, given))
        return context.get_dummy_value()

    return signature, emit


@intrinsic
def prefetch(typing, array, row, at):  # type: ignore[no-untyped-def]
    """Ask for the cache line at array[row, at] of a 2-D array, without waiting for it."""
    signature = types.void(array, types.int64, types.int64)

    def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
        view = context.make_array(signature.args[0])(context, builder, values[0])
        stride = cgutils.unpack_tuple(builder, view.strides)[0]
        itemsize = context.get_abi_sizeof(view.data.type.pointee)
        offset = builder.add(builder.mul(values[1], stride), builder.mul(values[2], _I64(itemsize)))
        bytes_ = builder.bitcast(view.data, ir.IntType(8).as_pointer())
        i32 = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [bytes_.type, i32, i32, i32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [builder.gep(bytes_, [offset]), i32(0), i32(3), i32(1)])  # to read, into every level, data
        return context.get_dummy_value()

    return signature, emit
