"""Every operation of the loops and array tables against the reference, at ragged shapes, into buffers full of NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from references import conv2d, linear, maxpool2d, relu, upsample2d
from updates import OPTIMIZERS, drawn, named

from warpladder.nets import Conv2d, CrossEntropyLoss, Layer, Linear, MaxPool2d, MSELoss, ReLU, Shape, Upsample2d
from warpladder.ops.cross_entropy import reference as cross_entropy
from warpladder.ops.engine.base import Buffers, Op, OpTable
from warpladder.ops.gather import reference as gather
from warpladder.ops.mse import reference as mse
from warpladder.ops.tables import array, loops
from warpladder.optimizers import Optimizer
from warpladder.proof.tolerance import bound

pytestmark = pytest.mark.parametrize("table", [loops.TABLE, array.TABLE], ids=["loops", "array"])

BATCHES = [(1, 1), (5, 5), (5, 2), (7, 1)]  # (capacity, samples in use)


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def nan(*shape: int) -> np.ndarray:
    return np.full(shape, np.nan, np.float32)


def close(found: np.ndarray, wanted: np.ndarray, terms: np.ndarray, length: int) -> None:
    """Equal but for rounding: normwise, relative to the absolute values of the terms that were added."""
    error, scale = np.linalg.norm(found - wanted), np.linalg.norm(terms)
    assert error <= bound("float32", length) * scale, f"{error / scale:.1e} of the terms"


def bind(
    table: OpTable, layer: Layer, in_shape: Shape, capacity: int, n: int, want_dx: bool = True
) -> tuple[Op, Buffers]:
    """An op on random inputs; all that it should write, and all rows that it should not read, are NaN."""
    out_shape = layer.out_shape(in_shape)
    shapes = layer.param_shapes(in_shape)
    x, dy = normal(1, capacity, *in_shape), normal(2, capacity, *out_shape)
    x[n:] = dy[n:] = np.nan
    w, b = (normal(3, *shapes["weight"]), normal(4, *shapes["bias"])) if shapes else (None, None)
    dw, db = (nan(*shapes["weight"]), nan(*shapes["bias"])) if shapes else (None, None)
    buffers = Buffers(x, nan(capacity, *out_shape), nan(capacity, *in_shape) if want_dx else None, dy, w, b, dw, db)
    return table.layers[type(layer)](layer, buffers), buffers


def untouched(t: Buffers, n: int) -> None:
    """Rows beyond the n in use were not written."""
    assert np.isnan(t.y[n:]).all()
    assert t.dx is None or np.isnan(t.dx[n:]).all()


@pytest.mark.parametrize(("capacity", "n"), BATCHES)
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (13, 3), (3, 17), (130, 33)])
@pytest.mark.parametrize("want_dx", [True, False])
def test_linear(table: OpTable, capacity: int, n: int, inputs: int, outputs: int, want_dx: bool) -> None:
    op, t = bind(table, Linear(out_features=outputs), (inputs,), capacity, n, want_dx)
    op.forward(n)
    op.backward(n)
    x, w, b, dy = (a.astype(float) for a in (t.x[:n], t.w, t.b, t.dy[:n]))
    dx, dw, db = linear.backward(x, w, dy)
    dx_terms, dw_terms, db_terms = linear.backward(abs(x), abs(w), abs(dy))
    close(t.y[:n], linear.forward(x, w, b), linear.forward(abs(x), abs(w), abs(b)), inputs + 1)
    close(t.dw, dw, dw_terms, n)
    close(t.db, db, db_terms, n)
    if want_dx:
        close(t.dx[:n], dx, dx_terms, outputs)
    untouched(t, n)


CONVOLUTIONS = [
    (Conv2d(out_channels=1, kernel_size=1), (1, 1, 1)),
    (Conv2d(out_channels=3, kernel_size=3), (2, 7, 5)),
    (Conv2d(out_channels=2, kernel_size=3, padding=1), (3, 5, 8)),
    (Conv2d(out_channels=5, kernel_size=2, stride=2), (1, 7, 6)),
    (Conv2d(out_channels=4, kernel_size=3, stride=2, padding=2), (3, 6, 9)),
    (Conv2d(out_channels=2, kernel_size=2, stride=3, padding=1), (2, 8, 5)),
    (Conv2d(out_channels=3, kernel_size=1, stride=2), (4, 5, 4)),
    (Conv2d(out_channels=3, kernel_size=4, padding=3), (2, 2, 3)),
    (Conv2d(out_channels=1, kernel_size=3, padding=1), (6, 9, 7)),  # fewer outputs than inputs
    (Conv2d(out_channels=2, kernel_size=5, stride=4, padding=2), (1, 11, 10)),  # a stride that leaves pixels out
]


@pytest.mark.parametrize(("capacity", "n"), BATCHES)
@pytest.mark.parametrize(("layer", "in_shape"), CONVOLUTIONS)
@pytest.mark.parametrize("want_dx", [True, False])
def test_conv2d(table: OpTable, layer: Conv2d, in_shape: Shape, capacity: int, n: int, want_dx: bool) -> None:
    op, t = bind(table, layer, in_shape, capacity, n, want_dx)
    s, p = layer.stride, layer.padding
    op.forward(n)
    op.backward(n)
    x, w, b, dy = (a.astype(float) for a in (t.x[:n], t.w, t.b, t.dy[:n]))
    dx, dw, db = conv2d.backward(x, w, dy, s, p)
    dx_terms, dw_terms, db_terms = conv2d.backward(abs(x), abs(w), abs(dy), s, p)
    k2, pixels = layer.kernel_size**2, dy[0, 0].size
    close(t.y[:n], conv2d.forward(x, w, b, s, p), conv2d.forward(abs(x), abs(w), abs(b), s, p), in_shape[0] * k2 + 1)
    close(t.dw, dw, dw_terms, n * pixels)
    close(t.db, db, db_terms, n * pixels)
    if want_dx:
        close(t.dx[:n], dx, dx_terms, layer.out_channels * k2)
    untouched(t, n)


def test_conv2d_in_several_blocks(table: OpTable) -> None:
    """Samples enough that a convolution in blocks needs more than one, the last one partial."""
    test_conv2d(table, Conv2d(out_channels=3, kernel_size=3, padding=1), (16, 28, 28), 7, 7, True)


def test_conv2d_again_after_a_larger_batch(table: OpTable) -> None:
    """Nothing of an earlier batch stays in the scratch memory."""
    op, t = bind(table, Conv2d(out_channels=3, kernel_size=3, padding=1), (2, 5, 6), 4, 4)
    op.forward(4)
    op.backward(4)
    first = t.y.copy(), t.dx.copy(), t.dw.copy()
    t.x[...], t.dy[...] = t.x[::-1].copy(), t.dy[::-1].copy()
    for n in (1, 3, 4):
        op.forward(n)
        op.backward(n)
    t.x[...], t.dy[...] = t.x[::-1].copy(), t.dy[::-1].copy()
    op.forward(4)
    op.backward(4)
    assert all(np.array_equal(a, b) for a, b in zip(first, (t.y, t.dx, t.dw), strict=True))


@pytest.mark.parametrize(("capacity", "n"), BATCHES)
@pytest.mark.parametrize("in_shape", [(1,), (19,), (3, 5, 7)])
@pytest.mark.parametrize("in_place", [False, True])
def test_relu(table: OpTable, in_shape: Shape, capacity: int, n: int, in_place: bool) -> None:
    x, dy = normal(1, capacity, *in_shape), normal(2, capacity, *in_shape)
    x[0].flat[0] = -0.0
    x[n:] = dy[n:] = np.nan
    x0, dy0 = x.copy(), dy.copy()
    t = Buffers(x, x, dy, dy) if in_place else Buffers(x, nan(*x.shape), nan(*x.shape), dy)
    op = table.layers[ReLU](ReLU(), t)
    op.forward(n)
    assert np.array_equal(t.y[:n], relu.forward(x0[:n]))
    op.backward(n)
    assert np.array_equal(t.dx[:n], relu.backward(x0[:n], dy0[:n]))
    untouched(t, n)


POOLS = [
    (MaxPool2d(2), (3, 6, 8)),
    (MaxPool2d(2), (2, 7, 5)),
    (MaxPool2d(3, 1), (2, 5, 6)),
    (MaxPool2d(3, 2), (1, 8, 7)),
    (MaxPool2d(2, 3), (2, 8, 9)),
    (MaxPool2d(1, 2), (2, 5, 4)),
    (MaxPool2d(1), (1, 1, 1)),
    (MaxPool2d(17, 1), (1, 17, 18)),  # more positions than a byte counts
]


@pytest.mark.parametrize(("capacity", "n"), BATCHES)
@pytest.mark.parametrize(("layer", "in_shape"), POOLS)
@pytest.mark.parametrize("ties", [False, True])
def test_maxpool2d(table: OpTable, layer: MaxPool2d, in_shape: Shape, capacity: int, n: int, ties: bool) -> None:
    op, t = bind(table, layer, in_shape, capacity, n)
    if ties:
        t.x[:n] = np.round(t.x[:n])
    k, s = layer.kernel_size, layer.stride or 1
    op.forward(n)
    assert np.array_equal(t.y[:n], maxpool2d.forward(t.x[:n], k, s))
    op.backward(n)
    dy = t.dy[:n].astype(float)
    close(
        t.dx[:n],
        maxpool2d.backward(t.x[:n].astype(float), k, s, dy),
        maxpool2d.backward(t.x[:n].astype(float), k, s, abs(dy)),
        k**2,
    )
    untouched(t, n)


@pytest.mark.parametrize("position", range(4))
def test_maxpool2d_passes_nan_on(table: OpTable, position: int) -> None:
    """A NaN that a pool swallowed would hide that training has diverged."""
    op, t = bind(table, MaxPool2d(2), (1, 2, 2), 1, 1)
    t.x.flat[position] = np.nan
    op.forward(1)
    assert np.isnan(t.y).all()


@pytest.mark.parametrize(("capacity", "n"), BATCHES)
@pytest.mark.parametrize(("factor", "in_shape"), [(2, (3, 4, 5)), (3, (1, 2, 3)), (1, (2, 3, 1))])
def test_upsample2d(table: OpTable, factor: int, in_shape: Shape, capacity: int, n: int) -> None:
    op, t = bind(table, Upsample2d(scale_factor=factor), in_shape, capacity, n)
    op.forward(n)
    assert np.array_equal(t.y[:n], upsample2d.forward(t.x[:n], factor))
    op.backward(n)
    dy = t.dy[:n].astype(float)
    close(t.dx[:n], upsample2d.backward(factor, dy), upsample2d.backward(factor, abs(dy)), factor**2)
    untouched(t, n)


@pytest.mark.parametrize(("capacity", "n"), [*BATCHES, (300, 211)])
@pytest.mark.parametrize("classes", [2, 10, 33])
def test_cross_entropy(table: OpTable, capacity: int, n: int, classes: int) -> None:
    x = 3 * normal(1, capacity, classes)
    x[0, :] = 1.0  # all equal: the first one counts
    label = np.random.default_rng(5).integers(0, classes, capacity).astype(np.int32)
    label[0] = 0
    x[n:], label[n:] = np.nan, -1
    op = table.losses[CrossEntropyLoss](x, label, nan(*x.shape))
    op.forward(n)
    op.backward(n)
    x64 = x[:n].astype(float)
    assert abs(op.loss[0] - cross_entropy.forward(x64, label[:n])) <= bound("float32", classes + n) * (
        1 + 2 * abs(x64).max()
    )
    assert op.correct[0] == cross_entropy.correct(x64, label[:n])
    dx = cross_entropy.backward(x64, label[:n])
    one_hot = np.eye(classes)[label[:n]] / n
    close(op.dx[:n], dx, dx + 2 * one_hot, classes)
    assert np.isnan(op.dx[n:]).all()


def test_cross_entropy_of_huge_logits(table: OpTable) -> None:
    x = np.array([[1e30, 0, -1e30], [-1e30, 0, 1e4]], np.float32)
    op = table.losses[CrossEntropyLoss](x, np.array([0, 1], np.int32), nan(2, 3))
    op.forward(2)
    op.backward(2)
    assert op.loss[0] == 5e3
    assert op.correct[0] == 1
    assert op.dx.tolist() == [[0, 0, 0], [0, -0.5, 0.5]]


def test_cross_entropy_shows_nan(table: OpTable) -> None:
    x = np.array([[np.nan, 1.0], [0.0, 1.0]], np.float32)
    op = table.losses[CrossEntropyLoss](x, np.array([1, 1], np.int32), nan(2, 2))
    op.forward(2)
    assert np.isnan(op.loss[0])


@pytest.mark.parametrize(("capacity", "n"), BATCHES)
def test_mse(table: OpTable, capacity: int, n: int) -> None:
    """The target has the input's shape, the output may be flat."""
    x, target = normal(1, capacity, 60), normal(2, capacity, 3, 4, 5)
    x[n:] = target[n:] = np.nan
    op = table.losses[MSELoss](x, target, nan(capacity, 60))
    op.forward(n)
    op.backward(n)
    x64, target64 = x[:n].astype(float), target[:n].reshape(n, 60).astype(float)
    wanted = mse.forward(x64, target64)
    assert abs(op.loss[0] - wanted) <= bound("float32", 60 * n) * wanted
    close(op.dx[:n], mse.backward(x64, target64), 2 * (abs(x64) + abs(target64)) / (60 * n), 3)
    assert op.correct[0] == 0
    assert np.isnan(op.dx[n:]).all()


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=named)
@pytest.mark.parametrize("clip", [{}, {"clip_value": 0.5}, {"clip_norm": 0.5}, {"clip_norm": 50.0}], ids=str)
def test_update(table: OpTable, optimizer: Optimizer, clip: dict[str, Any]) -> None:
    """The norm of 1,001 gradients is about 32."""
    case = drawn(optimizer, 1001, **clip)
    table.update(case.config, case.w, case.g, case.slots).step(case.numbers)
    close(case.w, case.after, case.terms, 16)
    for slot, wanted, terms in zip(case.slots, case.slots_after, case.slot_terms, strict=True):
        close(slot, wanted, terms, 8)


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=named)
@pytest.mark.parametrize("clip", [{}, {"clip_value": 1.0}, {"clip_norm": 1.0}], ids=str)
def test_update_keeps_nan(table: OpTable, optimizer: Optimizer, clip: dict[str, Any]) -> None:
    """Clipping must not turn a NaN into a number; one NaN makes the norm NaN, and so all gradients."""
    case = drawn(optimizer, 4, **clip)
    case.g[: 1 if "clip_norm" in clip else None] = np.nan
    table.update(case.config, case.w, case.g, case.slots).step(case.numbers)
    assert np.isnan(case.w).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("shape", [(7,), (3, 2, 5)])
@pytest.mark.parametrize("n", [1, 9, 2500])
def test_gather(table: OpTable, dtype: type, shape: Shape, n: int) -> None:
    """To the bit: every rung starts from the same numbers."""
    random = np.random.default_rng(0)
    source = random.integers(0, 256, (40, *shape)).astype(dtype) if dtype == np.uint8 else normal(0, 40, *shape)
    x = nan(n + 1, *shape)
    indices = random.integers(0, 40, n)
    table.gather(source, 1 / 255, x).rows(indices)
    assert np.array_equal(x[:n], gather.rows(source, indices, 1 / 255))
    assert np.isnan(x[n:]).all()
