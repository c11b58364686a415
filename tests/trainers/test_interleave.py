"""Steps that interleave in a graph: every call begins after those that it has to wait for, of its own step and of
earlier ones, and not later than it must.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any
from unittest import mock

import pytest
from clockwork import Clockwork
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from named_calls import Named, Told
from strategies import ZOO, Case, case, cases

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.device import Call
from warpladder.nets import CrossEntropyLoss, Flatten, Linear, Net, ReLU
from warpladder.ops.engine.segments import KernelTable
from warpladder.ops.tables import graph as graphed
from warpladder.ops.tables import tensor
from warpladder.trainers import streams as scheduling
from warpladder.trainers.graphed import GraphedTrainer
from warpladder.trainers.kernelwise.chain import Stage
from warpladder.trainers.streams import SIDES, Interleaved, dependences, depends, on_side_of_steps, schedule

CONFIG = TrainConfig(batch_size=4, learning_rate=0.05)
DEEP = Net(
    "deep",
    (1, 28, 28),
    (Flatten(), Linear(out_features=64), ReLU(), Linear(out_features=64), ReLU(), Linear(out_features=10)),
    CrossEntropyLoss(),
)


class Sent(Call):
    """A call that remembers, each time that it is sent, what has ended by then and where it stands on its stream."""

    def __init__(self, call: Call) -> None:
        self.touches, self.what = call.touches, call.name
        self.times: list[tuple[dict[str, int], tuple[str, int]]] = []

    @property
    def name(self) -> str:
        return self.what

    def send(self, stream: Any = None) -> None:
        after = dict(stream.ended)
        stream.ended[stream.name] += 1
        self.times.append((after, (stream.name, stream.ended[stream.name])))


def sent(stages: Sequence[Stage], steps: int) -> tuple[list[Sent], Told]:
    """A step's calls after so many interleaved steps, and the stream that goes on afterwards."""
    told: list[str] = []
    numbers = count(1)
    copies = [Sent(call) for stage in stages for call in stage.launches]
    main = Told("main", told)
    copied = iter(copies)
    mine = [Stage(stage.phase, stage.layers, [next(copied) for _ in stage.launches]) for stage in stages]
    device = mock.Mock(new_stream=lambda: Told(f"side {next(numbers)}", told))
    Interleaved(device, mine, steps).send(main)
    return copies, main


def check_order(stages: Sequence[Stage], steps: int = 4) -> list[Sent]:
    """Every call has to begin after the end of all that were to be sent before it and that it has to wait for."""
    copies, main = sent(stages, steps)
    meet = [[depends(other, one) for other in copies] for one in copies]
    for step in range(steps):
        for j, call in enumerate(copies):
            assert len(call.times) == steps
            after, (stream, place) = call.times[step]
            assert main.ended.get(stream, 0) >= place, f"nobody waits for {call.name}"
            for before in range(step + 1):
                for i, earlier in enumerate(copies[:j] if before == step else copies):
                    if meet[i][j]:
                        where, done = earlier.times[before][1]
                        assert after.get(where, 0) >= done, (
                            f"{call.name} of step {step} runs beside {earlier.name} of step {before}"
                        )
    return copies


def kinds(drawn: Case, table: KernelTable, precision: str = "fp32") -> list[list[Stage]]:
    """For each kind of slice of an epoch the stages of a step that comes behind one like it."""
    device = Clockwork(lambda launch: 1e-5, hardware=None)
    with GraphedTrainer(drawn.net, drawn.config, drawn.state, device, table, precision=precision) as trainer:
        trainer.load(drawn.dataset)
        return [trainer.stages(part, repeated=True) for part in trainer.parts()]


@pytest.mark.parametrize("batch", [1, 4, None])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(
    "net", [*ZOO, DEEP, nets.cnn(), nets.autoencoder()], ids=lambda net: f"{net.name}-{net.in_shape[1]}"
)
def test_no_call_runs_beside_one_that_it_has_to_wait_for(net: Net, precision: str, batch: int | None) -> None:
    for stages in kinds(
        case(net, CONFIG.but(batch_size=batch, momentum=0.9), seed=1, samples=9), tensor.TABLE, precision
    ):
        check_order(stages)


@settings(max_examples=settings().max_examples // 2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=cases())
def test_nor_in_drawn_nets(drawn: Case) -> None:
    for stages in kinds(drawn, graphed.TABLE):
        check_order(stages, 3)


PLACES = st.lists(st.sampled_from("abcdefgh"), max_size=3).map(" ".join)


@settings(deadline=None)
@given(
    steps=st.integers(1, 6),
    touched=st.lists(st.tuples(PLACES, PLACES), min_size=1, max_size=14),
    streams=st.sampled_from([1, 2, SIDES]),
)
def test_nor_whatever_they_touch(steps: int, touched: list[tuple[str, str]], streams: int) -> None:
    """Also calls that touch nothing that is known, which wait for all, and fewer streams than there are calls that
    could run at once.
    """
    calls: list[Call] = [Named(f"call {i}", *both) for i, both in enumerate(touched)]
    with mock.patch.object(scheduling, "SIDES", streams):
        check_order([Stage("backward", range(i), calls[i : i + 3]) for i in range(0, len(calls), 3)], steps)


def test_the_samples_of_the_next_step_are_packed_while_gradients_are_computed() -> None:
    """In a perceptron on tensor cores: as soon as the loss has moved the count of steps on, and y of this step has read
    what is packed over.
    """
    (stages,) = kinds(case(DEEP, CONFIG, seed=1, samples=8), tensor.TABLE, "bf16")
    calls = [call for stage in stages for call in stage.launches]
    names = [call.name.partition("<")[0] for call in calls]
    assert names == [
        "pack_samples", "pack_samples", "multiply", "multiply", "chain_forward_few", "chain_gradient_few", "pack", "multiply", "multiply", "finish_bias",
        "multiply", "finish_bias",
    ]  # fmt: skip
    steps, needed = len(calls), dependences(calls)
    waited = [
        {(names[(i - back) % steps], back > i, (i - back) % steps) for back in found} for i, found in enumerate(needed)
    ]
    assert waited[0] == {("chain_gradient_few", True, 5)}
    assert waited[1] == {("chain_gradient_few", True, 5), ("multiply", True, 10)}  # dw of the first layer
    dx, dw, bias, of_first, its_bias = (waited[i] for i in range(7, 12))
    assert dx == {("pack", False, 6)} and dw == {("multiply", False, 7)} and bias == {("pack", False, 6)}
    assert of_first == {("multiply", False, 7), ("pack_samples", False, 1)} and its_bias == {("multiply", False, 7)}
    main = [name for name, beside in zip(names, on_side_of_steps(stages, needed), strict=True) if not beside]
    assert main == [
        "multiply",
        "multiply",
        "chain_forward_few",
        "pack",
        "multiply",
        "multiply",
        "finish_bias",
    ]  # y, y, the loss, dy, dx, the first layer's dw


def test_streams_are_used_again_and_calls_wait_for_others_once() -> None:
    calls = [Named("a", "x", "a"), Named("b", "x", "b"), Named("c", "a b", "c"), Named("d", "c", "x")]
    places = schedule(dependences(calls), [False, True, False, False], 50)
    assert {place.stream for place in places} == {0, 1}
    assert [len(place.after) for place in places[4:8]] == [0, 1, 1, 0]


def test_a_call_that_is_left_out_of_what_is_waited_for_is_seen() -> None:
    calls: list[Call] = [Named("a", "x", "a"), Named("b", "a", "b"), Named("c", "b", "x"), Named("d", "b", "d")]
    stages = [
        Stage("prepare", range(1), calls[:1]),
        Stage("forward", range(1), calls[1:2]),
        Stage("backward", range(1), calls[2:]),
    ]
    check_order(stages)
    honest = dependences(calls)
    for left_out in (0, 1):  # what only the order on the main stream keeps apart is kept apart all the same
        wrong = [[] if number == left_out else found for number, found in enumerate(honest)]
        with (
            mock.patch.object(scheduling, "dependences", lambda of, wrong=wrong: wrong),
            pytest.raises(AssertionError, match="runs beside"),
        ):
            check_order(stages)


def test_only_the_rung_on_tensor_cores_interleaves_steps() -> None:
    assert tensor.TABLE.interleaves_steps and not graphed.TABLE.interleaves_steps
