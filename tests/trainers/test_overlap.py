"""What of a step runs on side streams of a graph, and that nothing there runs before what it reads, or beside what it
writes over.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from named_calls import Named, sent, steps
from strategies import ZOO, Case, case, cases
from updating_chains import updating

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.device import Call
from warpladder.ops.tables import gemm, naive, tensor, tiled
from warpladder.ops.tables import graph as graphed
from warpladder.trainers.kernelwise.chain import Stage

CONFIG = TrainConfig(batch_size=4, learning_rate=0.05, momentum=0.9)


def overlapped(*stages: Stage) -> list[str]:
    """What is asked of which stream."""
    return sent(list(stages))[0]


def way_back(i: int, more: Sequence[Call] = ()) -> Stage:
    """A layer's gradients: of what leaves it, which is rectified in place; of its weights; of what enters it."""
    dy, dw = Named(f"dy{i}", f"y{i}", f"d{i}"), Named(f"dw{i}", f"x{i} d{i}", f"w{i}")
    return Stage("backward", range(i), [dy, dw, Named(f"dx{i}", f"d{i}", f"d{i + 1}"), *more])


def test_what_nobody_waits_for_runs_aside_and_is_waited_for_at_the_end() -> None:
    end = Stage("backward", range(9), [Named("end", "d2 d3 d4", "w9")])
    one = ["dy1 on main", "first waits for main", "dw1 on first", "dx1 on main"]
    assert overlapped(way_back(1), end) == [*one, "end on main", "main waits for first"]
    assert overlapped(way_back(1), way_back(2), way_back(3), end) == [
        *one, "dy2 on main", "second waits for main", "dw2 on second", "dx2 on main", "dy3 on main", "first waits for main", "dw3 on first",
        "dx3 on main", "end on main", "main waits for first", "main waits for second",
    ]  # fmt: skip


def test_calls_that_wait_for_each_other_stay_together_on_a_side_stream() -> None:
    sums = [Named("parts", "x1", "p1"), Named("sum", "p1", "w1")]
    stage = Stage("backward", range(1), [*sums, Named("dx", "d1", "d2")])
    end = Stage("backward", range(2), [Named("end", "d2", "w2")])
    aside = ["first waits for main", "parts on first", "first waits for main", "sum on first"]
    assert overlapped(stage, end) == [*aside, "dx on main", "end on main", "main waits for first"]
    reader = Stage("backward", range(2), [Named("end", "d2 w1", "w2")])  # somebody of another stage waits for both
    assert overlapped(stage, reader) == ["parts on main", "sum on main", "dx on main", "end on main"]


def test_what_writes_over_numbers_that_are_still_read_waits() -> None:
    reading = Stage("backward", range(1), [Named("reads", "a", "w1"), Named("dx", "a", "d")])
    assert overlapped(reading, Stage("backward", range(2), [Named("writes", "d", "a")])) == [
        "reads on main",
        "dx on main",
        "writes on main",
    ]


def test_the_last_calls_stay_where_there_is_nothing_to_run_beside() -> None:
    assert overlapped(Stage("backward", range(2), [Named("dy", "y", "d"), Named("dw", "d", "w")])) == [
        "dy on main",
        "dw on main",
    ]


def test_calls_of_which_it_is_not_known_what_they_touch_run_in_order() -> None:
    known, unknown = Named("known", "a", "b"), Named("library")
    stages = [Stage("backward", range(i), [known, unknown, known]) for i in range(3)]
    assert not any("first" in told or "second" in told for told in overlapped(*stages))


def test_what_layers_prepare_is_waited_for_by_their_forward_pass() -> None:
    first, second = range(1), range(1, 2)
    assert overlapped(
        Stage("prepare", second, [Named("pack", "w", "packed")]), Stage("feed", range(0), [Named("gather", "data", "x")]),
        Stage("forward", first, [Named("y", "x", "y")]), Stage("forward", second, [Named("z", "y packed", "z")]),
        Stage("backward", second, [Named("dz", "z", "dz")]),
    ) == [
        "first waits for main", "pack on first", "gather on main", "y on main", "main waits for first", "z on main", "dz on main",
        "main waits for first",
    ]  # fmt: skip


TABLES = {
    "naive": naive.TABLE, "tiled": tiled.TABLE, "gemm": gemm.TABLE, "graph": graphed.TABLE, "tensor": tensor.TABLE, "a layer that updates itself": updating(1, 3),
}  # fmt: skip


@pytest.mark.parametrize("batch", [1, 4, None])
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("net", [*ZOO, nets.cnn(), nets.autoencoder()], ids=lambda net: f"{net.name}-{net.in_shape[1]}")
def test_no_call_runs_beside_one_that_it_has_to_wait_for(net: nets.Net, table: str, batch: int | None) -> None:
    assert steps(case(net, CONFIG.but(batch_size=batch), seed=1, samples=9), TABLES[table])


@settings(max_examples=settings().max_examples // 2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=cases())
def test_nor_in_drawn_nets(drawn: Case) -> None:
    steps(drawn, graphed.TABLE)


def test_the_weights_gradients_run_beside_the_rest_of_the_way_back() -> None:
    (told,) = steps(case(nets.cnn(), CONFIG.but(batch_size=64), seed=1, samples=64), graphed.TABLE)
    aside = [what.partition("<")[0].partition(" ")[0] for what in told if what.endswith((" on first", " on second"))]
    assert aside == ["pack_weights", "chain_gradient_few", "correlate", "finish_weights"]
    (told,) = steps(case(nets.autoencoder(), CONFIG.but(batch_size=64), seed=1, samples=64), graphed.TABLE)
    back = [what.partition("<")[0].partition(" ")[0] for what in told if what.endswith((" on first", " on second"))][4:]
    assert back == ["sum_gradient", "correlate", "finish_weights"] * 3 + ["correlate", "finish_weights"]
    sides = [what.rpartition(" ")[2] for what in told if "correlate<" in what and " on " in what][:-1]
    assert all(one != other for one, other in pairwise(sides))
