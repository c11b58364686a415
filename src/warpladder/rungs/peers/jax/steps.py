"""Training steps in JAX as pure functions: net, loss, update, and a scan over many steps.

Images have their channels last, weights are (in, out) and (height, width, in, out). docs/peers.md has the reasons.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ....config import TrainConfig
from ....nets import Branch, Conv2d, CrossEntropyLoss, Flatten, Linear, MaxPool2d, Net, ReLU, Shortcut, Sum, Upsample2d
from ....ops.engine.layer_files import form
from ....ops.loss.jax import values
from ....ops.update.reference import EPSILON
from ....optimizers import NUMBERS, Optimizer
from ..layout import pooled_first, spatial
from .order import shuffled

Tree = dict[str, jax.Array]
Slots = dict[str, Tree]

#: Numbers of an update that are arguments of a compiled program (as constants they gain nothing): those of the
#: optimizer, and the clip value or norm.
WIDTH = NUMBERS + 1


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
    """Form of a program of many steps.

    count, size : steps, and samples in each batch. unroll : steps in a round of the loop.
    whole : True if a batch is all samples, so that nothing is gathered.
    at_once : True if the samples of all steps are gathered first, if a GPU has memory for them: one kernel less a step.
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


def forward(net: Net, params: Tree, x: jax.Array, precision: str) -> jax.Array:
    """Output (n, *out_shape) float32 of x (`layout.stored`): (n, height, width, channels) or (n, features)."""
    half = jnp.bfloat16 if precision == "bf16" else None
    exactly = lax.Precision.HIGHEST if precision == "fp32" else lax.Precision.DEFAULT
    if half:
        params, x = {name: p.astype(half) if p.ndim > 1 else p for name, p in params.items()}, x.astype(half)
    image = None
    entering: list[jax.Array] = []
    for i, (layer, shape) in enumerate(pooled_first(net)):
        entering.append(x)
        weight, bias = (f"{net.names[i]}.{kind}" for kind in ("weight", "bias"))
        match layer:
            case Branch():
                pass
            case Shortcut():
                x = entering[net.skips.stored[i]]
            case Sum():
                x = x + entering[net.skips.stored[i]]
            case Linear():
                x, image = jnp.matmul(x, params[weight], precision=exactly), None
                x = biased(x, params[bias]) if layer.bias else x
            case Conv2d():
                edge = (layer.padding, layer.padding)
                x = lax.conv_general_dilated(
                    x, params[weight], (layer.stride, layer.stride), (edge, edge),
                    dimension_numbers=("NHWC", "HWIO", "NHWC"), precision=exactly,
                )  # fmt: skip
                x = biased(x, params[bias]) if layer.bias else x
            case ReLU():
                x = jax.nn.relu(x)
            case MaxPool2d():
                k, stride = layer.kernel_size, layer.stride or layer.kernel_size
                x = pool_windows(x, k) if half and stride == k else pool(x, k, stride)
            case Upsample2d():
                n, h, w, c = x.shape
                k = layer.scale_factor
                x = jnp.broadcast_to(x[:, :, None, :, None, :], (n, h, k, w, k, c)).reshape(n, h * k, w * k, c)
            case Flatten():
                image = shape if len(shape) == 3 and spatial(net) else image
                x = x.reshape(len(x), -1)
            case _:
                x = form(type(layer), "jax.py").forward(layer, x)
    return first(x, net, image).astype(jnp.float32)


@jax.custom_vjp
def biased(x: jax.Array, bias: jax.Array) -> jax.Array:
    """Sum of x and a bias in x's format, which XLA may fuse; the bias's gradient is summed in float32."""
    return x + bias.astype(x.dtype)


def _biased_gradient(_: None, dy: jax.Array) -> tuple[jax.Array, jax.Array]:
    return dy, dy.astype(jnp.float32).sum(tuple(range(dy.ndim - 1)))


biased.defvjp(lambda x, bias: (biased(x, bias), None), _biased_gradient)


def first(x: jax.Array, net: Net, image: tuple[int, ...] | None = None) -> jax.Array:
    """Output with its channels first; image : its shape before it was flattened, if no later layer has read it."""
    if image is not None:
        c, h, w = image
        x = x.reshape(-1, h, w, c)
    if x.ndim == 4:
        x = x.transpose(0, 3, 1, 2)
    return x.reshape(len(x), *net.out_shape)


def pool(x: jax.Array, k: int, stride: int) -> jax.Array:
    """Max pooling over k x k windows, the first of equals. Its gradient is a selection, which XLA fuses."""
    n, h, w, c = x.shape
    rows, columns = (h - k) // stride + 1, (w - k) // stride + 1
    best: jax.Array | None = None
    for p in range(k):
        for q in range(k):
            end = (n, p + (rows - 1) * stride + 1, q + (columns - 1) * stride + 1, c)
            one = lax.slice(x, (0, p, q, 0), end, (1, stride, stride, 1))
            best = one if best is None else jnp.where((one > best) | (one != one), one, best)
    assert best is not None
    return best


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def pool_windows(x: jax.Array, k: int) -> jax.Array:
    """Max pooling over windows that do not overlap, as a reduction: faster in bfloat16, slower in float32."""
    return windows_of(x, k).max((2, 4))


def windows_of(x: jax.Array, k: int) -> jax.Array:
    """View (n, rows, k, columns, k, channels) of the pooling windows of x, without incomplete windows."""
    n, h, w, c = x.shape
    return x[:, : h // k * k, : w // k * k].reshape(n, h // k, k, w // k, k, c)


def _pooled(x: jax.Array, k: int) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    best = pool_windows(x, k)
    return best, (x, best)


def _pool_gradient(k: int, kept: tuple[jax.Array, jax.Array], dy: jax.Array) -> tuple[jax.Array]:
    """Gradient (dx,) of `pool_windows`, at the first of equals; XLA's own gradient would divide it among equals."""
    x, best = kept
    windows = windows_of(x, k)
    place = lax.broadcasted_iota(jnp.int32, windows.shape, 2) * k + lax.broadcasted_iota(jnp.int32, windows.shape, 4)
    argmax = jnp.where(windows == best[:, :, None, :, None], place, k * k).min((2, 4), keepdims=True)
    dx = jnp.where(place == argmax, dy[:, :, None, :, None], 0).astype(x.dtype)
    n, h, w, c = x.shape
    inner = dx.reshape(n, h // k * k, w // k * k, c)
    return (jnp.pad(inner, ((0, 0), (0, h % k), (0, w % k), (0, 0))),)


pool_windows.defvjp(_pooled, _pool_gradient)


def pixels(x: jax.Array, scale: jax.Array) -> jax.Array:
    """Net's input, float32, from stored samples: x * scale."""
    return x.astype(jnp.float32) * scale


def loss(net: Net, precision: str, is_weighted: bool = False) -> Callable[..., tuple[jax.Array, jax.Array]]:
    """Function from (params, x, labels, targets or None) to (mean loss, correct samples); x is the net's input.

    is_weighted : True if goals are (n, columns) float32 with the weight of a sample in the last column.
    """

    def classes(params: Tree, x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        out = forward(net, params, x, precision)
        chosen = y[:, None] == jnp.arange(
            out.shape[1], dtype=y.dtype
        )  # a mask fuses; an index would scatter in the backward pass
        value = -jnp.where(chosen, jax.nn.log_softmax(out), 0).sum() / len(y)
        return value, (out.argmax(1) == y).sum(dtype=jnp.int32)

    def numbers(params: Tree, x: jax.Array, y: jax.Array | None) -> tuple[jax.Array, jax.Array]:
        out = forward(net, params, x, precision)
        target = x.astype(jnp.float32) if y is None else y
        if y is None and x.ndim == 4:
            target = target.transpose(0, 3, 1, 2)
        return jnp.mean((out - target.reshape(out.shape)) ** 2), jnp.int32(0)

    def general(params: Tree, x: jax.Array, y: jax.Array | None) -> tuple[jax.Array, jax.Array]:
        out = forward(net, params, x, precision)
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
        return (weight * values(net.loss, out, goal)).sum() / factors.sum(), hits

    if is_weighted or not net.loss.is_plain:
        return general
    return classes if isinstance(net.loss, CrossEntropyLoss) else numbers


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
    """Function of `length.count` steps: (params, slots, table, scale, x, labels, place) -> (params, slots, log, rows).

    table : float32 numbers of the steps: (WIDTH,), or (count, WIDTH) if they differ.
    scale : float32 factor of the samples; None if they are scaled.
    x, labels : all samples (`layout.stored`), and their labels or None. is_weighted : as in `loss`.
    place : (n,) and () int32, the order and the first position; with `length.half_bits` the order's words; or None.
    log : (2, count) uint32, the bits of each step's loss, and its correct samples; (2, 0) without `length.has_loss`.
    rows : (n,) int32, the computed order, or None.
    """
    gradient = jax.value_and_grad(loss(net, precision, is_weighted), has_aux=True)
    count, size = length.count, length.size

    def many(
        params: Tree, slots: Slots, table: jax.Array, scale: jax.Array | None, x: jax.Array, y: jax.Array | None,
        place: Any,
    ) -> Any:  # fmt: skip
        def gathered(some: jax.Array) -> tuple[jax.Array, jax.Array | None]:
            return take(x, some), None if y is None else take(y, some)

        def step(carry: tuple[Tree, Slots], batch: tuple[jax.Array, Any], row: jax.Array | None) -> tuple[Any, Any]:
            images, labels = batch
            reported, grads = gradient(carry[0], images if scale is None else pixels(images, scale), labels)
            return update(rule, table if row is None else row, *carry, grads), reported if length.has_loss else ()

        mine, rows = None, None
        if length.half_bits is not None:
            rows = shuffled(place, len(x), length.half_bits)
            mine = rows[: count * size].reshape(count, size)
        elif place is not None:
            mine = lax.dynamic_slice(place[0], (place[1],), (count * size,)).reshape(count, size)
        each = None if rule.steady else table  # a row for each step of a scan
        if count == 1:  # a scan would be a loop of one round, in which XLA's convolutions on a CPU use one core
            batch = (x, y) if mine is None else gathered(mine[0])
            (params, slots), reported = step((params, slots), batch, None if each is None else each[0])
        else:
            turn: Callable[..., Any] = lambda carry, over: step(carry, *over)  # noqa: E731
            over: Any = None
            if mine is None:
                turn = lambda carry, over: step(carry, (x, y), over[1])  # noqa: E731
            elif length.at_once:
                over = gathered(mine)
            else:
                turn, over = lambda carry, over: step(carry, gathered(over[0]), over[1]), mine
            (params, slots), reported = lax.scan(
                turn, (params, slots), (over, each), length=count, unroll=min(length.unroll, count)
            )
        bits = [lax.bitcast_convert_type(part, jnp.uint32).reshape(count) for part in reported]
        log = jnp.stack(bits) if bits else jnp.zeros((2, 0), jnp.uint32)
        return params, slots, log, rows

    return many


def take(x: jax.Array, rows: jax.Array) -> jax.Array:
    return x.at[rows].get(mode="promise_in_bounds")


def floats(net: Net) -> int:
    """Size of the largest activation of a sample, in numbers."""
    return max(map(math.prod, net.shapes))
