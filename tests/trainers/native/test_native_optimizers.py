"""The native trainer under every optimizer and schedule: against float64 over several steps, and what it keeps between
them.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from strategies import ZOO, Case, case

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.data.order import Order
from warpladder.errors import ConfigError
from warpladder.nets import CrossEntropyLoss, Flatten, Linear, Net, ReLU, params
from warpladder.ops.update.loops import compiled_rule
from warpladder.optimizers import SGD, Adam, AdamW, Optimizer
from warpladder.optimizers.schedules import Constant, Cosine, StepDecay
from warpladder.proof.reference import ReferenceTrainer
from warpladder.proof.tolerance import bound
from warpladder.trainers.base import State, Trainer
from warpladder.trainers.native.kernels.tile_sizes import CHUNK
from warpladder.trainers.native.program.plan import NativePlan
from warpladder.trainers.native.program.rows import BY_LOOP, IN_REGISTERS
from warpladder.trainers.native.trainer import NativeTrainer

SAMPLES = 20
RATE = 0.02  # a step is then no small part of the weights, in which an error could hide

CONFIGS = {
    "sgd": TrainConfig(optimizer=SGD(RATE, weight_decay=0.01), schedule=Cosine(warmup=1), epochs=3, clip_value=0.05),
    "momentum": TrainConfig(optimizer=SGD(RATE, momentum=0.9)),
    "nesterov": TrainConfig(
        optimizer=SGD(RATE, momentum=0.9, nesterov=True, weight_decay=0.01),
        schedule=StepDecay(every=0.5),
        clip_value=0.05,
    ),
    "adam": TrainConfig(optimizer=Adam(RATE, weight_decay=0.01), clip_value=0.05),
    "adamw": TrainConfig(
        optimizer=AdamW(RATE, betas=(0.8, 0.99), weight_decay=0.1), schedule=Cosine(warmup=1), epochs=3
    ),
}

configs = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)


def ended(trainer: Trainer, drawn: Case, most: int) -> State:
    """The state after as many steps, or all, of each of two epochs."""
    with trainer:
        trainer.load(drawn.dataset)
        for epoch in range(2):
            trainer.run(Order(1, epoch, SAMPLES), 0, min(drawn.steps, most))
        return trainer.state()


def same(net: Net, found: np.ndarray, wanted: np.ndarray, limit: float, what: str) -> None:
    for name, part in params.views(net, wanted).items():
        error = np.linalg.norm(params.views(net, found)[name] - part) / np.linalg.norm(part)
        assert error <= limit, f"{what} of {name}: {error:.1e}"


@configs
@pytest.mark.parametrize("net", [*ZOO[:-1], pytest.param(ZOO[-1], marks=pytest.mark.slow)], ids=lambda net: net.name)
def test_several_steps_are_those_of_float64(net: Net, config: TrainConfig) -> None:
    for batch in (1, 7, None):
        drawn = case(net, config.but(batch_size=batch), seed=8, samples=SAMPLES)  # no sum of gradients cancels here
        start = drawn.state.but(step=1)  # still in the warm-up, or just after it
        wanted = ended(ReferenceTrainer(net, drawn.config, start), drawn, 3)
        steps = wanted.step - 1
        assert steps == 2 * min(drawn.steps, 3)
        assert not np.allclose(wanted.params, start.params, rtol=1e-2)
        limit = bound("float32", 1000, steps=steps)
        for threads in (1, 2):
            found = ended(NativeTrainer(net, drawn.config, start, threads), drawn, 3)
            where = f"batch {batch}, {threads} threads:"
            assert found.step == wanted.step
            assert list(found.slots) == list(config.optimizer.slots)
            same(net, found.params, wanted.params, limit, f"{where} update")
            for name in found.slots:
                same(net, found.slots[name], wanted.slots[name], limit, f"{where} {name}")


@configs
def test_a_state_comes_back_as_it_was_given(config: TrainConfig) -> None:
    drawn = case(nets.cnn((1, 8, 8)), config.but(batch_size=8), seed=5, samples=SAMPLES)
    given = drawn.state.but(step=12)
    with NativeTrainer(drawn.net, drawn.config, given, 2) as trainer:
        assert trainer.state().bits() == given.bits()
        trainer.load(drawn.dataset)
        trainer.run(drawn.order, 0, 3)
        after = trainer.state()
        assert after.step == 15
        trainer.set_state(given)
        assert trainer.state().bits() == given.bits()
        for step in range(3):
            trainer.run(drawn.order, step, step + 1)
        assert trainer.state().bits() == after.bits()
        trainer.predict(drawn.dataset.train_x, drawn.dataset.scale)
        assert trainer.state().bits() == after.bits()
        trainer.set_state(State(given.params))
        assert not any(slot.any() for slot in trainer.state().slots.values())
        weights, slots = trainer.memory()["parameters"], trainer.memory()["optimizer"]
    assert slots == weights * len(config.optimizer.slots)


@configs
@pytest.mark.parametrize("batch", [1, 8])
def test_a_rate_of_zero_changes_the_slots_alone(config: TrainConfig, batch: int) -> None:
    drawn = case(
        nets.mlp((1, 8, 8)), config.but(batch_size=batch, learning_rate=0.0, schedule=Constant()), seed=6, samples=8
    )
    with NativeTrainer(drawn.net, drawn.config, drawn.state, 2) as trainer:
        trainer.load(drawn.dataset)
        trainer.run(drawn.order, 0, 1)
        after = trainer.state()
    assert after.step == drawn.state.step + 1
    assert after.params.tobytes() == drawn.state.params.tobytes()
    for name, slot in after.slots.items():
        assert (slot != drawn.state.slots[name]).mean() > 0.9, name


def test_only_plain_sgd_steps_inside_a_tile() -> None:
    where = {
        name: NativePlan(nets.mlp((1, 8, 8)), config, 2, 1).sharing.steps_weights for name, config in CONFIGS.items()
    }
    assert where == dict.fromkeys(CONFIGS, BY_LOOP) | {"sgd": IN_REGISTERS}
    zero = TrainConfig(learning_rate=0.0)  # a rate of 0 may rise
    assert NativePlan(nets.mlp((1, 8, 8)), zero, 2, 1).sharing.steps_weights == IN_REGISTERS


#: three, five and one panels of sixteen, and inputs that end inside a tile of eight rows and inside one of six
PANELS = Net(
    "panels",
    (1, 5, 10),
    (Flatten(), Linear(out_features=44), ReLU(), Linear(out_features=75), ReLU(), Linear(out_features=10)),
    CrossEntropyLoss(),
)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", [name for name in CONFIGS if name != "sgd"])
def test_a_step_behind_the_gradients_tiles_is_to_the_bit_that_of_the_update(
    name: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With clipping that clips, some tiles a call and a last part, all of a batch and a part of one."""
    for net, batch in ((PANELS, threads), (nets.mlp((1, 20, 20)), 64)):  # few samples for each thread; many weights
        drawn = case(net, CONFIGS[name].but(batch_size=batch, clip_value=0.002), seed=9, samples=70)
        ended: dict[str, bytes] = {}
        for chunk in (CHUNK, 0, CHUNK):  # 0: every gradient is stored
            monkeypatch.setattr("warpladder.trainers.native.program.plan.CHUNK", chunk)
            with NativeTrainer(net, drawn.config, drawn.state, threads) as trainer:
                assert ("weight_step" in [row.operation for row in trainer.plan.rows]) == (chunk > 0)
                trainer.load(drawn.dataset)
                trainer.run(drawn.order, 0, 2)
                trainer.run(drawn.order, drawn.steps - 1, drawn.steps)  # the last batch is smaller
                assert ended.setdefault("bits", trainer.state().bits()) == trainer.state().bits()


# An optimizer of the user's own

OWN = """
from dataclasses import dataclass

import numpy as np

from warpladder.optimizers import NUMBERS, Optimizer


@dataclass(frozen=True)
class Sign(Optimizer):
    learning_rate: float = 0.001

    @property
    def slots(self):
        return ("exp_avg",)

    def numbers(self, rates, first):
        out = np.zeros((len(rates), NUMBERS))
        out[:, 0] = rates
        return out
"""

LOOP = """
import numpy as np


def step(w, g, m, unused, numbers):
    for i in range(len(w)):
        m[i] += (g[i] - m[i]) / 4
        w[i] -= numbers[0] * np.sign(m[i])
"""

REFERENCE = """
import numpy as np


def step(w, g, slots, optimizer, rate, number):
    m = slots["exp_avg"] + (g - slots["exp_avg"]) / 4
    return w - rate * np.sign(m), {"exp_avg": m}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with an optimizer in it, which no other test sees; and a cache of its own."""
    monkeypatch.setattr(Optimizer, "known", dict(Optimizer.known))
    monkeypatch.setattr("warpladder.ops.jit.cache.cache_folder", lambda: tmp_path / "cache")
    monkeypatch.syspath_prepend(tmp_path)
    place = tmp_path / f"own_{tmp_path.name}"
    place.mkdir()
    for name, text in (("__init__", OWN), ("loops", LOOP), ("reference", REFERENCE)):
        (place / f"{name}.py").write_text(text)
    return place


def own(folder: Path) -> Case:
    optimizer = import_module(folder.name).Sign(RATE)
    type(optimizer).known.pop("sign")  # other tests list the names there are
    return case(nets.mlp((1, 8, 8)), TrainConfig(batch_size=7, optimizer=optimizer), seed=7, samples=SAMPLES)


def test_an_optimizer_from_elsewhere_is_compiled_once(folder: Path) -> None:
    drawn = own(folder)
    with ReferenceTrainer(drawn.net, drawn.config, drawn.state) as reference:
        reference.load(drawn.dataset)
        reference.run(drawn.order, 0, 1)
        wanted = reference.state()
    for hits in (0, 1):
        compiled_rule.cache_clear()  # as in a new process
        with NativeTrainer(drawn.net, drawn.config, drawn.state, 2) as trainer:
            trainer.load(drawn.dataset)
            trainer.run(drawn.order, 0, 1)
            found = trainer.state()
        rule: Any = compiled_rule(type(drawn.config.optimizer))
        assert sum(rule.stats.cache_hits.values()) == hits
        assert found.step == wanted.step
        for place in params.param_slices(drawn.net):
            limit = bound("float32", 1000) * np.linalg.norm(wanted.params[place.start : place.stop])
            assert np.linalg.norm((found.params - wanted.params)[place.start : place.stop]) <= limit
    compiled_rule.cache_clear()


def test_a_loop_that_gives_something_is_refused(folder: Path) -> None:
    (folder / "loops.py").write_text(LOOP + "    return w\n")
    drawn = own(folder)
    with NativeTrainer(drawn.net, drawn.config, drawn.state, 1) as trainer:
        trainer.load(drawn.dataset)
        with pytest.raises(
            ConfigError, match=r"step in own_.*\.loops gives array\(float32, 1d, C\), and must give None"
        ):
            trainer.run(drawn.order, 0, 1)
