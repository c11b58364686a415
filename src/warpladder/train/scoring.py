"""Loss and accuracy of a trained net over a set of samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..checkpoint import Score
from ..data.convert import to_numbers
from ..data.dataset import Dataset, pixels
from ..errors import DataError
from ..nets import BCEWithLogitsLoss, CrossEntropyLoss, Net
from ..ops.loss import reference as losses
from ..trainers.base import Trainer, goals
from .regression import regression_scores, target_units

#: Most numbers in an activation of a slice: 8 MB of float32. Most numbers in an input or output of a trainer that cuts
#: slices itself: 64 MB.
SLICE_NUMBERS, PASSED_NUMBERS = 2**21, 2**24


def rows_at_once(net: Net, trainer: Trainer | None = None) -> int:
    """Number of samples in one call of `predict`: small enough for small activations, and odd, unlike a training batch.

    A trainer with expensive calls gets more samples, since it cuts them into slices itself.
    """
    if trainer is None or trainer.has_cheap_calls:
        return SLICE_NUMBERS // max(math.prod(shape) for shape in net.shapes) | 1
    return PASSED_NUMBERS // max(math.prod(net.in_shape), math.prod(net.out_shape)) | 1


def score(
    trainer: Trainer, x: np.ndarray, y: np.ndarray | None, scale: float, *, between: Callable[[], None] | None = None,
    units: np.ndarray | None = None,
) -> Score:  # fmt: skip
    """Loss and accuracy of a trainer's net, computed in float64 from the outputs of `predict`; not finite if these are
    not.

    x : (samples, *in_shape), uint8 or float32, at least one sample. scale : factor of x.
    y : (samples,) labels for CrossEntropyLoss; (samples, outputs) targets; None if samples are their own targets.
    between : called before each slice. units : (outputs,) factors from targets to their own units; None for 1.
    Raises DataError: there are no samples, no labels, or labels that the net has no output for.
    """
    net = trainer.net
    if len(x) == 0:
        raise DataError(f"net {net.name!r}: there are no samples to score")
    if isinstance(net.loss, CrossEntropyLoss):
        if y is None:
            raise DataError(f"net {net.name!r}: scoring needs labels")
        if not 0 <= y.min() <= y.max() < net.out_shape[0]:
            raise DataError(f"net {net.name!r} has {net.out_shape[0]} outputs, the labels are {y.min()} to {y.max()}")
    target = None if isinstance(net.loss, CrossEntropyLoss) else goals(net, y)
    if target is not None and target.shape[1] != math.prod(net.out_shape):
        raise DataError(f"net {net.name!r} has {math.prod(net.out_shape)} outputs, there are {target.shape[1]} targets")
    loss, total, correct, outs = 0.0, 0.0, 0, []
    for first, last in slices(net, len(x), trainer):
        if between is not None:
            between()
        with np.errstate(over="ignore", invalid="ignore"):
            out = trainer.predict(x[first:last], scale)
        if isinstance(net.loss, CrossEntropyLoss):
            assert y is not None
            wanted = y[first:last]
            correct += int((out.argmax(axis=1) == wanted).sum())
        else:
            wanted = pixels(x[first:last], scale) if target is None else target[first:last]
            if target is not None:
                outs.append(out.reshape(len(out), -1))
        loss += float(sample_losses(net, out, wanted).sum())
        total += float(losses.factors(net.loss, wanted, len(out)).sum())
    mean = loss / total if total else 0.0  # all samples are of classes with weight 0
    if target is None:
        return Score(mean, correct / len(x) if isinstance(net.loss, CrossEntropyLoss) else None)
    out = np.concatenate(outs)
    if isinstance(net.loss, BCEWithLogitsLoss):
        return Score(mean, binary_accuracy(out, target))
    return Score(mean, None, *regression_scores(out, target, units))


def slices(net: Net, samples: int, trainer: Trainer | None = None) -> Iterator[tuple[int, int]]:
    """Ranges (first, last) of the samples that one call of `predict` takes; by default for any trainer."""
    rows = rows_at_once(net, trainer)
    return ((first, min(first + rows, samples)) for first in range(0, samples, rows))


def sample_losses(net: Net, out: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Losses (n,) float64 of samples from their outputs (n, *out_shape).

    wanted : (n,) labels, or as many numbers as the outputs: targets or images.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        goal = wanted if isinstance(net.loss, CrossEntropyLoss) else wanted.reshape(out.shape).astype(np.float64)
        return losses.values(net.loss, out.astype(np.float64), goal)


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Sigmoid 1 / (1 + exp(-x)) of each logit, float64."""
    return losses.sigmoid(logits.astype(np.float64))


def goals_from_zero_to_one(y: Any, out: np.ndarray, name: str) -> np.ndarray:
    """Targets from 0 to 1 given by a user, in the shape (samples, outputs) of the outputs of net `name`."""
    if y is None:
        raise DataError(f"net {name!r}: scoring needs targets")
    target = to_numbers(y, "y").astype(np.float64)
    target = target[:, None] if target.ndim == 1 else target
    if target.shape != out.shape or not (target.min() >= 0 and target.max() <= 1):
        raise DataError(f"y wants targets from 0 to 1 of shape {out.shape}, got {target.shape}")
    return target


def binary_accuracy(out: np.ndarray, target: np.ndarray) -> float:
    """Accuracy, 0 to 1, of logits for binary targets of the same shape: the share whose logit is above 0 exactly if the
    target is above 1/2.
    """
    return float(((out > 0) == (target > 0.5)).mean())


def probabilities(logits: np.ndarray) -> np.ndarray:
    """Softmax (n, classes) float64 of each row of logits."""
    wide = logits.astype(np.float64)
    powers = np.exp(wide - wide.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def part_score(trainer: Trainer, data: Dataset, part: str, between: Callable[[], None] | None = None) -> Score | None:
    """Score of the "valid" or "test" part; None if the part is missing, or lacks labels that the net needs."""
    x, y = getattr(data, part + "_x"), getattr(data, part + "_y")
    if x is None or len(x) == 0 or (y is None and isinstance(trainer.net.loss, CrossEntropyLoss)):
        return None
    return score(trainer, x, y, data.scale, between=between, units=target_units(data))
