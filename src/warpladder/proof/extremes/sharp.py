"""States whose last layer gives logits of a wanted size: of samples nearly learnt or far from it, of one that is far
next to others that are learnt, and logits that all lie below zero or above it.
"""

from __future__ import annotations

import numpy as np

from ...machine.precision import Precision
from ...nets import Net
from ...nets.params import param_slices
from ...trainers.base import State
from ..bounds import update_bounds

LEVELS = {"nearly learnt": (1e-3, 1e-1), "learnt": (1e-6, 1e-5)}  # losses of samples
MET = 4.0  # times that loss of each output of a binary loss, of which p - 1 loses as many digits, times its factor
UNEVEN = 8.0, 32.0  # small terms of a sum that has one large term, in bounds of the sum
SPREAD = 5.0, 20.0  # logits of mixed samples
HUGE = 60.0, 2e4  # logits of samples far from learnt
LESS_HUGE = 60.0, 1e3  # in a coarse format
BEYOND = 100.0, 300.0  # by which all logits are below zero or above it: exp of any of them is 0 or infinite in float32


def sharpened(
    net: Net, kind: str, state: State, logits: np.ndarray, precision: Precision, rng: np.random.Generator
) -> tuple[State, np.ndarray]:
    """State whose last layer gives logits of the wanted size, and labels (n,) to match.

    logits : (n, classes) of the state before.
    """
    n, classes = len(logits), net.out_shape[0]
    params = state.params.copy()
    last = param_slices(net)[-1]
    if len(last.shape) > 1:  # no bias that could favour a class
        w, b, kind = params[last.start : last.stop], params[:0], "mixed"
    else:
        w, b = (params[place.start : place.stop] for place in param_slices(net)[-2:])
    c = int(rng.integers(classes))
    some = np.where(rng.random(n) < 0.5, logits.argmax(axis=1), rng.integers(0, classes, n))
    if kind == "mixed":
        factor = _drawn(SPREAD, rng) / max(float(np.sqrt(np.mean(logits**2))), 1e-6)
        w *= params.dtype.type(factor)
        b *= params.dtype.type(factor)
        labels = some
    elif kind in LEVELS or kind == "uneven":
        level = small_share(net, n, precision, rng) if kind == "uneven" else _drawn(LEVELS[kind], rng)
        rest = np.delete(logits, c, axis=1)
        gap = np.log(np.exp(rest - rest.max()).sum(axis=1)) + rest.max() - logits[:, c]
        b[c] += float(np.mean(gap)) - np.log(level)
        labels = np.full(n, c)
        if kind == "uneven":
            labels[rng.integers(n)] = (c + rng.integers(1, classes)) % classes
    elif kind == "below zero":
        b -= _drawn(BEYOND, rng) + float(logits.max())
        labels = some
    elif kind == "above zero":
        b += _drawn(BEYOND, rng) - float(logits.min())
        labels = some
    else:
        b[c] += _drawn(LESS_HUGE if precision.coarse else HUGE, rng) + float(np.ptp(logits))
        labels = np.where(rng.random(n) < 1 / 8, c, (c + rng.integers(1, classes, n)) % classes)
    return state.but(params=params), labels.astype(np.int32)


def decided(net: Net, kind: str, state: State, out: np.ndarray, rng: np.random.Generator) -> tuple[State, np.ndarray]:
    """State whose last layer gives large logits of a binary loss, and targets of 0 and 1, some of which they miss; or,
    if "learnt", all nearly met.

    out : (n, *out_shape) of the state before. The targets, bools, have its shape.
    """
    params = state.params.copy()
    w, b = (params[place.start : place.stop] for place in param_slices(net)[-2:])
    if kind == "learnt":
        by_channel = np.moveaxis(out, 1, 0).reshape(len(b), -1)
        sign = rng.choice((-1, 1), len(b))
        b += (sign * (np.abs(by_channel).max(axis=1) - np.log(MET * _drawn(LEVELS[kind], rng)))).astype(b.dtype)
        targets = np.broadcast_to(sign.reshape(1, -1, *[1] * (out.ndim - 2)) > 0, out.shape)
    else:
        factor = _drawn(SPREAD, rng) / max(float(np.sqrt(np.mean(out**2))), 1e-6)
        w *= params.dtype.type(factor)
        b *= params.dtype.type(factor)
        targets = (out > 0) ^ (rng.random(out.shape) < 1 / 8)
    return state.but(params=params), targets


def small_share(net: Net, n: int, precision: Precision, rng: np.random.Generator) -> float:
    """Share of the small terms of a batch's sums in their large one: without the small terms a sum is off by more than
    its bound.
    """
    return min(0.1, max(update_bounds(net, n, precision).values()) * _drawn(UNEVEN, rng))


def _drawn(between: tuple[float, float], rng: np.random.Generator) -> float:
    """Random number between two, uniform in its logarithm."""
    return float(np.exp(rng.uniform(*np.log(between))))
