"""`KernelTrainer`: walks the layers as launches on a device; the trainer of every CUDA rung that works layer by layer."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from ...config import TrainConfig
from ...device import Array, Device
from ...errors import DataError
from ...nets import CrossEntropyLoss, Net
from ...ops.kernels import Head, KernelAccumulate, KernelLoss, KernelTable, Launches, Log, OnDevice, Stem, WholeStep
from ...optimizers import NUMBERS
from ...order import Order
from ..base import State, StepLog, Trainer, check_fit, check_range
from .feeds import FEEDS, Feed, ResidentFeed, Slice
from .foresight import foreseen
from .layout import Layout
from .network import Network, Stage, bind, sizes

if TYPE_CHECKING:
    from ...data.dataset import Dataset

#: Of activations and their gradients at a time: a larger batch goes through the layers in slices, whose gradients are added up.
SLICE_BYTES = 4 << 30

BLOCK_SIZE = 256  # threads

REPEATS = 400  # entries of the log at least: so often a profile repeats a step, however few an epoch has

PREDICTED = 256  # samples at a time, where the buffers are not those of training


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
    """

    def __init__(
        self, net: Net, config: TrainConfig, state: State, device: Device, table: KernelTable, feed: str, block_size: int | None = None
    ) -> None:
        self.net, self.config, self.device, self.table = net, config, device, table
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
        self.network: Network | None = None
        self.feed: Feed | None = None
        self.total: Array | None = None
        self.target: Array | None = None
        self.logged: Array | None = None
        self.numbers: Array | None = None
        self.loss: KernelLoss | None = None
        self.stem: Stem | None = None
        self.head: Head | None = None
        self.whole: WholeStep | None = None
        self.adding: KernelAccumulate | None = None
        self._release()
        self.set_state(state)

    def load(self, dataset: Dataset) -> None:
        check_fit(self.net, dataset)
        with self.device.expecting(partial(foreseen, self, dataset), self.say):
            self._load(dataset)

    def twin(self, device: Device) -> KernelTrainer:
        """A trainer like this one, from zero weights, on another device."""
        start = State(np.zeros(self.net.param_count, np.float32))
        return KernelTrainer(self.net, self.config, start, device, self.table, self.feed_name, self.block_size)

    def _load(self, dataset: Dataset) -> None:
        self._release()
        start = perf_counter()
        device, samples = self.device, len(dataset.train_x)
        self.samples = samples
        self.batch = self.config.batch(samples)
        self.itemsize = dataset.train_x.dtype.itemsize  # of a stored pixel
        self.capacity = capacity = self._capacity(self.batch)
        resident = issubclass(self.feed_type, FEEDS["resident"])
        whole = next((kind for kind in self.table.whole if kind.takes(self.net)), None) if resident else None
        # What computes all of a step keeps no activations: the network is there to predict.
        held = capacity if whole is None else min(capacity, PREDICTED)
        needs = sizes(self.net, self.table, held, train=whole is None)
        if resident:
            needs["data"] = dataset.train_x.nbytes + 4 * samples
        device.check_room(needs)
        steps = max(1, self.config.steps(samples))
        self.epoch, room = steps, max(steps, REPEATS)
        self.logged, self.told = device.zeros((2, room), np.float64, "log"), device.pinned((2, room), np.float64)
        rows = 1 if self.config.steady else room
        self.numbers = device.zeros((rows, NUMBERS), np.float32, "log")
        self.host_numbers = device.pinned((rows, NUMBERS))  # free again when a run has begun, since every run waits for its end
        self._bring_numbers(0, rows)
        self.network = self._bind(held, train=whole is None)
        labelled = isinstance(self.net.loss, CrossEntropyLoss)
        self.target = device.zeros((held,), np.int32, "input") if labelled else None
        if whole is None:
            self.loss = self._loss(self.network)
            self.head = self._head(self.target)
        if capacity < self.batch:
            self.total = self.layout.zeros(device, "gradients")
            self.adding = self.table.accumulate(device, self.total, self.grads, self.block_size)
        self.seconds["bind"] = perf_counter() - start
        start = perf_counter()
        self.feed = self.feed_type(device, dataset, self.batch, self.table.gather, self.network.x, self.target, self.log, self.block_size)
        if whole is None:
            self.stem = self._stem(self.feed)
        else:
            self.whole = self._whole(whole, self.feed)
        self.updating = self.update.launches(self.numbers, None if self.config.steady else self.step)
        device.synchronize()
        self.seconds["load"] = perf_counter() - start

    def _release(self) -> None:
        """Let go of everything that was bound for a training set, before there is asked for room for another."""
        self.network = self.feed = self.loss = self.stem = self.head = self.whole = self.adding = None
        self.total = self.target = self.logged = self.numbers = None
        self.updating = []
        self.programs: dict[Slice, Launches] = {}

    @property
    def log(self) -> Log:
        """Where steps leave their losses."""
        assert self.logged is not None
        loss, correct = self.logged[:1], self.logged[1:]
        return Log(self.step, loss.reshape(loss.size), correct.reshape(correct.size).view(np.int64))

    def _loss(self, network: Network) -> KernelLoss:
        """What computes the loss and its gradient."""
        assert network.dy is not None
        target = network.x if self.target is None else self.target
        kind = self.table.losses[type(self.net.loss)]
        return kind(self.device, network.y, target, network.dy, self.log, self.block_size)

    def _stem(self, feed: Feed) -> Stem | None:
        """What computes the first layers and gathers their samples at once, where the table has that and the samples are on the device."""
        assert self.network is not None
        _, op = self.network.ops[0]
        kind = next((kind for kind in self.table.stems if kind.takes(self.device, op.layers, op.buffers)), None)
        headed = self.head is not None and len(self.network.ops) == 1  # a lone layer is the head's
        if kind is None or headed or not isinstance(feed, ResidentFeed):
            return None
        return kind(self.device, op.layers, op.buffers, feed.gathering, self.block_size)

    def _head(self, target: Array | None) -> Head | None:
        """What computes the last layer and the loss at once, where the table has that."""
        assert self.network is not None
        _, op = self.network.ops[-1]
        kind = next((kind for kind in self.table.heads if len(op.layers) == 1 and kind.takes(op.layers[0], self.net.loss)), None)
        if kind is None or target is None:
            return None
        return kind(self.device, op.buffers, target, self.log, self.block_size)

    def _whole(self, kind: type[WholeStep], feed: Feed) -> WholeStep:
        """What computes all of this net's step at once, from samples that are on the device."""
        assert isinstance(feed, ResidentFeed)
        w, dw = self.layout.views(self.params), self.layout.views(self.grads)
        return kind(
            self.device, self.net, feed.source, feed.scale, feed.source_labels, feed.words, self.log, self.batch, self.capacity, w, dw,
            self.update if kind.updates(self.config) else None, self.block_size,
        )  # fmt: skip

    def _bring_numbers(self, first: int, last: int) -> None:
        """Queue what steps first..last-1 of the epoch are made with, for the updates that come next."""
        assert self.numbers is not None
        some, stream = slice(first, last), self.device.stream
        self.host_numbers[some] = self.config.numbers(self.made, self.made + last - first, self.samples)
        self.numbers[some].upload(self.host_numbers[some], stream)

    def run(self, order: Order, first: int, last: int) -> StepLog:
        if self.network is None or self.feed is None:
            raise DataError(f"net {self.net.name!r} has nothing to train on: call load(dataset) before run")
        check_range(self.config, order, self.samples, first, last)
        if first == last:
            return StepLog(np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64))
        if self.running != first:
            self._count_from(first)
        if self.whole is None or self.whole.ordered:
            self.feed.begin(order, first, last)
        if not self.config.steady:
            self._bring_numbers(first, last)
        self._queue(self.feed, first, last)
        size = np.array([self._size(step) for step in range(first, last)], np.int64)  # the device works meanwhile
        return StepLog(*self._finished(first, last), size)

    def _finished(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Wait for steps first..last-1, which are queued: their losses and counts of right samples."""
        assert self.feed is not None
        self.running, self.made = last, self.made + last - first
        self._tell(first, last)
        done = self.device.stream.record()
        if last >= self.epoch:
            self.rewind()  # queued behind the copies: an epoch of one step is short, and waits once
        done.synchronize()
        self.feed.finish()
        loss, correct = self.told[:, first:last]
        return loss.copy(), correct.copy().view(np.int64)

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

    def _queue(self, feed: Feed, first: int, last: int) -> None:
        """Queue the launches of steps first..last-1."""
        for step in range(first, last):
            for part in self._slices(self._size(step)):
                feed.send(step, part, self.program(part))
            feed.after(step)

    def program(self, part: Slice) -> Launches:
        """All launches of a slice, in order; the last slice of a step updates the parameters."""
        found = self.programs.get(part)
        if found is None:
            found = self.programs[part] = [launch for stage in self.stages(part) for launch in stage.launches]
        return found

    def stages(self, part: Slice) -> list[Stage]:
        """The same, by what it is for."""
        assert self.network is not None and self.feed is not None
        no_layers = range(0)
        if self.whole is not None:
            launches = self.whole.launches(part.n, part.batch, part.offset, part.first, part.last)
            out = [Stage("step", range(len(self.net.layers)), launches)]
        else:
            assert self.loss is not None
            out = [
                *self.network.prepare(part.n),
                Stage("feed", no_layers, self.feed.launches(part)),
                *self.network.forward(part.n),
                Stage("loss", no_layers, self.loss.launches(part.n, part.batch, part.first, part.last)),
                *self.network.backward(part.n),
            ]
            if self.stem is not None:
                out = self._with_stem(self.stem, out, part)
            if self.head is not None:
                out = self._with_head(self.head, out, part)
        if part.n < part.batch:
            assert self.adding is not None
            out.append(Stage("sum", no_layers, self.adding.launches(part.first, part.last)))
        if part.last and not self.updates(part):
            out.append(Stage("update", no_layers, self.updating))
        return out

    def updates(self, part: Slice) -> bool:
        """Whether what computes all of a step updates the parameters as well: it does where the slice is the whole batch."""
        return self.whole is not None and self.whole.update is not None and part.n == part.batch

    def _with_stem(self, stem: Stem, stages: list[Stage], part: Slice) -> list[Stage]:
        """The stages with the feed's and the first layers' forward pass replaced by the stem's."""
        at = next(i for i, stage in enumerate(stages) if stage.phase == "feed")
        both = Stage("forward", stages[at + 1].layers, stem.launches(part.n, self.batch, part.offset))
        return [*stages[:at], both, *stages[at + 2 :]]

    def _with_head(self, head: Head, stages: list[Stage], part: Slice) -> list[Stage]:
        """The stages with the last layer's and the loss's replaced by the head's."""
        at = next(i for i, stage in enumerate(stages) if stage.phase == "loss")
        layers = stages[at - 1].layers
        forward = Stage("forward", layers, head.forward(part.n, part.batch))
        backward = Stage("backward", layers, head.backward(part.n, part.batch, part.first, part.last))
        return [*stages[: at - 1], forward, backward, *stages[at + 2 :]]

    def rewind(self) -> None:
        """Set the device's count of steps back to the epoch's beginning."""
        self._count_from(0)
        self.running = 0

    def parts(self) -> list[Slice]:
        """The kinds of slices that an epoch has."""
        full, rest = divmod(self.samples, self.batch)
        sizes = [self.batch] * (full > 0) + [rest] * (rest > 0 and not self.config.drop_last)
        return [part for size in sizes for part in self._slices(size)]

    def _slices(self, batch: int) -> list[Slice]:
        """A batch in parts that go through the layers one after the other."""
        capacity = self.capacity
        return [Slice(min(capacity, batch - offset), batch, offset) for offset in range(0, batch, capacity)]

    def _size(self, step: int) -> int:
        return min(self.batch, self.samples - step * self.batch)

    def _capacity(self, samples: int) -> int:
        """How many samples go through the layers at a time: all, or equal parts of them."""
        each = sum(sizes(self.net, self.table, 1, train=True).values())
        limit = max(1, SLICE_BYTES // each)
        return -(-samples // -(-samples // limit))

    def _bind(self, capacity: int, train: bool) -> Network:
        w = self.layout.views(self.params)
        dw = self.layout.views(self.grads) if train else {}
        return bind(self.net, self.table, self.device, capacity, w, dw, self.block_size)

    def state(self) -> State:
        return State(self.layout.download(self.params), {name: self.layout.download(slot) for name, slot in self.slots.items()}, self.made)

    def set_state(self, state: State) -> None:
        self.layout.upload(self.params, state.params)
        for name, slot in self.slots.items():
            self.layout.upload(slot, state.slot(name))
        self.made = state.step

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        if x.shape[1:] != self.net.in_shape:
            raise DataError(f"net {self.net.name!r} takes samples of shape {self.net.in_shape}, got {x.shape[1:]}")
        if self.network is None:
            self.network = self._bind(self._capacity(PREDICTED), train=False)
        network, out = self.network, np.empty((len(x), *self.net.out_shape), np.float32)
        raw = self.device.empty((network.capacity, *self.net.in_shape), x.dtype, "input")
        scaling = self.table.gather(self.device, raw, scale, network.x, None, None, None, self.step, self.block_size)
        for first in range(0, len(x), network.capacity):
            some = np.ascontiguousarray(x[first : first + network.capacity])
            n = len(some)
            raw[:n].upload(some)
            for launch in scaling.launches(n, n, 0):
                launch.send()
            for stage in [*network.prepare(n), *network.forward(n)]:
                for launch in stage.launches:
                    launch.send()
            self.device.download(out[first : first + n], network.y[:n])
        return out

    def memory(self) -> dict[str, int]:
        held = {
            "parameters": self.params.nbytes,
            "gradients": self.grads.nbytes,
            "optimizer": sum(slot.nbytes for slot in self.slots.values()),
            "log": self.step.nbytes,
        }
        owners: list[OnDevice | None] = [self.update, self.loss, self.stem, self.head, self.whole, self.adding]
        if self.network is not None:
            held["input"] = self.network.x.nbytes + _bytes(self.target)
            held["activations"] = sum(array.nbytes for array in self.network.activations)
            held["gradients"] += sum(array.nbytes for array in self.network.gradients) + _bytes(self.total)
            owners += [op for _, op in self.network.ops]
        if self.feed is not None:
            held["data"] = self.feed.bytes
            held["log"] += _bytes(self.logged) + _bytes(self.numbers)
            owners += self.feed.gathers
        return held | {"workspace": sum(owner.workspace for owner in owners if owner is not None)}

    def peak(self) -> float | None:
        return self.device.limits.flops

    def spans(self) -> dict[str, float]:
        return dict(self.seconds)

    def close(self) -> None:
        self._release()


def _bytes(array: Array | None) -> int:
    return 0 if array is None else array.nbytes
