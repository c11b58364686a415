"""What a profile says, as plain data that is stored and shown, and its JSON file: written atomically, checked when it
is read.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass, field
from typing import Any

from ..errors import ResultsError
from ..files.atomic import write_atomically
from .reader import read, read_json, short

#: Grows whenever a field is removed or changes its meaning, and when one is added that has no default for older files.
SCHEMA = 1

_LATER: dict[str, bool] = {"added later": True}


@dataclass(frozen=True)
class Floor:
    """The least that a part of a step must do. flops : additions and multiplications; comparisons and copies count as
    none. bytes : read and written.
    """

    flops: int = 0
    bytes: int = 0

    def seconds(self, flops_per_second: float, bytes_per_second: float) -> float:
        """The longer of both at these peaks: nothing that does this work is faster."""
        return max(self.flops / flops_per_second, self.bytes / bytes_per_second)


@dataclass(frozen=True)
class LaunchShape:
    """How a kernel was launched, and what it takes.

    grid, block, shared : blocks, threads and bytes of dynamic shared memory.
    registers, static_shared, spilled : a thread's 32-bit registers, a block's bytes, and a thread's bytes of spilled
    registers.
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
    """One kernel of a step, or one instruction of a compiled program, by name; several launches of it within one part
    are added up.

    shape : of its largest launch; None for a call of a vendor's library, which does not tell, and for an instruction of
    a compiled program.
    tensor : whether the kernel's machine code has instructions that multiply on tensor cores.
    """

    name: str
    launches: int
    seconds: float
    shape: LaunchShape | None
    tensor: bool = field(default=False, metadata=_LATER)


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
    phase : "prepare", "feed", "forward", "backward", "loss", "sum" or "update"; "step" for all of it, with the update
    where no part of that name
        follows.
    seconds : of the part alone, its inputs and outputs in place, or inside whole steps; the median of several
    measurements.
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
    flops_per_second, bytes_per_second : peaks of the unit that computes; NaN where one is not known, which a file says
    as null.
    memory : bytes by component.
    host_bytes : resident memory of this process.
    transfers : bytes that a step sends to the device, and back.
    timeline : what the streams did in some steps, where copies overlap computing.
    hidden : the share of the copies' time during which something was computed.
    machine : what it was measured on.
    tiles : how products of matrices are cut into tiles, where the rung does that.
    spans : seconds by named part (compile, upload, ...), where the trainer keeps count; of the whole profile, not of a
    step.
    inside : whether parts were timed inside whole steps, by a clock around each instruction of a compiled program, and
    not each alone.
    tensor_share : of the FLOPs of a step's products of matrices those in kernels with tensor core instructions, 0 to 1;
    None for rungs that use none.
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
    timeline: tuple[Lane, ...] = field(default=(), metadata=_LATER)
    hidden: float = field(default=0.0, metadata=_LATER)
    reason: str = field(default="", metadata=_LATER)
    machine: dict[str, Any] = field(default_factory=dict, metadata=_LATER)
    tiles: tuple[Tiles, ...] = field(default=(), metadata=_LATER)
    spans: dict[str, float] = field(default_factory=dict, metadata=_LATER)
    tensor_share: float | None = field(default=None, metadata=_LATER)
    inside: bool = field(default=False, metadata=_LATER)

    @property
    def parts_seconds(self) -> float:
        """The parts' times added up: less than the step's where starting and waiting count, more where parts overlap."""
        return sum(part.seconds for part in self.parts)


def save(found: Profile, path: str | os.PathLike[str]) -> None:
    """Write a profile as JSON: the old file stays whole until the new one is on the disk."""
    tree = {"schema": SCHEMA, **asdict(found)}
    tree |= {name: None for name in _PEAKS if not math.isfinite(tree[name])}
    write_atomically(path, json.dumps(tree, indent=1, allow_nan=False))


def is_profile(tree: Any) -> bool:
    """Whether a JSON tree is that of a profile, as far as its first fields say."""
    return isinstance(tree, dict) and "step_seconds" in tree and "rungs" not in tree


def load_profile(path: str | os.PathLike[str]) -> Profile:
    """Read a profile's file; `ResultsError` in one line that names it."""
    try:
        with open(path, "rb") as file:
            return parse(file.read())
    except OSError as error:
        raise ResultsError(f"{os.fspath(path)}: {error.strerror or error}") from None
    except ResultsError as error:
        raise ResultsError(f"{os.fspath(path)}: {error}") from None


def parse(raw: bytes) -> Profile:
    """Check the bytes of a profile's file and make a `Profile` of them; `ResultsError` names the first thing wrong in
    it.
    """
    tree = read_json(raw, nan=True)
    if not is_profile(tree) or "schema" not in tree:
        raise ResultsError("is not a profile")
    if tree["schema"] != SCHEMA or isinstance(tree["schema"], (bool, float)):
        raise ResultsError(
            f"has schema {short(tree['schema'])}, this warpladder reads {SCHEMA}: make the profile again"
        )
    del tree["schema"]
    unknown = [name for name in _PEAKS if name in tree and tree[name] is None]
    found: Profile = read(Profile, tree | dict.fromkeys(unknown, 1.0), "")
    if not 1e-12 <= found.step_seconds <= 1e9 or any(not 0 <= part.seconds <= 1e9 for part in found.parts):
        raise ResultsError("step_seconds and the parts' seconds want times below thirty years, and a step some time")
    if not all(1 <= getattr(found, name) <= 1e30 for name in _PEAKS) or found.samples < 1 or found.flops < 1:
        raise ResultsError(
            "samples, flops, flops_per_second and bytes_per_second want at least 1, and the peaks at most 1e30"
        )
    if (
        any(min(part.floor.flops, part.floor.bytes) < 0 for part in found.parts)
        or min(found.memory.values(), default=0) < 0
    ):
        raise ResultsError("floors and memory want numbers of at least 0")
    if found.tensor_share is not None and not 0 <= found.tensor_share <= 1:
        raise ResultsError(f"tensor_share wants a share from 0 to 1, got {short(found.tensor_share)}")
    for name in unknown:
        object.__setattr__(found, name, math.nan)
    return found


_PEAKS = ("flops_per_second", "bytes_per_second")
