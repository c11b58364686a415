"""Training with JAX: blocks of steps compiled as one program each, the data set on the device. docs/peers.md has the reasons."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from time import perf_counter
from typing import TYPE_CHECKING, Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # or JAX takes three quarters of a GPU's memory from everybody else

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import SingleDeviceSharding

from ..config import TrainConfig
from ..errors import DataError, RungError
from ..nets import Conv2d, CrossEntropyLoss, Linear, Net
from ..order import Order
from ..params import slots, views
from ..trainers.base import State, StepLog, Trainer, check_fit, check_range
from . import driver
from .blocks import Blocks
from .jax_steps import RATES, Rule, Tree, batches, floats, forward, pixels, steps
from .layout import channels_first, channels_last, flattened, spatial, stored

if TYPE_CHECKING:
    from ..data.dataset import Dataset

GATHERED = 1 << 28  # bytes of samples that are gathered for one program, at most
PREDICTED = 1 << 22  # numbers in the largest activation of one call of the net, at most, if one sample allows

MOST = 64  # steps in a program
TOGETHER = 16  # of them where each takes all samples

#: Unrolled steps on a GPU, by the most FLOPs of one: small steps are all overhead, large ones only take longer to compile.
UNROLLED = ((2e8, 16), (1e10, 4))


class JaxTrainer(Trainer):
    """A jitted scan over steps, compiled when the data set is loaded.

    Parameters
    ----------
    net, config, state
        As every rung's `build` is given them.
    platform : {"cpu", "gpu"}
        Where it trains; `RungError` if JAX has no such device.
    precision : {"float32", "tf32", "bfloat16"}
        Of the factors of products; sums, weights and the update are float32.
    """

    def __init__(self, net: Net, config: TrainConfig, state: State, *, platform: str = "cpu", precision: str = "float32") -> None:
        self.net, self.config, self.precision = net, config, precision
        self.device = device(platform)
        self.on_gpu = platform == "gpu"
        self.sharding = SingleDeviceSharding(self.device)
        self.rule = Rule.of(config)
        self.image = spatial(net)
        self.flattened = flattened(net)
        self.params: Tree = {}
        self.velocity: Tree = {}
        self.x: jax.Array | None = None
        self.y: jax.Array | None = None
        self.programs: dict[tuple[int, int], tuple[Any, Any]] = {}
        self.seconds: dict[str, float] = {}
        self.set_state(state)

    def load(self, dataset: Dataset) -> None:
        check_fit(self.net, dataset)
        start = perf_counter()
        n, config = len(dataset.train_x), self.config
        self.samples, size = n, dataset.train_x.nbytes // n
        # XLA's convolutions on a CPU use one core where they stand in a loop
        most = MOST if self.on_gpu or not self.image else 1
        self.blocks = Blocks.of(config, n, max(1, min(most, GATHERED // (size * config.batch(n)))))
        self.whole = self.blocks.batch == n  # a full batch has every sample, whatever the order
        self.together = min(most, TOGETHER)
        rates = [getattr(config, name, None) or 0.0 for name in RATES[:-1]]
        self.rates = self._put(np.array([*rates, dataset.scale], np.float32))
        self.x = self._put(stored(dataset.train_x, self.image))
        self.y = self._put(np.array(dataset.train_y)) if isinstance(self.net.loss, CrossEntropyLoss) else None
        if self.whole:
            self.x = seen(self.x, self.rates[-1], self.precision)[None]
            self.y = None if self.y is None else self.y[None]
        jax.block_until_ready((self.x, self.y))
        loaded = perf_counter()
        self.programs = {}
        for shape in self.blocks.whole | ({(self.together, n)} if self.whole else set()):
            self._program(shape)
        self.seconds = {"load": loaded - start, "compile": perf_counter() - loaded}

    def _program(self, shape: tuple[int, int]) -> tuple[Any, Any]:
        """What gathers the batches of a block, (steps, size), or None, and what trains on them; compiled once."""
        assert self.x is not None
        if shape not in self.programs:
            gather = None
            if not self.whole:
                rows = jax.ShapeDtypeStruct(shape, np.int32, sharding=self.sharding)
                gather = jax.jit(batches).lower(self.x, self.y, rows).compile()
            flops = self.net.train_flops * shape[1]
            unroll = next((times for most, times in UNROLLED if flops <= most), 1) if self.on_gpu else 1
            x = self.x.shape if self.whole else (*shape, *self.x.shape[1:])
            dtype, labelled = str(self.x.dtype), self.y is not None
            train = program(self.net, self.rule, self.precision, unroll, shape[0], x, dtype, labelled, self.whole, self.sharding)
            self.programs[shape] = gather, train
        return self.programs[shape]

    def run(self, order: Order, first: int, last: int) -> StepLog:
        if self.x is None:
            raise DataError(f"net {self.net.name!r} has nothing to train on: call load(dataset) before run")
        check_range(self.config, order, self.samples, first, last)
        batch = self.blocks.batch
        logs = []
        for block in self.blocks.cut(first, last):
            shape = (block.steps, block.size)
            gather, train = self._program(shape)
            x, y = self.x, self.y
            if gather is not None:
                # the host looks up the rows of a block while the device is at work on the one before
                start = block.first * batch
                rows = order.indices(start, start + block.steps * block.size).astype(np.int32).reshape(shape)
                x, y = gather(x, y, self._put(rows))
            logs.append(self._send(train, x, y))
        return self._finished(logs, np.minimum(batch, self.samples - np.arange(first, last) * batch))

    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        if self.x is None or not self.whole:
            return super().run_epochs(orders)
        for order in orders:
            check_range(self.config, order, self.samples, 0, 1)
        logs, left = [], len(orders)
        while left:
            count = self.together if left >= self.together else 1
            _, train = self._program((count, self.samples))
            logs.append(self._send(train, self.x, self.y))
            left -= count
        return self._finished(logs, np.full(len(orders), self.samples)).apart()

    def _send(self, train: Any, x: jax.Array, y: jax.Array | None) -> list[jax.Array]:
        """Start a program; its losses and counts of right samples, which will come to the host by themselves."""
        self.params, self.velocity, *log = train(self.params, self.velocity, self.rates, x, y)
        for part in log:
            part.copy_to_host_async()
        return log

    def _finished(self, logs: list[list[jax.Array]], size: np.ndarray) -> StepLog:
        """Wait for all programs."""
        jax.block_until_ready((self.params, self.velocity))
        loss, correct = (np.concatenate([np.zeros(0, dtype), *(log[i] for log in logs)]) for i, dtype in enumerate((np.float64, np.int64)))
        return StepLog(loss.astype(np.float64), correct.astype(np.int64), size)

    def state(self) -> State:
        params, velocity = (np.zeros(self.net.param_count, np.float32) for _ in range(2))
        for flat, tree in ((params, self.params), (velocity, self.velocity)):
            for name, view in views(self.net, flat).items():
                if name in tree:
                    view[...] = self._outward(name, np.asarray(tree[name]))
        return State(params, velocity)

    def set_state(self, state: State) -> None:
        self.params = self._tree(state.params)
        self.velocity = self._tree(state.velocity) if self.rule.momentum else {}

    def _tree(self, flat: np.ndarray) -> Tree:
        return {name: self._put(self._inward(name, view)) for name, view in views(self.net, flat.astype(np.float32)).items()}

    def _inward(self, name: str, a: np.ndarray) -> np.ndarray:
        """A tensor in the layout that it has here: always a copy."""
        if name in self.flattened:
            a = channels_last(a, self.flattened[name])
        return np.array(a.transpose({1: (0,), 2: (1, 0), 4: (2, 3, 1, 0)}[a.ndim]), order="C")

    def _outward(self, name: str, a: np.ndarray) -> np.ndarray:
        a = a.transpose({1: (0,), 2: (1, 0), 4: (3, 2, 0, 1)}[a.ndim])
        return channels_first(np.ascontiguousarray(a), self.flattened[name]) if name in self.flattened else a

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        if x.shape[1:] != self.net.in_shape:
            raise DataError(f"net {self.net.name!r} takes samples of shape {self.net.in_shape}, got {x.shape[1:]}")
        out = np.empty((len(x), *self.net.out_shape), np.float32)
        most = max(1, PREDICTED // floats(self.net))
        rates = self._put(np.array([scale], np.float32))
        for start in range(0, len(x), most):
            some = stored(x[start : start + most], self.image)
            rows = min(most, 1 << (len(some) - 1).bit_length())  # few sizes, so that few programs are compiled
            padded = np.zeros((rows, *some.shape[1:]), some.dtype)
            padded[: len(some)] = some
            work = prediction(self.net, self.precision, padded.shape, str(some.dtype), self.sharding)
            out[start : start + len(some)] = np.asarray(work(self.params, rates, self._put(padded)))[: len(some)]
        return out

    def memory(self) -> dict[str, int]:
        weights = 4 * self.net.param_count
        held = {"parameters": weights, "optimiser": weights if self.rule.momentum else 0}
        if self.x is not None:
            held["data"] = self.x.nbytes + (0 if self.y is None else self.y.nbytes)
            analyses = [train.memory_analysis() for _, train in self.programs.values()]
            held["workspace"] = max((analysis.temp_size_in_bytes for analysis in analyses if analysis is not None), default=0)
        return held

    def peak(self) -> float | None:
        return driver.peak(self.precision) if self.on_gpu else None

    def spans(self) -> dict[str, float]:
        return dict(self.seconds)

    def close(self) -> None:
        self.x = self.y = None
        self.programs = {}

    def _put(self, a: np.ndarray) -> jax.Array:
        return jax.device_put(a, self.sharding)


def device(platform: str) -> jax.Device:
    """The first device of a platform, "cpu" or "gpu"; `RungError` where there is none."""
    try:
        return jax.devices(platform)[0]
    except RuntimeError as error:
        raise RungError(f"JAX has no {platform} here: {str(error).splitlines()[0]}") from error


def seen(x: jax.Array, scale: jax.Array, precision: str) -> jax.Array:
    """A whole data set as the net sees it, in the format of the products' factors."""
    out = jax.jit(pixels)(x, scale)
    return out.astype(jnp.bfloat16) if precision == "bfloat16" else out


@lru_cache(maxsize=256)
def program(
    net: Net, rule: Rule, precision: str, unroll: int, count: int, shape: tuple[int, ...], dtype: str, labelled: bool, whole: bool,
    sharding: SingleDeviceSharding,
) -> Any:  # fmt: skip
    """`steps`, compiled for data of this shape; settings of the same rule share it."""
    params = tensors(net, sharding)
    velocity = params if rule.momentum else {}
    x = jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)
    y = jax.ShapeDtypeStruct(shape[:2], np.int32, sharding=sharding) if labelled else None
    rates = jax.ShapeDtypeStruct((len(RATES),), np.float32, sharding=sharding)
    work = jax.jit(steps(net, rule, precision, unroll, count, whole), donate_argnums=(0, 1))
    return work.lower(params, velocity, rates, x, y).compile()


@lru_cache(maxsize=256)
def prediction(net: Net, precision: str, shape: tuple[int, ...], dtype: str, sharding: SingleDeviceSharding) -> Any:
    """The net's output for samples as they are stored, compiled for data of this shape."""

    def work(params: Tree, rates: jax.Array, x: jax.Array) -> jax.Array:
        return forward(net, params, pixels(x, rates[0]), precision)

    shapes = (jax.ShapeDtypeStruct((1,), np.float32, sharding=sharding), jax.ShapeDtypeStruct(shape, dtype, sharding=sharding))
    return jax.jit(work).lower(tensors(net, sharding), *shapes).compile()


def tensors(net: Net, sharding: SingleDeviceSharding) -> dict[str, jax.ShapeDtypeStruct]:
    """Shapes of the parameters as they lie here."""
    out = {}
    for slot in slots(net):
        shape = slot.shape
        if isinstance(net.layers[slot.layer], Linear) and len(shape) == 2:
            shape = shape[::-1]
        elif isinstance(net.layers[slot.layer], Conv2d) and len(shape) == 4:
            shape = (*shape[2:], shape[1], shape[0])
        out[slot.name] = jax.ShapeDtypeStruct(shape, np.float32, sharding=sharding)
    return out
