"""Training steps in JAX as pure functions: loss, update, and a scan over many steps. Begin with net.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ....config import TrainConfig
from ....nets import CrossEntropyLoss, Net
from ....ops.loss.jax import values
from ....ops.update.reference import EPSILON
from ....optimizers import NUMBERS, Optimizer
from .net import Tree, forward
from .order import shuffled

Slots = dict[str, Tree]

#: Numbers of an update that are arguments of a compiled program (as constants they gain nothing): those of the
#: optimizer, and the clip value or norm.
WIDTH = NUMBERS + 1


class Held(NamedTuple):
    """Parameters, the optimizer's slots and running statistics, each by name: the state that a step changes."""

    params: Tree
    slots: Slots
    buffers: Tree


def numbers(config: TrainConfig, first: int, last: int, samples: int) -> np.ndarray:
    """Numbers (last - first, WIDTH) float32 of the updates first..last-1."""
    rows = config.numbers(first, last, samples)
    return np.concatenate([rows, np.full((len(rows), 1), config.clip_value or config.clip_norm or 0.0)], axis=1).astype(
        np.float32
    )


@dataclass(frozen=True)
class Given:
    """Setting known only as zero or not: its value is among a step's numbers, and arithmetic with it is an error."""

    other_than_0: bool

    def __bool__(self) -> bool:
        return self.other_than_0


@dataclass(frozen=True)
class Rule:
    """Settings on which a compiled step's arithmetic depends; runs with an equal rule share a program.

    optimizer : its class. slots : names of its slots. settings : by name, without the learning rate; numbers as
    `Given`.
    clip : "value", "norm" or None, the clipping of gradients. steady : True if all steps have equal numbers.
    """

    optimizer: type[Optimizer]
    settings: tuple[tuple[str, object], ...]
    slots: tuple[str, ...]
    clip: str | None
    steady: bool

    @classmethod
    def of(cls, config: TrainConfig) -> Rule:
        optimizer = config.optimizer
        names = [field.name for field in fields(optimizer) if field.name != "learning_rate"]
        settings = tuple((name, _given(getattr(optimizer, name))) for name in names)
        clip = "value" if config.clip_value is not None else "norm" if config.clip_norm is not None else None
        return cls(type(optimizer), settings, optimizer.slots, clip, config.steady)


def _given(value: object) -> object:
    if isinstance(value, (tuple, list)):
        return tuple(map(_given, value))
    return Given(value != 0) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


@dataclass(frozen=True)
class Length:
    """Settings of a JAX program that trains many steps, for which it is compiled.

    count, size : steps, and samples in each batch. unroll : steps in a round of the loop.
    whole : True if a batch is all samples, so that nothing is gathered.
    at_once : True if the samples of all steps are gathered first, which saves a kernel in each step but needs memory.
    half_bits : `Order.half_bits` of the order that the program computes for its epoch; None if it takes an order.
    has_loss : True if losses and correct samples are among the results; else XLA omits their computation.
    """

    count: int
    size: int
    unroll: int
    whole: bool
    at_once: bool
    half_bits: int | None
    has_loss: bool = True


def pixels(x: jax.Array, scale: jax.Array) -> jax.Array:
    """Net's input, float32, from stored samples: x * scale."""
    return x.astype(jnp.float32) * scale


def loss(net: Net, precision: str, is_weighted: bool = False) -> Callable[..., tuple[jax.Array, Any]]:
    """Function from (params, buffers, x, goals, keys) to the mean loss, and (correct samples, buffers) after the batch.

    x is the net's input, goals are labels, targets or None, and keys those of `forward`.

    is_weighted : True if goals are (n, columns) float32 with the weight of a sample in the last column.
    """

    def classes(out: jax.Array, x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        chosen = y[:, None] == jnp.arange(
            out.shape[1], dtype=y.dtype
        )  # a mask fuses; an index would scatter in the backward pass
        value = -jnp.where(chosen, jax.nn.log_softmax(out), 0).sum() / len(y)
        return value, (out.argmax(1) == y).sum(dtype=jnp.int32)

    def numbers(out: jax.Array, x: jax.Array, y: jax.Array | None) -> tuple[jax.Array, jax.Array]:
        target = x.astype(jnp.float32) if y is None else y
        if y is None and x.ndim == 4:
            target = target.transpose(0, 3, 1, 2)
        return jnp.mean((out - target.reshape(out.shape)) ** 2), jnp.int32(0)

    def general(out: jax.Array, x: jax.Array, y: jax.Array | None) -> tuple[jax.Array, jax.Array]:
        weight = y[:, -1] if is_weighted and y is not None else jnp.ones(len(x), out.dtype)
        goal = y if not is_weighted or y is None else y[:, :-1] if y.shape[1] > 1 else None
        factors, hits = weight, jnp.int32(0)
        if isinstance(net.loss, CrossEntropyLoss):
            assert goal is not None
            goal = goal.reshape(-1).astype(jnp.int32)
            hits = (out.argmax(1) == goal).sum(dtype=jnp.int32)
            if net.loss.weight is not None:
                factors = weight * jnp.asarray(net.loss.weight, out.dtype)[goal]
        else:
            own = x.transpose(0, 3, 1, 2) if x.ndim == 4 else x
            goal = (own if goal is None else goal).reshape(out.shape).astype(out.dtype)
        total = factors.sum()
        total = jnp.where(total > 0, total, jnp.inf)  # the loss is 0 where no sample counts
        return (weight * values(net.loss, out, goal)).sum() / total, hits

    of_output: Any = classes if isinstance(net.loss, CrossEntropyLoss) else numbers
    if is_weighted or not net.loss.is_plain:
        of_output = general

    def of_params(
        params: Tree, buffers: Tree, x: jax.Array, y: jax.Array | None, keys: jax.Array | None
    ) -> tuple[jax.Array, Any]:
        out, moved = forward(net, params, buffers, x, precision, keys, is_training=True)
        value, hits = of_output(out, x, y)
        return value, (hits, moved)

    return of_params


def update(rule: Rule, row: jax.Array, params: Tree, slots: Slots, grads: Tree) -> tuple[Tree, Slots]:
    """Parameters and slots after the optimizer's step on each tensor; row : (WIDTH,), this step's numbers."""
    rule_step, settings = rule.optimizer.form("jax").step, SimpleNamespace(**dict(rule.settings))
    new: Tree = {}
    moved: Slots = {slot: {} for slot in rule.slots}
    if rule.clip == "norm":
        norm = jnp.sqrt(sum(jnp.sum(jnp.square(g)) for g in grads.values()))
        factor = jnp.minimum(row[NUMBERS] / (norm + EPSILON), 1.0)
        grads = {name: g * factor for name, g in grads.items()}
    for name, p in params.items():
        g = jnp.clip(grads[name], -row[NUMBERS], row[NUMBERS]) if rule.clip == "value" else grads[name]
        new[name], after = rule_step(p, g, {slot: slots[slot][name] for slot in rule.slots}, settings, row[:NUMBERS])
        for slot in rule.slots:
            moved[slot][name] = after[slot]
    return new, moved


def steps(
    net: Net, rule: Rule, precision: str, length: Length, is_weighted: bool = False
) -> Callable[..., Any]:  # fmt: skip
    """Function of `length.count` steps: (held, table, scale, x, labels, place, keys) -> (held, log, rows).

    table : float32 numbers of the steps: (WIDTH,), or (count, WIDTH) if they differ.
    scale : float32 factor of the samples; None if they are scaled.
    x, labels : all samples (`layout.stored`), and their labels or None. is_weighted : as in `loss`.
    place : (n,) and () int32, the order and the first position; with `length.half_bits` the order's words; or None.
    keys : (2,) uint32, the epoch's mask key and the first sample's position; None for a net without masks.
    log : (2, count) uint32, the bits of each step's loss, and its correct samples; (2, 0) without `length.has_loss`.
    rows : (n,) int32, the computed order, or None.
    """
    gradient = jax.value_and_grad(loss(net, precision, is_weighted), has_aux=True)
    count, size = length.count, length.size

    def many(
        held: Held, table: jax.Array, scale: jax.Array | None, x: jax.Array, y: jax.Array | None, place: Any,
        keys: jax.Array | None,
    ) -> Any:  # fmt: skip
        def gathered(some: jax.Array) -> tuple[jax.Array, jax.Array | None]:
            return take(x, some), None if y is None else take(y, some)

        def step(old: Held, batch: tuple[jax.Array, Any], each: Any) -> tuple[Held, Any]:
            (images, labels), (row, own_keys) = batch, each
            seen = images if scale is None else pixels(images, scale)
            (value, (hits, moved)), grads = gradient(old.params, old.buffers, seen, labels, own_keys)
            new = update(rule, table if row is None else row, old.params, old.slots, grads)
            return Held(*new, moved), (value, hits) if length.has_loss else ()

        mine, rows = None, None
        if length.half_bits is not None:
            rows = shuffled(place, len(x), length.half_bits)
            mine = rows[: count * size].reshape(count, size)
        elif place is not None:
            mine = lax.dynamic_slice(place[0], (place[1],), (count * size,)).reshape(count, size)
        # what differs between the steps of a scan: numbers and keys
        each = None if rule.steady else table, None if keys is None else each_keys(keys, count, size)
        if count == 1:  # a scan would be a loop of one round, in which XLA's convolutions on a CPU use one core
            batch = (x, y) if mine is None else gathered(mine[0])
            held, reported = step(held, batch, jax.tree.map(lambda all_steps: all_steps[0], each))
        else:
            turn: Callable[..., Any] = lambda carry, over: step(carry, *over)  # noqa: E731
            over: Any = None
            if mine is None:
                turn = lambda carry, over: step(carry, (x, y), over[1])  # noqa: E731
            elif length.at_once:
                over = gathered(mine)
            else:
                turn, over = lambda carry, over: step(carry, gathered(over[0]), over[1]), mine
            held, reported = lax.scan(turn, held, (over, each), length=count, unroll=min(length.unroll, count))
        bits = [lax.bitcast_convert_type(part, jnp.uint32).reshape(count) for part in reported]
        log = jnp.stack(bits) if bits else jnp.zeros((2, 0), jnp.uint32)
        return held, log, rows

    return many


def each_keys(keys: jax.Array, count: int, size: int) -> jax.Array:
    """Keys (count, 2) uint32 of consecutive steps of `size` samples, from those of the first."""
    first = keys[1] + jnp.arange(count, dtype=jnp.uint32) * jnp.uint32(size)
    return jnp.stack([jnp.broadcast_to(keys[0], first.shape), first], axis=1)


def take(x: jax.Array, rows: jax.Array) -> jax.Array:
    return x.at[rows].get(mode="promise_in_bounds")
