"""`KernelTrainer`: walks the layers as launches on a device; the trainer of every CUDA rung that works layer by layer."""

from __future__ import annotations

import inspect
import math
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from ...config import TrainConfig
from ...data.order import Order
from ...device import Array, Device, Launch
from ...device.dry_run import kernels_of
from ...errors import DataError
from ...nets import CrossEntropyLoss, Net
from ...ops.engine.chain import Gather, Slice, chain
from ...ops.engine.kernels import KernelAccumulate, KernelUpdate, Launches, Log, OnDevice
from ...ops.engine.segments import KernelTable
from ...optimizers import NUMBERS
from ..base import State, StepLog, Trainer, check_fit, check_range
from .chain import Between, Chain, Stage, allocate
from .feeds import FEEDS, Feed, ResidentFeed, taking_rows
from .layout import Layout

if TYPE_CHECKING:
    from ...data.dataset import Dataset

#: Of activations and their gradients at a time: a larger batch goes through the layers in slices, whose gradients are
#: added up.
SLICE_BYTES = 4 << 30

BLOCK_SIZE = 256  # threads

REPEATS = 400  # entries of the log at least: so often a profile repeats a step, however few an epoch has


class KernelTrainer(Trainer):
    """Everything is bound once to the device's memory; a step is then a list of launches.

    Parameters
    ----------
    net, config, state
        As every rung's `build` is given them.
    device : Device
        A GPU, or the emulator.
    table : KernelTable
        Which kernels to use.
    feed : {"sync", "streamed", "resident"}
        How samples reach the device.
    block_size : int or None
        Threads in a block where a kernel leaves the choice; None is BLOCK_SIZE.
    precision : str
        What segments are asked to compute layers in.
    """

    PREDICTED = 256  # samples that are predicted at a time, at most

    def __init__(
        self, net: Net, config: TrainConfig, state: State, device: Device, table: KernelTable, feed: str, block_size: int | None = None,
        precision: str = "fp32",
    ) -> None:  # fmt: skip
        self.net, self.config, self.device, self.table, self.precision = (
            net,
            config,
            device,
            table.with_files(net),
            precision,
        )
        self.feed_name, self.feed_type = feed, FEEDS[feed]
        self.block_size = block_size or BLOCK_SIZE
        self.layout = Layout(net)
        self.seconds: dict[str, float] = {}
        names = config.optimizer.slots
        device.check_room({"parameters, gradients and optimizer": 4 * (2 + len(names)) * self.layout.size})
        self.params, self.grads = (self.layout.zeros(device, what) for what in ("parameters", "gradients"))
        self.slots = {name: self.layout.zeros(device, "optimizer") for name in names}
        self.update = table.update(device, config, self.params, self.grads, tuple(self.slots.values()), self.block_size)
        self.step = device.zeros((1,), np.int32, "log")
        self.running = 0  # the number that `step` holds
        self.made = 0  # updates so far, over all epochs
        self.chain: Chain | None = None
        self.feed: Feed | None = None
        self.total: Array | None = None
        self.logged: Array | None = None
        self.numbers: Array | None = None
        self.adding: KernelAccumulate | None = None
        #: What ends a step: for a batch in one piece the update of all parameters that no segment updates; otherwise
        #: that of all.
        self.updates: dict[bool, Launches] = {}
        self.updaters: list[KernelUpdate] = []
        self._release()
        self.set_state(state)

    def load(self, dataset: Dataset) -> None:
        check_fit(self.net, dataset)
        with self.device.precompiling(partial(self.kernels_of_training, dataset), self.say):
            self._load(dataset)
            start = perf_counter()
            for part in self.parts():  # asks for the kernels of an epoch, so that none is compiled in an epoch's time
                self.program(part)
            self.seconds["load"] += perf_counter() - start

    def kernels_of_training(self, dataset: Dataset) -> list[tuple[Path, str]]:
        """Kernels of an epoch on a data set and of its test predictions, found by a dry run."""

        def work(device: Device) -> None:
            dry = self.on_device(device)
            dry.tuned = self.tuned
            dry.load(dataset)
            rest = len(dataset.test_x) % dry.PREDICTED  # the last predictions are of fewer samples than the others
            dry.predict(dataset.test_x[: dry.PREDICTED + rest], dataset.scale)

        return kernels_of(self.device, work)

    def kernels_of_predicting(self, x: np.ndarray, scale: float) -> list[tuple[Path, str]]:
        """Kernels of the predictions of samples, found by a dry run."""
        return kernels_of(self.device, lambda device: self.on_device(device).predict(x, scale))

    def on_device(self, device: Device) -> KernelTrainer:
        """A trainer like this one on another device, from zero weights."""
        start = State(np.zeros(self.net.param_count, np.float32))
        return KernelTrainer(
            self.net, self.config, start, device, self.table, self.feed_name, self.block_size, self.precision
        )

    def _load(self, dataset: Dataset) -> None:
        self._release()
        start = perf_counter()
        device, samples = self.device, len(dataset.train_x)
        self.samples = samples
        self.batch = self.config.batch(samples)
        self.itemsize = dataset.train_x.dtype.itemsize  # of a stored pixel
        self.capacity = capacity = self._capacity(self.batch, train=True)
        between = self._between(capacity, train=True)
        needs = between.sizes(capacity, train=True)
        if between.gathers:
            needs["data"] = dataset.train_x.nbytes + 4 * samples
        device.check_room(needs)
        steps = max(1, self.config.steps(samples))
        self.epoch, room = steps, max(steps, REPEATS)
        self.logged, self.told = device.zeros((2, room), np.float64, "log"), device.pinned((2, room), np.float64)
        rows = 1 if self.config.steady else room
        self.numbers = device.zeros((rows, NUMBERS), np.float32, "log")
        self.host_numbers = device.pinned(
            (rows, NUMBERS)
        )  # free again when a run has begun, since every run waits for its end
        self._bring_numbers(0, rows)
        arrays = allocate(between, device, capacity, train=True)
        if capacity < self.batch:
            self.total = self.layout.zeros(device, "gradients")
            self.adding = self.table.accumulate(device, self.total, self.grads, self.block_size)
        self.seconds["bind"] = perf_counter() - start
        start = perf_counter()
        gather, labelled = self.table.segments[Gather,], isinstance(self.net.loss, CrossEntropyLoss)
        self.feed = self.feed_type(
            device, dataset, self.batch, gather, arrays.x, arrays.labels, labelled, self.log, self.block_size
        )
        w, dw = self.layout.views(self.params), self.layout.views(self.grads)
        self.chain = Chain(
            between, device, arrays, w, dw, self.block_size, self.feed.samples, self.log, self._update_of
        )
        self.updaters = [self._update_of(names) for names in self.layout.without(self.chain.updated)]
        self.updates = {True: self._updating(self.updaters), False: self._updating([self.update])}
        device.synchronize()
        self.seconds["load"] = perf_counter() - start

    def _between(self, capacity: int, train: bool) -> Between:
        """The net's chain as the table cuts it for so many samples at a time."""
        resident = train and issubclass(self.feed_type, ResidentFeed)
        config, batch = (self.config, self.batch) if train else (None, capacity)
        nodes = chain(self.net, capacity, batch, self.device.limits, config, resident, self.precision)
        return Between(self.net, self.table.cut_net(nodes, self.net))

    def _update_of(self, names: list[str]) -> KernelUpdate:
        """The optimizer's step on some parameters that stand side by side."""
        some = self.layout.span(names)
        slots = tuple(slot[some] for slot in self.slots.values())
        return self.table.update(self.device, self.config, self.params[some], self.grads[some], slots, self.block_size)

    def _updating(self, updates: list[KernelUpdate]) -> Launches:
        """The launches of the optimizer's steps."""
        assert self.numbers is not None
        step = None if self.config.steady else self.step
        return [call for update in updates for call in update.launches(self.numbers, step)]

    def _release(self) -> None:
        """Let go of everything that was bound for a training set, before there is asked for room for another."""
        self.chain = self.feed = self.adding = None
        self.total = self.logged = self.numbers = None
        self.updates, self.updaters = {}, []
        self.programs: dict[Slice, Launches] = {}

    @property
    def log(self) -> Log:
        """Where steps leave their losses."""
        assert self.logged is not None
        loss, correct = self.logged[:1], self.logged[1:]
        return Log(self.step, loss.reshape(loss.size), correct.reshape(correct.size).view(np.int64))

    def _bring_numbers(self, first: int, last: int) -> None:
        """Queue what steps first..last-1 of the epoch are made with, for the updates that come next."""
        assert self.numbers is not None
        some, stream = slice(first, last), self.device.stream
        self.host_numbers[some] = self.config.numbers(self.made, self.made + last - first, self.samples)
        self.numbers[some].upload(self.host_numbers[some], stream)

    def run(self, order: Order, first: int, last: int) -> StepLog:
        if self.chain is None or self.feed is None:
            raise DataError(f"net {self.net.name!r} has nothing to train on: call load(dataset) before run")
        check_range(self.config, order, self.samples, first, last)
        if first == last:
            return StepLog(np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64))
        if self.running != first:
            self._count_from(first)
        if self.chain.reads_order:
            self.feed.begin(order, first, last)
        if not self.config.steady:
            self._bring_numbers(first, last)
        has_loss = self.config.has_loss(order.epoch)
        self._queue(self.feed, first, last, has_loss)
        size = np.array([self._size(step) for step in range(first, last)], np.int64)  # the device works meanwhile
        return self._finished(first, size, has_loss)

    def _finished(self, first: int, size: np.ndarray, has_loss: bool) -> StepLog:
        """Wait for the steps from `first` on, of these sizes, which are queued: what they report."""
        assert self.feed is not None
        last = first + len(size)
        self.running, self.made = last, self.made + last - first
        if has_loss:
            self._tell(first, last)
        done = self.device.stream.record()
        if last >= self.epoch:
            self.rewind()  # queued behind the copies: an epoch of one step is short, and waits once
        done.synchronize()
        self.feed.finish()
        if not has_loss:
            return StepLog.without_loss(size)
        loss, correct = self.told[:, first:last]
        return StepLog(loss.copy(), correct.copy().view(np.int64), size)

    def _tell(self, first: int, last: int) -> None:
        """Queue the copies of the log's entries to the host: all of it is one copy."""
        assert self.logged is not None
        some, stream = slice(first, last), self.device.stream
        if last - first == self.epoch:
            self.device.download(self.told, self.logged, stream)
        else:
            for row, entries in enumerate((self.log.loss, self.log.correct.view(np.float64))):
                self.device.download(self.told[row, some], entries[some], stream)

    def _count_from(self, step: int) -> None:
        """Set the device's count of steps."""
        if step:
            self.step.upload(np.array([step], np.int32))
        else:
            self.device.fill(self.step, 0)  # which is queued, and so costs an epoch of one step no wait

    def _queue(self, feed: Feed, first: int, last: int, has_loss: bool) -> None:
        """Queue the launches of steps first..last-1."""
        for step in range(first, last):
            for part in self._slices(self._size(step), has_loss):
                feed.send(step, part, self.program(part))
            feed.after(step, has_loss)

    def program(self, part: Slice) -> Launches:
        """All launches of a slice, in order; the last slice of a step updates the parameters."""
        found = self.programs.get(part)
        if found is None:
            found = self.programs[part] = [launch for stage in self.stages(part) for launch in stage.launches]
        return found

    def stages(self, part: Slice, repeated: bool = False) -> list[Stage]:
        """Stages of a slice, in order.

        repeated : True if the step before had the same slice; it may have prepared some of this one.
        """
        assert self.chain is not None and self.feed is not None
        no_layers = range(0)
        out = self.chain.prepare(part, repeated)
        if not self.chain.between.gathers:
            out.append(Stage("feed", no_layers, self.feed.launches(part)))
        out += [*self.chain.forward(part), *self.chain.backward(part)]
        if not part.whole:
            assert self.adding is not None
            out.append(Stage("sum", no_layers, self.adding.launches(part.first, part.last)))
        if part.last and self.updates[part.whole]:
            out.append(Stage("update", no_layers, self.updates[part.whole]))
        return out

    def rewind(self) -> None:
        """Set the device's count of steps back to the epoch's beginning."""
        self._count_from(0)
        self.running = 0

    def parts(self) -> list[Slice]:
        """The kinds of slices that an epoch has."""
        full, rest = divmod(self.samples, self.batch)
        sizes = [self.batch] * (full > 0) + [rest] * (rest > 0 and not self.config.drop_last)
        return [part for size in sizes for part in self._slices(size)]

    def _slices(self, batch: int, has_loss: bool = True) -> list[Slice]:
        """A batch in parts that go through the chain one after the other."""
        capacity = self.capacity
        return [Slice(min(capacity, batch - offset), batch, offset, has_loss) for offset in range(0, batch, capacity)]

    def _size(self, step: int) -> int:
        return min(self.batch, self.samples - step * self.batch)

    def _capacity(self, samples: int, train: bool) -> int:
        """How many samples go through the chain at a time: all, or equal parts of them."""
        each = sum(self._between(samples, train).sizes(1, train).values())
        limit = max(1, SLICE_BYTES // max(each, 4 * math.prod(self.net.in_shape)))
        return -(-samples // -(-samples // limit))

    def state(self) -> State:
        return State(
            self.layout.download(self.params),
            {name: self.layout.download(slot) for name, slot in self.slots.items()},
            self.made,
        )

    def set_state(self, state: State) -> None:
        self.layout.upload(self.params, state.params)
        for name, slot in self.slots.items():
            self.layout.upload(slot, state.slot(name))
        self.made = state.step

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        if x.shape[1:] != self.net.in_shape:
            raise DataError(f"net {self.net.name!r} takes samples of shape {self.net.in_shape}, got {x.shape[1:]}")
        with self.device.precompiling(partial(self.kernels_of_predicting, x, scale), self.say):
            return self._predict(x, scale)

    def _predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        device, out = self.device, np.empty((len(x), *self.net.out_shape), np.float32)
        capacity = self._capacity(self.PREDICTED, train=False)
        between = self._between(capacity, train=False)
        device.check_room(between.sizes(capacity, train=False))
        arrays = allocate(between, device, capacity, train=False)
        leaving = arrays.values[len(between.cut)].reshape((capacity, *self.net.out_shape))
        layers = Chain(between, device, arrays, self.layout.views(self.params), {}, self.block_size)
        raw = device.empty((capacity, *self.net.in_shape), x.dtype, "input")
        scaling = taking_rows(
            self.table.segments[Gather,], device, raw, scale, None, arrays.x, None, self.step, self.block_size
        )
        for first in range(0, len(x), capacity):
            some = np.ascontiguousarray(x[first : first + capacity])
            n = len(some)
            part = Slice(n, n)
            raw[:n].upload(some)
            for stage in [*layers.prepare(part), Stage("feed", range(0), scaling.forward(part)), *layers.forward(part)]:
                for launch in stage.launches:
                    launch.send()
            device.download(out[first : first + n], leaving[:n])
        return out

    def memory(self) -> dict[str, int]:
        held = {
            "parameters": self.params.nbytes,
            "gradients": self.grads.nbytes,
            "optimizer": sum(slot.nbytes for slot in self.slots.values()),
            "log": self.step.nbytes,
        }
        owners: list[OnDevice] = [self.update, *([self.adding] if self.adding is not None else [])]
        if self.chain is not None and self.feed is not None:
            arrays = self.chain.arrays
            held["input"] = _bytes(arrays.x) + _bytes(arrays.labels)
            held["activations"] = sum(array.nbytes for array in arrays.activations)
            held["gradients"] += sum(array.nbytes for array in arrays.own_gradients) + _bytes(self.total)
            held["data"] = self.feed.bytes
            held["log"] += _bytes(self.logged) + _bytes(self.numbers)
            owners += [*self.chain.segments, *self.feed.gathers, *self.updaters]
        return held | {"workspace": sum(owner.workspace for owner in owners)}

    def peak(self) -> float | None:
        """FLOP/s of the device in the precision of the layers, on the unit that the table's products are for; of the
        fastest where layers differ.
        """
        peaks, segments = self.device.limits.peaks, self.chain.segments if self.chain is not None else ()
        precisions = {self.precision, *(segment.factors for segment in segments if segment.factors is not None)}
        return None if peaks is None else max(peaks.of(precision, self.table.unit) for precision in precisions)

    def spans(self) -> dict[str, float]:
        return dict(self.seconds)

    def sources(self) -> list[type | Path]:
        """The .cu file of each launch of a step with its headers, the file of each call of a library, and how samples
        come.
        """
        if self.feed is None:
            return []
        stages = sorted(
            self.stages(self.parts()[0]), key=lambda stage: not stage.layers
        )  # layers first: they are what a reader looks for
        calls = [call for stage in stages for call in stage.launches]
        kernels = [call.kernel.source for call in calls if isinstance(call, Launch)]
        libraries = [Path(inspect.getfile(type(call))) for call in calls if not isinstance(call, Launch)]
        headers = [header for source in kernels for header in source.headers]
        return [
            *(source.path for source in kernels),
            *libraries,
            *headers,
            type(self.feed),
            *({type(self)} - {KernelTrainer}),
        ]

    def close(self) -> None:
        self._release()


def _bytes(array: Array | None) -> int:
    return 0 if array is None else array.nbytes
