"""Kernels and launches on a GPU; binding a launch does all work that can be done before it is queued."""

from __future__ import annotations

import ctypes
import math
import weakref
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda

from ...errors import LaunchError
from .. import Kernel, Launch, Stream
from ..arguments import laid_out
from ..limits import Dim3, LaunchConfig
from .driver import FATAL, INVALID_CONTEXT, error, words
from .program import GpuProgram
from .properties import PORTABLE_CLUSTER
from .stream import GpuStream

if TYPE_CHECKING:
    from .device import GpuDevice


class GpuLaunch(Launch):
    """Launch by one call of `cuLaunchKernelEx`: fewer arguments than `cuLaunchKernel`, and less time in Python."""

    def __init__(
        self, kernel: GpuKernel, config: LaunchConfig, packed: tuple[Any, ...], arguments: tuple[Any, ...]
    ) -> None:
        super().__init__(kernel, config)
        self.device, self.function = kernel.device, kernel.function
        self.arguments = arguments  # keeps the arrays alive
        self._reference = weakref.ref(self)
        self._values, self._pointers = laid_out(packed)  # the driver takes a pointer to each argument
        self.parameters = ctypes.addressof(self._pointers)
        self.configs: dict[Stream | None, Any] = {None: self._config(self.device.stream.handle)}

    def send(self, stream: Stream | None = None) -> None:
        config = self.configs.get(stream) or self._on(stream)
        (status,) = cuda.cuLaunchKernelEx(config, self.function, self.parameters, 0)
        if status:
            self._failed(status, config)
        self.device.last = self._reference

    def _failed(self, status: Any, config: Any) -> None:
        """Repeat a launch after setting the context of a thread that never used the GPU; raise any other error."""
        if status == INVALID_CONTEXT:
            self.device.enter()
            (status,) = cuda.cuLaunchKernelEx(config, self.function, self.parameters, 0)
        if status in FATAL:
            raise error(status, f"launch {self!r} on {self.device.name}", self.device.last())
        if status:
            raise LaunchError(f"{self.device.name} refuses to launch {self!r}: {words(status)}")

    def _on(self, stream: Stream | None) -> Any:
        if not isinstance(stream, GpuStream) or stream.device is not self.device:
            raise LaunchError(f"{self!r} is bound to {self.device.name}, and {stream!r} is not one of its streams")
        config = self.configs[stream] = self._config(stream.handle)
        return config

    def _config(self, stream: Any) -> Any:
        config = cuda.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = self.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = self.block
        config.sharedMemBytes = self.shared
        config.hStream = stream
        attributes = []
        if self.cooperative:
            attribute = cuda.CUlaunchAttribute()
            attribute.id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
            attribute.value.cooperative = 1
            attributes.append(attribute)
        if self.cluster != (1, 1, 1):
            attribute = cuda.CUlaunchAttribute()
            attribute.id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            size = attribute.value.clusterDim
            size.x, size.y, size.z = self.cluster
            attributes.append(attribute)
        config.attrs = attributes
        config.numAttrs = len(attributes)
        return config


class GpuKernel(Kernel):
    """Kernel loaded on a GPU; `function` is the driver's handle."""

    device: GpuDevice

    def __init__(self, device: GpuDevice, program: GpuProgram, function: Any) -> None:
        super().__init__(device, program.source, program.signature, program.resources)
        self.function = function
        self._dynamic = 0  # bytes of dynamic shared memory that were requested beyond the default

    def blocks_at_once(self, block: Dim3, shared: int) -> int:
        """Number of this kernel's blocks that the whole GPU holds at the same time, as the driver counts them.

        block : threads along x, y, z. shared : bytes of dynamic shared memory of a block.
        """
        self._allow(shared)
        occupancy = cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor
        doing = f"count the blocks of {self.signature.name}"
        each = self.device.call(occupancy, self.function, math.prod(block), shared, doing=doing)
        return int(each) * self.device.limits.multiprocessors

    def _launch(self, config: LaunchConfig, packed: tuple[Any, ...], arguments: tuple[Any, ...]) -> GpuLaunch:
        self._allow(config.shared)
        blocks = math.prod(config.cluster)
        if blocks > PORTABLE_CLUSTER:
            self._set(cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)
        launch = GpuLaunch(self, config, packed, arguments)
        if config.cluster != (1, 1, 1):
            wanted = math.prod(config.grid) // blocks if config.cooperative else 1
            occupancy, doing = cuda.cuOccupancyMaxActiveClusters, f"count the clusters of {launch!r}"
            held = int(self.device.call(occupancy, self.function, launch.configs[None], doing=doing))
            if held < wanted:
                raise LaunchError(
                    f"kernel {self.signature.name} cannot be launched: {wanted:,} clusters of {config.cluster} at the "
                    f"same time, and {self.device.name} holds {held:,} of them ({config} shared memory)"
                )
        return launch

    def _allow(self, shared: int) -> None:
        """Request the shared memory beyond a block's default amount."""
        if shared + self.resources.static_shared > self.device.limits.shared_per_block and shared > self._dynamic:
            self._set(cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)
            self._dynamic = shared

    def _set(self, attribute: Any, value: int) -> None:
        doing = f"prepare {self.signature.name} ({attribute.name})"
        self.device.call(cuda.cuFuncSetAttribute, self.function, attribute, value, doing=doing)
