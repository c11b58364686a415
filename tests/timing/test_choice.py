"""Which rungs and peers a climb times by itself, in which order, and that it ends in time: on a GPU machine made up of
costs that were measured on one.
"""

import math
import re
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from climbs import MACHINE

from warpladder import nets
from warpladder.config import TrainConfig, recipe
from warpladder.data.dataset import Dataset
from warpladder.errors import RungError
from warpladder.ladder import LADDER, PEERS, find
from warpladder.machine import facts
from warpladder.results import Checked, Results, RungResult
from warpladder.timing import (
    FIRST_LOOK,
    ClimbSettings,
    climb_limit,
    contenders,
    proofs_ahead,
    run_climb,
    schedule,
    task,
)
from warpladder.timing.choice import FASTEST_FIRST, ON_CPU, from_the_fastest
from warpladder.timing.climb_limit import GRACE
from warpladder.timing.entry import REBUILT, TimedEntry
from warpladder.train.resolve import ResolvedTask

CNN = nets.cnn()
RUNGS = [rung.name for rung in LADDER if rung.name != "persistent"]  # which has nothing for convolutions


def machine_with(patch, *, gpu=True, lacking=()):
    """Let variants train as on a machine with everything installed, without these packages."""

    def unsupported(rung, net, config):
        if rung.base.name == "persistent":
            return "it has nothing for convolutions"
        packages = {"torch", "jax", "sklearn"} & {rung.base.name}
        if packages & set(lacking):
            return "not installed"
        return None if gpu or "device=cuda" not in rung.name else "no GPU"

    patch.setattr("warpladder.timing.choice._can_train", lambda *what: unsupported(*what) is None)


@pytest.mark.parametrize(
    ("how", "quick", "peers"),
    [
        ({}, False, ["torch:device=cuda:mode=compile", "torch:device=cuda:mode=graph", "sklearn", "jax:device=cuda"]),
        ({}, True, ["torch:device=cuda:mode=graph", "sklearn", "jax:device=cuda"]),
        ({"gpu": False}, False, ["torch:images=last", "sklearn", "jax"]),
        ({"lacking": ("torch", "jax")}, False, ["torch", "sklearn", "jax"]),
    ],
)
def test_a_climb_times_the_ladder_and_of_each_peer_the_strongest_in_its_precision(how, quick, peers, monkeypatch):
    machine_with(monkeypatch, **how)
    chosen = contenders(CNN, TrainConfig(), quick=quick)
    assert [rung.name for rung in chosen] == [*(rung.name for rung in LADDER), *peers]
    assert {rung.precision for rung in chosen} == {"fp32"}


def test_peers_can_be_left_out_or_all_be_timed():
    assert contenders(CNN, TrainConfig(), "none") == [*LADDER]
    assert contenders(CNN, TrainConfig(), "all") == [*LADDER, *PEERS]
    with pytest.raises(RungError, match="peers wants best, none, all, got 'some'"):
        contenders(CNN, TrainConfig(), "some")


def test_every_peer_has_a_place_among_the_strongest():
    """Every variant in fp32 that `--peers all` times, but a DataLoader, which is never the strongest."""
    known = {peer.name for peer in PEERS if peer.precision == "fp32" and "loader" not in peer.name}
    assert known == set(FASTEST_FIRST)


def test_a_first_look_begins_at_the_top_and_ends_with_peers():
    names = ["numpy", "torch", "tensor:device=emulated", "naive", "native", "graph", "tensor:precision=bf16", "jax"]
    order = [rung.name for rung in from_the_fastest(map(find, names))]
    assert order == ["graph", "tensor:precision=bf16", "naive", "native", "numpy", "tensor:device=emulated", "torch", "jax"]  # fmt: skip


#: The costs of torch.compile, whose proof takes this long next to others on an H100.
COMPILED = (85, 10, 0.17)

#: Seconds of a proof alone, of building and loading, and of an epoch: cnn on MNIST on an H200 with nothing cached.
COSTS = {
    "loops": (22, 1, 861), "numpy": (3.2, 0.1, 28.8), "native": (27, 0.8, 1.98), "cupy": (14.4, 0.3, 2.25),
    "naive": (6, 0.1, 0.81), "streamed": (5.9, 0.1, 0.73), "resident": (6.4, 0.1, 0.72), "tiled": (7.3, 0.1, 0.2),
    "gemm": (7.5, 0.1, 0.11), "library": (10.3, 0.6, 0.54), "graph": (4.9, 0.1, 0.098), "tensor": (12, 0.3, 0.09),
    "torch:device=cuda:mode=compile": COMPILED, "torch:device=cuda:mode=graph": (13, 1.6, 0.24),
    "jax:device=cuda": (42, 5, 0.22), "torch": (25, 0.1, 3.2), "jax": (20, 3, 9), "torch:images=last": (25, 0.1, 3.2),
}  # fmt: skip


class Proofs:
    """Concurrent proofs: as many at a time as there are processes, and none while they are paused."""

    def __init__(self, course, at_a_time):
        self.course, self.at_a_time, self.left, self.ended = course, at_a_time, {}, []
        self.waiting, self.is_paused = set(), False

    def add(self, rungs):
        for rung in rungs:
            assert rung.name not in self.waiting
            self.waiting.add(rung.name)
            self.left[rung.name] = self.course.costs[rung.name][0]

    def spend(self, seconds):
        while self.left and seconds > 0 and not self.is_paused:
            running = list(self.left)[: self.at_a_time]
            step = min(seconds, min(self.left[name] for name in running))
            seconds -= step
            for name in running:
                self.left[name] -= step
                if self.left[name] <= 1e-9:
                    del self.left[name]
                    self.ended.append(name)

    def next(self, until=math.inf):
        while not self.ended and self.left and self.course.now < until:
            self.course.spend(min(until - self.course.now, min(list(self.left.values())[: self.at_a_time])))
        if not self.ended:
            return None
        name = self.ended.pop(0)
        self.waiting.discard(name)
        return name, Checked(True, 0.0, 1.0, "", 5.0)

    @contextmanager
    def paused(self):
        self.is_paused = True
        yield
        self.is_paused = False

    def drop(self, names):
        self.waiting -= names
        self.left = {name: left for name, left in self.left.items() if name not in names}
        self.ended = [name for name in self.ended if name not in names]

    def close(self):
        self.course.proofs = None


class Course:
    """A climb on a machine whose clock is moved by what its rungs cost; nothing is trained."""

    def __init__(self, patch, cores, costs, cached=()):
        self.now, self.costs, self.cached, self.rows, self.order, self.entries = 0.0, costs, cached, {}, [], []
        self.results: Results | None = None
        self.proofs: Proofs | None = None
        for module in (climb_limit, proofs_ahead):
            patch.setattr(module, "perf_counter", lambda: self.now)
        patch.setattr(schedule, "sleep", self.spend)
        patch.setattr(proofs_ahead, "ConcurrentProofs", self.concurrent)
        patch.setattr(facts, "facts", lambda threads=None: dict(vars(replace(MACHINE, cores=cores))))
        patch.setattr(facts, "fma_peak", lambda *how: 1e12)
        patch.setattr(facts, "cores", lambda: cores)
        for name in ("check", "prepare", "repeat", "time_test", "replay"):
            patch.setattr(schedule, name, getattr(self, name))
        patch.setattr(TimedEntry, "check_support", lambda entry: self.check_support(entry))
        patch.setattr(schedule, "believe", lambda *what: None)
        patch.setattr(schedule, "result", self.result)
        memories = dict.fromkeys(("add", "settle", "close"), lambda *what: None)
        patch.setattr(schedule, "PeakMemories", lambda *what: SimpleNamespace(found={}, result=lambda *what: (1, ""), **memories))  # fmt: skip
        patch.setattr("warpladder.timing.ProofCache", lambda task: SimpleNamespace(find=lambda rung: rung.name in cached or None))  # fmt: skip

    def spend(self, seconds):
        self.now += seconds
        if self.proofs is not None:
            self.proofs.spend(seconds)

    def concurrent(self, task, at_a_time):
        self.proofs = Proofs(self, at_a_time)
        return self.proofs

    def check_support(self, entry):
        if not entry.is_checked and self.costs[entry.rung.name] is None:
            entry.give_up("unsupported", "no GPU")
        entry.is_checked = True

    def check(self, entry, cache):
        self.order.append(entry.rung.name)
        self.entries.append(entry)
        self.spend(0 if entry.passed or entry.rung.name in self.cached else self.costs[entry.rung.name][0])
        entry.found["check"] = Checked(True, 0.0, 1.0, "", 5.0)

    def prepare(self, entry, cache=None, quiet=nullcontext):
        _, build, epoch = self.costs[entry.rung.name]
        entry.trainer, entry.per_epoch, entry.peak = SimpleNamespace(close=lambda: None), epoch, 1e15
        entry.plan, entry.samples = task.plan(entry.task, epoch / entry.task.steps), 1
        entry.found["build_seconds"] = build
        self.spend(build)
        with quiet():
            self.spend(min(1.4 * epoch, 0.4 + max(0.4, min(epoch, 1.0) / 4)))  # at most the epoch and its first steps

    def repetition(self, entry):
        return entry.per_epoch * entry.plan.epochs * entry.plan.steps / entry.task.steps

    def repeat(self, entry, number):
        self.spend(self.repetition(entry))
        entry.seconds.append(self.repetition(entry))
        entry.ends.append(None)
        self.rows.setdefault(entry.rung.name, self.now)

    def time_test(self, entry, allowance=math.inf):
        self.spend(entry.tests if entry.tests <= allowance else 0)
        entry.found["spans"] = {}

    def replay(self, entry):
        self.spend(min(self.costs[entry.rung.name][1], REBUILT) + self.repetition(entry))
        if entry.task.is_scored and entry.is_affordable:
            self.spend(entry.training())
            entry.found["trained"] = True
        entry.is_repeated = True

    def result(self, entry, machine, stopped=""):
        return RungResult(entry.rung.name, "", "", entry.rung.peer, status="missing", reason=str(entry.found.get("reason", "")))  # fmt: skip


def course(patch, *, cores=16, quick=False, gpu=True, cached=(), costs=COSTS, **how: Any):
    machine_with(patch, gpu=gpu, lacking=how.pop("lacking", ("sklearn",)))
    run = Course(patch, cores, costs, cached)
    train, test = (np.zeros((n, 1, 1, 1), np.uint8) for n in (60_000, 10_000))
    pixels = Dataset("mnist", train, None, test, None)
    resolved = ResolvedTask(CNN, pixels, recipe("cnn"), False)
    chosen = [rung for rung in contenders(CNN, resolved.config, quick=quick) if rung.name in costs]
    usual: dict[str, Any] = {"repeats": 2, "budget": 0.5} if quick else {"seconds": climb_limit.WITH_GPU}
    run.results = run_climb(resolved, chosen, ClimbSettings(quick=quick, command="", **usual | how))
    return run


def test_a_first_look_on_a_gpu_shows_the_whole_ladder_within_a_minute(monkeypatch):
    monkeypatch.setattr("warpladder.timing.choice.why_not", lambda device: None)
    run = course(monkeypatch, quick=True, cached=set(COSTS))
    below = [name for name in reversed(RUNGS) if name not in ("graph", "tensor", *ON_CPU)]
    peers = ["torch:device=cuda:mode=graph", "jax:device=cuda"]
    assert run.order == ["graph", "tensor", *below, *peers, *reversed(ON_CPU)]
    assert set(run.rows) == set(run.order) and run.now <= FIRST_LOOK


def test_a_first_look_without_any_proof_has_the_fastest_rungs_and_ends_in_time(monkeypatch):
    run = course(monkeypatch, quick=True)
    assert list(run.rows)[:2] == ["graph", "tensor"] and set(RUNGS) - set(run.rows) <= {"loops", "native"}
    assert "torch:device=cuda:mode=graph" in run.rows
    assert run.now <= FIRST_LOOK


#: mlp on MNIST on an H200 whose host is slow: proofs next to each other, nothing cached.
MLP_COSTS = {
    "loops": (14.8, 0.5, 14.2), "numpy": (1.8, 0.1, 0.523), "native": (12.9, 0.4, 0.112), "cupy": (12.8, 0.5, 1.72),
    "naive": (7.1, 0.1, 0.195), "streamed": (6.7, 0.1, 0.157), "resident": (7.0, 0.1, 0.084), "tiled": (6.7, 0.1, 0.055),
    "gemm": (7.6, 0.1, 0.045), "library": (12.3, 4.5, 0.105), "graph": (4, 0.1, 0.0118), "tensor": (4, 0.1, 0.0119),
    "persistent": (19.2, 0.1, 0.0058), "torch:device=cuda:mode=graph": (11.2, 1.5, 0.07), "sklearn": (10.1, 1, 2.0),
    "jax:device=cuda": (45, 4, 0.025),
}  # fmt: skip


def test_a_first_look_has_its_first_row_early_and_peers_before_the_cpu_s_rungs(monkeypatch):
    monkeypatch.setattr("warpladder.timing.choice.why_not", lambda device: None)
    run = course(monkeypatch, quick=True, costs=MLP_COSTS, lacking=())
    assert list(run.rows)[:2] == ["graph", "tensor"] and min(run.rows.values()) <= 6
    assert set(run.rows) == {*MLP_COSTS} - {"jax:device=cuda"} and run.now <= FIRST_LOOK


def test_a_first_look_without_a_gpu_begins_with_native(monkeypatch):
    costs = {name: COSTS[name] for name in ("loops", "numpy", "native", "torch:images=last")}
    run = course(monkeypatch, cores=2, quick=True, gpu=False, costs=costs, cached=costs)
    assert run.order == ["native", "numpy", "loops", "torch:images=last"] == list(run.rows)
    assert run.now <= FIRST_LOOK


def test_a_first_look_on_two_cores_has_peers_before_the_slowest_rung(monkeypatch):
    """Two proofs share the cores after the first row; the loops begin last, and get what is left of the minute."""
    costs = {
        "loops": (22, 1, 861), "numpy": (8, 0.1, 28.8), "native": (9, 0.8, 1.98), "torch:images=last": (18, 0.1, 3.2),
        "jax": (14, 2, 9), "graph": None,
    }  # fmt: skip
    run = course(monkeypatch, cores=2, quick=True, gpu=False, costs=costs)
    assert list(run.rows)[:2] == ["native", "numpy"] == run.order[:2] and {"torch:images=last", "jax"} <= set(run.rows)
    assert min(run.rows.values()) <= 12 and run.now <= FIRST_LOOK
    run = course(monkeypatch, cores=2, quick=True, gpu=False, costs=costs | {"loops": (6, 1, 1.0)})
    assert set(run.rows) == {*costs} - {"graph"} and run.now <= FIRST_LOOK


def test_the_usual_climb_of_a_gpu_machine_ends_in_time_with_every_row(monkeypatch):
    run = course(monkeypatch)
    assert min(run.rows.values()) <= 10 and next(iter(run.rows)) == "numpy"
    # torch.compile's proof is twice as long as everything else: it has a row once that proof is stored
    assert set(run.rows) == {*RUNGS, "torch:device=cuda:mode=graph", "jax:device=cuda"}
    assert run.now <= climb_limit.WITH_GPU and {len(entry.seconds) for entry in run.entries} == {3}
    again = course(monkeypatch, cached={"torch:device=cuda:mode=compile"})
    assert set(again.rows) == {*run.rows, "torch:device=cuda:mode=compile"} and again.now <= climb_limit.WITH_GPU


@pytest.mark.parametrize("cores", [16, 8, 4, 2])
def test_a_peer_whose_proof_does_not_end_costs_its_own_row(cores, monkeypatch):
    name, costs = "torch:device=cuda:mode=graph", {"torch:device=cuda:mode=compile": (1e6, 10, 0.17)}
    run = course(monkeypatch, cores=cores, costs=COSTS | costs | {name: (1e6, 1, 0.2), "numpy": (3, 0.1, 2e-3)})
    assert set(RUNGS) <= set(run.rows) and not set(run.rows) & {name, *costs}
    assert run.now <= max(climb_limit.WITH_GPU, *(run.rows[rung] for rung in RUNGS)) + GRACE
    reasons = {rung.name: rung.reason for rung in run.results.rungs}
    late = "its proof had not ended after [0-9]+ s"
    assert re.fullmatch(f"{late}, and this climb is to end within 140 s: --rungs {name} has no limit", reasons[name])


def test_a_peer_whose_proof_does_not_end_is_ended_without_cores_to_spare(monkeypatch):
    costs = {"numpy": (3, 0.1, 1.0), "native": (5, 0.8, 0.5), "torch:images=last": (1e6, 0.1, 3.2), "jax": (2, 1, 9)}
    run = course(monkeypatch, cores=2, gpu=False, costs=costs, seconds=60)
    assert list(run.rows) == ["numpy", "native", "jax"] and 40 < run.now <= 60
    costs["torch:images=last"] = (25, 0.1, 3.2)
    run = course(monkeypatch, cores=2, gpu=False, costs=costs, seconds=90)
    assert set(run.rows) == set(costs) and next(iter(run.rows)) == "numpy" and run.now <= 90


@pytest.mark.parametrize("seed", range(40))
def test_a_climb_ends_in_its_limit_or_with_the_first_times_of_its_rungs(seed, monkeypatch):
    """With drawn costs, cores, limit and stored proofs; every rung has a time, and peers that do not end have none."""
    rng = np.random.default_rng(seed)
    drawn = {name: tuple(part * rng.choice([0.3, 1, 1, 3]) for part in cost) for name, cost in COSTS.items()}
    slow = [name for name in drawn if name.startswith(("torch", "jax")) and rng.random() < 0.3]
    drawn |= {name: (1e6, *drawn[name][1:]) for name in slow}
    cached = {name for name in drawn if name not in slow and rng.random() < 0.3}
    seconds = float(rng.uniform(5, 250))
    run = course(monkeypatch, cores=int(rng.choice([2, 4, 8, 16])), costs=drawn, cached=cached, seconds=seconds)
    assert set(RUNGS) <= set(run.rows) and not set(run.rows) & set(slow)
    assert run.now <= max(seconds, *(run.rows[rung] for rung in RUNGS)) + GRACE
    if run.now < seconds / 2:
        assert all(len(entry.seconds) == 5 for entry in run.entries)


def test_a_limit_makes_repetitions_fewer(monkeypatch):
    costs = {"numpy": (1, 0, 1.0), "loops": (1, 0, 1.0)}
    for seconds, rounds in ((0.1, 1), (1, 2), (10, 3), (16.5, 4), (math.inf, 5)):
        run = course(monkeypatch, costs=costs, seconds=seconds, epochs=0)
        assert [len(entry.seconds) for entry in run.entries] == [rounds, rounds]


def test_what_a_limit_has_no_time_for_is_not_trained_for_its_accuracy(monkeypatch):
    costs = {"numpy": (1, 0, 1.0)}
    for seconds, trained in ((5, False), (60, True)):
        run = course(monkeypatch, costs=costs, seconds=seconds, epochs=9)
        assert ("trained" in run.entries[0].found) == trained
