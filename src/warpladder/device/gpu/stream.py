"""Streams and events of a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda

from ...errors import DeviceError
from .. import Event, Stream

if TYPE_CHECKING:
    from .device import GpuDevice


class GpuEvent(Event):
    """An event that tells the time. Its handle goes back to the device and is used again: making one takes longer than
    recording it.
    """

    def __init__(self, device: GpuDevice) -> None:
        self.device = device
        self.handle: Any = (
            device.events.pop() if device.events else device.call(cuda.cuEventCreate, 0, doing="make an event")
        )

    def synchronize(self) -> None:
        self.device.call(cuda.cuEventSynchronize, self.handle, doing="wait for an event")

    def seconds_since(self, earlier: Event) -> float:
        """Seconds between two events, both of which have happened; the GPU's clock ticks every half microsecond."""
        if not isinstance(earlier, GpuEvent):
            raise DeviceError(f"an event of {self.device.name} cannot be set against a {type(earlier).__name__}")
        return (
            float(
                self.device.call(
                    cuda.cuEventElapsedTime, earlier.handle, self.handle, doing="read the time between two events"
                )
            )
            / 1e3
        )

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self.device.events.append(self.handle)


class GpuStream(Stream):
    """A stream that does not wait for the driver's default one, so that it can be captured in a graph."""

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
