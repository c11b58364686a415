"""JAX trainer: an epoch's steps are one program, data set and order on the device (docs/peers.md has reasons)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

# JAX would reserve three quarters of a GPU's memory.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding

from ....config import TrainConfig
from ....data.order import Order
from ....machine.precision import named
from ....nets import Net
from ....nets.params import buffer_views, views
from ....trainers.base import State, StepLog, Trainer, check_fit, check_range, check_samples, in_a_row, not_loaded
from ....trainers.shares import goals_with_weights
from .. import driver
from ..blocks import Blocks, powers
from ..layout import channels_first, channels_last, flattened, spatial, stored
from . import order as jax_order
from .net import Tree, floats
from .programs import SampleArrays, device, prediction, program, seen
from .steps import Held, Length, Rule, numbers

if TYPE_CHECKING:
    from ....data.dataset import Dataset

#: Most bytes of a data set that is scaled once; a larger one keeps its stored type, and every step scales its batch.
SEEN = 1 << 32
#: Most bytes of samples that are gathered before a program's first step; of more, every step gathers its own.
GATHERED = 1 << 28
#: Most numbers in the largest activation of one call for prediction, if one sample allows.
PREDICTED = 1 << 22
#: Most samples of a call for prediction whose program takes floats, and a power of four of them: four programs serve
#: most small calls.
FEW = 256

#: Most bytes of a data set that the host scales for a GPU: less than compiling a program for its size would take.
SCALED = 1 << 24
#: Most samples whose order the host computes as fast as a GPU is sent its words.
ORDERED = 1 << 12

TOGETHER = 512  # most steps in a program whose steps take all samples
READY = 8  # longest of the programs that are compiled when the data set is loaded
#: Fewest steps with a program of their own number: a call of another program costs the GPU as much as a step of mlp10.
OWN = 64

#: Unrolled steps on a GPU, by the most FLOPs of one: small steps are all overhead, large ones only take longer to
#: compile.
UNROLLED = ((2e8, 16), (1e10, 4))
#: Unrolled steps that take all samples and gather none: a round of the loop costs a tenth of mlp10's step.
UNROLLED_WHOLE = ((1e10, 16),)


class JaxTrainer(Trainer):
    """Trainer by a jitted scan over steps, compiled when the data set is loaded, on platform "cpu" or "gpu".

    precision : "fp32", "tf32" or "bf16" of the factors of products; sums, weights and the update are float32.
    Raises RungError: JAX has no such platform.
    """

    def __init__(
        self, net: Net, config: TrainConfig, state: State, *, platform: str = "cpu", precision: str = "fp32"
    ) -> None:
        self.net, self.config, self.precision = net, config, named(precision).name
        self.device = device(platform)
        self.on_gpu = platform == "gpu"
        self.sharding = SingleDeviceSharding(self.device)
        self.rule = Rule.of(config)
        self.image = spatial(net)
        self.flattened = flattened(net)
        self.held = Held({}, {}, {})
        self.x: jax.Array | None = None
        self.y: jax.Array | None = None
        self.scale: jax.Array | None = None
        self.order: tuple[Order, jax.Array | np.ndarray] | None = None
        self.following: tuple[Order, jax.Array] | None = None
        self.coming: tuple[int, int, jax.Array] | None = None
        self.positions: dict[int, jax.Array] = {}
        #: By steps, samples in a batch, and True if losses are computed.
        self.programs: dict[tuple[int, int, bool], Any] = {}
        self.seconds: dict[str, float] = {}
        self.set_state(state)

    def load(self, dataset: Dataset) -> None:
        check_fit(self.net, dataset, self.config)
        start = perf_counter()
        self.programs, self.order, self.following, self.coming = {}, None, None, None
        self.samples = n = len(dataset.train_x)
        self.looped = self.on_gpu or not self.image  # in a loop XLA's convolutions on a CPU use one core
        self.blocks = Blocks.of(self.config, n, n if self.looped else 1)
        #: a full batch has every sample, whatever the order, unless masks go by position
        self.whole = self.blocks.batch == n and not self.net.is_random
        self.always = self._put(numbers(self.config, 0, 1, n)[0]) if self.rule.steady else None
        x, scale = stored(dataset.train_x, self.image), np.array(dataset.scale, np.float32)
        goal = goals_with_weights(self.net, dataset)
        self.is_weighted = dataset.train_weight is not None
        self.y = None if goal is None else self._put(np.array(goal))
        is_scaled = self.whole or x.size * (2 if self.precision == "bf16" else 4) <= SEEN
        on_host = is_scaled and (
            not self.on_gpu or 4 * x.size <= SCALED
        )  # without a program for each number of samples
        if on_host:
            x = x.astype(np.float32) * scale
            x = x.astype(jax.numpy.bfloat16) if self.precision == "bf16" else x
        self.x, self.scale = self._put(x), None if is_scaled else self._put(scale)
        if is_scaled and not on_host:
            self.x = seen(self.x, self._put(scale), self.precision)
        jax.block_until_ready((self.x, self.y))
        loaded = perf_counter()
        shapes = self.blocks.whole | ({(count, n) for count in powers(READY)} if self.whole and self.looped else set())
        for shape in shapes if self.is_ready_early else ():
            for has_loss in (True,) if self.config.loss_every == 1 else (True, False):
                self._program(shape, has_loss)
        self.seconds = {"load": loaded - start, "compile": perf_counter() - loaded}

    def _program(self, shape: tuple[int, int], has_loss: bool) -> Any:
        """Program that trains a block of (steps, size) with or without losses; compiled once."""
        assert self.x is not None
        if (*shape, has_loss) not in self.programs:
            count, size = shape
            flops = self.net.train_flops * size
            by_flops = UNROLLED_WHOLE if self.whole else UNROLLED
            unroll = next((times for most, times in by_flops if flops <= most), 1) if self.on_gpu else 1
            at_once = self.on_gpu and count * size * self.x.nbytes // self.samples <= GATHERED
            half_bits = Order(0, 0, self.samples).half_bits if self._shuffles(shape) else None
            is_batch = self._takes_batch(shape)
            length = Length(count, size, unroll, self.whole or is_batch, at_once, half_bits, has_loss)
            x, goal, is_scaled = self.x, None if self.y is None else self.y.shape[1:], self.scale is not None
            given = (size, *x.shape[1:]) if is_batch else x.shape
            samples = SampleArrays(given, str(x.dtype), goal, is_scaled, self.is_weighted, self.sharding)
            self.programs[*shape, has_loss] = program(self.net, self.rule, self.precision, length, samples)
        return self.programs[*shape, has_loss]

    def _shuffles(self, shape: tuple[int, int]) -> bool:
        """True if a program of this shape always starts at an epoch's first step, and computes the order itself."""
        is_epoch = shape == (self.blocks.full, self.blocks.batch) and not self._takes_batch(shape)
        return is_epoch and not self.whole and self.samples <= jax_order.MOST

    def _takes_batch(self, shape: tuple[int, int]) -> bool:
        """True if a program of this shape is given its batch, not the data set: one step on a CPU, where gathering on
        the host costs no more. Data sets of all sizes share such a program.
        """
        return shape[0] == 1 and not self.on_gpu

    def _words(self, order: Order) -> jax.Array | np.ndarray:
        """Words of an order, on the device if the previous epoch has copied them."""
        return self.following[1] if self.following is not None and self.following[0] == order else order.words

    def _numbers(self, first: int, count: int) -> jax.Array:
        """Numbers of `count` updates from `first` on, on the device."""
        if self.always is not None:
            return self.always
        if self.coming is not None and self.coming[:2] == (first, count):
            return self.coming[2]
        return self._put(numbers(self.config, first, first + count, self.samples))

    def _rows(self, order: Order) -> jax.Array | np.ndarray:
        """Indices (n,) int32 of an order's samples, on a GPU or the host; cached for the next ranges of its epoch."""
        if self.order is None or self.order[0] != order:
            if self.on_gpu and ORDERED < order.n <= jax_order.MOST:
                rows = jax_order.program(order.n, order.half_bits, self.sharding)(order.words)
            else:
                rows = order.indices(0, order.n).astype(np.int32)
                rows = self._put(rows) if self.on_gpu else rows
            self.order = order, rows
        return self.order[1]

    def _position(self, at: int) -> jax.Array | np.int32:
        """Position as an int32, on a GPU cached: copying a number can take as long as a step."""
        if not self.on_gpu:
            return np.int32(at)
        if at not in self.positions:
            self.positions[at] = self._put(np.array(at, np.int32))
        return self.positions[at]

    def run(self, order: Order, first: int, last: int) -> StepLog:
        if self.x is None:
            raise not_loaded(self.net)
        check_range(self.config, order, self.samples, first, last)
        batch, has_loss = self.blocks.batch, self.config.has_loss(order.epoch)
        logs = []
        for block in self.blocks.cut(first, last):
            shape = block.steps, block.size
            if self.whole:
                log, _ = self._send(shape, None, None, has_loss)
            elif self._shuffles(shape):
                self.order = None  # freed first, so that the next order can have the same memory
                log, rows = self._send(shape, self._words(order), self._keys(order, block.first * batch), has_loss)
                self.order = order, rows
                following = replace(order, epoch=order.epoch + 1)  # copied now, while the GPU is busy
                self.following = following, self._put(following.words)
                if not self.rule.steady:
                    start = self.step + (self.blocks.partial > 0)
                    self.coming = start, block.steps, self._numbers(start, block.steps)
            else:
                place = self._rows(order), self._position(block.first * batch)
                log, _ = self._send(shape, place, self._keys(order, block.first * batch), has_loss)
            logs.append(log)
        loss, correct = self._finished(logs)
        size = np.minimum(batch, self.samples - np.arange(first, last) * batch)
        return StepLog(loss, correct, size) if has_loss else StepLog.without_loss(size)

    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        if self.x is None or not self.whole:
            return super().run_epochs(orders)
        for order in orders:
            check_range(self.config, order, self.samples, 0, 1)
        sent = [
            self._send((count, self.samples), None, None, has_loss)[0]
            for has_loss, alike in in_a_row(self.config, orders)
            for count in self._together(alike)
        ]
        whole = StepLog(
            *self._finished(sent), np.full(sum(self.config.has_loss(order.epoch) for order in orders), self.samples)
        )
        logs = iter(whole.by_step())
        return [
            next(logs) if self.config.has_loss(order.epoch) else StepLog.without_loss(np.full(1, self.samples))
            for order in orders
        ]

    def _together(self, left: int) -> Iterator[int]:
        """Numbers of steps of consecutive programs that together run `left` steps with all samples."""
        while left:
            count = (
                min(left, TOGETHER) if left >= OWN else next(count for count in powers(READY)[::-1] if count <= left)
            )
            yield count if self.looped else 1
            left -= count if self.looped else 1

    def _keys(self, order: Order, position: int) -> np.ndarray | None:
        """Keys (2,) uint32 of the masks of a block that begins at this position; None for a net without masks."""
        return np.array([order.mask_key, position], np.uint32) if self.net.is_random else None

    def _send(self, shape: tuple[int, int], place: Any, keys: Any, has_loss: bool) -> tuple[jax.Array, Any]:
        """Start a program; returns its log, with its copy to the host started, and the order that it computes."""
        train = self._program(shape, has_loss)
        table = self._numbers(self.step, shape[0])
        x, y = self.x, self.y
        if place is not None and self._takes_batch(shape):
            rows, first = place
            mine, place = np.asarray(rows)[first : first + shape[1]], None
            x, y = (a if a is None else self._put(np.asarray(a)[mine]) for a in (x, y))
        self.held, log, rows = train(self.held, table, self.scale, x, y, place, keys)
        self.step += shape[0]
        if has_loss:
            log.copy_to_host_async()
        return log, rows

    def _finished(self, logs: list[jax.Array]) -> tuple[np.ndarray, np.ndarray]:
        """Losses (steps,) float64 and counts of correct samples (steps,) int64 of all logs, after waiting for all
        programs.
        """
        bits = np.concatenate([np.zeros((2, 0), np.uint32), *logs], axis=1)
        jax.block_until_ready(self.held)
        return bits[0].view(np.float32).astype(np.float64), bits[1].astype(np.int64)

    def state(self) -> State:
        slots = {slot: self._flat(tree) for slot, tree in self.held.slots.items()}
        buffers = np.zeros(self.net.buffer_count, np.float32) if self.net.normalizes else None
        for name, view in () if buffers is None else buffer_views(self.net, buffers).items():
            view[...] = self._outward(name, np.asarray(self.held.buffers[name]))
        return State(self._flat(self.held.params), slots, self.step, buffers)

    def set_state(self, state: State) -> None:
        self.step = state.step
        self.held = Held(
            self._tree(views(self.net, state.params)),
            {slot: self._tree(views(self.net, state.slot(slot))) for slot in self.rule.slots},
            self._tree(buffer_views(self.net, state.buffers_of(self.net))),
        )

    def _flat(self, tree: Tree) -> np.ndarray:
        flat = np.zeros(self.net.param_count, np.float32)
        for name, view in views(self.net, flat).items():
            view[...] = self._outward(name, np.asarray(tree[name]))
        return flat

    def _tree(self, arrays: dict[str, np.ndarray]) -> Tree:
        return {name: self._put(self._inward(name, a.astype(np.float32))) for name, a in arrays.items()}

    def _inward(self, name: str, a: np.ndarray) -> np.ndarray:
        """Copy of array `a` in this peer's layout."""
        if name in self.flattened:
            a = channels_last(a, self.flattened[name])
        return np.array(a.transpose({1: (0,), 2: (1, 0), 4: (2, 3, 1, 0)}[a.ndim]), order="C")

    def _outward(self, name: str, a: np.ndarray) -> np.ndarray:
        a = a.transpose({1: (0,), 2: (1, 0), 4: (3, 2, 0, 1)}[a.ndim])
        return channels_first(np.ascontiguousarray(a), self.flattened[name]) if name in self.flattened else a

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        check_samples(self.net, x)
        out = np.empty((len(x), *self.net.out_shape), np.float32)
        most = max(1, PREDICTED // floats(self.net))
        rates = self._put(np.array([scale], np.float32))
        for start in range(0, len(x), most):
            some = stored(x[start : start + most], self.image)
            bits = (len(some) - 1).bit_length()
            if len(some) <= FEW:
                some, bits = some.astype(np.float32), bits + bits % 2
            rows = min(most, 1 << bits)  # few sizes, so that few programs are compiled
            padded = np.zeros((rows, *some.shape[1:]), some.dtype)
            padded[: len(some)] = some
            work = prediction(self.net, self.precision, padded.shape, str(some.dtype), self.sharding)
            out[start : start + len(some)] = np.asarray(
                work(self.held.params, self.held.buffers, rates, self._put(padded))
            )[: len(some)]
        return out

    def memory(self) -> dict[str, int]:
        weights = 4 * self.net.param_count
        held = {"parameters": weights, "optimizer": weights * len(self.rule.slots)}
        if self.x is not None:
            held["data"] = self.x.nbytes + (0 if self.y is None else self.y.nbytes)
            held["order"] = 0 if self.order is None else self.order[1].nbytes
            analyses = [train.memory_analysis() for train in self.programs.values()]
            held["workspace"] = max(
                (analysis.temp_size_in_bytes for analysis in analyses if analysis is not None), default=0
            )
        return held

    def peak(self) -> float | None:
        return driver.peak(self.precision) if self.on_gpu else None

    def spans(self) -> dict[str, float]:
        return dict(self.seconds)

    def close(self) -> None:
        self.x = self.y = self.order = self.following = self.coming = None
        self.programs = {}

    def _put(self, a: np.ndarray) -> jax.Array:
        return jax.device_put(a, self.sharding)
