"""`Kernel`: compiled function with its signature; `Launch`: checked call of one; `Call`: launch or library call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from .limits import Dim3, LaunchConfig, Resources, check, check_together, dim3
from .occupancy import blocks_per_multiprocessor
from .signature import Signature
from .source import KernelSource
from .touches import Touches, touches

if TYPE_CHECKING:
    from .base import Device, Stream


class Call(ABC):
    """Work for a device: prepared once, queued any number of times.

    touches : memory that it reads and writes; None if unknown.
    product : matrix product that the call computes or finishes, if a tuner chooses its tiles, or None.
    products : number of matrix products that it computes: y, dx and dw of a layer are one each.
    """

    product: object = None
    products: int = 1
    touches: Touches | None = None

    @property
    @abstractmethod
    def name(self) -> str: ...

    @abstractmethod
    def send(self, stream: Stream | None = None) -> None:
        """Queue the call on a stream, or on the device's own."""


class Launch(Call):
    """Launch of a kernel with its configuration and arguments: checked once, queued any number of times."""

    def __init__(self, kernel: Kernel, config: LaunchConfig) -> None:
        self.kernel, self.config = kernel, config
        self.grid, self.block, self.shared, self.cooperative, self.cluster = config

    @property
    def name(self) -> str:
        return self.kernel.signature.name

    def __repr__(self) -> str:
        return f"<{self.name} grid {self.grid} block {self.block} shared {self.shared}>"


class Kernel(ABC):
    """Compiled kernel on a device, with its source, its signature and its resources."""

    def __init__(self, device: Device, source: KernelSource, signature: Signature, resources: Resources) -> None:
        self.device, self.source, self.signature, self.resources = device, source, signature, resources

    @property
    def uses_tensor_cores(self) -> bool:
        """True if the compiled code multiplies on tensor cores."""
        return self.resources.uses_tensor_cores

    def bind(
        self, grid: int | tuple[int, ...], block: int | tuple[int, ...], *arguments: Any,
        shared: int = 0, cooperative: bool = False, cluster: int | tuple[int, ...] = 1,
    ) -> Launch:  # fmt: skip
        """Launch with these arguments. Raises `KernelError` or `LaunchError` if they do not fit.

        grid, block : blocks, and threads in a block, along x, y and z.
        *arguments : an `Array` for each pointer (None for a null pointer), a number for anything else.
        shared : bytes of dynamic shared memory.
        cooperative : True to run all blocks concurrently, for kernels that wait for the whole grid, which must fit the
        device.
        cluster : blocks in a cluster along x, y and z, which divides the grid.
        """
        config = LaunchConfig(dim3(grid), dim3(block), shared, cooperative, dim3(cluster))
        packed = self.signature.pack(self.device, arguments)
        check(self.signature.name, config, self.device.limits, self.resources)
        if cooperative or config.cluster != (1, 1, 1):
            at_once = self.blocks_at_once(config.block, shared) if cooperative else None
            check_together(self.signature.name, config, at_once, self.device.limits)
        launch = self._launch(config, packed, arguments)
        launch.touches = touches(self.signature, arguments)
        return launch

    def blocks_at_once(self, block: Dim3, shared: int) -> int:
        """Number of blocks of this size that the whole device runs concurrently."""
        limits = self.device.limits
        return limits.multiprocessors * blocks_per_multiprocessor(block, shared, self.resources, limits)

    @abstractmethod
    def _launch(self, config: LaunchConfig, packed: tuple[Any, ...], arguments: tuple[Any, ...]) -> Launch:
        """Launch of arguments that have passed all checks; it owns the arrays among `arguments`."""
