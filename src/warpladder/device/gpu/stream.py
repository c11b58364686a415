"""Streams, events and graphs of a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda

from ...errors import DeviceError
from .. import Event, Graph, Stream

if TYPE_CHECKING:
    from .device import GpuDevice


class GpuEvent(Event):
    """Event with a time. The device reuses its handle: creating one takes longer than recording it."""

    def __init__(self, device: GpuDevice) -> None:
        self.device = device
        self.handle: Any = device.events.pop() if device.events else None
        if self.handle is None:
            self.handle = device.call(cuda.cuEventCreate, 0, doing="make an event")

    def synchronize(self) -> None:
        self.device.call(cuda.cuEventSynchronize, self.handle, doing="wait for an event")

    def seconds_since(self, earlier: Event) -> float:
        """Seconds between two events, both of which have happened; the GPU's clock ticks every half microsecond."""
        if not isinstance(earlier, GpuEvent):
            raise DeviceError(f"an event of {self.device.name} cannot be compared with a {type(earlier).__name__}")
        doing = "read the time between two events"
        return float(self.device.call(cuda.cuEventElapsedTime, earlier.handle, self.handle, doing=doing)) / 1e3

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self.device.events.append(self.handle)


class GpuStream(Stream):
    """Stream that does not wait for the driver's default stream, so that a graph can capture it."""

    def __init__(self, device: GpuDevice) -> None:
        self.device = device
        flags = cuda.CUstream_flags.CU_STREAM_NON_BLOCKING.value
        self.handle: Any = device.call(cuda.cuStreamCreate, flags, doing="make a stream")

    def record(self) -> GpuEvent:
        event = GpuEvent(self.device)
        self.device.call(cuda.cuEventRecord, event.handle, self.handle, doing="record an event")
        return event

    def wait(self, event: Event) -> None:
        if not isinstance(event, GpuEvent):
            raise DeviceError(f"a stream of {self.device.name} cannot wait for a {type(event).__name__}")
        self.device.call(cuda.cuStreamWaitEvent, self.handle, event.handle, 0, doing="let a stream wait for an event")

    def synchronize(self) -> None:
        self.device.call(cuda.cuStreamSynchronize, self.handle, doing="finish the work of a stream")

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self.device.forgive(cuda.cuStreamDestroy, self.handle)


class GpuGraph(Graph):
    """CUDA graph: launches and copies that a function queues on a stream, recorded once and queued by a single call.

    work : called once with a stream, on which it queues launches, fills, and copies of page-locked memory without
    running them. Other streams belong to the graph if they and the stream wait for each other's events. Objects to
    which work refers stay alive. Raises DeviceError: the work does something that a graph cannot record, such as
    waiting.
    """

    def __init__(self, device: GpuDevice, work: Callable[[Stream], object]) -> None:
        self.device, self.work = device, work
        stream = device.capturing
        mode = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED  # memory may be released meanwhile
        device.call(cuda.cuStreamBeginCapture, stream.handle, mode, doing="begin a graph")
        try:
            work(stream)
        except BaseException:
            device.forgive(_abandon, stream)
            raise
        graph = device.call(cuda.cuStreamEndCapture, stream.handle, doing="end a graph")
        try:
            self.nodes = _nodes(device, graph)
            self.handle: Any = device.call(cuda.cuGraphInstantiate, graph, 0, doing="make a graph")
        finally:
            device.forgive(cuda.cuGraphDestroy, graph)

    def send(self, stream: Stream | None = None) -> None:
        """Queue the graph on a stream, or on the device's own."""
        on = self.device.on(stream)
        self.device.call(cuda.cuGraphLaunch, self.handle, on.handle, doing=f"launch a graph of {self.nodes} nodes")

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self.device.forgive(cuda.cuGraphExecDestroy, self.handle)


def _nodes(device: GpuDevice, graph: Any) -> int:
    _, count = device.call(cuda.cuGraphGetNodes, graph, 0, doing="count a graph's nodes")
    return int(count)


def _abandon(stream: GpuStream) -> tuple[Any, ...]:
    """End a capture and destroy the graph; returns the status."""
    status, graph = cuda.cuStreamEndCapture(stream.handle)
    if not status:
        cuda.cuGraphDestroy(graph)
    return (status,)
