"""Comparison of the weights after a few steps of a replay with those of the package's array code in float64.

Losses are blind to much: where the rate is small, a step that is computed in half precision, or leaves small updates
out, changes no loss by more than rounding does. Weights show it. What an honest program may be off by is measured:
array code in float32 trains the same steps, and array code in float64 from weights that differ by a few roundings. It
is what the steps move that is compared, tensor by tensor, not where they end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..ladder import find
from ..nets.params import param_slices
from ..rungs.base import Rung
from ..trainers.base import State
from .task import ClimbTask
from .turn import Refused, StepRange
from .witness_losses import DEVIATING, ROUNDING, array_trainer, moved

#: Most steps of a probe: rounding makes runs diverge, and array code is slow.
PROBE_STEPS = 4

MARGIN = 16.0  # largest error of a tensor's movement, as a multiple of what array code is off by
STORED = 2.0**-24  # error of a stored weight in a step, relative to the weight
SUMMED = 2.0**-15  # error of an update in float32, relative to the largest of its layer: a bias's terms may cancel
BLUNT = 0.25  # share of a movement: a tensor for which more is allowed is not compared
TWINS = 3
UNIT = {"fp64": 2.0**-29}  # of STORED and SUMMED, by precision; 1 in all others


@dataclass(frozen=True)
class Probe:
    """Call of a few steps of a replay, and the states of a rung before and after it."""

    before: State
    call: StepRange
    after: State


def check_weights(rung: Rung, task: ClimbTask, probe: Probe) -> None:
    """Raise `Refused` if a probe's weights are not those to which its steps lead."""
    if find("numpy", precision="fp64").unsupported(task.net, task.config) is not None:
        return
    first, last = probe.call[1:]
    for name, error, allowed, length in differences(rung, task, probe):
        if not allowed >= BLUNT * length and not error <= allowed:
            raise Refused(
                f"the timed run does not train the required steps: from step {first} to {last} of an epoch {name} "
                f"is off by {error / length:.2g} of what it moves, and {allowed / length:.2g} is rounding"
            )


def differences(rung: Rung, task: ClimbTask, probe: Probe) -> list[tuple[str, float, float, float]]:
    """Error, largest honest error and length of each tensor's movement: (name, error, allowed, length)."""
    before, call = probe.before, probe.call
    rounding = ROUNDING[rung.precision] * (DEVIATING if rung.deviations else 1)
    rng, wide = np.random.default_rng(0), before.copied(np.float64)
    truth = _movement(task, wide, call)
    others = [] if before.params.dtype == np.float64 else [_movement(task, before, call)]
    others += [_movement(task, moved(wide, rounding, rng), call) for _ in range(TWINS)]
    found = probe.after.params.astype(np.float64) - before.params
    unit, parts = UNIT.get(rung.precision, 1.0), param_slices(task.net)
    largest: dict[int, float] = {}  # root mean square of what the tensor of a layer that moves most moves by
    for part in parts:
        mean = norm(truth[part.start : part.stop]) / math.sqrt(part.stop - part.start)
        largest[part.layer] = max(mean, largest.get(part.layer, 0.0))
    rows = []
    for part in parts:
        at = slice(part.start, part.stop)
        length, terms = norm(truth[at]), largest[part.layer] * math.sqrt(part.stop - part.start)
        near = max(norm(other[at] - truth[at]) for other in others)
        rounded = STORED * math.sqrt(call.last - call.first) * norm(wide.params[at]) + SUMMED * terms
        rows.append((part.name, norm(found[at] - truth[at]), MARGIN * near + unit * rounded, length))
    return rows


def norm(a: np.ndarray) -> float:
    """Root of the sum of an array's squares."""
    return float(np.linalg.norm(a))


def _movement(task: ClimbTask, start: State, call: StepRange) -> np.ndarray:
    """Change (param_count,) float64 of the parameters that array code makes from a state by the steps of a call."""
    with array_trainer(task, start) as trainer:
        trainer.run(*call)
        return trainer.state().params.astype(np.float64) - start.params
