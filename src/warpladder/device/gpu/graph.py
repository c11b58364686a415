"""CUDA graphs: launches and copies recorded once, and then queued by a single call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda

from .. import Graph, Stream
from .stream import GpuStream

if TYPE_CHECKING:
    from .device import GpuDevice


class GpuGraph(Graph):
    """What a function queues on a stream, as one thing to send.

    Parameters
    ----------
    device : GpuDevice
    work : callable
        Called once with a stream, on which it queues launches, fills, and copies from or to page-locked memory. Nothing
        of it runs then. Work of other streams belongs to the graph where the stream waits for their events, and they
        for its own. What it refers to is kept alive as long as the graph.

    Raises
    ------
    DeviceError
        Where the work does what a graph cannot hold: waiting, for one.
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
        """Queue all of it on a stream, or on the device's own."""
        on = self.device.on(stream)
        self.device.call(cuda.cuGraphLaunch, self.handle, on.handle, doing=f"launch a graph of {self.nodes} nodes")

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self.device.forgive(cuda.cuGraphExecDestroy, self.handle)


def _nodes(device: GpuDevice, graph: Any) -> int:
    _, count = device.call(cuda.cuGraphGetNodes, graph, 0, doing="count a graph's nodes")
    return int(count)


def _abandon(stream: GpuStream) -> tuple[Any, ...]:
    """End a capture and throw away what it holds."""
    status, graph = cuda.cuStreamEndCapture(stream.handle)
    if not status:
        cuda.cuGraphDestroy(graph)
    return (status,)
