"""Layers on the rung below: which division of a net is chosen, what it trains, and that it is chosen once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from clockwork import Clockwork
from plans import own_plans
from strategies import case

from warpladder.checkpoint.plan import NetPlan
from warpladder.config import TrainConfig
from warpladder.data.order import Order
from warpladder.device import Launch
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.ladder import find
from warpladder.nets import (
    AvgPool2d,
    BatchNorm2d,
    Conv2d,
    CrossEntropyLoss,
    Flatten,
    Linear,
    MaxPool2d,
    Net,
    ReLU,
    Residual,
)
from warpladder.ops.tables.tensor import TABLE
from warpladder.trainers.graphed import GraphedTrainer
from warpladder.trainers.tuning import plan_cache
from warpladder.trainers.tuning.below import faster_below, mixtures

NET = Net(
    "mixed",
    (16, 12, 12),
    (
        Conv2d(out_channels=16, kernel_size=3, padding=1), ReLU(), MaxPool2d(kernel_size=2),
        Conv2d(out_channels=32, kernel_size=3, padding=1), ReLU(),
        Conv2d(out_channels=16, kernel_size=3, padding=1), ReLU(),
        Flatten(), Linear(out_features=24), ReLU(), Linear(out_features=10),
    ),
    CrossEntropyLoss(),
)  # fmt: skip
RESIDUAL = Net(
    "residual",
    (16, 6, 6),
    (
        Conv2d(out_channels=16, kernel_size=3, padding=1), BatchNorm2d(), ReLU(),
        Residual(Conv2d(out_channels=16, kernel_size=3, padding=1), ReLU(), Conv2d(out_channels=16, kernel_size=3, padding=1)),
        ReLU(), AvgPool2d(kernel_size=2), Flatten(), Linear(out_features=10),
    ),
    CrossEntropyLoss(),
)  # fmt: skip
CONFIG = TrainConfig(batch_size=4, learning_rate=0.05)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    own_plans(monkeypatch, tmp_path / "plans")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def of_op(launch: Launch) -> tuple[str, ...]:
    """Folders and file of a launch's kernel, from the op on."""
    parts = launch.kernel.source.path.parts
    return parts[len(parts) - parts[::-1].index("warpladder") :]


def on_tensor(launch: Launch) -> bool:
    return "tensor" in of_op(launch)


PRODUCTS = ("gemm", "gemm_weights", "tiled", "thin")


def on_graph(launch: Launch) -> bool:
    """True for a matrix product of the graph rung."""
    by_samples = "small_convolutions" in of_op(launch)
    return by_samples or launch.kernel.source.path.stem in (*PRODUCTS, "short", "small_chain")


def convolves(launch: Launch) -> bool:
    return bool({"conv2d", "small_convolutions"} & set(of_op(launch)))


def clock(slow: Callable[[Launch], bool]) -> Clockwork:
    return Clockwork(lambda launch: 1e-4 if slow(launch) else 1e-6)


def loaded(device: Clockwork, net: Net = NET, stored: NetPlan | None = None, precision: str = "fp32") -> GraphedTrainer:
    drawn = case(net, CONFIG, seed=1, samples=40)
    trainer = GraphedTrainer(net, CONFIG, drawn.state, device, TABLE, None, precision)
    trainer.tuned = stored
    trainer.load(drawn.dataset)
    return trainer


def test_the_division_with_the_shortest_step_is_chosen() -> None:
    assert not loaded(clock(on_graph)).below
    every = loaded(clock(on_tensor), precision="bf16")
    assert every.below == every.computing == {0, 1, 2, 3, 4, 5, 6, 8, 9, 10}
    assert every.tuned is not None and set(every.tuned.below) == every.below
    assert "all layers" in every.remark and "all layers" in every.idea


def test_a_mix_is_chosen_where_some_layers_are_faster_below() -> None:
    slow_linear = loaded(clock(lambda launch: (on_graph if convolves(launch) else on_tensor)(launch)))
    assert slow_linear.below and slow_linear.below != slow_linear.computing
    assert 8 in slow_linear.below and 3 not in slow_linear.below
    assert slow_linear.remark == "the kernels of the rung below compute layers 8, 10, faster than its own"
    assert not slow_linear.idea


def test_a_division_is_chosen_once() -> None:
    below = loaded(clock(on_tensor))
    other = clock(on_graph)
    assert loaded(other).below == below.below and not other.sent  # of this process
    plan_cache.found.clear()
    assert loaded(other).below == below.below and not other.sent  # of the files
    own = loaded(other, stored=NetPlan(str(other.hardware), (), ()))  # of a run that had no choice
    assert not own.below and not other.sent


def test_a_data_set_has_its_division_whatever_was_loaded_before() -> None:
    """Two trainers agree on a batch that one of them loads after another batch: their steps have the same bits."""
    slow: Callable[[Launch], bool] = on_graph
    device = Clockwork(lambda launch: 1e-4 if slow(launch) else 1e-6)
    worn = loaded(device)
    assert not worn.below
    slow = on_tensor
    few = case(NET, CONFIG, seed=1, samples=3)
    with GraphedTrainer(NET, CONFIG, few.state, device, TABLE) as fresh:
        fresh.load(few.dataset)
        worn.load(few.dataset)
        assert fresh.below == worn.below == worn.computing
    worn.load(case(NET, CONFIG, seed=1, samples=40).dataset)
    assert not worn.below


@pytest.mark.parametrize(
    ("own", "below", "found"),
    [
        ([(0, 1.0), (2, 1.0)], [(0, 2.0), (2, 0.5)], {2, 3}),
        ([(0, 1.0), (2, 1.0)], [(0, 0.99), (2, 0.99)], set()),
        ([(0, 1.0), (1, 1.0), (3, 3.0)], [(0, 1.5), (3, 1.0)], {0, 1, 2, 3}),
        ([(0, 1.0), (2, 1.0)], [(0, 1.5)], {0, 1, 2, 3}),
        ([(0, 1.0)], [(0, float("nan"))], set()),
    ],
)
def test_layers_are_compared_between_common_boundaries(
    own: list[tuple[int, float]], below: list[tuple[int, float]], found: set[int]
) -> None:
    assert faster_below(frozenset(range(4)), own, below) == found


def test_another_data_set_is_bound() -> None:
    trainer = loaded(clock(on_tensor))
    trainer.load(case(NET, CONFIG, seed=2, samples=23).dataset)
    assert trainer.samples == 23 and trainer.below == trainer.computing


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
@pytest.mark.parametrize("net", [NET, RESIDUAL], ids=lambda net: net.name)
@pytest.mark.parametrize("below", [{0, 1, 2}, {3, 4}, {4, 5, 8, 9}, {0, 1, 2, 3, 4, 5, 6, 7}, {10}])
@pytest.mark.by_day("below3", "below4", "residual")
def test_every_division_trains_alike(net: Net, below: set[int]) -> None:
    drawn = case(net, CONFIG, seed=1, samples=10)
    trainer = GraphedTrainer(net, CONFIG, drawn.state, EmulatedDevice(), TABLE)
    trainer._known_division = lambda dataset: frozenset(below) & trainer.computing  # type: ignore[method-assign]
    reference = find("numpy").build(net, CONFIG, drawn.state)
    for each in (trainer, reference):
        each.load(drawn.dataset)
    order = Order(3, 0, 10)
    logs = [each.run(order, 0, 3) for each in (trainer, reference)]
    np.testing.assert_allclose(logs[0].loss, logs[1].loss, rtol=2e-5)
    np.testing.assert_allclose(trainer.state().params, reference.state().params, atol=3e-6)
    predicted = [each.predict(drawn.dataset.test_x, drawn.dataset.scale) for each in (trainer, reference)]
    np.testing.assert_allclose(predicted[0], predicted[1], atol=2e-5)


def test_a_segment_of_several_layers_is_cut_where_others_begin() -> None:
    """The rung below has layers 0 to 5 in one segment, which is slower; this rung has three segments for them."""
    every, front = frozenset(range(8)), frozenset(range(6))
    own, below = [(0, 3.0), (2, 1.0), (4, 1.0), (6, 2.0)], [(0, 9.0), (6, 1.0)]
    assert mixtures(every, front, own, below) == [{6, 7}, {0, 1, 6, 7}, {0, 1, 2, 3, 6, 7}]
    assert mixtures(every, frozenset(), own, below) == [{6, 7}]
