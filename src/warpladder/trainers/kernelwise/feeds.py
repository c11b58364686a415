"""Feeds of the CUDA rungs: transfer of a step's samples to the device and of its loss back.

All give equal bits: samples are copied as stored, and one kernel multiplies them by the data set's scale.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from ...data.order import ORDER_WORDS, Order
from ...device import Array, Device, Event, Stream
from ...ops.engine.base import Buffers
from ...ops.engine.chain import Slice, gathering
from ...ops.engine.kernels import Launches, Log
from ...ops.engine.segments import Operands, Segment, StoredSamples

if TYPE_CHECKING:
    from ...data.dataset import Dataset


@dataclass(frozen=True)
class RowGather:
    """Gathering of copied samples on the device, in the order in which they are stored.

    gather : segment type for Gather alone. step : (1,) int32, as `Log.step`.
    x : (capacity, *in_shape) float32 destination; None for the resident feed, whose chain gathers itself.
    target : (capacity,) int32 labels, or None. targets : (capacity, outputs) float32 targets of the data set, or None.
    """

    device: Device
    gather: type[Segment]
    x: Array | None
    target: Array | None
    step: Array
    block_size: int
    targets: Array | None = None

    def of(self, stored: Array, scale: float, labels: Array | None) -> Segment:
        """Segment bound to stored samples (capacity, *in_shape), their scale and their labels (capacity,) int32."""
        assert self.x is not None
        return self._bound(StoredSamples(stored, np.float32(scale), labels, None, self.step), self.x, self.target)

    def of_targets(self, stored: Array, order: Array | None = None, batch: int | None = None) -> Segment:
        """Segment that gathers targets; stored : (capacity, outputs) float32.

        order, batch : epoch's order, as in `StoredSamples`, and samples of a full batch, if `stored` has all targets of
        a data set.
        """
        assert self.targets is not None
        return self._bound(StoredSamples(stored, np.float32(1), None, order, self.step), self.targets, None, batch)

    def _bound(self, samples: StoredSamples, x: Array, target: Array | None, batch: int | None = None) -> Segment:
        nodes = gathering(tuple(x.shape[1:]), len(x), self.device.limits)
        nodes = nodes if batch is None else replace(nodes, batch=batch)
        operands = Operands(Buffers(x, x), samples=samples, target=target)
        return self.gather(self.device, nodes, operands, self.block_size)


class Feed(ABC):
    """Transfer of samples into x and target on the device.

    batch : samples in a full batch. rows : gathering of a slice's samples.
    goals : labels (samples,) int32 or targets (samples, outputs) float32 that the net learns; None if it learns its
    input.
    """

    def __init__(self, dataset: Dataset, batch: int, rows: RowGather, goals: np.ndarray | None, log: Log) -> None:
        self.device, self.batch, self.rows, self.log = rows.device, batch, rows, log
        self.images, self.scale = dataset.train_x, dataset.scale
        self.goals = goals
        self.has_targets = goals is not None and goals.ndim == 2

    #: Bytes of samples, goals and order on the device.
    bytes: int

    #: The data set on the device, if the chain gathers the samples itself.
    samples: StoredSamples | None = None

    #: Segments that turn copied samples into x and target, if the chain does not.
    gathers: Sequence[Segment] = ()

    @abstractmethod
    def begin(self, order: Order, first: int, last: int) -> None:
        """Prepare for steps first..last-1 of an order."""

    @abstractmethod
    def send(self, step: int, part: Slice, work: Launches) -> None:
        """Copy a slice's samples and queue the launches that train on them: `work`, which begins with `launches`."""

    @abstractmethod
    def launches(self, part: Slice) -> Launches:
        """Launches that convert a slice's copied samples to x and target."""

    def after(self, step: int, has_loss: bool) -> None:
        """Handle the end of a step, after all its launches are queued."""

    def finish(self) -> None:
        """Handle the end of a range of steps, after the device has finished them."""

    def _raw(self, capacity: int) -> tuple[Array, Array | None]:
        """Device arrays for the stored form of a slice's samples and goals."""
        images = self.device.empty((capacity, *self.images.shape[1:]), self.images.dtype, "input")
        if self.goals is None:
            return images, None
        return images, self.device.empty((capacity, *self.goals.shape[1:]), self.goals.dtype, "input")

    def _capacity(self) -> int:
        """Largest number of samples of a slice."""
        assert self.rows.x is not None
        return len(self.rows.x)

    def _scaling(self, images: Array, goals: Array | None) -> list[Segment]:
        """Segments that convert copied samples and goals to x and target."""
        if goals is None or not self.has_targets:
            return [self.rows.of(images, self.scale, goals)]
        return [self.rows.of(images, self.scale, None), self.rows.of_targets(goals)]

    def _host_goals(self, capacity: int) -> tuple[tuple[int, ...], np.dtype]:
        """Shape and dtype of the goals of a slice on the host."""
        return ((capacity,), np.dtype(np.int32)) if self.goals is None else (
            (capacity, *self.goals.shape[1:]), self.goals.dtype
        )  # fmt: skip


class SyncFeed(Feed):
    """Feed without overlap: collect a batch on the host, copy it, wait; train; wait, and copy the loss back."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        capacity = self._capacity()
        self.host = np.empty((capacity, *self.images.shape[1:]), self.images.dtype)
        self.host_goals = np.empty(*self._host_goals(capacity))
        self.raw, self.raw_goals = self._raw(capacity)
        self.gathers = self._scaling(self.raw, self.raw_goals)
        self.bytes = self.raw.nbytes + (self.raw_goals.nbytes if self.raw_goals is not None else 0)
        self.entry = np.empty(1), np.empty(1, np.int64)

    def begin(self, order: Order, first: int, last: int) -> None:
        self.start = first * self.batch
        self.indices = order.indices(self.start, min(last * self.batch, order.n))

    def launches(self, part: Slice) -> Launches:
        return [launch for segment in self.gathers for launch in segment.forward(part)]

    def send(self, step: int, part: Slice, work: Launches) -> None:
        at = step * self.batch + part.offset - self.start
        indices = self.indices[at : at + part.n]
        host = np.take(self.images, indices, axis=0, out=self.host[: part.n], mode="clip")
        self.raw[: part.n].upload(host)
        if self.goals is not None and self.raw_goals is not None:
            goals = np.take(self.goals, indices, axis=0, out=self.host_goals[: part.n], mode="clip")
            self.raw_goals[: part.n].upload(goals)
        for launch in work:
            launch.send()

    def after(self, step: int, has_loss: bool) -> None:
        if not has_loss:
            self.device.stream.synchronize()
            return
        loss, correct = self.entry
        self.device.download(loss, self.log.loss[step : step + 1])
        self.device.download(correct, self.log.correct[step : step + 1])


class ResidentFeed(Feed):
    """Feed with the whole data set on the device: kernels gather a step's samples, wide.cu's or a first layer's."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        device = self.device
        stored = device.array(np.ascontiguousarray(self.images), "data")
        goals = device.array(self.goals, "data") if self.goals is not None else None
        self.words = device.zeros((ORDER_WORDS,), np.uint32, "data")
        # Free at the begin of an epoch: every run waits for its end.
        self.host_words = device.pinned((ORDER_WORDS,), np.uint32)
        self.order: Order | None = None
        labels, targets = (None, goals) if self.has_targets else (goals, None)
        self.samples = StoredSamples(stored, np.float32(self.scale), labels, self.words, self.log.step, targets)
        if goals is not None and self.rows.targets is not None:
            self.gathers = [self.rows.of_targets(goals, self.words, self.batch)]
        self.bytes = stored.nbytes + (goals.nbytes if goals is not None else 0) + self.words.nbytes

    def begin(self, order: Order, first: int, last: int) -> None:
        if order != self.order:
            self.host_words[...] = order.words
            self.words.upload(self.host_words, self.device.stream)
            self.order = order

    def launches(self, part: Slice) -> Launches:
        # The chain gathers samples and labels.
        return [launch for segment in self.gathers for launch in segment.forward(part)]

    def send(self, step: int, part: Slice, work: Launches) -> None:
        for launch in work:
            launch.send()


@dataclass
class FeedLane:
    """Buffers of the streamed feed for one batch, and the events of their last use.

    host, host_goals : page-locked copies of the batch and of its labels or targets. raw, raw_goals : the same on the
    device, as stored. scaling : segments that turn `raw` into the net's input.
    copied : after the copy of `raw`. consumed : after the scaling.
    """

    host: np.ndarray
    host_goals: np.ndarray
    raw: Array
    raw_goals: Array | None
    scaling: list[Segment]
    copied: Event | None = None
    consumed: Event | None = None
    bound: dict[Slice, Launches] = field(default_factory=dict)

    def launches(self, part: Slice) -> Launches:
        """Launches that convert the copied samples to x and target."""
        if part not in self.bound:
            self.bound[part] = [launch for segment in self.scaling for launch in segment.forward(part)]
        return self.bound[part]


#: One is collected, one copied, one trained on.
LANES = 3


class StreamedFeed(Feed):
    """Feed with three page-locked host buffers and three device buffers: while batch i trains, i + 1 is copied."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        device, capacity = self.device, self._capacity()
        self.copying: Stream = device.new_stream()
        self.lanes = []
        for _ in range(LANES):
            raw, raw_goals = self._raw(capacity)
            host = device.pinned((capacity, *self.images.shape[1:]), self.images.dtype)
            goals = device.pinned(*self._host_goals(capacity))
            self.lanes.append(FeedLane(host, goals, raw, raw_goals, self._scaling(raw, raw_goals)))
        self.turn = 0
        self.gathers = [segment for lane in self.lanes for segment in lane.scaling]
        self.bytes = sum(
            lane.raw.nbytes + (lane.raw_goals.nbytes if lane.raw_goals is not None else 0) for lane in self.lanes
        )

    def begin(self, order: Order, first: int, last: int) -> None:
        self.start = first * self.batch
        self.indices = order.indices(self.start, min(last * self.batch, order.n))

    def launches(self, part: Slice) -> Launches:
        return []  # `send` knows which lane is read

    def send(self, step: int, part: Slice, work: Launches) -> None:
        lane, self.turn = self.lanes[self.turn], (self.turn + 1) % LANES
        at = step * self.batch + part.offset - self.start
        indices = self.indices[at : at + part.n]
        if lane.copied is not None:
            lane.copied.synchronize()  # the host buffer is free again
        host = np.take(self.images, indices, axis=0, out=lane.host[: part.n], mode="clip")
        if lane.consumed is not None:
            self.copying.wait(lane.consumed)  # the device buffer is free again
        self.mark("copy begins", step, self.copying)
        lane.raw[: part.n].upload(host, self.copying)
        if self.goals is not None and lane.raw_goals is not None:
            goals = np.take(self.goals, indices, axis=0, out=lane.host_goals[: part.n], mode="clip")
            lane.raw_goals[: part.n].upload(goals, self.copying)
        lane.copied = self.copying.record()
        self.mark("copy ends", step, self.copying)
        stream = self.device.stream
        stream.wait(lane.copied)
        self.mark("compute begins", step, stream)
        for launch in lane.launches(part):
            launch.send()
        lane.consumed = stream.record()
        for launch in work:
            launch.send()
        self.mark("compute ends", step, stream)

    def mark(self, what: str, step: int, stream: Stream) -> None:
        """Record an event of a timeline; by default nothing."""

    def finish(self) -> None:
        for lane in self.lanes:
            lane.copied = lane.consumed = None


FEEDS: dict[str, type[Feed]] = {"sync": SyncFeed, "streamed": StreamedFeed, "resident": ResidentFeed}
