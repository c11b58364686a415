"""The definitions of the optimizers and schedules are torch.optim's: `reference.py` and the rates, in float64, against
PyTorch's own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from warpladder.config import TrainConfig
from warpladder.errors import ConfigError
from warpladder.ops.update import reference
from warpladder.optimizers import SGD, Adam, AdamW, Optimizer, RMSprop
from warpladder.optimizers.schedules import Constant, Cosine, OneCycle, Schedule, StepDecay

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")

STEPS = 50

OPTIMIZERS = {
    "sgd": SGD(0.1),
    "momentum": SGD(0.1, momentum=0.9),
    "nesterov": SGD(0.1, momentum=0.9, nesterov=True),
    "decay": SGD(0.1, weight_decay=0.1),
    "momentum and decay": SGD(0.1, momentum=0.5, weight_decay=0.1),
    "nesterov and decay": SGD(0.1, momentum=0.5, nesterov=True, weight_decay=0.1),
    "adam": Adam(0.01),
    "adam and decay": Adam(0.01, weight_decay=0.1),
    "adam with means of its own": Adam(0.01, betas=(0.5, 0.9), eps=1e-3),
    "adam without means": Adam(0.01, betas=(0.0, 0.0), eps=0.1),
    "adamw": AdamW(0.01),
    "adamw and decay": AdamW(0.01, betas=(0.8, 0.99), weight_decay=0.5),
    "adamw without decay": AdamW(0.01, weight_decay=0.0),
    "rmsprop": RMSprop(0.01),
    "rmsprop, momentum and decay": RMSprop(0.01, alpha=0.9, eps=1e-3, momentum=0.9, weight_decay=0.1),
}


def theirs(optimizer: Optimizer, w: Any) -> Any:
    """torch.optim's optimizer with the same settings, as its own Python code has it."""
    settings = {name: value for name, value in vars(optimizer).items() if name != "learning_rate"}
    return getattr(torch.optim, type(optimizer).__name__)([w], lr=optimizer.learning_rate, foreach=False, **settings)


@pytest.mark.parametrize("clip", [{}, {"clip_value": 0.5}, {"clip_norm": 0.5}, {"clip_norm": 30.0}], ids=str)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_torch_optim_s(name: str, clip: dict[str, Any]) -> None:
    """Fifty steps along given gradients, some of them 0 and of many sizes: parameters and slots to 1e-12 after each."""
    config = TrainConfig(optimizer=OPTIMIZERS[name], **clip)
    optimizer, random = config.optimizer, np.random.default_rng(3)
    w = random.normal(size=40)
    slots = {slot: np.zeros_like(w) for slot in optimizer.slots}
    tensor = torch.tensor(w, requires_grad=True)
    made = theirs(optimizer, tensor)
    for number in range(1, STEPS + 1):
        g = random.normal(size=40) * 10.0 ** random.integers(-6, 2, 40) * (random.random(40) < 0.9)
        w, slots = reference.step(w, g, slots, config, optimizer.learning_rate, number)
        tensor.grad = torch.tensor(g)
        if config.clip_value is not None:
            torch.nn.utils.clip_grad_value_([tensor], config.clip_value)
        if config.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_([tensor], config.clip_norm)
        made.step()
        near(w, tensor.detach().numpy())
        for slot, found in slots.items():
            near(found, made.state[tensor][slot].numpy())


@pytest.mark.parametrize(
    "optimizer", [SGD(0.1, momentum=0.9), Adam(0.1), AdamW(0.1, weight_decay=0.1)], ids=lambda each: each.name
)
def test_steps_at_rates_that_vary_are_torch_optim_s(optimizer: Optimizer) -> None:
    """Momentum and means are kept apart from the rate: what it was at earlier steps does not matter to later ones."""
    random, config = np.random.default_rng(4), TrainConfig(optimizer=optimizer)
    w = random.normal(size=10)
    slots = {slot: np.zeros_like(w) for slot in optimizer.slots}
    tensor = torch.tensor(w, requires_grad=True)
    made = theirs(optimizer, tensor)
    for number in range(1, STEPS + 1):
        g, rate = random.normal(size=10), float(random.random())
        w, slots = reference.step(w, g, slots, config, rate, number)
        tensor.grad = torch.tensor(g)
        made.param_groups[0]["lr"] = rate
        made.step()
        near(w, tensor.detach().numpy())


def near(found: np.ndarray, wanted: np.ndarray) -> None:
    """Relative to the largest number: some are differences of others."""
    error = np.abs(found - wanted).max()
    assert error <= 1e-12 * np.abs(wanted).max()


def rates_of(scheduler: Any, count: int) -> np.ndarray:
    """The rates at each of its times, from 0 on."""
    out = []
    for _ in range(count):
        out.append(scheduler.get_last_lr()[0])
        scheduler.optimizer.step()
        scheduler.step()
    return np.array(out)


def rates(schedule: Schedule, epochs: int, steps: int, rate: float = 0.3) -> np.ndarray:
    return schedule.rates(rate, 0, epochs * steps, steps, epochs)


def sgd(rate: float = 0.3) -> Any:
    return torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=rate)


@pytest.mark.parametrize(("every", "gamma"), [(1, 0.5), (3, 0.1), (4, 1.0), (30, 0.1)])
def test_step_decay_is_step_lr(every: int, gamma: float) -> None:
    """PyTorch's is stepped once an epoch."""
    wanted = rates_of(torch.optim.lr_scheduler.StepLR(sgd(), step_size=every, gamma=gamma), 13)
    found = rates(StepDecay(every=every, gamma=gamma), 13, steps=7)
    assert np.allclose(found.reshape(13, 7), wanted[:, None], rtol=1e-12, atol=0)


@pytest.mark.parametrize("least", [0.0, 0.01])
def test_cosine_is_cosine_annealing_lr(least: float) -> None:
    """PyTorch's is stepped at each step, as many times as the run has."""
    epochs, steps = 5, 11
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(sgd(), T_max=epochs * steps, eta_min=least)
    wanted = rates_of(scheduler, epochs * steps)
    # worked out one from another there, with an error that grows; the closed form is the definition
    closed = least + (0.3 - least) * (1 + np.cos(np.pi * np.arange(epochs * steps) / (epochs * steps))) / 2
    found = rates(Cosine(least=least), epochs, steps)
    assert np.allclose(found, closed, rtol=1e-12, atol=1e-16)
    assert np.allclose(found, wanted, rtol=1e-9, atol=1e-12)
    assert np.array_equal(found, rates(Cosine(least=least, epochs=float(epochs)), 2 * epochs, steps)[: epochs * steps])


@pytest.mark.parametrize(
    "settings", [{}, {"pct_start": 0.5, "div_factor": 10.0, "final_div_factor": 100.0}, {"pct_start": 0.01}], ids=str
)
def test_one_cycle_is_one_cycle_lr(settings: dict[str, float]) -> None:
    """PyTorch's is stepped at each step; its cycle of momentum is off."""
    epochs, steps = 5, 11
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        sgd(), max_lr=0.3, total_steps=epochs * steps, cycle_momentum=False, **settings
    )
    wanted = rates_of(scheduler, epochs * steps)
    found = rates(OneCycle(**settings), epochs, steps)
    assert np.allclose(found, wanted, rtol=1e-12, atol=0)
    assert found.max() <= 0.3
    fixed = OneCycle(**settings, epochs=float(epochs))
    assert np.array_equal(found, rates(fixed, 2 * epochs, steps)[: epochs * steps])
    assert rates(fixed, 2 * epochs, steps)[-1] == found[-1]
    assert OneCycle(**settings).over(epochs) == fixed


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"warmup": 1.0}, "rise of its own"), ({"pct_start": 1.0}, "between 0 and 1"), ({"div_factor": 0.0}, "above 0"),
    ],
)  # fmt: skip
def test_a_cycle_that_makes_no_sense_is_refused(settings: dict[str, float], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        OneCycle(**settings)


@pytest.mark.parametrize(
    "schedule",
    [Constant(warmup=2.0), Cosine(warmup=2.0), StepDecay(every=3, warmup=1.5)],
    ids=lambda each: type(each).__name__,
)
def test_a_warm_up_rises_in_a_straight_line_as_linear_lr(schedule: Schedule) -> None:
    """From one step's share on; behind it the schedule is as without, but that a cosine begins where the warm-up ends."""
    steps, epochs = 8, 6
    rising = round(schedule.warmup * steps)
    wanted = rates_of(torch.optim.lr_scheduler.LinearLR(sgd(), start_factor=1 / rising, total_iters=rising - 1), rising)
    found = rates(schedule, epochs, steps)
    assert np.allclose(found[: rising - 1], wanted[: rising - 1], rtol=1e-12, atol=0)
    assert found[rising] == pytest.approx(0.3, rel=1e-12)
    if isinstance(schedule, Cosine):
        after = torch.optim.lr_scheduler.CosineAnnealingLR(sgd(), T_max=epochs * steps - rising)
        assert np.allclose(found[rising:], rates_of(after, epochs * steps - rising), rtol=1e-9, atol=1e-12)
    else:
        assert np.array_equal(found[rising:], rates(replace(schedule, warmup=0.0), epochs, steps)[rising:])
