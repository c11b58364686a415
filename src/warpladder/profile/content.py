"""What a profile says, as plain data that is stored and shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .floor import Floor


@dataclass(frozen=True)
class LaunchShape:
    """How a kernel was launched, and what it takes.

    grid, block, shared : blocks, threads and bytes of dynamic shared memory.
    registers, static_shared, spilled : a thread's 32-bit registers, a block's bytes, and a thread's bytes of spilled registers.
    occupancy : share of a multiprocessor's threads that it can keep there, 0 to 1.
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
    """One kernel of a step, by name; several launches of it within one part are added up.

    shape : of its largest launch; None for a call of a vendor's library, which does not tell.
    """

    name: str
    launches: int
    seconds: float
    shape: LaunchShape | None


@dataclass(frozen=True)
class Tiles:
    """How one product of matrices is cut into tiles (`ops.tiles`).

    layers : numbers of its op's layers.
    product : what it computes, "y", "dx" or "dw".
    samples : how many at a time.
    tile, depth, parts : the tile's template arguments, terms in a part of a sum, and parts.
    timed : whether a tuner chose it; if not, the model did.
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
    """A part of a step: an operation, forward or backward, or what stands between them.

    name : "0 Conv2d, 1 ReLU", "loss", "update", "feed".
    phase : "prepare", "feed", "forward", "backward", "loss", "sum" or "update"; "step" for all of it, with the update where no part of that name
        follows.
    seconds : of the part alone, its inputs and outputs in place; the median of several measurements.
    floor : the least that it must do.
    """

    name: str
    phase: str
    seconds: float
    floor: Floor
    kernels: tuple[KernelTime, ...] = ()


@dataclass(frozen=True)
class Lane:
    """What one stream did, in seconds since the timeline's first event.

    name : "copy" or "compute".
    spans : (step, begin, end), in order.
    """

    name: str
    spans: tuple[tuple[int, float, float], ...]


@dataclass(frozen=True)
class Profile:
    """Where a step's time and memory go.

    samples : in the step that was measured.
    step_seconds : of whole steps, one after the other, with everything that a run does besides.
    parts : in order; empty where a rung is one program that cannot be taken apart, and `reason` says so.
    flops_per_second, bytes_per_second : peaks of the unit that computes.
    memory : bytes by component.
    host_bytes : resident memory of this process.
    transfers : bytes that a step sends to the device, and back.
    timeline : what the streams did in some steps, where copies overlap computing.
    hidden : the share of the copies' time during which something was computed.
    machine : what it was measured on.
    tiles : how products of matrices are cut into tiles, where the rung does that.
    spans : seconds by named part (compile, upload, ...), where the trainer keeps count; of the whole profile, not of a step.
    """

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
    timeline: tuple[Lane, ...] = ()
    hidden: float = 0.0
    reason: str = ""
    machine: dict[str, Any] = field(default_factory=dict)
    tiles: tuple[Tiles, ...] = ()
    spans: dict[str, float] = field(default_factory=dict)

    @property
    def parts_seconds(self) -> float:
        """The parts' times added up: less than the step's where starting and waiting count, more where parts overlap."""
        return sum(part.seconds for part in self.parts)
