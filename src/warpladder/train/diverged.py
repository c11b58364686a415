"""Explanation of a divergence: layer, epoch and step of the first number that is not finite, and a remedy.

A loss that is not finite is traced back from the last copy of the state: the same trainer repeats the
steps up to the bad one, then the numpy rung's operations compute one layer after the other, in the state's type.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from ..config import TrainConfig
from ..data.dataset import Dataset, pixels
from ..data.order import Order
from ..nets import Flatten, Net
from ..nets.params import buffer_slices, buffer_views, param_slices, views
from ..ops.engine.base import Buffers
from ..ops.loss import reference
from ..trainers.base import State, Trainer, goals
from .scale import advice as scale_advice
from .scoring import sample_losses, slices

#: Description of each optimizer slot, by name.
MEANING = {"momentum_buffer": "momentum", "exp_avg": "a running mean", "exp_avg_sq": "a running mean square"}
MEANING["square_avg"] = MEANING["exp_avg_sq"]


@dataclass(frozen=True)
class Snapshot:
    """Copy of the state before a step, and its time by `time.monotonic`."""

    order: Order
    step: int
    state: State
    taken: float = field(default_factory=time.monotonic)


@dataclass(frozen=True)
class Fault:
    """First number that is not finite. layer : index of its layer; -1 for the input, one past the last layer for the
    loss.
    """

    layer: int
    what: str
    advice: str


def explain_step(trainer: Trainer, rung: str, data: Dataset, snapshot: Snapshot, step: int, loss: float) -> str:
    """Reason why the loss of `step` is not finite. The trainer's state is overwritten."""
    config, samples = trainer.config, len(data.train_x)
    with np.errstate(over="ignore", invalid="ignore"):
        trainer.set_state(snapshot.state)
        trainer.run(snapshot.order, snapshot.step, step)
    state = trainer.state()
    batch = config.batch(samples)
    rows = snapshot.order.indices(step * batch, min((step + 1) * batch, samples))
    fault = _find(trainer, rung, state, data, "train", rows, loss)
    return (
        f"training diverged in epoch {snapshot.order.epoch + 1}, step {step + 1} of "
        f"{config.steps(samples)}: {fault.what}; {fault.advice}"
    )


def explain_state(trainer: Trainer, data: Dataset, state: State, epoch: int, step: int) -> str:
    """Message with the layer whose parameters, buffers or slots are not finite, although no loss has shown it."""
    slots = [(array, f"has {MEANING.get(name, name)} that holds") for name, array in state.slots.items()]
    net = trainer.net
    buffers = [] if state.buffers is None else [(state.buffers, "holds", buffer_slices(net))]
    for flat, kind, places in (
        (state.params, "holds", param_slices(net)),
        *((*each, param_slices(net)) for each in slots),
        *buffers,
    ):
        for place in places:
            bad = _bad(flat[place.start : place.stop])
            if bad is not None:
                what = f"{_name(trainer.net, place.layer)}: its {place.name.partition('.')[2]} {kind} {bad}"
                return (
                    f"training diverged in epoch {epoch + 1}, at step {step} or before: {what}; "
                    f"{_advice(trainer.config, data)}"
                )
    raise AssertionError("the state is finite")


def explain_score(trainer: Trainer, rung: str, data: Dataset, part: str, epoch: int, loss: float) -> str:
    """Reason why the loss over the "valid" or "test" part is not finite although the weights are."""
    rows = np.arange(len(getattr(data, part + "_x")))
    fault = _find(trainer, rung, trainer.state(), data, part, rows, loss)
    after = f"after {epoch} epochs" if epoch == trainer.config.epochs else f"in epoch {epoch + 1}, after its last step"
    return f"training diverged {after}: the {part} loss is {loss}: {fault.what}; {fault.advice}"


def _find(trainer: Trainer, rung: str, state: State, data: Dataset, part: str, rows: np.ndarray, loss: float) -> Fault:
    """First fault, in the order of the layers, in the forward pass of these samples."""
    net, advice = trainer.net, _advice(trainer.config, data)
    x, y = getattr(data, part + "_x"), getattr(data, part + "_y")
    faults, total, worst, largest = [], 0.0, 0.0, 0.0
    weight = float(reference.factors(net.loss, None if y is None else y[rows], len(rows)).sum()) or 1.0
    for first, last in slices(net, len(rows)):
        some = rows[first:last]
        entering = pixels(x[some], data.scale)
        if not np.isfinite(entering).all():
            sample = some[np.argmin(np.isfinite(entering).reshape(len(some), -1).all(axis=1))]
            return Fault(-1, f"sample {sample} of the {part} part holds {_bad(entering)}", "mend the data")
        found = _walk(net, state, entering, advice)
        if isinstance(found, Fault):
            faults.append(found)
            continue
        goal = goals(net, None if y is None else y[some])
        losses = sample_losses(net, found, entering if goal is None else goal)
        total, worst, largest = (
            total + float(losses.sum()) / weight,
            max(worst, float(losses.max())),
            max(largest, _largest(found)),
        )
    if faults:
        return min(faults, key=lambda fault: fault.layer)
    kind = type(net.loss).__name__
    element = state.params.dtype
    if not max(worst * len(rows), largest) * np.prod(net.out_shape) < np.finfo(element).max:
        return Fault(
            len(net.layers), f"{kind} leaves the range of {element}: the net's largest output is {largest:.3g}", advice
        )
    what = f"rung {rung!r} gives a loss of {loss}, but NumPy gives {total:.6g} for the same weights and samples"
    return Fault(
        len(net.layers),
        what,
        "that is a fault of the rung, not of the settings: train on another one, and verify this one",
    )


def _walk(net: Net, state: State, x: np.ndarray, advice: str) -> np.ndarray | Fault:
    """Output of the net for x (n, *in_shape) float32, or the fault of the first layer with numbers that are not
    finite.
    """
    from ..ops.tables.array import TABLE
    from ..ops.tables.reference import with_references

    table = with_references(TABLE, net)
    x = x.astype(state.params.dtype)
    named, running = views(net, state.params), buffer_views(net, state.buffers_of(net).copy())
    entering: dict[int, np.ndarray] = {}  # stored for residual layers
    for index, layer in enumerate(net.layers):
        if index in net.skips.stored.values():
            entering[index] = x
        if isinstance(layer, Flatten):
            x = x.reshape(len(x), -1)
            continue
        name = net.names[index]
        w, b = (named.get(f"{name}.{kind}") for kind in ("weight", "bias"))
        for kind, values in (("weight", w), ("bias", b)):
            if values is not None and (bad := _bad(values)) is not None:
                return Fault(index, f"{_name(net, index)}: the step before left {bad} in its {kind}", advice)
        y = np.empty((len(x), *net.shapes[index + 1]), x.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            mean, var = (running.get(f"{name}.{kind}") for kind in ("running_mean", "running_var"))
            skip = entering.get(net.skips.stored.get(index, -1))
            table.op(layer)(layer, Buffers(x, y, w=w, b=b, mean=mean, var=var, skip=skip)).forward(len(x))
        if (bad := _bad(y)) is not None:
            sizes = f"its largest input is {_largest(x):.3g}" + (
                "" if w is None else f" and its largest weight {_largest(w):.3g}"
            )
            return Fault(index, f"{_name(net, index)} gives {bad}: {sizes}", advice)
        x = y
    return x


def _name(net: Net, index: int) -> str:
    return f"layer {index} ({type(net.layers[index]).__name__})"


def _bad(values: np.ndarray) -> str | None:
    """Text of the first number that is not finite; None if all are finite."""
    finite = np.isfinite(values)
    return None if finite.all() else str(values[~finite][0])


def _largest(values: np.ndarray) -> float:
    return float(max(values.max(), -values.min()))


def _advice(config: TrainConfig, data: Dataset) -> str:
    """Advice against numbers that grow too large."""
    scale = scale_advice(data)
    clip = " or set a clip_value" if config.clip_value is None and config.clip_norm is None else ""
    return ("" if scale is None else f"{scale}, or ") + f"lower the learning rate ({config.learning_rate:g} now){clip}"
