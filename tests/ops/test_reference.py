"""The first link of the chain of trust: the float64 reference against finite differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from references import conv2d, linear, maxpool2d, relu, upsample2d
from strategies import NARROW, Case, case, cases

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.data.order import Order
from warpladder.errors import DataError
from warpladder.nets import CrossEntropyLoss, Linear, Net
from warpladder.nets.params import param_slices
from warpladder.ops.cross_entropy import reference as cross_entropy
from warpladder.ops.mse import reference as mse
from warpladder.ops.update import reference as update
from warpladder.optimizers import Adam, AdamW
from warpladder.proof import reference as trainer
from warpladder.proof.reference import ReferenceTrainer
from warpladder.trainers.base import State

EPSILON = 1e-6
#: A central difference over EPSILON is off by EPSILON^2 of the third derivative and by the roundoff of f over EPSILON:
#: about 1e-9 of f. torch.autograd.gradcheck passes 1e-3 at the same step.
CLOSE = 1e-6


def slope(f: Callable[[np.ndarray], float], x: np.ndarray, direction: np.ndarray) -> float:
    return (f(x + EPSILON * direction) - f(x - EPSILON * direction)) / (2 * EPSILON)


def gradient(f: Callable[[np.ndarray], float], x: np.ndarray) -> np.ndarray:
    """Central differences along every axis."""
    out = np.empty(x.size)
    for i, axis in enumerate(np.eye(x.size)):
        out[i] = slope(f, x, axis.reshape(x.shape))
    return out.reshape(x.shape)


def same(found: np.ndarray, wanted: np.ndarray) -> bool:
    return bool(np.linalg.norm(found - wanted) <= CLOSE * np.linalg.norm(wanted))


RANDOM = np.random.default_rng(1)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape)


def test_linear() -> None:
    x, w, b, r = normal(3, 5), normal(4, 5), normal(4), normal(3, 4)
    dx, dw, db = linear.backward(x, w, r)
    assert same(dx, gradient(lambda v: float((linear.forward(v, w, b) * r).sum()), x))
    assert same(dw, gradient(lambda v: float((linear.forward(x, v, b) * r).sum()), w))
    assert same(db, gradient(lambda v: float((linear.forward(x, w, v) * r).sum()), b))


def test_linear_is_w_x_plus_b() -> None:
    assert linear.forward(
        np.array([[1.0, 2.0]]), np.array([[3.0, 5.0], [7.0, 11.0]]), np.array([100.0, 200.0])
    ).tolist() == [[113.0, 229.0]]


@pytest.mark.parametrize(("k", "stride", "padding"), [(1, 1, 0), (3, 1, 1), (2, 2, 0), (3, 2, 2), (2, 3, 1), (4, 1, 3)])
@pytest.mark.parametrize(("inputs", "outputs"), [(2, 3), (5, 2)], ids=["input unfolded", "output unfolded"])
def test_conv2d(k: int, stride: int, padding: int, inputs: int, outputs: int) -> None:
    x, w, b = normal(2, inputs, 5, 4), normal(outputs, inputs, k, k), normal(outputs)
    r = normal(*conv2d.forward(x, w, b, stride, padding).shape)
    dx, dw, db = conv2d.backward(x, w, r, stride, padding)
    assert same(dx, gradient(lambda v: float((conv2d.forward(v, w, b, stride, padding) * r).sum()), x))
    assert same(dw, gradient(lambda v: float((conv2d.forward(x, v, b, stride, padding) * r).sum()), w))
    assert same(db, gradient(lambda v: float((conv2d.forward(x, w, v, stride, padding) * r).sum()), b))


@pytest.mark.parametrize(("inputs", "outputs"), [(2, 3), (5, 2)])
def test_conv2d_of_a_sample_has_the_same_bits_whatever_stands_beside_it(
    inputs: int, outputs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, w, b, dy = normal(7, inputs, 6, 6), normal(outputs, inputs, 3, 3), normal(outputs), normal(7, outputs, 4, 4)
    y, (dx, dw, db) = conv2d.forward(x, w, b, 1, 0), conv2d.backward(x, w, dy, 1, 0)
    monkeypatch.setattr("warpladder.ops.conv2d.reference.AT_ONCE", 1)  # a sample at a time
    assert np.array_equal(conv2d.forward(x, w, b, 1, 0), y)
    alone = conv2d.backward(x, w, dy, 1, 0)
    assert np.array_equal(alone[0], dx)
    assert same(alone[1], dw)
    assert same(alone[2], db)


def test_conv2d_is_a_cross_correlation() -> None:
    x = np.arange(9.0).reshape(1, 1, 3, 3)
    w = np.array([[[[1.0, 10.0], [100.0, 1000.0]]]])
    assert conv2d.forward(x, w, np.array([0.5]), 1, 0).tolist() == [[[[4310.5, 5421.5], [7643.5, 8754.5]]]]


def test_relu() -> None:
    x, r = normal(4, 7), normal(4, 7)
    assert same(relu.backward(x, r), gradient(lambda v: float((relu.forward(v) * r).sum()), x))


def test_relu_has_no_slope_at_zero() -> None:
    assert relu.backward(np.array([[-1.0, -0.0, 0.0, 1.0]]), np.ones((1, 4))).tolist() == [[0, 0, 0, 1]]


@pytest.mark.parametrize(("k", "stride"), [(2, 2), (3, 3), (2, 1), (3, 2), (2, 3), (1, 1), (1, 2)])
def test_maxpool2d(k: int, stride: int) -> None:
    x = RANDOM.permutation(2 * 3 * 7 * 6).reshape(2, 3, 7, 6).astype(float)
    r = normal(*maxpool2d.forward(x, k, stride).shape)
    assert same(
        maxpool2d.backward(x, k, stride, r), gradient(lambda v: float((maxpool2d.forward(v, k, stride) * r).sum()), x)
    )


def test_maxpool2d_gives_the_first_among_equals_the_gradient() -> None:
    x = np.array([[[[1.0, 2.0], [2.0, 2.0]]]])
    assert maxpool2d.backward(x, 2, 2, np.array([[[[5.0]]]])).tolist() == [[[[0, 5], [0, 0]]]]


@pytest.mark.parametrize("factor", [1, 2, 3])
def test_upsample2d(factor: int) -> None:
    x, r = normal(2, 2, 3, 2), normal(2, 2, 3 * factor, 2 * factor)
    assert same(upsample2d.backward(factor, r), gradient(lambda v: float((upsample2d.forward(v, factor) * r).sum()), x))


def test_cross_entropy() -> None:
    x, label = normal(4, 5), np.array([0, 4, 2, 2])
    assert same(cross_entropy.backward(x, label), gradient(lambda v: cross_entropy.forward(v, label), x))


def test_cross_entropy_of_even_odds_is_log_classes() -> None:
    assert cross_entropy.forward(np.full((3, 8), 1e5), np.array([0, 1, 7])) == pytest.approx(np.log(8), rel=1e-15)


def test_correct_takes_the_first_among_equals() -> None:
    x = np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 1.0]])
    assert cross_entropy.correct(x, np.array([0, 1, 1])) == 2


def test_mse() -> None:
    x, target = normal(4, 5), normal(4, 5)
    assert same(mse.backward(x, target), gradient(lambda v: mse.forward(v, target), x))


def test_sgd_by_hand() -> None:
    w, g, slots = np.array([1.0]), np.array([10.0]), {"momentum_buffer": np.array([2.0])}
    config = TrainConfig(learning_rate=0.1, momentum=0.5, weight_decay=0.25, clip_value=4.0)
    new_w, new = update.step(w, g, slots, config, 0.1, 1)  # clipped 4, decayed 4.25, momentum 1 + 4.25
    assert (new_w[0], new["momentum_buffer"][0]) == (pytest.approx(1 - 0.525), pytest.approx(5.25))
    new_w, new = update.step(w, g, slots, config.but(nesterov=True), 0.1, 1)
    assert (new_w[0], new["momentum_buffer"][0]) == (pytest.approx(1 - 0.1 * (4.25 + 0.5 * 5.25)), pytest.approx(5.25))
    new_w, new = update.step(w, g, {}, TrainConfig(learning_rate=7.0), 0.1, 1)  # the rate is what it is told
    assert (new_w[0], new) == (pytest.approx(0.0), {})


@pytest.mark.parametrize(("kind", "seen", "shrunk"), [(Adam, 4.5, 2.0), (AdamW, 4.0, 2.0 * (1 - 0.1 * 0.25))])
def test_adam_by_hand(kind: type[Adam], seen: float, shrunk: float) -> None:
    """The second update from means of 1 and 2: what the gradient of 4 and the decay of 0.25 * 2 come to."""
    config = TrainConfig(optimizer=kind(betas=(0.5, 0.75), eps=0.5, weight_decay=0.25), clip_value=4.0)
    slots = {"exp_avg": np.array([1.0]), "exp_avg_sq": np.array([2.0])}
    w, new = update.step(np.array([2.0]), np.array([10.0]), slots, config, 0.1, 2)
    mean, square = 0.5 + 0.5 * seen, 1.5 + 0.25 * seen**2
    assert (new["exp_avg"][0], new["exp_avg_sq"][0]) == (pytest.approx(mean), pytest.approx(square))
    root = np.sqrt(square / (1 - 0.75**2)) + 0.5
    assert w[0] == pytest.approx(shrunk - 0.1 * mean / (1 - 0.5**2) / root)


@settings(max_examples=settings().max_examples * 3 // 2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases())
def test_gradients_of_whole_nets(drawn: Case) -> None:
    """The slope along a random direction in each parameter tensor."""
    net = drawn.net
    reference = ReferenceTrainer(net, drawn.config, drawn.state)
    reference.load(drawn.dataset)
    x, y = reference.batch(np.arange(len(drawn.dataset.train_x)))
    x = x[reference.margins(x) > 1e3 * EPSILON]
    assume(len(x))
    y = None if y is None else y[: len(x)]
    start = reference.params
    loss, _, found = reference.gradients(x, y)

    def loss_at(flat: np.ndarray) -> float:
        reference.params = flat
        return reference.gradients(x, y)[0]

    random = np.random.default_rng(0)
    for place in param_slices(net):
        direction = np.zeros(net.param_count)
        direction[place.start : place.stop] = random.normal(size=place.stop - place.start)
        wanted, terms = slope(loss_at, start, direction), np.abs(found * direction).sum()
        assert abs(found @ direction - wanted) <= CLOSE * (terms + abs(loss)), place.name


@pytest.mark.parametrize(
    "net", [nets.softmax((1, 8, 8)), nets.mlp((1, 8, 8)), nets.cnn((1, 8, 8)), NARROW], ids=lambda n: n.name
)
def test_training_lowers_the_loss(net: Net) -> None:
    drawn = case(net, TrainConfig(batch_size=4, learning_rate=1e-3), seed=3, samples=10)
    reference = ReferenceTrainer(net, drawn.config, drawn.state)
    reference.load(drawn.dataset)
    logs = [reference.run(Order(0, epoch, 10), 0, 3) for epoch in range(4)]
    assert logs[0].size.tolist() == [4, 4, 2]
    assert np.average(logs[-1].loss, weights=logs[-1].size) < np.average(logs[0].loss, weights=logs[0].size)


@pytest.mark.parametrize("net", [nets.mlp((1, 8, 8)), nets.cnn((1, 8, 8)), NARROW], ids=lambda n: n.name)
def test_parts_add_up_to_a_batch(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = case(net, TrainConfig(), seed=3, samples=10)
    reference = ReferenceTrainer(net, drawn.config, drawn.state)
    reference.load(drawn.dataset)
    x, y = reference.batch(np.arange(10))
    loss, correct, gradient = reference.gradients(x, y)
    parts = [
        reference.gradients(x[some], None if y is None else y[some], shares=np.full(some.stop - some.start, 0.1))
        for some in (slice(0, 3), slice(3, 4), slice(4, 10))
    ]
    assert sum(part[0] for part in parts) == pytest.approx(loss, rel=1e-14)
    assert sum(part[1] for part in parts) == correct
    assert np.linalg.norm(sum(part[2] for part in parts) - gradient) <= 1e-14 * np.linalg.norm(gradient)
    out = reference.activations(x)[-1]
    monkeypatch.setattr(trainer, "SLICE_BYTES", 1)  # a sample at a time
    assert [len(range(10)[some]) for some in trainer.slices(net, 10)] == [1] * 10
    assert np.allclose(reference.through(x), out, rtol=1e-13, atol=1e-13)
    half = reference.through(reference.through(x, last=2), 2)
    assert np.array_equal(half, reference.through(x))


def test_margins_find_the_switch() -> None:
    net = Net("one", (1,), (Linear(out_features=1), nets.ReLU(), Linear(out_features=2)), CrossEntropyLoss())
    flat = np.zeros(net.param_count)
    flat[:2] = 1.0, -1.0  # x - 1
    reference = ReferenceTrainer(net, TrainConfig(), State(flat))
    two = Net("two", (2,), (Linear(out_features=2), nets.ReLU(), Linear(out_features=2)), CrossEntropyLoss())
    flat = np.zeros(two.param_count)
    flat[:4] = 1.0, 0.0, 0.0, 1.0
    assert reference.margins(np.array([[1.0], [3.0]])).tolist() == [np.inf, 1.0]
    reference = ReferenceTrainer(two, TrainConfig(), State(flat))
    assert reference.margins(np.array([[1e-6, np.sqrt(2)], [1.0, -1.0], [0.0, 1.0]])) == pytest.approx(
        [1e-6, 1.0, np.sqrt(2)]
    )


def test_run_before_load_and_foreign_shapes_are_refused() -> None:
    net = nets.softmax((1, 2, 2))
    drawn = case(net, TrainConfig(), seed=0, samples=3)
    reference = ReferenceTrainer(net, drawn.config, drawn.state)
    with pytest.raises(DataError, match="load"):
        reference.run(drawn.order, 0, 1)
    with pytest.raises(DataError, match=r"\(1, 2, 2\)"):
        reference.predict(np.zeros((2, 4), np.uint8), 1.0)
