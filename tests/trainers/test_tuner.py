"""The tuner by a made-up clock: what it chooses, when it times, what it keeps, and what it never believes."""

from __future__ import annotations

import json
import math
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from clockwork import Clockwork, Cost
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plans import own_plans
from strategies import ZOO, Case, case, cases

from warpladder import nets
from warpladder.checkpoint.plan import NetPlan, plan_from_json, plan_to_json
from warpladder.config import TrainConfig
from warpladder.data.order import Order
from warpladder.device import Call, Launch
from warpladder.device import source as sources
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.device.timing import in_turn, timed_in
from warpladder.errors import DeviceError, OutOfMemoryError, PlanError
from warpladder.nets import (
    BatchNorm1d,
    BatchNorm2d,
    Conv2d,
    CrossEntropyLoss,
    Flatten,
    Linear,
    MSELoss,
    Net,
    ReLU,
    Residual,
)
from warpladder.nets.params import initial_buffers
from warpladder.ops import linear
from warpladder.ops.engine.segments import KernelTable
from warpladder.ops.tables.graph import TABLE, Tiled
from warpladder.ops.tables.tensor import TABLE as TENSOR
from warpladder.trainers.graphed import GraphedTrainer
from warpladder.trainers.tuning import plan_cache, tuner
from warpladder.trainers.tuning.candidates import PLANS, TileChoice, products, segments
from warpladder.trainers.tuning.tuner import MARGIN, fastest

NET = Net(
    "convolutions",
    (8, 32, 32),
    (
        Conv2d(out_channels=32, kernel_size=3, padding=1),
        ReLU(),
        Conv2d(out_channels=32, kernel_size=3, padding=1),
        ReLU(),
        Conv2d(out_channels=8, kernel_size=3, padding=1),
    ),
    MSELoss(),
)
CONFIG = TrainConfig(batch_size=4)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    own_plans(monkeypatch, tmp_path / "plans")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def by_name(seed: int) -> Cost:
    """From 1 to 100 us, drawn for each kernel and grid; the tiled rung's kernels take a second."""

    def cost(launch: Launch) -> float:
        if launch.kernel.source.path.name == "tiled.cu":
            return 1.0
        return 1e-6 * (1 + zlib.crc32(f"{seed} {launch.name} {launch.grid}".encode()) % 10_000 / 100)

    return cost


def loaded(
    device: Clockwork, stored: NetPlan | None = None, net: Net = NET, config: TrainConfig = CONFIG, samples: int = 9
) -> GraphedTrainer:
    drawn = case(net, config, seed=1, samples=samples)
    trainer = GraphedTrainer(net, config, drawn.state, device, TABLE)
    trainer.tuned = stored
    trainer.load(drawn.dataset)
    return trainer


def of(trainer: GraphedTrainer) -> list[TileChoice]:
    assert trainer.chain is not None
    return products(trainer.chain, trainer.chain.layered)


def plan_of(trainer: GraphedTrainer) -> NetPlan:
    assert trainer.tuned is not None
    return trainer.tuned


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.by_day("0", "1")
def test_the_fastest_of_the_candidates_is_taken(seed: int) -> None:
    device = Clockwork(by_name(seed))
    trainer = loaded(device)
    assert [(p.layer, p.product) for p in plan_of(trainer).products] == [
        (layer, name) for layer in (0, 2, 4) for name in (("y", "dw") if layer == 0 else ("y", "dw", "dx"))
    ]
    better = 0
    for product, told in zip(of(trainer), plan_of(trainer).products, strict=True):
        chosen, candidates = product.now, product.candidates()
        assert told == product.record(chosen)
        assert len(candidates) == len(set(candidates)) <= PLANS and candidates[0] == product.variants()[0]
        taken = {}
        for plan in candidates:
            taken[plan] = sum(device.cost(call) for call in product.calls(plan) if isinstance(call, Launch))
        assert taken[chosen] <= min(taken.values()) * (1 + MARGIN) * 1.0001
        better += chosen != candidates[0]
    assert better


@pytest.mark.parametrize(("win", "wins"), [(0.01, False), (0.03, True)])
def test_what_the_model_prefers_is_beaten_by_more_than_noise_or_stays(win: float, wins: bool) -> None:
    device = Clockwork(lambda launch: 1.0 if launch.kernel.source.path.name == "tiled.cu" else 1e-5)
    product = next(product for product in of(loaded(device)) if product.product == "y")
    preferred, *others = (plan for plan in product.candidates() if plan.parts == 1)
    argmax = product.calls(others[-1])[0]
    assert isinstance(argmax, Launch)
    device.cost = lambda launch: 1e-5 * (1 - win) if (launch.name, launch.grid) == (argmax.name, argmax.grid) else 1e-5
    assert fastest(device, product) == (others[-1] if wins else preferred)


def test_only_what_computes_and_finishes_a_product_is_timed() -> None:
    """Whatever the others take, packing and bias sums for instance, the choice is the same."""
    first = loaded(Clockwork(by_name(0)))
    mine = {call.name for product in of(first) for call in product.calls(product.now)}
    assert any("add_parts" in name for name in mine) and any("finish_weights" in name for name in mine)
    assert not any("pack" in name or "fused_relu" in name for name in mine)
    forget()
    cost = by_name(0)
    slow_others = Clockwork(
        lambda launch: (
            cost(launch) if "convolve<" in launch.name or "correlate<" in launch.name or launch.name in mine else 1
        )
    )
    assert plan_of(loaded(slow_others)) == plan_of(first)


def test_a_second_run_has_the_plan_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(loaded(Clockwork(by_name(1))))
    monkeypatch.setattr(tuner, "in_turn", forbidden)
    another_clock = Clockwork(by_name(2))
    assert plan_of(loaded(another_clock)) == plan  # of this process
    plan_cache.found.clear()
    assert plan_of(loaded(another_clock)) == plan  # of the files


def forget() -> None:
    """As on a machine that has never timed anything."""
    plan_cache.found.clear()
    for file in plan_cache.PLANS.place().iterdir():
        file.unlink()


def forbidden(device: object, works: list[list[Call]]) -> list[float]:
    raise AssertionError("it was timed again")


def test_layers_of_one_shape_are_timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = []

    def at_random(device: object, works: list[list[Call]]) -> list[float]:
        timed.append(len(works))
        if len(works) == 2:  # ops, and not tiles
            return [1.0, 2.0]
        return [float(zlib.crc32(f"{len(timed)} {at}".encode())) for at in range(len(works))]

    monkeypatch.setattr(tuner, "in_turn", at_random)
    same = (Conv2d(out_channels=16, kernel_size=3, padding=1), ReLU())
    net = Net(
        "twice", (16, 32, 32), (*same, *same, *same, Conv2d(out_channels=16, kernel_size=3, padding=1)), MSELoss()
    )
    plan = plan_of(loaded(Clockwork(by_name(0)), net=net))
    by_layer = {layer: [replace(p, layer=0) for p in plan.products if p.layer == layer] for layer in (2, 4)}
    assert by_layer[2] == by_layer[4] and len(by_layer[2]) == 3
    assert (
        timed.count(2) == 3 and len(timed) == 3 + 2 + 3 + 3
    )  # the first layer, which has no dx, the next two, and the last


@pytest.mark.parametrize(("net", "batch"), [(nets.cnn(), 64), (nets.autoencoder(), 1), (nets.autoencoder(), 256)])
def test_what_an_h200_was_seen_to_choose_is_timed_and_what_cannot_win_is_not(net: Net, batch: int) -> None:
    """By the stored profiles; a candidate costs most of a second to compile."""
    name = net.name if batch == 64 else f"{net.name}-{batch}"
    path = Path(__file__).parents[2] / "benchmarks" / "h200" / "profiles" / f"{name}-graph.json"
    seen = [told for told in json.loads(path.read_text())["tiles"] if told["timed"]]
    trainer = loaded(Clockwork(by_name(0), hardware=None), net=net, config=CONFIG.but(batch_size=batch), samples=batch)
    every = {(choice.layer, choice.product): choice for choice in of(trainer)}
    assert len(seen) >= 3
    for told in seen:
        choice = every[told["layers"][0], told["product"]]
        candidates = choice.candidates()
        assert (told["tile"], told["depth"], told["parts"]) in [
            (str(plan.tile), plan.depth, plan.parts) for plan in candidates
        ]
        cycles = [choice.planned.costs(batch)[plan] for plan in candidates]
        assert max(cycles) <= 1.3 * cycles[0] and len(candidates) <= PLANS


def test_the_same_plan_where_nothing_can_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(plan_cache.PLANS, "place", lambda: tmp_path / "file" / "plans")
    warnings.simplefilter("ignore")
    plan = plan_of(loaded(Clockwork(by_name(1))))
    monkeypatch.setattr("warpladder.files.cache._warned", set())
    with pytest.warns(UserWarning, match="plans cannot be stored in .*: the next start times them again"):
        plan_cache.write("0", plan)
    assert plan_of(loaded(Clockwork(by_name(2)))) == plan


def test_another_device_is_timed_for_itself() -> None:
    first, second = (loaded(Clockwork(by_name(seed), hardware=name)) for seed, name in ((1, "A"), (2, "B")))
    assert plan_of(first).hardware == "A" and plan_of(second).hardware == "B"
    assert plan_of(first).products != plan_of(second).products


def test_a_stored_plan_is_followed_and_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where this machine's files say otherwise."""
    plan = plan_of(loaded(Clockwork(by_name(1), hardware="A")))
    forget()
    other = plan_of(loaded(Clockwork(by_name(2), hardware="A")))
    assert other != plan
    monkeypatch.setattr(tuner, "in_turn", forbidden)
    trainer = loaded(Clockwork(by_name(3), hardware="A"), plan)
    assert plan_of(trainer) == plan
    assert [product.record(product.now) for product in of(trainer)] == list(plan.products)


def test_a_plan_of_another_device_is_timed_again_and_that_is_said() -> None:
    plan = plan_of(loaded(Clockwork(by_name(1), hardware="A")))
    with pytest.warns(UserWarning, match="timed on A, and this is B: they are timed again"):
        trainer = loaded(Clockwork(by_name(2), hardware="B"), plan)
    assert plan_of(trainer).hardware == "B"
    with pytest.warns(UserWarning, match="timed on A, and this is Clockwork: the model's are used here"):
        trainer = loaded(Clockwork(by_name(2), hardware=None), plan)
    assert trainer.tuned is None
    assert all(product.now == product.variants()[0] for product in of(trainer))


@pytest.mark.parametrize("change", [{"depth": 7}, {"parts": 3000}, {"tile": (1, 2, 3)}, {"op": "Other"}])
def test_a_stored_plan_that_this_version_does_not_have_is_never_used(change: dict[str, object]) -> None:
    """A depth of another sum would be a wrong product."""
    plan = plan_of(loaded(Clockwork(by_name(1))))
    wrong = replace(plan, products=(replace(plan.products[0], **change), *plan.products[1:]))  # type: ignore[arg-type]
    with pytest.warns(UserWarning, match="the stored plan of layer 0's y is none of this version: it is chosen anew"):
        trainer = loaded(Clockwork(by_name(1)), wrong)
    assert plan_of(trainer) == plan


def test_times_that_mean_nothing_are_not_taken() -> None:
    device = Clockwork(by_name(0), hardware=None)
    assert loaded(device).tuned is None and device.sent == 0


@pytest.mark.parametrize("seconds", [math.nan, math.inf, 0.0, -1e-6])
def test_a_clock_that_is_broken_is_an_error(seconds: float) -> None:
    with pytest.raises(DeviceError, match="the clock of Clockwork gives a graph"):
        loaded(Clockwork(lambda launch: seconds if "convolve<" in launch.name else 1e-6))
    assert not plan_cache.found


def test_each_is_repeated_to_a_millisecond_and_timed_in_turn() -> None:
    order: list[str] = []

    def cost(launch: Launch) -> float:
        order.append(launch.name)
        return {"add_parts": 1e-6, "apply_relu_mask": 1e-4}[launch.name] * (3 if len(order) < 250 else 1)

    device = Clockwork(cost)
    kernels = [device.kernel(GEMM, name) for name in ("add_parts", "apply_relu_mask")]
    x = device.empty((64,))
    quick, slow = kernels[0].bind(1, 32, x, None, x, 1, 64, 1, 0), kernels[1].bind(1, 32, x, None, x, 1, 32, 1)
    assert in_turn(device, [[quick], [slow]]) == pytest.approx(
        [1e-6, 1e-4]
    )  # the slow moment at the beginning does not count
    turns = [name for at, name in enumerate(order) if at == 0 or order[at - 1] != name]
    assert turns == ["add_parts", "apply_relu_mask"] * 7


def test_kernels_are_timed_in_the_context_in_which_nothing_else_runs() -> None:
    is_alone = False
    seen: list[bool] = []

    @contextmanager
    def alone() -> Iterator[None]:
        nonlocal is_alone
        is_alone = True
        yield
        is_alone = False

    def cost(launch: Launch) -> float:
        seen.append(is_alone)
        return 1e-5

    device = Clockwork(cost)
    x = device.empty((64,))
    add = device.kernel(GEMM, "add_parts").bind(1, 32, x, None, x, 1, 64, 1, 0)
    with timed_in(alone):
        in_turn(device, [[add]])
    assert seen and all(seen) and not is_alone
    seen.clear()
    in_turn(device, [[add]])
    assert seen and not any(seen)


GEMM = Path(linear.__file__).with_name("gemm.cu")


def tiled_is(seconds: float) -> Cost:
    """All launches take 10 us but those of the tiled rung."""
    return lambda launch: seconds if launch.kernel.source.path.name == "tiled.cu" else 1e-5


def ops_of(trainer: GraphedTrainer) -> list[str]:
    assert trainer.chain is not None
    return [type(trainer.chain.segments[number]).__name__ for number in trainer.chain.layered]


def test_an_op_that_is_faster_with_all_that_it_does_takes_the_place_of_the_tables_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trainer = loaded(Clockwork(tiled_is(1e-6)))
    plan = plan_of(trainer)
    assert [(p.layer, p.op) for p in plan.ops] == [(0, "Tiled"), (2, "Tiled"), (4, "Tiled")] and plan.products == ()
    assert ops_of(trainer) == ["Tiled"] * 3
    monkeypatch.setattr(tuner, "in_turn", forbidden)
    assert ops_of(loaded(Clockwork(tiled_is(1.0)))) == ["Tiled"] * 3  # of this process
    plan_cache.found.clear()
    assert ops_of(loaded(Clockwork(tiled_is(1.0)))) == ["Tiled"] * 3  # of the files
    forget()
    stored = loaded(Clockwork(tiled_is(1.0)), plan)
    assert ops_of(stored) == ["Tiled"] * 3 and stored.tuned == plan


def test_the_tables_own_op_stays_where_it_is_faster() -> None:
    trainer = loaded(Clockwork(tiled_is(1e-3)))
    assert {p.op for p in plan_of(trainer).ops} == {"GemmConv2d"} == set(ops_of(trainer))
    assert len(plan_of(trainer).products) == 8


def test_an_op_without_room_does_not_compete(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OutOfMemoryError("full")

    monkeypatch.setattr(Tiled, "__init__", full)
    assert {p.op for p in plan_of(loaded(Clockwork(tiled_is(1e-6)))).ops} == {"GemmConv2d"}


def test_a_stored_op_that_there_is_not_is_chosen_anew() -> None:
    plan = plan_of(loaded(Clockwork(tiled_is(1.0))))
    wrong = replace(plan, ops=(replace(plan.ops[0], op="Gone"), *plan.ops[1:]))
    with pytest.warns(UserWarning, match="the stored plan of layer 0 is none of this version: it is chosen anew"):
        assert plan_of(loaded(Clockwork(tiled_is(1.0)), wrong)) == plan


def test_what_is_said() -> None:
    lines: list[str] = []
    drawn = case(NET, CONFIG, seed=1, samples=9)
    for _ in range(2):
        trainer = GraphedTrainer(NET, CONFIG, drawn.state, Clockwork(by_name(0)), TABLE)
        trainer.say = lines.append
        trainer.load(drawn.dataset)
    begin, end = lines
    assert begin == "Timing the kernels of this net's layers on Clockwork"
    assert end.startswith("Timed in ") and str(plan_cache.PLANS.place()) in end
    assert trainer.spans()["tune"] >= 0


def test_small_products_heads_and_thin_chains_are_left_to_the_model() -> None:
    for net in ZOO:
        assert loaded(Clockwork(by_name(0)), net=net, config=CONFIG.but(batch_size=2)).tuned is None
    for net in (nets.mlp10(), nets.softmax()):
        assert loaded(Clockwork(by_name(0)), net=net, config=CONFIG.but(batch_size=None)).tuned is None
    with_head = Net(
        "head",
        (512,),
        (Linear(out_features=512), ReLU(), Linear(out_features=512), ReLU(), Linear(out_features=10)),
        CrossEntropyLoss(),
    )
    drawn = case(with_head, CONFIG.but(batch_size=None), seed=1, samples=512)
    trainer = GraphedTrainer(with_head, drawn.config, drawn.state, Clockwork(by_name(0)), TABLE)
    trainer.load(drawn.dataset)
    assert {p.layer for p in plan_of(trainer).products} == {0, 2}


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(drawn=cases())
def test_of_drawn_nets_hardly_one_is_large_enough(drawn: Case) -> None:
    """Else the tests of every rung would compile for minutes on a GPU. Some last layers are as wide as 1,176 x 324."""
    trainer = GraphedTrainer(drawn.net, drawn.config, drawn.state, Clockwork(by_name(0)), TABLE)
    trainer.load(drawn.dataset)
    n = drawn.config.batch(len(drawn.dataset.train_x))
    large = [
        layer
        for layer, shape in zip(drawn.net.layers, drawn.net.shapes, strict=False)
        if n * layer.flops(shape) // 2 >= tuner.WORTH
    ]
    assert len(large) <= 1 and (trainer.tuned is None or large)


@given(data=st.data())
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_files_that_are_broken_are_left_out_and_timed_again(data: st.DataObject) -> None:
    """Cut, changed in a byte, another product's, or something else altogether: the plan is the same as without them."""
    cost = by_name(4)
    net = Net(
        "one",
        (8, 32, 32),
        (Conv2d(out_channels=32, kernel_size=3, padding=1), Flatten(), Linear(out_features=3)),
        CrossEntropyLoss(),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan_cache.found.clear()
        plan = plan_of(loaded(Clockwork(cost), net=net))
        files = sorted(plan_cache.PLANS.place().iterdir())
        whole = {file: file.read_bytes() for file in files}
        file = data.draw(st.sampled_from(files))
        content = whole[file]
        damage = data.draw(st.sampled_from(["cut", "byte", "other", "json", "noise"]))
        if damage == "cut":
            content = content[: data.draw(st.integers(0, len(content) - 1))]
        elif damage == "byte":
            at = data.draw(st.integers(0, len(content) - 1))
            content = content[:at] + bytes([data.draw(st.integers(0, 255))]) + content[at + 1 :]
        elif damage == "other":
            content = whole[data.draw(st.sampled_from(files))]
        elif damage == "json":
            content = json.dumps(data.draw(trees)).encode()
        else:
            content = data.draw(st.binary(max_size=40))
        file.write_bytes(content)
        plan_cache.found.clear()
        trainer = loaded(Clockwork(cost), net=net)
        assert all(product.now in product.variants() for product in of(trainer))
        if damage != "byte":  # a byte can turn one of the plans into another one of them
            assert plan_of(trainer) == plan
        for path, before in whole.items():
            path.write_bytes(before)


trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["hardware", "products", "tile", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def test_a_plan_comes_back_from_json_as_it_went() -> None:
    plan = plan_of(loaded(Clockwork(by_name(0))))
    assert plan_from_json(json.loads(json.dumps(plan_to_json(plan)))) == plan


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda plan: plan.pop("hardware"), "^hardware is missing$"),
        (lambda plan: plan.update(hardware=5), "^hardware wants text, got 5$"),
        (lambda plan: plan.update(more=5), "^'more' is not a field"),
        (lambda plan: plan.update(products={}), r"^products wants a list, got \{\}$"),
        (lambda plan: plan["products"][0].update(tile="128"), r"^products\[0\].tile wants a list"),
        (lambda plan: plan["products"][1].update(depth=1.5), r"^products\[1\].depth wants a whole number, got 1.5$"),
        (lambda plan: plan["products"][1].update(parts=True), r"^products\[1\].parts wants a whole number, got True$"),
    ],
)
def test_what_is_wrong_with_a_plan_is_told_in_one_line(change, words) -> None:
    value = json.loads(json.dumps(plan_to_json(plan_of(loaded(Clockwork(by_name(0)))))))
    change(value)
    with pytest.raises(PlanError, match=words):
        plan_from_json(value)


# What is compiled ahead


@pytest.mark.parametrize(
    ("net", "batch"),
    [
        (nets.cnn(), 64),
        (nets.autoencoder((3, 16, 16)), 3),
        (nets.mlp(), 64),
        (nets.mlp10(), None),
        (nets.softmax(), 128),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    ("table", "precision"), [(TABLE, "fp32"), (TENSOR, "fp32"), (TENSOR, "bf16")], ids=["graph", "tensor", "bf16"]
)
@pytest.mark.by_day("cnn", "mlp", "softmax")
def test_every_kernel_is_foreseen_before_the_first_is_asked_for(
    net: Net, batch: int | None, known: bool, table: KernelTable, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of all candidates, and where a plan is known of that one, and those of predictions; nothing is timed, kept
    or warned of by foreseeing.
    """
    config = CONFIG.but(batch_size=batch)
    drawn = case(net, config, seed=1, samples=300)
    if known:
        other = case(net, config, seed=2, samples=300)  # the batch's plans are the same
        GraphedTrainer(net, config, other.state, Clockwork(by_name(0)), table, None, precision).load(other.dataset)

    def trainer_on(device: Clockwork) -> GraphedTrainer:
        return GraphedTrainer(net, config, drawn.state, device, table, None, precision)

    blind = Clockwork(lambda launch: 1 / 0)
    before = dict(plan_cache.found)
    wanted = trainer_on(blind).kernels_of_training(drawn.dataset)
    assert plan_cache.found == before and blind.sent == 0
    asked: list[tuple[Path, str]] = []
    device = Clockwork(by_name(0))
    kernel = device.kernel
    device.kernel = lambda path, name: asked.append((sources.read(path).path, name)) or kernel(path, name)  # type: ignore[method-assign, func-returns-value]
    trainer = trainer_on(device)
    trainer.load(drawn.dataset)
    loaded_with = set(asked)
    for part in trainer.parts():
        trainer.stages(part)
        trainer.stages(part, repeated=True)
    assert set(asked) == loaded_with, (
        "an epoch asks for kernels that loading did not: its time counts what they take to compile"
    )
    monkeypatch.setattr(device, "download", lambda host, array, stream=None: None)
    before_predicting = len(asked)
    trainer.predict(drawn.dataset.test_x, drawn.dataset.scale)
    told = set(trainer.kernels_of_predicting(drawn.dataset.test_x, drawn.dataset.scale))
    assert set(asked[before_predicting:]) <= told <= set(asked)
    # The division that is not chosen predicts nothing; which one that is, is not known before.
    rival: set[tuple[Path, str]] = set()
    for below in (trainer.computing, frozenset[int]()) if table.below is not None and not known else ():
        trainer.below = below
        told_below = trainer.kernels_of_predicting(drawn.dataset.test_x, drawn.dataset.scale)
        rival |= {(sources.read(path).path, name) for path, name in told_below}
    assert len(wanted) == len(set(wanted)) and set(asked) <= set(wanted) <= set(asked) | rival


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_another_segment_of_a_layer_gets_all_of_its_arrays() -> None:
    """A normalisation has none: its kernels leave the gradient that a residual connection reads."""
    shaped = Conv2d(out_channels=4, kernel_size=3, padding=1, bias=False)
    layers = (
        shaped,
        BatchNorm2d(),
        Residual(shaped, BatchNorm2d()),
        ReLU(),
        Flatten(),
        BatchNorm1d(),
        Linear(out_features=3),
    )
    net = Net("normalised", (2, 4, 4), layers, CrossEntropyLoss())
    states = []
    for choose in (False, True):
        drawn = case(net, CONFIG, seed=1, samples=10)
        trainer = GraphedTrainer(net, CONFIG, drawn.state, EmulatedDevice(), TABLE)
        trainer.load(drawn.dataset)
        assert trainer.chain is not None
        choices = segments(trainer.chain, TABLE) if choose else []
        for choice in choices:
            choice.settle(Tiled)
        assert not choose or {type(layer) for each in choices for layer in each.op.layers} == {Conv2d}
        trainer.run(Order(0, 0, 10), 0, 2)
        states.append(trainer.state())
        trainer.close()
    for before, after in zip(*((state.params, state.buffers) for state in states), strict=True):
        assert before is not None and np.allclose(before, after, rtol=1e-4, atol=1e-6)
    moved = states[0].buffers
    assert moved is not None and not np.array_equal(moved, initial_buffers(net))


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_timing_leaves_the_state_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also running statistics, which the forward passes of timing move."""
    monkeypatch.setattr(tuner, "WORTH", 1)
    monkeypatch.setattr(tuner, "in_turn", lambda device, works: [1.0] * len(works))
    layers = Conv2d(out_channels=4, kernel_size=3), BatchNorm2d(), ReLU(), Flatten(), Linear(out_features=3)
    net = Net("normalised", (2, 6, 6), layers, CrossEntropyLoss())
    drawn, device = case(net, CONFIG, seed=1, samples=10), EmulatedDevice()
    device.hardware = "A"
    trainer = GraphedTrainer(net, CONFIG, drawn.state, device, TABLE)
    trainer.load(drawn.dataset)
    assert trainer.tuned is not None and plan_cache.found
    after, start = trainer.state(), drawn.state
    assert np.array_equal(after.params, start.params) and np.array_equal(after.buffers_of(net), start.buffers_of(net))
    trainer.close()
