"""Profile of a training step, as frozen data with a JSON file."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from ..errors import ResultsError
from .reader import short
from .stored import ResultsFile


@dataclass(frozen=True)
class Floor:
    """Smallest work of a part of a step. flops : additions and multiplications, without comparisons and copies. bytes :
    bytes read and written.
    """

    flops: int = 0
    bytes: int = 0

    def seconds(self, flops_per_second: float, bytes_per_second: float) -> float:
        """Smallest possible time in seconds: the longer of flops and bytes at these peaks."""
        return max(self.flops / flops_per_second, self.bytes / bytes_per_second)


@dataclass(frozen=True)
class LaunchShape:
    """Launch of a kernel, with the resources that it takes.

    grid, block, shared : blocks, threads and bytes of dynamic shared memory.
    registers, static_shared, spilled : a thread's 32-bit registers, a block's bytes, and a thread's bytes of spilled
    registers.
    occupancy : share of a multiprocessor's threads that can be resident, 0 to 1.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    registers: int
    static_shared: int
    spilled: int
    occupancy: float


@dataclass(frozen=True)
class KernelTime:
    """Time of one kernel of a step, or of one instruction of a compiled program, by name; summed over its launches in a
    part.

    shape : shape of its largest launch; None for a call of a vendor's library, which does not report it, and for an
    instruction of a compiled program.
    tensor : True if the kernel's machine code has tensor core instructions.
    """

    name: str
    launches: int
    seconds: float
    shape: LaunchShape | None
    tensor: bool = False


@dataclass(frozen=True)
class ProductTiles:
    """Tiles of one matrix product (`ops.tiles`).

    layers : indices of its operation's layers.
    product : result of the product, "y", "dx" or "dw".
    samples : number of samples of the product.
    tile, depth, parts : the tile's template arguments, terms in a part of a sum, and number of parts.
    timed : True if a tuner chose it; else the model did.
    """

    layers: tuple[int, ...]
    product: str
    samples: int
    tile: str
    depth: int
    parts: int
    timed: bool


@dataclass(frozen=True)
class Part:
    """Part of a training step: an operation, forward or backward, or the work between operations.

    name : "0 Conv2d, 1 ReLU", "loss", "update", "feed".
    phase : "prepare", "feed", "forward", "backward", "loss", "sum" or "update"; "step" for a whole step, which includes
    the update if no part of this name follows.
    seconds : time of the part alone, with inputs and outputs in place, or inside whole steps; the median of several
    measurements.
    floor : smallest work of the part.
    """

    name: str
    phase: str
    seconds: float
    floor: Floor
    kernels: tuple[KernelTime, ...] = ()


@dataclass(frozen=True)
class StreamSpans:
    """Spans of work on one stream, in seconds since the timeline's first event.

    name : "copy" or "compute".
    spans : (step, begin, end), in order.
    """

    name: str
    spans: tuple[tuple[int, float, float], ...]


@dataclass(frozen=True)
class Profile(ResultsFile):
    """Time and memory of a training step, part by part.

    samples : samples of the measured step.
    step_seconds : time of whole steps, one after the other, with everything else that a run does.
    parts : parts of the step in order; empty if a rung is one program that cannot be divided; `reason` states it.
    flops_per_second, bytes_per_second : peaks of the computing unit; NaN if unknown, null in a file.
    memory : bytes by component.
    host_bytes : resident memory of this process.
    transfers : bytes that a step copies to the device, and back.
    timeline : spans of the streams in some steps, if copies overlap computation.
    hidden : share of the copies' time that overlaps computation.
    machine : machine of the measurement.
    tiles : tiles of the matrix products, if the rung uses tiles.
    spans : seconds by named part (compile, upload, ...) of the whole profile, if the trainer records them.
    inside : True if parts were timed inside whole steps, by a clock around each instruction of a compiled program;
    False if each was timed alone.
    tensor_share : share, 0 to 1, of the FLOPs of a step's matrix products in kernels with tensor core instructions;
    None for rungs without them.
    """

    KIND: ClassVar[str] = "a profile"
    AGAIN: ClassVar[str] = "make the profile"
    MARKS: ClassVar[tuple[str, ...]] = ("step_seconds",)

    net: str
    rung: str
    device: str
    samples: int
    step_seconds: float
    flops: int
    flops_per_second: float
    bytes_per_second: float
    parts: tuple[Part, ...]
    memory: dict[str, int]
    host_bytes: int
    transfers: dict[str, int]
    timeline: tuple[StreamSpans, ...] = ()
    hidden: float = 0.0
    reason: str = ""
    machine: dict[str, Any] = field(default_factory=dict)
    tiles: tuple[ProductTiles, ...] = ()
    spans: dict[str, float] = field(default_factory=dict)
    tensor_share: float | None = None
    inside: bool = False

    @property
    def parts_seconds(self) -> float:
        """Sum of the parts' times: less than the step's if starting and waiting take time, more if parts overlap."""
        return sum(part.seconds for part in self.parts)

    @classmethod
    def is_kind(cls, tree: Any) -> bool:
        """True if a JSON tree has the marks of a profile, and not those of a climb."""
        return super().is_kind(tree) and "rungs" not in tree

    @classmethod
    def from_tree(cls, tree: Any) -> Self:
        """Profile from a JSON tree; a peak of null becomes NaN, and every number is checked."""
        unknown = [name for name in _PEAKS if cls.is_kind(tree) and tree.get(name, 0) is None]
        found = super().from_tree(tree | dict.fromkeys(unknown, 1.0) if unknown else tree)
        found._check()
        for name in unknown:
            object.__setattr__(found, name, math.nan)
        return found

    def to_tree(self) -> dict[str, Any]:
        """JSON tree of the profile, with null for an unknown peak."""
        return super().to_tree() | {name: None for name in _PEAKS if not math.isfinite(getattr(self, name))}

    def _check(self) -> None:
        if not 1e-12 <= self.step_seconds <= 1e9 or any(not 0 <= part.seconds <= 1e9 for part in self.parts):
            raise ResultsError(
                "step_seconds and the parts' seconds want times below thirty years, and a step some time"
            )
        if not all(1 <= getattr(self, name) <= 1e30 for name in _PEAKS) or self.samples < 1 or self.flops < 1:
            raise ResultsError(
                "samples, flops, flops_per_second and bytes_per_second want at least 1, and the peaks at most 1e30"
            )
        floors = [size for part in self.parts for size in (part.floor.flops, part.floor.bytes)]
        if min((*floors, *self.memory.values()), default=0) < 0:
            raise ResultsError("floors and memory want numbers of at least 0")
        if self.tensor_share is not None and not 0 <= self.tensor_share <= 1:
            raise ResultsError(f"tensor_share wants a share from 0 to 1, got {short(self.tensor_share)}")


_PEAKS = ("flops_per_second", "bytes_per_second")
