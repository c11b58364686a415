"""`KernelTrainer`: trainer of the CUDA rungs, with a step as a list of launches on a device."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from ...config import TrainConfig
from ...data.order import Order
from ...device import Array, Device, KernelSource
from ...device.dry_run import kernels_of
from ...nets import Net
from ...ops.engine.chain import Gather, Slice, chain
from ...ops.engine.kernels import KernelAccumulate, KernelUpdate, Launches, Log, MaskKey, OnDevice
from ...ops.engine.segments import KernelTable
from ..base import State, StepLog, Trainer, check_fit, check_range, check_samples, goals, not_loaded
from .boundaries import Boundaries, allocate
from .chain import Chain, Stage, source_files
from .device_shares import DeviceShares
from .epoch_log import DeviceEpochLog, StepSettings
from .feeds import FEEDS, Feed, ResidentFeed, RowGather
from .layout import ParameterLayout
from .predict import PREDICTED, predict

if TYPE_CHECKING:
    from ...data.dataset import Dataset

#: Bytes of activations and their gradients, at most; slices of a larger batch are trained in turn, gradients added.
SLICE_BYTES = 4 << 30

#: Threads of a block, by default.
BLOCK_SIZE = 256


class KernelTrainer(Trainer):
    """Trainer that binds a net's segments to the device's memory once; a step is then a list of launches.

    device : a GPU, or the emulator. table : kernels of each layer. precision : number format of the layers' arithmetic.
    feed : "sync", "streamed" or "resident" transfer of samples.
    block_size : threads in a block of kernels that allow a choice; None is BLOCK_SIZE.
    """

    def __init__(
        self, net: Net, config: TrainConfig, state: State, device: Device, table: KernelTable, feed: str,
        block_size: int | None = None, precision: str = "fp32",
    ) -> None:  # fmt: skip
        self.net, self.config, self.device, self.precision = net, config, device, precision
        self.has_cheap_calls = device.hardware is None  # on an emulator a long call could not be interrupted
        self.table = table.with_files(net)
        self.feed_name, self.feed_type = feed, FEEDS[feed]
        self.block_size = block_size or BLOCK_SIZE
        self.layout = ParameterLayout(net)
        self.seconds: dict[str, float] = {}
        names = config.optimizer.slots
        device.check_room({"parameters, gradients and optimizer": 4 * (2 + len(names)) * self.layout.size})
        self.params, self.grads = (self.layout.zeros(device, what) for what in ("parameters", "gradients"))
        self.slots = {name: self.layout.zeros(device, "optimizer") for name in names}
        self.buffers = device.zeros((net.buffer_count,), np.float32, "parameters") if net.normalizes else None
        self.update = table.update(device, config, self.params, self.grads, tuple(self.slots.values()), self.block_size)
        self.step = device.zeros((1,), np.int32, "log")
        self.mask_key: MaskKey | None = None
        self.masked_order: Order | None = None  # order of the key on the device
        if net.is_random:
            self.mask_key = MaskKey(device.zeros((1,), np.uint32, "log"), self.step)
            self.host_key = device.pinned((1,), np.uint32)  # free at the begin of an epoch: every run waits for its end
        self.running, self.update_count = 0, 0  # the number that `step` holds; updates over all epochs
        self.below: frozenset[int] = frozenset()  # layers on the rung below (`KernelTable.below`)
        self._release()
        self.set_state(state)

    def _release(self) -> None:
        """Free all memory bound for a training set, before memory for another one is allocated."""
        self.chain: Chain | None = None
        self.feed: Feed | None = None
        self.total: Array | None = None
        self.epoch_log: DeviceEpochLog | None = None
        self.shares: DeviceShares | None = None
        self.settings: StepSettings | None = None
        self.adding: KernelAccumulate | None = None
        self.updates: dict[bool, Launches] = {}  # end of a step; True: updates of what no segment updates
        self.updaters: list[KernelUpdate] = []
        self.programs: dict[Slice, Launches] = {}

    def load(self, dataset: Dataset) -> None:
        check_fit(self.net, dataset, self.config)
        with self.device.precompiling(partial(self.kernels_of_training, dataset), self.say):
            self._load(dataset)
            start = perf_counter()
            for part in self.parts():  # so that no kernel is compiled while an epoch is timed
                self.program(part)
            self.seconds["load"] += perf_counter() - start

    def kernels_of_training(self, dataset: Dataset) -> list[tuple[Path | KernelSource, str]]:
        """Kernels of an epoch on a data set and of its test predictions, found by a dry run: (source, name) each."""

        def work(device: Device) -> None:
            dry = self.on_device(device)
            dry.tuned = self.tuned
            dry.load(dataset)
            rest = len(dataset.test_x) % PREDICTED  # the last predictions are of fewer samples than the others
            dry.predict(dataset.test_x[: PREDICTED + rest], dataset.scale)

        return kernels_of(self.device, work)

    def kernels_of_predicting(self, x: np.ndarray, scale: float) -> list[tuple[Path | KernelSource, str]]:
        """Kernels of the predictions of samples, found by a dry run: (source, name) each."""
        return kernels_of(self.device, lambda device: self.on_device(device).predict(x, scale))

    def on_device(self, device: Device) -> KernelTrainer:
        """Trainer with these settings on another device, from zero weights."""
        start, feed = State(np.zeros(self.net.param_count, np.float32)), self.feed_name
        return KernelTrainer(self.net, self.config, start, device, self.table, feed, self.block_size, self.precision)

    def _load(self, dataset: Dataset) -> None:
        self._release()
        start = perf_counter()
        device, samples = self.device, len(dataset.train_x)
        self.samples = samples
        self.batch = self.config.batch(samples)
        self.itemsize = dataset.train_x.dtype.itemsize  # of a stored pixel
        self.capacity = capacity = self.slice_capacity(self.batch, train=True)
        self.shares = DeviceShares.of(device, self.net.loss, dataset, self.config)
        boundaries = self.boundaries(capacity, train=True)
        needs, goal = boundaries.sizes(capacity, train=True), goals(self.net, dataset.train_y)
        if boundaries.gathers:
            needs["data"] = dataset.train_x.nbytes + (0 if goal is None else goal.nbytes)
        device.check_room(needs)
        steps = max(1, self.config.steps(samples))
        self.epoch = steps
        self.epoch_log = DeviceEpochLog(device, self.step, steps)
        self.settings = StepSettings(device, self.config, samples, self.epoch_log.entries)
        self.settings.upload(0, self.settings.rows, self.update_count)
        arrays = allocate(boundaries, device, capacity, train=True, outputs=dataset.outputs)
        if capacity < self.batch:
            self.total = self.layout.zeros(device, "gradients")
            self.adding = self.table.accumulate(device, self.total, self.grads, self.block_size)
        self.seconds["bind"] = perf_counter() - start
        start = perf_counter()
        gather = self.table.segments[Gather,]
        rows = RowGather(device, gather, arrays.x, arrays.labels, self.step, self.block_size, arrays.targets)
        self.feed = self.feed_type(dataset, self.batch, rows, goal, self.log)
        w, dw = self.layout.views(self.params), self.layout.views(self.grads)
        own = self.log, self._update_of, self.mask_key, self.shares, self.buffers, self.settings.numbers
        self.chain = Chain(device, arrays, w, dw, self.block_size, self.feed.samples, *own)
        self.updaters = [self._update_of(names) for names in self.layout.without(self.chain.updated)]
        self.updates = {True: self._updating(self.updaters), False: self._updating([self.update])}
        device.synchronize()
        self.seconds["load"] = perf_counter() - start

    def boundaries(self, capacity: int, train: bool) -> Boundaries:
        """Boundaries of the net's chain, cut into segments for `capacity` samples at a time."""
        resident = train and issubclass(self.feed_type, ResidentFeed) and Gather(self.samples, self.itemsize)
        has_shares = train and self.shares is not None
        config, batch = (self.config, self.batch) if train else (None, capacity)
        nodes = chain(self.net, capacity, batch, self.device.limits, config, resident, self.precision, has_shares)
        return Boundaries(self.net, self.table.cut_net(nodes, self.net, self.below))

    def _update_of(self, names: list[str]) -> KernelUpdate:
        """Optimizer's step on consecutive parameters."""
        some = self.layout.span(names)
        slots = tuple(slot[some] for slot in self.slots.values())
        return self.table.update(self.device, self.config, self.params[some], self.grads[some], slots, self.block_size)

    def _updating(self, updates: list[KernelUpdate]) -> Launches:
        """Launches of the optimizer's steps `updates`."""
        assert self.settings is not None
        step = None if self.config.steady else self.step
        return [call for update in updates for call in update.launches(self.settings.numbers, step)]

    @property
    def log(self) -> Log:
        """Losses and correct counts of the epoch's steps, on the device."""
        assert self.epoch_log is not None
        return self.epoch_log.log

    def run(self, order: Order, first: int, last: int) -> StepLog:
        if self.chain is None or self.feed is None:
            raise not_loaded(self.net)
        check_range(self.config, order, self.samples, first, last)
        if first == last:
            return StepLog(np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64))
        if self.running != first:
            self._count_from(first)
        if self.chain.reads_order:
            self.feed.begin(order, first, last)
        self._upload_epoch(order)
        self._upload_settings(first, last)
        has_loss = self.config.has_loss(order.epoch)
        self._queue(self.feed, first, last, has_loss)
        size = np.array([self._size(step) for step in range(first, last)], np.int64)  # while the device works
        return self._finished(first, size, has_loss)

    def _finished(self, first: int, size: np.ndarray, has_loss: bool) -> StepLog:
        """Log of queued steps, after waiting for them; size : (steps,) int64, samples of each step from `first` on."""
        assert self.feed is not None and self.epoch_log is not None
        last = first + len(size)
        self.running, self.update_count = last, self.update_count + last - first
        if has_loss:
            self.epoch_log.download(first, last)
        done = self.device.stream.record()
        if last >= self.epoch:
            self.rewind()  # queued after the copies, so that an epoch of one step waits once
        done.synchronize()
        self.feed.finish()
        if not has_loss:
            return StepLog.without_loss(size)
        return StepLog(*self.epoch_log.read(first, last), size)

    def _upload_epoch(self, order: Order) -> None:
        """Queue the copies of an epoch's mask key and sample shares to the device, if they have changed."""
        if self.shares is not None:
            self.shares.upload(order)
        if self.mask_key is not None and order != self.masked_order:
            self.host_key[...] = order.mask_key
            self.mask_key.key.upload(self.host_key, self.device.stream)
            self.masked_order = order

    def _upload_settings(self, first: int, last: int) -> None:
        """Queue the copy of the optimizer's settings of steps first..last-1, unless all steps have equal settings."""
        assert self.settings is not None
        if not self.config.steady:
            self.settings.upload(first, last, self.update_count)

    def _count_from(self, step: int) -> None:
        """Set the device's step counter."""
        if step:
            self.step.upload(np.array([step], np.int32))
        else:
            self.device.fill(self.step, 0)  # queued: an epoch of one step does not wait for it

    def _queue(self, feed: Feed, first: int, last: int, has_loss: bool) -> None:
        """Queue the launches of steps first..last-1."""
        for step in range(first, last):
            for part in self._slices(self._size(step), has_loss):
                feed.send(step, part, self.program(part))
            feed.after(step, has_loss)

    def program(self, part: Slice) -> Launches:
        """Launches of a slice, in order; the last slice of a step updates the parameters."""
        found = self.programs.get(part)
        if found is None:
            found = self.programs[part] = [launch for stage in self.stages(part) for launch in stage.launches]
        return found

    def stages(self, part: Slice, repeated: bool = False) -> list[Stage]:
        """Stages of a slice in order; repeated : True if the previous step, of an equal slice, prepared some."""
        assert self.chain is not None and self.feed is not None
        no_layers = range(0)
        out = self.chain.prepare(part, repeated)
        bringing = self.feed.launches(part)
        if bringing or not self.chain.boundaries.gathers:
            out.append(Stage("feed", no_layers, bringing))
        out += [*self.chain.forward(part), *self.chain.backward(part)]
        if not part.is_whole:
            assert self.adding is not None
            out.append(Stage("sum", no_layers, self.adding.launches(part.is_first, part.is_last)))
        if part.is_last and self.updates[part.is_whole]:
            out.append(Stage("update", no_layers, self.updates[part.is_whole]))
        return out

    def rewind(self) -> None:
        """Reset the device's step counter to the beginning of the epoch."""
        self._count_from(0)
        self.running = 0

    def parts(self) -> list[Slice]:
        """Distinct slices of an epoch: of a full batch, and of the last one."""
        full, rest = divmod(self.samples, self.batch)
        sizes = [self.batch] * (full > 0) + [rest] * (rest > 0 and not self.config.drop_last)
        return [part for size in sizes for part in self._slices(size)]

    def _slices(self, batch: int, has_loss: bool = True) -> list[Slice]:
        """Slices of a batch that pass the chain in sequence."""
        capacity = self.capacity
        return [Slice(min(capacity, batch - offset), batch, offset, has_loss) for offset in range(0, batch, capacity)]

    def _size(self, step: int) -> int:
        return min(self.batch, self.samples - step * self.batch)

    def slice_capacity(self, samples: int, train: bool) -> int:
        """Number of samples that pass the chain together: all, or equal parts whose arrays fit in SLICE_BYTES."""
        each = sum(self.boundaries(samples, train).sizes(1, train).values())
        least = samples if self.net.normalizes and train else 1
        limit = max(least, SLICE_BYTES // max(each, 4 * math.prod(self.net.in_shape)))
        return -(-samples // -(-samples // limit))

    def state(self) -> State:
        params, buffers = self.weights()
        slots = {name: self.layout.download(slot) for name, slot in self.slots.items()}
        return State(params, slots, self.update_count, buffers)

    def weights(self) -> tuple[np.ndarray, np.ndarray | None]:
        return self.layout.download(self.params), None if self.buffers is None else self.buffers.download()

    def set_state(self, state: State) -> None:
        self.layout.upload(self.params, state.params)
        for name, slot in self.slots.items():
            self.layout.upload(slot, state.slot(name))
        if self.buffers is not None:
            self.buffers.upload(state.buffers_of(self.net).astype(np.float32))
        self.update_count = state.step

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        check_samples(self.net, x)
        with self.device.precompiling(partial(self.kernels_of_predicting, x, scale), self.say):
            return predict(self, x, scale)

    def memory(self) -> dict[str, int]:
        held = {
            "parameters": self.params.nbytes + _bytes(self.buffers),
            "gradients": self.grads.nbytes,
            "optimizer": sum(slot.nbytes for slot in self.slots.values()),
            "log": self.step.nbytes,
        }
        owners: list[OnDevice] = [self.update, *([self.adding] if self.adding is not None else [])]
        if self.chain and self.feed and self.epoch_log and self.settings:
            arrays = self.chain.arrays
            held["input"] = _bytes(arrays.x) + _bytes(arrays.labels) + _bytes(arrays.targets)
            held["activations"] = sum(array.nbytes for array in arrays.activations)
            held["gradients"] += sum(array.nbytes for array in arrays.own_gradients) + _bytes(self.total)
            held["data"] = self.feed.bytes
            held["log"] += self.epoch_log.logged.nbytes + self.settings.numbers.nbytes
            owners += [*self.chain.segments, *self.feed.gathers, *self.updaters]
        return held | {"workspace": sum(owner.workspace for owner in owners)}

    def peak(self) -> float | None:
        """Peak FLOP/s of the table's unit in the layers' precision, the maximum if layers differ; None if unknown."""
        peaks, segments = self.device.limits.peaks, self.chain.segments if self.chain is not None else ()
        precisions = {self.precision, *(segment.factors for segment in segments if segment.factors is not None)}
        return None if peaks is None else max(peaks.of(precision, self.table.unit) for precision in precisions)

    def spans(self) -> dict[str, float]:
        return dict(self.seconds)

    def sources(self) -> list[type | Path]:
        """Files of `source_files` for a step, and the classes of the feed and of a derived trainer."""
        files = [] if self.feed is None else source_files(self.stages(self.parts()[0]))
        return [*files, type(self.feed), *({type(self)} - {KernelTrainer})] if files else []

    def close(self) -> None:
        self._release()


def _bytes(array: Array | None) -> int:
    return 0 if array is None else array.nbytes
