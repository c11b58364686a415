"""Trainer of the rungs that compute layer by layer."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..config import TrainConfig
from ..data.order import Order, layer_key
from ..nets import Flatten, Net, ReLU
from ..nets.params import buffer_views, views
from ..ops.engine.base import Array, Buffers, LossOp, Op, OpTable, host
from .array_feed import ArrayFeed
from .base import State, StepLog, Trainer, check_fit, check_range, check_samples, goals, not_loaded
from .shares import BatchShares

if TYPE_CHECKING:
    from ..data.dataset import Dataset

#: Of activations at a time: a larger batch goes through the layers in slices, whose gradients are averaged, so that
#: full-batch training needs little memory and finds its numbers in the cache.
SLICE_BYTES = 1 << 24

#: The limit on a GPU: a slice costs launches, and memory is plentiful.
GPU_SLICE_BYTES = 4 << 30


@dataclass
class Batch:
    """Buffers of one batch, and the ops bound to them.

    activations : inputs of each layer, then the net's output; (capacity, *shape).
    gradients : arrays of the same shapes; None where none is needed.
    ops : (layer's index, op) each. loss : None in buffers that only predict.
    """

    capacity: int
    activations: list[Array]
    gradients: list[Array | None]
    ops: list[tuple[int, Op]]
    loss: LossOp | None = None


class LayerwiseTrainer(Trainer):
    """Trainer that calls the layers' ops forward, then backward, then the update; all ops are bound once.

    table : implementation of each operation. around : context of all arithmetic, for a library's threads.
    xp : numpy or cupy. dtype : "float32" or "float64", of everything.
    sums : "float64" to add the gradients of a batch's samples in float64, rounded once; None for `dtype`.
    """

    def __init__(
        self, net: Net, config: TrainConfig, state: State, table: OpTable,
        around: Callable[[], AbstractContextManager] = nullcontext, xp: Any = np, dtype: str = "float32",
        sums: str | None = None,
    ) -> None:  # fmt: skip
        self.net, self.config, self.table, self.around, self.xp = net, config, table, around, xp
        self.dtype = np.dtype(dtype)
        self.params, self.grads = (xp.zeros(net.param_count, self.dtype) for _ in range(2))
        self.summed = self.grads if sums in (None, dtype) else xp.zeros(net.param_count, sums)  # filled by a pass
        self.buffers = xp.zeros(net.buffer_count, self.dtype)
        self.slots = {name: xp.zeros(net.param_count, self.dtype) for name in config.optimizer.slots}
        self.update = table.update(config, self.params, self.grads, tuple(self.slots.values()))
        self.step = 0
        self.batch: Batch | None = None
        self.feed: ArrayFeed | None = None
        self.shares: BatchShares | None = None
        self.mean: Array | None = None
        self.set_state(state)

    def load(self, dataset: Dataset) -> None:
        check_fit(self.net, dataset, self.config)
        batch = self.config.batch(len(dataset.train_x))
        capacity = batch if self.net.normalizes else self._most(batch)
        self.mean = self.xp.zeros_like(self.summed) if capacity < batch else None
        self.batch = self._bind(capacity, train=True)
        x, y, dy = self.batch.activations[0], self.batch.activations[-1], self.batch.gradients[-1]
        goal = goals(self.net, dataset.train_y)
        target = None if goal is None else self.xp.zeros((capacity, *goal.shape[1:]), goal.dtype)
        self.feed = ArrayFeed(dataset, self.config, self.table.gather, x, target, goal)
        self.shares = BatchShares.of(self.net.loss, dataset, self.config)
        self.share = None if self.shares is None else self.xp.zeros(capacity, self.dtype)  # shares of a slice's samples
        self.batch.loss = self.table.loss(self.net.loss, y, x if target is None else target, dy, self.share)

    def _bind(self, capacity: int, train: bool) -> Batch:
        net = self.net
        count = len(net.layers)
        activations = [self.xp.zeros((capacity, *net.in_shape), self.dtype)]
        gradients: list[Array | None] = [None] * (count + 1)
        reuses = [False] * count
        untouchable = True  # the net's input may be the target, so nothing may overwrite it
        for i, layer in enumerate(net.layers):
            shape = (capacity, *net.shapes[i + 1])
            if isinstance(layer, Flatten):
                reuses[i] = True
            else:
                reuses[i] = isinstance(layer, ReLU) and not untouchable
                untouchable = False
            activations.append(activations[i].reshape(shape) if reuses[i] else self.xp.zeros(shape, self.dtype))
        if train:
            gradients[count] = self.xp.zeros(activations[count].shape, self.dtype)
            for i in reversed(range(net.first_trained + 1, count)):
                above = gradients[i + 1]
                shape = activations[i].shape
                gradients[i] = (
                    above.reshape(shape) if reuses[i] and above is not None else self.xp.zeros(shape, self.dtype)
                )
        w, dw = views(net, self.params), views(net, self.summed) if train else {}
        held = buffer_views(net, self.buffers)
        ops = [
            (i, self.table.op(layer)(
                layer,
                Buffers(
                    activations[i], activations[i + 1], gradients[i], gradients[i + 1],
                    *self._parameters(w, net.names[i]), *self._parameters(dw, net.names[i]),
                    held.get(f"{net.names[i]}.running_mean"), held.get(f"{net.names[i]}.running_var"),
                    *(None if at is None else arrays[at] for arrays, at in (
                        (activations, net.skips.stored.get(i)), (gradients, net.skips.returned.get(i)),
                    )),
                ),
            ))
            for i, layer in enumerate(net.layers)
            if not isinstance(layer, Flatten)
        ]  # fmt: skip
        return Batch(capacity, activations, gradients, ops)

    def _parameters(self, named: dict[str, Array], name: str) -> tuple[Array | None, Array | None]:
        """Weight and bias of a layer, or their gradients; without a bias, zeros whose gradient is unused."""
        weight, bias = named.get(f"{name}.weight"), named.get(f"{name}.bias")
        return weight, self.xp.zeros(len(weight), weight.dtype) if bias is None and weight is not None else bias

    def run(self, order: Order, first: int, last: int) -> StepLog:
        if self.batch is None or self.feed is None:
            raise not_loaded(self.net)
        check_range(self.config, order, self.feed.samples, first, last)
        log = StepLog(np.zeros(last - first), np.zeros(last - first, np.int64), np.zeros(last - first, np.int64))
        has_loss = self.config.has_loss(order.epoch)
        self.feed.begin(order, first, last)
        shares = None if self.shares is None else self.xp.asarray(self.shares.steps(order, first, last), self.dtype)
        numbers = self.config.numbers(self.step, self.step + last - first, order.n).astype(self.dtype)
        with self.around(), np.errstate(over="ignore", invalid="ignore"):  # the loss shows what went wrong
            for row, step in enumerate(range(first, last)):
                log.size[row] = self.feed.size(step)
                if self.mean is not None:
                    self.mean[...] = 0
                position = step * self.feed.batch
                for n in self.feed.slices(step):
                    self._begin(order.mask_key, position)
                    share = n / log.size[row]
                    if shares is not None and self.share is not None:
                        at = position - first * self.feed.batch
                        self.share[:n] = shares[at : at + n] / self.dtype.type(share)
                    position += n
                    self._pass(n, has_loss)
                    if has_loss:
                        loss, correct = self._reported()
                        log.loss[row] += share * loss
                        log.correct[row] += correct
                    if self.mean is not None:
                        self.summed *= self.summed.dtype.type(share)
                        self.mean += self.summed
                found = self.summed if self.mean is None else self.mean
                if found is not self.grads:
                    self.grads[...] = found
                self.update.step(numbers[row])
                self.step += 1
        return log if has_loss else StepLog.without_loss(log.size)

    def _begin(self, mask_key: int, position: int) -> None:
        """Prepare the ops that draw masks for a slice of samples from this position of an epoch's order on."""
        assert self.batch is not None
        for i, op in self.batch.ops:
            if self.net.layers[i].is_random:
                op.begin(layer_key(mask_key, i), position)

    def _pass(self, n: int, has_loss: bool) -> None:
        """Compute the gradient of the n buffered samples into `summed`; with `has_loss`, loss and correct ones too."""
        batch = self.batch
        assert batch is not None and batch.loss is not None
        for _, op in batch.ops:
            op.forward(n)
        batch.loss.forward(n, has_loss)
        batch.loss.backward(n)
        for i, op in reversed(batch.ops):
            if i >= self.net.first_trained:
                op.backward(n)

    def _reported(self) -> tuple[float, int]:
        """Mean loss and number of correct samples of the last pass; with CuPy, reading them waits for the GPU."""
        assert self.batch is not None and self.batch.loss is not None
        return float(self.batch.loss.loss[0]), int(self.batch.loss.correct[0])

    def state(self) -> State:
        params, buffers = self.weights()
        return State(params, {name: host(slot).copy() for name, slot in self.slots.items()}, self.step, buffers)

    def weights(self) -> tuple[np.ndarray, np.ndarray | None]:
        return host(self.params).copy(), host(self.buffers).copy() if self.net.normalizes else None

    def set_state(self, state: State) -> None:
        self.params[...] = self.xp.asarray(state.params)
        for name, slot in self.slots.items():
            slot[...] = self.xp.asarray(state.slot(name))
        self.buffers[...] = self.xp.asarray(state.buffers_of(self.net))
        self.step = state.step

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        check_samples(self.net, x)
        if self.batch is None:
            self.batch = self._bind(self._most(256), train=False)
        batch = self.batch
        out = np.empty((len(x), *self.net.out_shape), self.dtype)
        with self.around(), np.errstate(over="ignore", invalid="ignore"):
            for first in range(0, len(x), batch.capacity):
                some = self.xp.asarray(x[first : first + batch.capacity])
                n = len(some)
                self.xp.multiply(
                    some, np.float32(scale), out=batch.activations[0][:n], dtype=np.float32
                )  # whatever else is float64
                for _, op in batch.ops:
                    op.predict(n)
                out[first : first + n] = host(batch.activations[-1][:n])
        return out

    def _most(self, samples: int) -> int:
        """Number of samples that pass the layers together: all, or equal parts of them."""
        shapes = [self.net.in_shape] + [
            shape
            for layer, shape in zip(self.net.layers, self.net.shapes[1:], strict=True)
            if not isinstance(layer, (Flatten, ReLU))
        ]
        limit = max(
            1,
            (SLICE_BYTES if self.xp is np else GPU_SLICE_BYTES)
            // sum(self.dtype.itemsize * math.prod(shape) for shape in shapes),
        )
        return -(-samples // -(-samples // limit))

    def memory(self) -> dict[str, int]:
        slots = sum(slot.nbytes for slot in self.slots.values())
        held = {
            "parameters": self.params.nbytes,
            "gradients": self.grads.nbytes,
            "optimizer": slots + self.update.workspace,
        }
        if self.batch is not None:
            held["input"] = self.batch.activations[0].nbytes
            held["activations"] = _bytes(self.batch.activations[1:], self.batch.activations[0])
            held["gradients"] += _bytes(self.batch.gradients)
            held["workspace"] = sum(op.workspace for _, op in self.batch.ops) + (
                self.batch.loss.workspace if self.batch.loss else 0
            )
        if self.summed is not self.grads:
            held["gradients"] += self.summed.nbytes
        if self.mean is not None:
            held["gradients"] += self.mean.nbytes
        if self.feed is not None:
            held["workspace"] += self.feed.gather.workspace
            held["data"] = self.feed.bytes
        return held

    def sources(self) -> list[Path]:
        """Source file of each operation: layers, loss and update."""
        ops: list[object] = [] if self.batch is None else [*(op for _, op in self.batch.ops), self.batch.loss]
        return [Path(inspect.getfile(type(op))) for op in (*ops, self.update) if op is not None]

    def peak(self) -> float | None:
        if self.xp is np:
            return None
        from ..device.gpu.properties import peaks

        found = peaks()
        return None if found is None else found.of("fp64" if self.dtype == np.float64 else "fp32")

    def close(self) -> None:
        self.batch = self.feed = None


def _address(array: Array) -> int:
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr


def _bytes(arrays: list, *seen: Array) -> int:
    """Bytes of distinct memory in a list of arrays, some of which are views of each other or of `seen`."""
    starts = {_address(a) for a in seen}
    total = 0
    for a in arrays:
        if a is not None and _address(a) not in starts:
            starts.add(_address(a))
            total += a.nbytes
    return total
