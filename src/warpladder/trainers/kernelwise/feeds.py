"""Feeds: how a step's samples reach the device, and its loss comes back.

All of them give the same bits: samples travel as they are stored, and are multiplied by the data set's scale in one kernel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ...device import Array, Device, Event, Stream
from ...ops.kernels import KernelGather, Launches, Log
from ...order import ORDER_WORDS, Order

if TYPE_CHECKING:
    from ...data.dataset import Dataset


@dataclass(frozen=True)
class Slice:
    """Samples that go through the layers at one time: n of a step's `batch`, from its position `offset` on."""

    n: int
    batch: int
    offset: int

    @property
    def first(self) -> bool:
        return self.offset == 0

    @property
    def last(self) -> bool:
        return self.offset + self.n == self.batch


class Feed(ABC):
    """Brings samples into x and target.

    Parameters
    ----------
    device : Device
    dataset : Dataset
    batch : int
        Samples in a full batch.
    gather : type of KernelGather
    x : Array
        (capacity, *in_shape) float32, which a slice's samples go to.
    target : Array or None
        (capacity,) int32, which their labels go to.
    log : Log
    block_size : int
    """

    def __init__(
        self, device: Device, dataset: Dataset, batch: int, gather: type[KernelGather], x: Array, target: Array | None, log: Log, block_size: int
    ) -> None:  # fmt: skip
        self.device, self.batch, self.x, self.target, self.log = device, batch, x, target, log
        self.images = dataset.train_x
        self.labels = dataset.train_y.astype(np.int32) if target is not None and dataset.train_y is not None else None
        self.scale, self.block_size = dataset.scale, block_size
        self.gather = gather

    @property
    @abstractmethod
    def bytes(self) -> int:
        """Bytes of samples, labels and order that are held on the device."""

    @property
    @abstractmethod
    def gathers(self) -> list[KernelGather]:
        """What turns stored samples into x and target."""

    @abstractmethod
    def begin(self, order: Order, first: int, last: int) -> None:
        """Get ready for steps first..last-1 of an order."""

    @abstractmethod
    def send(self, step: int, part: Slice, work: Launches) -> None:
        """Bring a slice's samples in and queue the launches that train on them; `work` starts with what `launches` gave for the slice."""

    @abstractmethod
    def launches(self, part: Slice) -> Launches:
        """The launches that turn a slice's stored samples into x and target."""

    def after(self, step: int) -> None:
        """Called when all of a step is queued."""

    def finish(self) -> None:
        """Called when the device has finished the steps."""

    def _raw(self, capacity: int) -> tuple[Array, Array | None]:
        """Device memory for the stored form of a slice and its labels."""
        images = self.device.empty((capacity, *self.images.shape[1:]), self.images.dtype, "input")
        return images, self.device.empty((capacity,), np.int32, "input") if self.labels is not None else None

    def _scaling(self, images: Array, labels: Array | None) -> KernelGather:
        """The op that takes rows as they stand."""
        return self.gather(self.device, images, self.scale, self.x, labels, self.target, None, self.log.step, self.block_size)


class SyncFeed(Feed):
    """Collect a batch on the host, copy it, wait; train; wait, and copy the loss back: nothing overlaps."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        capacity = len(self.x)
        self.host = np.empty((capacity, *self.images.shape[1:]), self.images.dtype)
        self.host_labels = np.empty(capacity, np.int32)
        self.raw, self.raw_labels = self._raw(capacity)
        self.scaling = self._scaling(self.raw, self.raw_labels)
        self.entry = np.empty(1), np.empty(1, np.int64)

    @property
    def bytes(self) -> int:
        return self.raw.nbytes + (self.raw_labels.nbytes if self.raw_labels is not None else 0)

    @property
    def gathers(self) -> list[KernelGather]:
        return [self.scaling]

    def begin(self, order: Order, first: int, last: int) -> None:
        self.start = first * self.batch
        self.indices = order.indices(self.start, min(last * self.batch, order.n))

    def launches(self, part: Slice) -> Launches:
        return self.scaling.launches(part.n, part.batch, part.offset)

    def send(self, step: int, part: Slice, work: Launches) -> None:
        at = step * self.batch + part.offset - self.start
        indices = self.indices[at : at + part.n]
        host = np.take(self.images, indices, axis=0, out=self.host[: part.n], mode="clip")
        self.raw[: part.n].upload(host)
        if self.labels is not None and self.raw_labels is not None:
            self.raw_labels[: part.n].upload(np.take(self.labels, indices, out=self.host_labels[: part.n], mode="clip"))
        for launch in work:
            launch.send()

    def after(self, step: int) -> None:
        loss, correct = self.entry
        self.device.download(loss, self.log.loss[step : step + 1])
        self.device.download(correct, self.log.correct[step : step + 1])


class ResidentFeed(Feed):
    """The whole data set lives on the device, which finds each step's samples by itself: no copies while it trains."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        device = self.device
        self.source = device.array(np.ascontiguousarray(self.images), "data")
        self.source_labels = device.array(self.labels, "data") if self.labels is not None else None
        self.words = device.zeros((ORDER_WORDS,), np.uint32, "data")
        self.host_words = device.pinned((ORDER_WORDS,), np.uint32)  # free again when an epoch has begun, since every run waits for its end
        self.order: Order | None = None
        self.gathering = self.gather(
            device, self.source, self.scale, self.x, self.source_labels, self.target, self.words, self.log.step, self.block_size
        )

    @property
    def bytes(self) -> int:
        return self.source.nbytes + (self.source_labels.nbytes if self.source_labels is not None else 0) + self.words.nbytes

    @property
    def gathers(self) -> list[KernelGather]:
        return [self.gathering]

    def begin(self, order: Order, first: int, last: int) -> None:
        if order != self.order:
            self.host_words[...] = order.words
            self.words.upload(self.host_words, self.device.stream)
            self.order = order

    def launches(self, part: Slice) -> Launches:
        return self.gathering.launches(part.n, self.batch, part.offset)

    def send(self, step: int, part: Slice, work: Launches) -> None:
        for launch in work:
            launch.send()


@dataclass
class Lane:
    """One of the buffers that take turns: on the host, on the device, and how far its last use has come."""

    host: np.ndarray
    host_labels: np.ndarray
    raw: Array
    raw_labels: Array | None
    scaling: KernelGather
    copied: Event | None = None
    consumed: Event | None = None
    bound: dict[Slice, Launches] = field(default_factory=dict)

    def launches(self, part: Slice) -> Launches:
        """The launches that turn what was copied into x and target."""
        if part not in self.bound:
            self.bound[part] = self.scaling.launches(part.n, part.batch, part.offset)
        return self.bound[part]


LANES = 3  # one is collected, one copied, one trained on


class StreamedFeed(Feed):
    """Three page-locked host buffers and three device buffers take turns: batch i + 2 is collected and batch i + 1 copied while batch i trains."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        device, capacity = self.device, len(self.x)
        self.copying: Stream = device.new_stream()
        self.lanes = []
        for _ in range(LANES):
            raw, raw_labels = self._raw(capacity)
            host = device.pinned((capacity, *self.images.shape[1:]), self.images.dtype)
            self.lanes.append(Lane(host, device.pinned((capacity,), np.int32), raw, raw_labels, self._scaling(raw, raw_labels)))
        self.turn = 0

    @property
    def bytes(self) -> int:
        return sum(lane.raw.nbytes + (lane.raw_labels.nbytes if lane.raw_labels is not None else 0) for lane in self.lanes)

    @property
    def gathers(self) -> list[KernelGather]:
        return [lane.scaling for lane in self.lanes]

    def begin(self, order: Order, first: int, last: int) -> None:
        self.start = first * self.batch
        self.indices = order.indices(self.start, min(last * self.batch, order.n))

    def launches(self, part: Slice) -> Launches:
        return []  # which of the lanes is read is known when it is sent

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
        """A place where a timeline may record an event; nothing otherwise."""

    def finish(self) -> None:
        for lane in self.lanes:
            lane.copied = lane.consumed = None


FEEDS: dict[str, type[Feed]] = {"sync": SyncFeed, "streamed": StreamedFeed, "resident": ResidentFeed}
