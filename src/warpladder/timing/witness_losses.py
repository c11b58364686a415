"""Comparison of a timed run's losses with those of the package's array code, which trains the same steps.

A rung from a user's file could train right only in its proof, and wrong with other data or seeds, or after some steps.
Rounding makes two runs diverge, faster with every step. The divergence is measured: the array code trains a
second time from weights that differ by a few roundings, and a timed run may differ by a few times as much. A loss
close to zero is a difference of almost equal outputs: its error is relative to their size, not to its own.

A run that rounding moves across the kink of a ReLU diverges a thousand times as far as one that it does not move. So
before a rung is refused, the array code trains again, from weights that are changed by all that the margin allows, in a
drawn direction and in the opposite one: of a kink so close, one of the two mostly crosses it. The largest divergence of
three such pairs counts too.

Few steps of a long epoch can be compared from its beginning. So a second comparison begins at a drawn step, from the
rung's state at this step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from time import perf_counter

import numpy as np

from ..ladder import find
from ..nets import BCEWithLogitsLoss, CrossEntropyLoss, HuberLoss, MSELoss
from ..rungs.base import Rung
from ..trainers.base import State, StepLog, Trainer
from .task import ClimbTask
from .turn import Refused, StepRange, Turn

#: Relative change of the weights of the other runs, by precision: two roundings.
ROUNDING = {"fp64": 2.0**-22, "fp32": 2.0**-22, "tf32": 2.0**-9, "bf16": 2.0**-6, "fp16": 2.0**-9}

#: Times as large a change for a rung with deviations, which may round otherwise in every step.
DEVIATING = 4.0

LOGARITHM = {"fp64": 2.0**-53}  # error of log(1 + p) in a sample's loss, by precision; 2^-24 in all others
SAMPLES = 256  # most samples whose outputs are compared
MARGIN = 16.0  # largest difference of a loss, as a multiple of the measured divergence
LOST = 0.05  # share of a loss: if the divergence allows more, the loss is not compared
FAR = 4.0  # largest difference, as a multiple of the divergence of runs whose weights differ by MARGIN roundings
PAIRS = 3  # most pairs of such runs
SECONDS = 0.5  # most seconds of the first two runs together; later steps are not compared
CHUNK = 16  # steps between two readings of the clock


def check_losses(rung: Rung, task: ClimbTask, turn: Turn, logs: Sequence[StepLog], steps: int, first: int = 0) -> int:
    """Compare the losses of a turn with the array code's; return the number of compared steps. Raises `Refused`.

    logs : log of the first `steps` steps of each epoch of the turn.
    first : step of the first epoch at which the turn and its log begin.
    """
    if turn.start is None or find("numpy").unsupported(task.net, task.config) is not None:
        return 0
    rounding = ROUNDING[rung.precision] * (DEVIATING if rung.deviations else 1)
    calls, wanted, drift, largest = _trained(task, turn, steps, rounding, first)
    found = np.concatenate([log.loss for log in logs if log.has_loss] or [np.zeros(0)])[: len(wanted)]
    direct = rounding * _loss_per_rounding(task, wanted, largest) + LOGARITHM.get(rung.precision, 2.0**-24)
    allowed = MARGIN * (np.maximum.accumulate(drift) + direct)
    usable = int(np.argmax([*(allowed > LOST * np.abs(wanted)), True]))
    errors = np.abs(found[:usable] - wanted[:usable])
    for seed, change in product(range(PAIRS), (MARGIN * rounding, -MARGIN * rounding)):
        if (errors <= allowed[:usable]).all():
            break
        with array_trainer(task, moved(turn.start, change, np.random.default_rng(seed))) as trainer:
            other = np.concatenate([trainer.run(*call).loss for call in calls])
        allowed = np.maximum(allowed, FAR * np.maximum.accumulate(np.abs(other - wanted)))
    off = ~(errors <= allowed[:usable])
    if off.any():
        step = int(np.argmax(off))
        where = f"step {step} of repetition 1" if not first else f"step {first + step} of an epoch"
        raise Refused(
            f"the timed run does not train the required steps: {where} has the loss "
            f"{found[step]:.6g}, and those steps give {wanted[step]:.6g} within {allowed[step]:.1g}"
        )
    return usable


def _loss_per_rounding(task: ClimbTask, losses: np.ndarray, largest: float) -> np.ndarray:
    """Change of losses (steps,) if every output changes by a share of the largest output, in units of that share.

    A cross-entropy changes by the sum of |p - y|, at most 2 (1 - exp(-loss)), times the change of the logits, or at
    most 2 with settings; a mean of squares by 2 sqrt(loss) times the change of the outputs, other losses by their
    largest slope.
    """
    losses, kind = np.abs(losses), task.net.loss
    if isinstance(kind, CrossEntropyLoss):
        slope = 2 * np.minimum(losses, 1) if kind.is_plain else np.full(len(losses), 2 * _heaviest(kind.weight))
    elif isinstance(kind, MSELoss):
        slope = 2 * np.sqrt(losses)
    elif isinstance(kind, HuberLoss):
        slope = np.full(len(losses), kind.delta)
    else:
        slope = np.full(len(losses), _heaviest(kind.pos_weight) if isinstance(kind, BCEWithLogitsLoss) else 1.0)
    return losses + slope * largest


def _heaviest(weights: tuple[float, ...] | None) -> float:
    """Largest weight of the classes or outputs, at least 1."""
    return max((1.0, *(weights or ())))


def _trained(
    task: ClimbTask, turn: Turn, steps: int, rounding: float, first_step: int
) -> tuple[list[StepRange], np.ndarray, np.ndarray, float]:
    """Calls that train the first steps of a turn by array code, their losses (steps,), the change of these if the last
    bits of the weights change, and the largest output before and after these steps.
    """
    assert turn.start is not None
    calls: list[StepRange] = []
    changed = moved(turn.start, rounding, np.random.default_rng(0))
    losses: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    began = perf_counter()
    with array_trainer(task, turn.start) as first, array_trainer(task, changed) as second:
        largest = _largest_output(task, first)
        for call in _calls(turn, steps, first_step):
            calls.append(call)
            for trainer, into in ((first, losses[0]), (second, losses[1])):
                into.append(trainer.run(*call).loss)
            if perf_counter() - began > SECONDS:
                break
        largest = max(largest, _largest_output(task, first))
    wanted, other = map(np.concatenate, losses)
    return calls, wanted, np.abs(other - wanted), largest


def _calls(turn: Turn, steps: int, first: int) -> Iterator[StepRange]:
    """Calls of the first `steps` steps of each epoch of a turn, which begins at the step `first` of its first epoch."""
    for number, order in enumerate(turn.orders):
        for at in range(0 if number else first, steps, CHUNK):
            yield StepRange(order, at, min(steps, at + CHUNK))


def moved(state: State, change: float, rng: np.random.Generator) -> State:
    """Copy of a state with each weight changed by the share `change` of itself, up or down as drawn."""
    signs = rng.choice([-1.0, 1.0], len(state.params))
    return state.copied().but(params=(state.params * (1 + change * signs)).astype(state.params.dtype))


def _largest_output(task: ClimbTask, trainer: Trainer) -> float:
    outputs = trainer.predict(task.data.train_x[:SAMPLES], task.data.scale)
    return float(np.max(np.abs(outputs), initial=0.0))


def array_trainer(task: ClimbTask, state: State) -> Trainer:
    """Trainer of the package's array code at a state, in the precision of its weights, with the data set loaded."""
    rung = find("numpy", precision="fp64") if state.params.dtype == np.float64 else find("numpy")
    trainer = rung.build(task.net, task.config, state.copied())
    trainer.load(task.data)
    return trainer
