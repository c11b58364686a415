"""`restore`: a trainer with the weights of a checkpoint, to predict with or to score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..checkpoint import Checkpoint
from ..errors import CheckpointError, RungError
from ..ladder import find
from ..machine.precision import named
from ..nets import Net
from ..nets.params import buffer_slices, joined, param_slices
from ..rungs.base import Rung
from ..rungs.options import too_few_cores
from ..trainers.base import State, Trainer
from .rung_choice import resolve_rung, rung_of


def restore(checkpoint: Checkpoint, rung: str | Rung | None = None) -> Trainer:
    """Trainer at the state of a checkpoint; by default of the rung that trained it.

    Raises RungError: the rung is unknown, or cannot run the checkpoint's net here.
    Raises CheckpointError: a number of the checkpoint is too large for the rung's float32.
    """
    chosen = rung_of(checkpoint) if rung is None else resolve_rung(rung)
    config = checkpoint.config.but(loss_every=1)  # a rung that always computes losses can predict too
    if too_few_cores(checkpoint.net, config, chosen.options):  # it was trained on a larger machine
        chosen = chosen.but(threads=None)
    if reason := chosen.unsupported(checkpoint.net, config):
        others = () if rung is not None else ("native", "numpy")
        other = next((name for name in others if find(name).unsupported(checkpoint.net, config) is None), None)
        remedy = f"; another rung computes the same from these weights: --rung {other}, in Python rung={other!r}"
        raise RungError(f"rung {chosen.name!r} cannot run {checkpoint.net.name!r}: {reason}{remedy if other else ''}")
    return chosen.build(checkpoint.net, config, to_state(converted(checkpoint, named(chosen.precision).element)))


def converted(checkpoint: Checkpoint, element: str) -> Checkpoint:
    """Checkpoint with parameters and slots as "float32" or "float64". Raises `CheckpointError` if a number is too
    large.
    """
    if checkpoint.element == element:
        return checkpoint

    def each(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        with np.errstate(over="ignore"):
            out = {name: array.astype(element) for name, array in arrays.items()}
        if not all(np.isfinite(array).all() for array in out.values()):
            raise CheckpointError(
                f"the checkpoint holds numbers beyond the range of {element}: take a rung in fp64, as --rung "
                "numpy:precision=fp64"
            )
        return out

    slots = {name: each(arrays) for name, arrays in checkpoint.slots.items()}
    best, last = (None if arrays is None else each(arrays) for arrays in (checkpoint.best, checkpoint.last))
    return replace(checkpoint, params=each(checkpoint.params), slots=slots, best=best, last=last)


def to_state(checkpoint: Checkpoint) -> State:
    """State with the parameters, slots and buffers of a checkpoint as flat arrays, to build a trainer from."""
    net = checkpoint.net
    slots = {name: joined(param_slices(net), arrays) for name, arrays in checkpoint.slots.items()}
    return with_weights(net, State(np.zeros(0), slots, checkpoint.made), checkpoint.params)


def with_weights(net: Net, state: State, named: Mapping[str, np.ndarray]) -> State:
    """State with other parameters and buffers, given as arrays by name."""
    buffers = joined(buffer_slices(net), named) if net.normalizes else None
    return state.but(params=joined(param_slices(net), named), buffers=buffers)
