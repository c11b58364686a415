"""The cases of cpu.py: nets, data and settings, and the timing of all trainers of a case in turns."""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from cores import cores_now, physical_cores

from warpladder import data, nets
from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.errors import DataError
from warpladder.ladder import find
from warpladder.machine import facts as machine
from warpladder.nets import Net, params
from warpladder.optimizers import Adam
from warpladder.trainers.base import State, StepLog, Trainer
from warpladder.trainers.native.compiler.vectors import LANES

OWN = 0.8  # of a core for each thread, at least, if threads count as on cores of their own: those of one core have half
#: seconds that a trainer trains before its cores are counted: idle threads of the one before still spin for a while
SETTLE = 0.2
WARM = 0.2  # seconds that it trains before the clock starts: after a pause threads sleep and clocks are slow


@dataclass(frozen=True)
class Case:
    """A row of the table: `steps` are timed at once; `targets` are speed-ups of native over the best of each family of
    peers, without AVX-512 and with it.
    """

    name: str
    net: Net
    config: TrainConfig
    data: str
    validation: int
    steps: int
    trainers: tuple[str, ...]
    targets: dict[str, tuple[float, float]]


def one(batch: int | None) -> TrainConfig:
    return TrainConfig(batch_size=batch, learning_rate=1e-3)


CASES = (
    Case(
        "mlp",
        nets.mlp(),
        one(64),
        "mnist",
        0,
        938,
        ("native", "numpy", "torch", "sklearn"),
        {"torch": (2, 3.5), "sklearn": (5, 5)},
    ),
    Case(
        "mlp-adam",
        nets.mlp(),
        TrainConfig(batch_size=64, optimizer=Adam(1e-4)),
        "mnist",
        0,
        938,
        ("native", "torch"),
        {"torch": (2, 2)},
    ),
    Case("softmax", nets.softmax(), one(128), "mnist", 0, 469, ("native", "numpy", "torch"), {"torch": (4, 9)}),
    Case("mlp10", nets.mlp10(), one(None), "mnist", 1000, 20, ("native", "numpy", "torch"), {"torch": (4, 4)}),
    Case("cnn", nets.cnn(), one(64), "mnist", 0, 30, ("native", "torch", "torch:images=last"), {"torch": (1.3, 2)}),
    Case(
        "autoencoder",
        nets.autoencoder(),
        one(32),
        "cifar10",
        0,
        2,
        ("native", "torch", "torch:images=last"),
        {"torch": (1.2, 1.8)},
    ),
)


def dataset(case: Case, data_dir: str | None, made_up: bool) -> tuple[Dataset, bool]:
    """The case's data, and whether it is real."""
    if not made_up:
        try:
            return data.load(case.data, data_dir=data_dir, validation=case.validation, progress=False), True
        except DataError as error:
            print(f"{case.name}: random images instead of {case.data} ({error})", file=sys.stderr)
    random = np.random.default_rng(0)
    count = 60000 - case.validation if case.data == "mnist" else 10000
    x = random.integers(0, 256, (count, *case.net.in_shape), dtype=np.uint8)
    y = random.integers(0, 10, count).astype(np.int32)
    return Dataset(f"random {case.data}", x, y, x[:100], y[:100], scale=1 / 255), False


def entries(case: Case) -> list[str]:
    """The case's trainers; if cores run two threads each, native and PyTorch also with a thread for each core."""
    cores = physical_cores() or machine.cores()
    fewer = [f"{name}:threads={cores}" for name in case.trainers if name.split(":")[0] in ("native", "torch")]
    return [*case.trainers, *(fewer if cores < machine.cores() else [])]


def family(name: str) -> str:
    """What a trainer's name begins with: native, torch."""
    return name.split(":")[0]


def run_case(case: Case, data_dir: str | None, made_up: bool, rounds: int, peak: float) -> dict[str, Any]:
    """Time one case; seconds are of one step."""
    train, real = dataset(case, data_dir, made_up)
    state = State(params.initial(case.net, 0))
    trainers = {}
    for name in entries(case):
        rung = find(name)
        reason = rung.unsupported(case.net, case.config)
        if reason:
            print(f"{case.name}: without {name}: {reason}", file=sys.stderr)
            continue
        trainers[name] = rung.build(case.net, case.config, state)
        trainers[name].load(train)
    order = Order(0, 0, len(train.train_x))
    samples, cores, steps = timed(case, trainers, state, order, rounds)
    for trainer in trainers.values():
        trainer.close()
    batch = case.config.batch(order.n)
    return {
        "case": case.name, "data": train.name, "real_data": real, "samples": order.n, "batch": batch, "steps": steps,
        "flops_per_step": case.net.train_flops * batch, "floor_seconds": case.net.train_flops * batch / peak,
        "seconds_per_step": samples, "cores": cores, "speedups": speedups(case, samples, cores),
    }  # fmt: skip


def timed(
    case: Case, trainers: dict[str, Trainer], state: State, order: Order, rounds: int
) -> tuple[dict[str, list[float]], dict[str, list[float]], int]:
    """Seconds of a step and cores of each round, by trainer, and the number of steps of a round."""
    full = case.config.steps(order.n) == 1
    steps = case.steps if full else min(case.steps, case.config.steps(order.n))
    samples: dict[str, list[float]] = {name: [] for name in trainers}
    cores: dict[str, list[float]] = {name: [] for name in trainers}
    threads = machine.cores()

    def trained(trainer: Trainer, count: int) -> list[StepLog]:
        if full:
            return trainer.run_epochs([Order(0, epoch, order.n) for epoch in range(count)])
        return [trainer.run(order, 0, count)]

    def train_for(trainer: Trainer, seconds: float) -> None:
        before = time.perf_counter()
        while time.perf_counter() - before < seconds:
            trained(trainer, max(1, steps // 10))

    for number in range(-1, rounds):  # the first round warms up
        for name, trainer in trainers.items():
            train_for(trainer, SETTLE)
            had = cores_now(threads)
            train_for(trainer, WARM)
            trainer.set_state(state)
            before = time.perf_counter()
            logs = trained(trainer, steps)
            seconds = (time.perf_counter() - before) / steps
            if not all(np.isfinite(log.loss).all() for log in logs):
                raise ArithmeticError(f"{case.name} on {name}: the loss is not finite, so its time means nothing")
            if number >= 0:
                samples[name].append(seconds)
                cores[name].append(min(had, cores_now(threads)))
    return samples, cores, steps


def speedups(case: Case, samples: dict[str, list[float]], cores: dict[str, list[float]]) -> dict[str, dict[str, Any]]:
    """Native against the best of each family of peers: the median of the rounds' ratios, and the target."""
    found = {}
    for kind, (narrow, wide) in case.targets.items():
        target = wide if LANES == 16 else narrow
        members = [name for name in samples if family(name) == kind]
        if members:
            best = min(members, key=lambda name: statistics.median(samples[name]))
            ratios = [theirs / ours for theirs, ours in zip(samples[best], samples["native"], strict=True)]
            least = [min(pair) for pair in zip(cores[best], cores["native"], strict=True)]
            whole = [ratio for ratio, count in zip(ratios, least, strict=True) if count >= OWN * machine.cores()]
            ratio = statistics.median(ratios)
            found[kind] = {
                "against": best, "target": target, "ratio": ratio, "ratios": ratios, "met": bool(ratio >= target),
                "rounds_on_own_cores": len(whole), "ratio_on_own_cores": statistics.median(whole) if whole else None,
            }  # fmt: skip
    return found
