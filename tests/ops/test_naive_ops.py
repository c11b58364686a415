"""Every naive kernel, run by the emulator, against the reference: ragged shapes, outputs full of NaN, several block
sizes.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from references import conv2d, linear, maxpool2d, relu, upsample2d
from segments_here import for_gather, for_layers, for_loss, stored
from updates import OPTIMIZERS, drawn, named

from warpladder.config import TrainConfig
from warpladder.data.order import Order
from warpladder.device import Array, Device
from warpladder.device.emulator import EmulatedDevice
from warpladder.nets import Conv2d, CrossEntropyLoss, Layer, Linear, MaxPool2d, MSELoss, ReLU, Shape, Upsample2d
from warpladder.ops.cross_entropy import reference as cross_entropy
from warpladder.ops.engine.base import Buffers
from warpladder.ops.engine.chain import Gather, Slice, whole
from warpladder.ops.engine.kernels import Launches, Log
from warpladder.ops.engine.segments import KernelTable, LossSegment, Segment
from warpladder.ops.gather import reference as gather
from warpladder.ops.mse import reference as mse
from warpladder.ops.sums.cuda import PARTIAL, ColumnSums, RowSums
from warpladder.ops.tables import naive, resident
from warpladder.optimizers import NUMBERS, Optimizer
from warpladder.proof.tolerance import bound

TABLE = naive.TABLE
BATCHES = [(1, 1), (5, 5), (5, 2), (7, 1)]  # (capacity, samples in use)
BLOCKS = [32, 96, 256]


@pytest.fixture(scope="module")
def device() -> Iterable[Device]:
    device = EmulatedDevice()
    yield device
    device.close()


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def nan(device: Device, *shape: int) -> Array:
    return device.array(np.full(shape, np.nan, np.float32))


def send(launches: Launches) -> None:
    for launch in launches:
        launch.send()


def close(found: np.ndarray, wanted: np.ndarray, terms: np.ndarray, length: int) -> None:
    """Equal but for rounding: normwise, relative to the absolute values of the terms that were added."""
    error, scale = np.linalg.norm(found - wanted), np.linalg.norm(terms)
    assert error <= bound("float32", length) * scale, f"{error / scale:.1e} of the terms"


def bound_to(device: Device, layer: Layer, buffers: Buffers, block: int) -> Segment:
    """The table's segment for one layer."""
    return for_layers(TABLE.segments[type(layer),], device, (layer,), buffers, block)


class Case:
    """A segment of one layer on random inputs; all that it should write, and all rows that it should not read, are NaN."""

    def __init__(
        self,
        device: Device,
        layer: Layer,
        in_shape: Shape,
        capacity: int,
        n: int,
        block: int = 64,
        want_dx: bool = True,
    ) -> None:
        shapes, out_shape = layer.param_shapes(in_shape), layer.out_shape(in_shape)
        self.device, self.layer, self.n, self.block = device, layer, n, block
        self.x, self.dy = normal(1, capacity, *in_shape), normal(2, capacity, *out_shape)
        self.x[n:] = self.dy[n:] = np.nan
        self.y, self.dx = nan(device, *self.dy.shape), nan(device, *self.x.shape) if want_dx else None
        if shapes:
            self.w, self.b = normal(3, *shapes["weight"]), normal(4, *shapes["bias"])
            self.dw, self.db = nan(device, *self.w.shape), nan(device, *self.b.shape)

    def op(self) -> Segment:
        up = self.device.array
        weights = (up(self.w), up(self.b), self.dw, self.db) if hasattr(self, "w") else ()
        return bound_to(
            self.device, self.layer, Buffers(up(self.x), self.y, self.dx, up(self.dy), *weights), self.block
        )

    def run(self) -> tuple[np.ndarray, np.ndarray | None]:
        """y and dx of the samples in use; no other row was written."""
        op = self.op()
        send(op.forward(whole(self.n)))
        send(op.backward(whole(self.n)))
        y, dx = self.y.download(), None if self.dx is None else self.dx.download()
        assert np.isnan(y[self.n :]).all()
        assert dx is None or np.isnan(dx[self.n :]).all()
        return y[: self.n], None if dx is None else dx[: self.n]

    def in_double(self) -> tuple[np.ndarray, ...]:
        return tuple(a.astype(float) for a in (self.x[: self.n], self.w, self.b, self.dy[: self.n]))


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize(("capacity", "n"), BATCHES)
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (13, 3), (3, 17), (130, 33)])
@pytest.mark.parametrize("want_dx", [True, False])
def test_linear(device: Device, block: int, capacity: int, n: int, inputs: int, outputs: int, want_dx: bool) -> None:
    case = Case(device, Linear(out_features=outputs), (inputs,), capacity, n, block, want_dx)
    y, found_dx = case.run()
    x, w, b, dy = case.in_double()
    dx, dw, db = linear.backward(x, w, dy)
    dx_terms, dw_terms, db_terms = linear.backward(abs(x), abs(w), abs(dy))
    close(y, linear.forward(x, w, b), linear.forward(abs(x), abs(w), abs(b)), inputs + 1)
    close(case.dw.download(), dw, dw_terms, n)
    close(case.db.download(), db, db_terms, n)
    if found_dx is not None:
        close(found_dx, dx, dx_terms, outputs)


@pytest.mark.parametrize(("n", "inputs", "outputs"), [(3000, 5, 2), (1100, 2, 1), (70, 1, 1), (1030, 1030, 3)])
def test_linear_sums_over_many_samples(device: Device, n: int, inputs: int, outputs: int) -> None:
    """Several partials of samples, the last one partial, in one and in two further levels; and sums that come in parts."""
    test_linear(device, 64, n + 3, n, inputs, outputs, True)


CONVOLUTIONS = [
    (Conv2d(out_channels=1, kernel_size=1), (1, 1, 1)),
    (Conv2d(out_channels=3, kernel_size=3), (2, 7, 5)),
    (Conv2d(out_channels=2, kernel_size=3, padding=1), (3, 5, 8)),
    (Conv2d(out_channels=5, kernel_size=2, stride=2), (1, 7, 6)),
    (Conv2d(out_channels=4, kernel_size=3, stride=2, padding=2), (3, 6, 9)),
    (Conv2d(out_channels=2, kernel_size=2, stride=3, padding=1), (2, 8, 5)),
    (Conv2d(out_channels=3, kernel_size=1, stride=2), (4, 5, 4)),
    (Conv2d(out_channels=3, kernel_size=4, padding=3), (2, 2, 3)),
    (Conv2d(out_channels=2, kernel_size=5, padding=4), (1, 1, 2)),  # most windows see next to nothing
    (Conv2d(out_channels=1, kernel_size=3, padding=1), (6, 9, 7)),  # fewer outputs than inputs
    (Conv2d(out_channels=2, kernel_size=5, stride=4, padding=2), (1, 11, 10)),  # a stride that leaves pixels out
    (Conv2d(out_channels=2, kernel_size=1, padding=2), (1, 3, 2)),  # windows on nothing but padding
]


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize(("capacity", "n"), BATCHES)
@pytest.mark.parametrize(("layer", "in_shape"), CONVOLUTIONS)
def test_conv2d(
    device: Device, block: int, layer: Conv2d, in_shape: Shape, capacity: int, n: int, want_dx: bool = True
) -> None:
    s, p = layer.stride, layer.padding
    case = Case(device, layer, in_shape, capacity, n, block, want_dx)
    y, found_dx = case.run()
    x, w, b, dy = case.in_double()
    dx, dw, db = conv2d.backward(x, w, dy, s, p)
    dx_terms, dw_terms, db_terms = conv2d.backward(abs(x), abs(w), abs(dy), s, p)
    k2, pixels = layer.kernel_size**2, dy[0, 0].size
    close(y, conv2d.forward(x, w, b, s, p), conv2d.forward(abs(x), abs(w), abs(b), s, p), in_shape[0] * k2 + 1)
    close(case.dw.download(), dw, dw_terms, n * pixels)
    close(case.db.download(), db, db_terms, n * pixels)
    if found_dx is not None:
        close(found_dx, dx, dx_terms, layer.out_channels * k2)


def test_conv2d_whose_input_needs_no_gradient(device: Device) -> None:
    test_conv2d(device, 64, Conv2d(out_channels=3, kernel_size=3), (2, 7, 5), 5, 4, want_dx=False)


def test_conv2d_sums_over_many_samples(device: Device) -> None:
    """More samples than one thread adds up at a time."""
    test_conv2d(device, 64, Conv2d(out_channels=2, kernel_size=2, padding=1), (1, 2, 3), 700, 613)


@pytest.mark.parametrize(
    "layer", [Linear(out_features=3), Conv2d(out_channels=3, kernel_size=2)], ids=["linear", "conv2d"]
)
def test_again_after_a_larger_batch(device: Device, layer: Layer) -> None:
    """Nothing of an earlier batch stays in the scratch memory."""
    in_shape = (2, 3, 4) if isinstance(layer, Conv2d) else (5,)
    case = Case(device, layer, in_shape, 200, 200)
    op = case.op()

    def gradients(n: int) -> bytes:
        send(op.forward(whole(n)))
        send(op.backward(whole(n)))
        return case.dw.download().tobytes() + case.db.download().tobytes()

    first = {n: gradients(n) for n in (1, 3, 67, 130)}
    gradients(200)
    assert {n: gradients(n) for n in first} == first


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize(("capacity", "n"), BATCHES)
@pytest.mark.parametrize("in_shape", [(1,), (19,), (3, 5, 7)])
@pytest.mark.parametrize("in_place", [False, True])
def test_relu(device: Device, block: int, in_shape: Shape, capacity: int, n: int, in_place: bool) -> None:
    x, dy = normal(1, capacity, *in_shape), normal(2, capacity, *in_shape)
    x[0].flat[0] = -0.0
    x[n:] = dy[n:] = np.nan
    on_x, on_dy = device.array(x), device.array(dy)
    t = (
        Buffers(on_x, on_x, on_dy, on_dy)
        if in_place
        else Buffers(on_x, nan(device, *x.shape), nan(device, *x.shape), on_dy)
    )
    op = bound_to(device, ReLU(), t, block)
    send(op.forward(whole(n)))
    y = t.y.download()
    assert np.array_equal(y[:n], relu.forward(x[:n]))
    send(op.backward(whole(n)))
    dx = t.dx.download()
    assert np.array_equal(dx[:n], relu.backward(x[:n], dy[:n]))
    assert np.isnan(y[n:]).all()
    assert np.isnan(dx[n:]).all()


def test_relu_passes_nan_on(device: Device) -> None:
    case = Case(device, ReLU(), (3,), 1, 1)
    case.x[0, 1] = np.nan
    y, _ = case.run()
    assert np.isnan(y).tolist() == [[False, True, False]]


POOLS = [
    (MaxPool2d(2), (3, 6, 8)),
    (MaxPool2d(2), (2, 7, 5)),
    (MaxPool2d(3, 1), (2, 5, 6)),
    (MaxPool2d(3, 2), (1, 8, 7)),
    (MaxPool2d(2, 3), (2, 8, 9)),
    (MaxPool2d(1, 2), (2, 5, 4)),
    (MaxPool2d(1), (1, 1, 1)),
    (MaxPool2d(17, 1), (1, 17, 18)),
]


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize(("capacity", "n"), BATCHES)
@pytest.mark.parametrize(("layer", "in_shape"), POOLS)
@pytest.mark.parametrize("ties", [False, True])
def test_maxpool2d(
    device: Device, block: int, layer: MaxPool2d, in_shape: Shape, capacity: int, n: int, ties: bool
) -> None:
    case = Case(device, layer, in_shape, capacity, n, block)
    if ties:
        case.x[:n] = np.round(case.x[:n])
    k, s = layer.kernel_size, layer.stride or 1
    y, dx = case.run()
    x, dy = case.x[:n].astype(float), case.dy[:n].astype(float)
    assert np.array_equal(y, maxpool2d.forward(x, k, s))
    assert dx is not None
    close(dx, maxpool2d.backward(x, k, s, dy), maxpool2d.backward(x, k, s, abs(dy)), k**2)


@pytest.mark.parametrize("positions", [[0], [1], [2], [3], [1, 2], [0, 3]])
def test_maxpool2d_passes_nan_on(device: Device, positions: list[int]) -> None:
    """A NaN that a pool swallowed would hide that training has diverged; the first one is the argmax."""
    case = Case(device, MaxPool2d(2), (1, 2, 2), 1, 1)
    case.x.flat[positions] = np.nan
    y, dx = case.run()
    assert np.isnan(y).all()
    assert dx is not None
    assert np.array_equal(dx, maxpool2d.backward(case.x.astype(float), 2, 2, case.dy.astype(float)).astype(np.float32))


def test_maxpool2d_that_only_predicts(device: Device) -> None:
    x = normal(1, 3, 2, 5, 4)
    y = nan(device, 3, 2, 2, 2)
    op = bound_to(device, MaxPool2d(2), Buffers(device.array(x), y), 64)
    send(op.forward(whole(3)))
    assert np.array_equal(y.download(), maxpool2d.forward(x, 2, 2))
    assert op.workspace == 0


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize(("capacity", "n"), BATCHES)
@pytest.mark.parametrize(("factor", "in_shape"), [(2, (3, 4, 5)), (3, (1, 2, 3)), (1, (2, 3, 1))])
def test_upsample2d(device: Device, block: int, factor: int, in_shape: Shape, capacity: int, n: int) -> None:
    case = Case(device, Upsample2d(scale_factor=factor), in_shape, capacity, n, block)
    y, dx = case.run()
    assert np.array_equal(y, upsample2d.forward(case.x[:n], factor))
    assert dx is not None
    dy = case.dy[:n].astype(float)
    close(dx, upsample2d.backward(factor, dy), upsample2d.backward(factor, abs(dy)), factor**2)


def test_more_samples_than_a_grid_is_high(device: Device) -> None:
    """The grid's y axis ends at 65,535: threads take the samples beyond it in a second turn."""
    n = 70_000
    case = Case(device, Upsample2d(scale_factor=2), (1, 1, 1), n, n, 32)
    y, dx = case.run()
    assert np.array_equal(y, upsample2d.forward(case.x, 2))
    assert dx is not None
    close(dx, upsample2d.backward(2, case.dy.astype(float)), upsample2d.backward(2, abs(case.dy.astype(float))), 4)
    x, y_pool = normal(5, n, 1, 1, 2), nan(device, n, 1, 1, 1)
    send(bound_to(device, MaxPool2d(1, 2), Buffers(device.array(x), y_pool), 32).forward(whole(n)))
    assert np.array_equal(y_pool.download(), x[..., :1])


def log(device: Device, step: int = 0) -> Log:
    return Log(
        device.array(np.array([step], np.int32)),
        device.array(np.full(step + 3, np.nan)),
        device.array(np.full(step + 3, -1, np.int64)),
    )


def entry(log: Log, step: int) -> tuple[float, int]:
    """What the step left; nothing else was written, and the next step is next."""
    loss, correct = log.loss.download(), log.correct.download()
    others = np.arange(len(loss)) != step
    assert np.isnan(loss[others]).all()
    assert (correct[others] == -1).all()
    assert log.step.download().tolist() == [step + 1]
    return float(loss[step]), int(correct[step])


def cross_entropy_of(
    device: Device, table: KernelTable, x: np.ndarray, label: np.ndarray, log: Log, block: int
) -> LossSegment:
    on_x, on_label, dx = device.array(x), device.array(label), nan(device, *x.shape)
    return for_loss(table.segments[CrossEntropyLoss,], device, CrossEntropyLoss(), on_x, on_label, dx, log, block)


def mse_of(device: Device, x: np.ndarray, target: np.ndarray, log: Log, block: int) -> LossSegment:
    return for_loss(
        TABLE.segments[MSELoss,],
        device,
        MSELoss(),
        device.array(x),
        device.array(target),
        nan(device, *x.shape),
        log,
        block,
    )


tables = pytest.mark.parametrize("table", [naive.TABLE, resident.TABLE], ids=["naive", "resident"])


@tables
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize(("capacity", "n"), [*BATCHES, (300, 211)])
@pytest.mark.parametrize("classes", [2, 10, 33])
@pytest.mark.parametrize("slices", [1, 2])
def test_cross_entropy(
    device: Device, table: KernelTable, block: int, capacity: int, n: int, classes: int, slices: int
) -> None:
    """Every logit has its gradient, whatever the block size: S1's kernel left 384 of 640 out."""
    x = 3 * normal(1, capacity, classes)
    x[0, :] = 1.0  # all equal: the first one counts
    label = np.random.default_rng(5).integers(0, classes, capacity).astype(np.int32)
    label[0] = 0
    x[n:], label[n:] = np.nan, -1
    batch, step = slices * n, log(device, 4)
    op = cross_entropy_of(device, table, x, label, step, block)
    for part in range(slices):
        send(op.forward(Slice(n, batch, part * n)))
    loss, correct = entry(step, 4)
    x64 = x[:n].astype(float)
    assert abs(loss - cross_entropy.forward(x64, label[:n])) <= bound("float32", classes + n) * (1 + 2 * abs(x64).max())
    assert correct == slices * cross_entropy.correct(x64, label[:n])
    dx = cross_entropy.backward(x64, label[:n]) / slices
    one_hot = np.eye(classes)[label[:n]] / batch
    found = op.dx.download()
    close(found[:n], dx, dx + 2 * one_hot, classes)
    assert (found[:n] != 0).any(axis=1).all()
    assert np.isnan(found[n:]).all()


@tables
def test_cross_entropy_of_huge_logits(device: Device, table: KernelTable) -> None:
    x = np.array([[1e30, 0, -1e30], [-1e30, 0, 1e4]], np.float32)
    step = log(device)
    op = cross_entropy_of(device, table, x, np.array([0, 1], np.int32), step, 32)
    send(op.forward(whole(2)))
    assert entry(step, 0) == (5e3, 1)
    assert op.dx.download().tolist() == [[0, 0, 0], [0, -0.5, 0.5]]


@tables
@pytest.mark.parametrize("place", range(3))
def test_cross_entropy_shows_nan(device: Device, table: KernelTable, place: int) -> None:
    x = np.array([[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]], np.float32)
    x[0, place] = np.nan
    step = log(device)
    op = cross_entropy_of(device, table, x, np.array([1, 1], np.int32), step, 32)
    send(op.forward(whole(2)))
    assert np.isnan(entry(step, 0)[0])
    assert np.isnan(op.dx.download()).tolist() == [[True] * 3, [False] * 3]


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize(("capacity", "n"), [*BATCHES, (40, 33)])
@pytest.mark.parametrize("slices", [1, 3])
def test_mse(device: Device, block: int, capacity: int, n: int, slices: int) -> None:
    """The target has the input's shape, the output may be flat."""
    x, target = normal(1, capacity, 60), normal(2, capacity, 3, 4, 5)
    x[n:] = target[n:] = np.nan
    step = log(device, 1)
    op = mse_of(device, x, target, step, block)
    for part in range(slices):
        send(op.forward(Slice(n, slices * n, part * n)))
    loss, correct = entry(step, 1)
    x64, target64 = x[:n].astype(float), target[:n].reshape(n, 60).astype(float)
    wanted = mse.forward(x64, target64)
    assert abs(loss - wanted) <= bound("float32", 60 * n) * wanted
    assert correct == 0
    found = op.dx.download()
    close(found[:n], mse.backward(x64, target64) / slices, 2 * (abs(x64) + abs(target64)) / (60 * n * slices), 3)
    assert np.isnan(found[n:]).all()


def test_mse_of_more_numbers_than_threads(device: Device) -> None:
    x, target = normal(1, 3, 50_000), normal(2, 3, 50_000)
    step = log(device)
    send(mse_of(device, x, target, step, 32).forward(whole(3)))
    wanted = mse.forward(x.astype(float), target.astype(float))
    assert abs(entry(step, 0)[0] - wanted) <= bound("float32", 150_000) * wanted


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=named)
@pytest.mark.parametrize("limit", [None, 0.5])
@pytest.mark.parametrize("at", [None, 2])
def test_update(device: Device, optimizer: Optimizer, limit: float | None, at: int | None) -> None:
    """Every optimizer: with one row of numbers for all steps, and with the row of the step that the log has moved on
    from.
    """
    case = drawn(optimizer, 1001, limit)
    on_w, on_slots = device.array(case.w), tuple(device.array(slot) for slot in case.slots)
    update = TABLE.update(device, case.config, on_w, device.array(case.g), on_slots, 64)
    rows = np.full((3, NUMBERS), np.nan, np.float32)
    rows[0 if at is None else at - 1] = case.numbers
    send(update.launches(device.array(rows), None if at is None else device.array(np.array([at], np.int32))))
    close(on_w.download(), case.after, case.terms, 16)
    for slot, wanted, terms in zip(on_slots, case.slots_after, case.slot_terms, strict=True):
        close(slot.download(), wanted, terms, 8)


@pytest.mark.parametrize("limit", [None, 1.0])
def test_sgd_keeps_what_is_not_finite(device: Device, limit: float | None) -> None:
    """Clipping must not turn a NaN into a number, and no clipping must leave infinity."""
    w, g = normal(1, 3), np.array([np.nan, np.inf, -np.inf], np.float32)
    config, on_w = TrainConfig(learning_rate=1.0, clip_value=limit), device.array(w)
    numbers = device.array(config.numbers(0, 1, 64).astype(np.float32))
    send(TABLE.update(device, config, on_w, device.array(g), (), 32).launches(numbers, None))
    wanted = w - (np.clip(g, -limit, limit) if limit else g)
    assert np.array_equal(on_w.download(), wanted, equal_nan=True)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("shape", [(7,), (3, 2, 5)])
@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize(("n", "batch", "offset", "step"), [(1, 1, 0, 0), (9, 9, 0, 3), (4, 10, 6, 2), (33, 40, 5, 0)])
@pytest.mark.parametrize("shuffle", [True, False, None])
def test_gather(
    device: Device,
    dtype: type,
    shape: Shape,
    labelled: bool,
    n: int,
    batch: int,
    offset: int,
    step: int,
    shuffle: bool | None,
) -> None:
    """To the bit: every rung starts from the same numbers. None of the orders takes the rows as they stand."""
    random = np.random.default_rng(0)
    source = random.integers(0, 256, (40, *shape)).astype(dtype) if dtype == np.uint8 else normal(0, 40, *shape)
    labels = random.integers(0, 10, 40).astype(np.int32)
    order = Order(7, 1, 40, bool(shuffle))
    x, target = nan(device, n + 1, *shape), device.array(np.full(n + 1, -1, np.int32))
    samples = stored(
        device, source, 1 / 255, labels if labelled else None, None if shuffle is None else order.words, step
    )
    op = for_gather(TABLE.segments[Gather,], device, samples, x, target if labelled else None, batch, 64)
    send(op.forward(Slice(n, batch, offset)))
    first = step * batch + offset
    rows = np.arange(n) if shuffle is None else order.indices(first, first + n)
    found = x.download()
    assert np.array_equal(found[:n], gather.rows(source, rows, 1 / 255))
    assert np.isnan(found[n:]).all()
    assert target.download().tolist() == ([*labels[rows].tolist(), -1] if labelled else [-1] * (n + 1))


@pytest.mark.parametrize(
    ("seed", "epoch", "n"),
    [(0, 0, 1), (0, 0, 2), (1, 0, 3), (2, 5, 64), (2**32 - 1, 7, 1000), (3, 2**32 - 1, 4097), (9, 1, 60_000)],
)
def test_the_order_is_the_hosts(device: Device, seed: int, epoch: int, n: int) -> None:
    """Every position, bit for bit."""
    order = Order(seed, epoch, n)
    source = np.zeros((n, 1), np.uint8)
    x, target = device.empty((n, 1)), device.empty((n,), np.int32)
    samples = stored(device, source, 1.0, np.arange(n), order.words)
    send(for_gather(TABLE.segments[Gather,], device, samples, x, target, n).forward(whole(n)))
    assert np.array_equal(target.download(), order.indices(0, n))


def test_the_order_of_the_largest_data_set(device: Device) -> None:
    """2^31 samples: positions and keys of full width. Only the rows are asked for; no such data set is needed."""
    from warpladder.ops.gather.cuda import NAIVE

    order = Order(4, 2, 2**31)
    rows = device.empty((100,), np.int32)
    kernel = device.kernel(NAIVE, "gather_order")
    for step, offset in ((0, 0), (20_000_000, 7), (21_474_835, 40)):
        at = device.array(np.array([step], np.int32))
        kernel.bind(2, 64, device.array(order.words), at, rows, 100, 100, offset).send()
        first = step * 100 + offset
        assert np.array_equal(rows.download(), order.indices(first, first + 100))


def test_accumulate(device: Device) -> None:
    """What slices add up to; the first one overwrites what was there, the last one leaves the sum in the part."""
    parts = [normal(seed, 1001) for seed in range(3)]
    total, part = nan(device, 1001), device.empty((1001,))
    op = TABLE.accumulate(device, total, part, 64)
    for number, values in enumerate(parts):
        part.upload(values)
        send(op.launches(number == 0, number == 2))
    assert np.array_equal(part.download(), parts[2] + (parts[0] + parts[1]))
    assert op.launches(True, True) == []


@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 1), (1, 9), (PARTIAL, 3), (PARTIAL + 1, 3), (PARTIAL**2 + 5, 2), (7, 200)]
)
@pytest.mark.parametrize("more", [0, 1000])
def test_sums(device: Device, rows: int, columns: int, more: int) -> None:
    """Along both axes, in as many levels as it takes; also of fewer rows than were planned for."""
    a, block = normal(1, rows, columns), 64
    on_a, by_row, by_column = device.array(a), nan(device, rows), nan(device, columns)
    RowSums(device, block).launch(on_a, rows, columns, by_row).send()
    send(ColumnSums(device, rows + more, columns, block).launches(on_a, rows, by_column))
    close(by_row.download(), a.astype(float).sum(axis=1), abs(a).sum(axis=1), columns)
    close(by_column.download(), a.astype(float).sum(axis=0), abs(a).sum(axis=0), rows)


def test_long_sums_round_little(device: Device) -> None:
    """Of 60,000 equal terms each addition errs to the same side. One thread after the other, they are off by 6e-4; in
    partials they are not.
    """
    n, terms = 60_000, np.float32(0.1)
    x, dy = np.full((n, 1), terms), np.ones((n, 1), np.float32)
    dw, db = nan(device, 1, 1), nan(device, 1)
    y, w, b = device.empty((n, 1)), device.zeros((1, 1)), device.zeros((1,))
    one = Linear(out_features=1)
    op = bound_to(device, one, Buffers(device.array(x), y, None, device.array(dy), w, b, dw, db), 256)
    send(op.backward(whole(n)))
    assert abs(dw.download()[0, 0] / (float(terms) * n) - 1) <= bound("float32", PARTIAL)
    assert db.download()[0] == n
    wide = Buffers(device.array(x.reshape(1, n)), nan(device, 1, 1), None, None, device.array(dy.reshape(1, n)), b)
    send(bound_to(device, one, wide, 256).forward(whole(1)))
    assert abs(wide.y.download()[0, 0] / (float(terms) * n) - 1) <= bound("float32", 1024)


@pytest.mark.parametrize("threads", range(32, 1025, 32))
def test_every_block_size(device: Device, threads: int) -> None:
    """From 32 to 1,024 threads: the same numbers, but for the losses' last bits."""
    case = Case(device, Conv2d(out_channels=3, kernel_size=3, padding=1), (2, 9, 7), 3, 3, threads)
    usual = Case(device, Conv2d(out_channels=3, kernel_size=3, padding=1), (2, 9, 7), 3, 3, 64)
    found, wanted = case.run(), usual.run()
    assert all(a is not None and b is not None and np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))
    assert np.array_equal(case.dw.download(), usual.dw.download())
    assert np.array_equal(case.db.download(), usual.db.download())
    test_linear(device, threads, 5, 5, 13, 11, True)
    for table in (naive.TABLE, resident.TABLE):
        test_cross_entropy(device, table, threads, 70, 67, 10, 1)
    test_mse(device, threads, 7, 6, 1)
