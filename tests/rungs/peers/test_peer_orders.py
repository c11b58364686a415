"""The order of an epoch as peers work it out on their devices, to the number what the host does; and programs as long
as an epoch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import case

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.data.order import Order
from warpladder.ladder import find

CORNERS = [1, 2, 3, 4, 5, 15, 16, 17, 64, 65, 255, 256, 257, 1000, 4096, 4097]
orders = st.builds(Order, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.sampled_from(CORNERS), st.booleans())


def by_jax(order: Order) -> list[int]:
    jax = pytest.importorskip("jax", reason="jax is not installed: pip install jax")
    from jax.sharding import SingleDeviceSharding

    from warpladder.rungs.peers.jax import order as jax_order

    sharding = SingleDeviceSharding(jax.devices("cpu")[0])
    found = jax_order.program(order.n, order.half_bits, sharding)(jax.device_put(order.words, sharding))
    assert found.dtype == np.int32
    return np.asarray(found).tolist()


def by_torch(order: Order) -> list[int]:
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")
    from warpladder.rungs.peers.torch.order import Shuffle

    found = Shuffle(order.n, torch.device("cpu")).rows(order)
    assert found.dtype == torch.int64
    return found.tolist()


@pytest.mark.parametrize("found", [by_jax, by_torch])
@pytest.mark.parametrize("n", [*CORNERS, 60_000])
def test_every_number_of_samples(found: Any, n: int) -> None:
    order = Order(5, 2, n)
    rows = found(order)
    assert rows == order.indices(0, n).tolist() and sorted(rows) == list(range(n))


@pytest.mark.parametrize("found", [by_jax, by_torch])
@settings(max_examples=50, deadline=None)
@given(order=orders)
def test_drawn_orders(found: Any, order: Order) -> None:
    assert found(order) == order.indices(0, order.n).tolist()


@pytest.mark.parametrize("peer", ["jax", "torch"])
def test_more_samples_than_the_device_shuffles_are_ordered_by_the_host(
    peer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if peer == "torch":
        pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")
        monkeypatch.setattr("warpladder.rungs.peers.torch.order.MOST", 50)
        assert by_torch(Order(1, 1, 51)) == Order(1, 1, 51).indices(0, 51).tolist()
        return
    pytest.importorskip("jax", reason="jax is not installed: pip install jax")
    losses = []
    for most in (50, 51):
        monkeypatch.setattr("warpladder.rungs.peers.jax.order.MOST", most)
        drawn = case(nets.softmax((1, 4, 4)), TrainConfig(batch_size=8), seed=1, samples=51)
        with find("jax").build(drawn.net, drawn.config, drawn.state) as trainer:
            trainer.load(drawn.dataset)
            losses.append(trainer.run(drawn.order, 0, 7).loss.tolist())
    assert losses[0] == losses[1]


def test_an_epoch_is_two_programs_that_are_there_when_the_data_set_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The full batches and the partial one; other ranges compile what they need, and end in the same weights."""
    pytest.importorskip("jax", reason="jax is not installed: pip install jax")
    from warpladder.rungs.peers.jax import programs
    from warpladder.rungs.peers.jax import trainer as jax_trainer

    made: list[tuple[int, int]] = []
    sent: list[object] = []
    program, send = programs.program, jax_trainer.JaxTrainer._send

    def noted(*arguments: Any) -> Any:
        made.append((arguments[3].count, arguments[3].size))
        return program(*arguments)

    def counted(trainer: Any, *arguments: Any) -> Any:
        sent.append(arguments[0])
        return send(trainer, *arguments)

    monkeypatch.setattr(jax_trainer, "program", noted)
    monkeypatch.setattr(jax_trainer.JaxTrainer, "_send", counted)
    drawn = case(nets.mlp((1, 4, 4)), TrainConfig(batch_size=8, momentum=0.9), seed=1, samples=8 * 75 + 3)
    with find("jax").build(drawn.net, drawn.config, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        assert sorted(made) == [(1, 3), (75, 8)]
        whole = trainer.run(drawn.order, 0, 76)
        assert len(made) == 2 and len(sent) == 2
        end = trainer.state().params
        trainer.set_state(drawn.state)
        parts = [trainer.run(drawn.order, first, last) for first, last in ((0, 70), (70, 70), (70, 76))]
        assert sorted(made[2:]) == [(1, 8), (64, 8)]
        assert np.concatenate([part.size for part in parts]).tolist() == whole.size.tolist()
        assert np.concatenate([part.correct for part in parts]).tolist() == whole.correct.tolist()
        assert np.allclose(np.concatenate([part.loss for part in parts]), whole.loss, rtol=1e-5, atol=0)
        assert np.linalg.norm(trainer.state().params - end) <= 1e-5 * np.linalg.norm(end)


@pytest.mark.parametrize("kept", ["floats", "bytes", "gathered at once"])
def test_samples_as_they_are_stored_or_seen_give_one_result(kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jax", reason="jax is not installed: pip install jax")
    from warpladder.rungs.peers.jax import trainer as jax_trainer

    drawn = case(nets.mlp((1, 4, 4)), TrainConfig(batch_size=8), seed=1, samples=43)
    results = []
    for other in (False, True):
        if other and kept == "bytes":
            monkeypatch.setattr(jax_trainer, "SEEN", 0)
        with find("jax").build(drawn.net, drawn.config, drawn.state) as trainer:
            if other and kept == "gathered at once":
                trainer.on_gpu = True  # type: ignore[attr-defined]
            trainer.load(drawn.dataset)
            assert (trainer.scale is not None) == (other and kept == "bytes")  # type: ignore[attr-defined]
            results.append((trainer.run(drawn.order, 0, 6), trainer.state().params))
    (one, end), (two, other_end) = results
    assert one.correct.tolist() == two.correct.tolist() and np.allclose(one.loss, two.loss, rtol=1e-5, atol=0)
    assert np.linalg.norm(end - other_end) <= 1e-5 * np.linalg.norm(end)


def test_a_tie_is_right_where_the_label_is_the_first_of_the_largest() -> None:
    """As argmax has it, and as our own rungs count."""
    jnp = pytest.importorskip("jax.numpy", reason="jax is not installed: pip install jax")
    from warpladder.nets import CrossEntropyLoss, Linear, Net
    from warpladder.rungs.peers.jax.steps import loss

    net = Net("identity", (3,), (Linear(out_features=3),), CrossEntropyLoss())
    params = {"0.weight": jnp.eye(3), "0.bias": jnp.zeros(3)}
    outputs = jnp.array([[1.0, 1, 0], [1, 1, 0], [0, 1, 1], [0, 1, 1], [2, 2, 2], [2, 2, 2], [0, 0, 1], [-1, -2, -3]])
    labels = jnp.array([0, 1, 1, 2, 0, 2, 2, 0])
    _, (correct, _) = loss(net, "float32")(params, jnp.zeros(0), outputs, labels, None)
    assert int(correct) == int((outputs.argmax(1) == labels).sum()) == 5


def test_programs_at_their_first_use_change_no_bit_of_jax() -> None:
    """As a proof has them: none is there when the data set is, and predictions of few samples share one."""
    pytest.importorskip("jax", reason="jax is not installed: pip install jax")
    from warpladder.rungs.peers.jax import programs

    drawn = case(nets.mlp((1, 4, 4)), TrainConfig(batch_size=8, momentum=0.9), seed=1, samples=19)
    ends = []
    for is_ready_early in (True, False):
        with find("jax").build(drawn.net, drawn.config, drawn.state) as trainer:
            trainer.is_ready_early = is_ready_early
            trainer.load(drawn.dataset)
            assert bool(trainer.programs) == is_ready_early  # type: ignore[attr-defined]
            ends.append((trainer.run(drawn.order, 0, 3).loss.tobytes(), trainer.state().bits()))
            made = programs.prediction.cache_info().misses
            few = [trainer.predict(x, 0.5) for x in (drawn.dataset.train_x[:3], drawn.dataset.train_x[:4])]
            assert programs.prediction.cache_info().misses - made == is_ready_early and np.array_equal(
                few[0], few[1][:3]
            )
    assert ends[0] == ends[1]


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_graph_captured_between_steps_leaves_the_state(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A capture warms up with steps. They change weights, slots, running statistics and the scale of a loss."""
    pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")
    from warpladder.rungs.peers.torch import graph
    from warpladder.rungs.peers.torch.captured import CapturedSteps

    class Warmed(CapturedSteps):
        def __init__(self, *what: Any) -> None:
            super().__init__(*what)
            self._steps(self.count)

    monkeypatch.setattr(graph, "CapturedSteps", Warmed)
    layers = [nets.Linear(out_features=5), nets.BatchNorm1d(), nets.ReLU(), nets.Linear(out_features=3)]
    net = nets.Net("normalised", (16,), layers, nets.CrossEntropyLoss())
    drawn = case(net, TrainConfig(batch_size=8, momentum=0.9), seed=1, samples=21)
    ends = []
    for is_ready_early in (True, False):
        trainer = graph.GraphTrainer(drawn.net, drawn.config, drawn.state, device="cpu", precision=precision)
        trainer.is_ready_early = is_ready_early
        trainer.load(drawn.dataset)
        assert bool(trainer.programs) == is_ready_early
        logs = [trainer.run(drawn.order, *part).loss.tolist() for part in ((0, 1), (1, 3))]
        scale = None if trainer.scale is None else (trainer.scale.scale.item(), trainer.scale.steps.item())
        ends.append((logs, scale, trainer.state().bits()))
    assert ends[0] == ends[1]
