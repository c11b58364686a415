"""Feeds: transfer of a step's samples to the device and of its loss back.

All give the same bits: samples travel as they are stored, and one kernel multiplies them by the data set's scale.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
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
    """Gathering of samples on the device, in the order in which they lie there.

    gather : segment type for Gather alone. step : (1,) int32, as `Log.step`.
    x : (capacity, *in_shape) float32 target; None for the resident feed, whose chain gathers itself.
    target : (capacity,) int32 labels, or None.
    """

    device: Device
    gather: type[Segment]
    x: Array | None
    target: Array | None
    step: Array
    block_size: int

    def of(self, stored: Array, scale: float, labels: Array | None) -> Segment:
        """The segment bound to stored samples (capacity, *in_shape), their scale and their labels (capacity,) int32."""
        assert self.x is not None
        samples = StoredSamples(stored, np.float32(scale), labels, None, self.step)
        nodes = gathering(tuple(self.x.shape[1:]), len(self.x), self.device.limits)
        operands = Operands(Buffers(self.x, self.x), samples=samples, target=self.target)
        return self.gather(self.device, nodes, operands, self.block_size)


class Feed(ABC):
    """Transfer of samples into x and target.

    batch : samples in a full batch. rows : arrays for a slice's samples. labelled : True if the net learns labels.
    """

    def __init__(self, dataset: Dataset, batch: int, rows: RowGather, labelled: bool, log: Log) -> None:
        self.device, self.batch, self.rows, self.log = rows.device, batch, rows, log
        self.images, self.scale = dataset.train_x, dataset.scale
        self.labels = dataset.train_y.astype(np.int32) if labelled and dataset.train_y is not None else None

    #: Bytes of samples, labels and order on the device.
    bytes: int

    #: The data set on the device, if the chain gathers the samples itself.
    samples: StoredSamples | None = None

    #: Segments that turn copied samples into x and target, if the chain does not.
    gathers: Sequence[Segment] = ()

    @abstractmethod
    def begin(self, order: Order, first: int, last: int) -> None:
        """Get ready for steps first..last-1 of an order."""

    @abstractmethod
    def send(self, step: int, part: Slice, work: Launches) -> None:
        """Copy a slice's samples and queue the launches that train on them: `work`, which begins with `launches`."""

    @abstractmethod
    def launches(self, part: Slice) -> Launches:
        """The launches that turn a slice's copied samples into x and target."""

    def after(self, step: int, has_loss: bool) -> None:
        """Called after all launches of a step are queued."""

    def finish(self) -> None:
        """Called after the device has finished the steps."""

    def _raw(self, capacity: int) -> tuple[Array, Array | None]:
        """Device memory for the stored form of a slice and its labels."""
        images = self.device.empty((capacity, *self.images.shape[1:]), self.images.dtype, "input")
        return images, self.device.empty((capacity,), np.int32, "input") if self.labels is not None else None

    def _capacity(self) -> int:
        """Samples of a slice, at most."""
        assert self.rows.x is not None
        return len(self.rows.x)

    def _scaling(self, images: Array, labels: Array | None) -> Segment:
        """The segment that turns copied samples into x and target."""
        return self.rows.of(images, self.scale, labels)


class SyncFeed(Feed):
    """Collect a batch on the host, copy it, wait; train; wait, and copy the loss back: nothing overlaps."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        capacity = self._capacity()
        self.host = np.empty((capacity, *self.images.shape[1:]), self.images.dtype)
        self.host_labels = np.empty(capacity, np.int32)
        self.raw, self.raw_labels = self._raw(capacity)
        self.scaling = self._scaling(self.raw, self.raw_labels)
        self.gathers = [self.scaling]
        self.bytes = self.raw.nbytes + (self.raw_labels.nbytes if self.raw_labels is not None else 0)
        self.entry = np.empty(1), np.empty(1, np.int64)

    def begin(self, order: Order, first: int, last: int) -> None:
        self.start = first * self.batch
        self.indices = order.indices(self.start, min(last * self.batch, order.n))

    def launches(self, part: Slice) -> Launches:
        return self.scaling.forward(part)

    def send(self, step: int, part: Slice, work: Launches) -> None:
        at = step * self.batch + part.offset - self.start
        indices = self.indices[at : at + part.n]
        host = np.take(self.images, indices, axis=0, out=self.host[: part.n], mode="clip")
        self.raw[: part.n].upload(host)
        if self.labels is not None and self.raw_labels is not None:
            self.raw_labels[: part.n].upload(np.take(self.labels, indices, out=self.host_labels[: part.n], mode="clip"))
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
    """Feed with the whole data set on the device: kernels gather each step's samples, and nothing is copied."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        device = self.device
        stored = device.array(np.ascontiguousarray(self.images), "data")
        labels = device.array(self.labels, "data") if self.labels is not None else None
        self.words = device.zeros((ORDER_WORDS,), np.uint32, "data")
        # Free at the begin of an epoch: every run waits for its end.
        self.host_words = device.pinned((ORDER_WORDS,), np.uint32)
        self.order: Order | None = None
        self.samples = StoredSamples(stored, np.float32(self.scale), labels, self.words, self.log.step)
        self.bytes = stored.nbytes + (labels.nbytes if labels is not None else 0) + self.words.nbytes

    def begin(self, order: Order, first: int, last: int) -> None:
        if order != self.order:
            self.host_words[...] = order.words
            self.words.upload(self.host_words, self.device.stream)
            self.order = order

    def launches(self, part: Slice) -> Launches:
        return []  # the chain gathers

    def send(self, step: int, part: Slice, work: Launches) -> None:
        for launch in work:
            launch.send()


@dataclass
class FeedLane:
    """One of the streamed feed's buffers, on the host and on the device, and the events of its last use."""

    host: np.ndarray
    host_labels: np.ndarray
    raw: Array
    raw_labels: Array | None
    scaling: Segment
    copied: Event | None = None
    consumed: Event | None = None
    bound: dict[Slice, Launches] = field(default_factory=dict)

    def launches(self, part: Slice) -> Launches:
        """Launches that turn the copied samples into x and target."""
        if part not in self.bound:
            self.bound[part] = self.scaling.forward(part)
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
            raw, raw_labels = self._raw(capacity)
            host = device.pinned((capacity, *self.images.shape[1:]), self.images.dtype)
            self.lanes.append(
                FeedLane(host, device.pinned((capacity,), np.int32), raw, raw_labels, self._scaling(raw, raw_labels))
            )
        self.turn = 0
        self.gathers = [lane.scaling for lane in self.lanes]
        self.bytes = sum(
            lane.raw.nbytes + (lane.raw_labels.nbytes if lane.raw_labels is not None else 0) for lane in self.lanes
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
        if self.labels is not None and lane.raw_labels is not None:
            labels = np.take(self.labels, indices, out=lane.host_labels[: part.n], mode="clip")
            lane.raw_labels[: part.n].upload(labels, self.copying)
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
        """Hook for a timeline that records events; does nothing otherwise."""

    def finish(self) -> None:
        for lane in self.lanes:
            lane.copied = lane.consumed = None


FEEDS: dict[str, type[Feed]] = {"sync": SyncFeed, "streamed": StreamedFeed, "resident": ResidentFeed}
