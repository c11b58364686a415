"""Samples as the compiled program reads them: bytes, floats, or lists of their numbers other than 0.

Whether lists pay is decided when data are loaded, by counting zeros, so that the same data take the same operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .compiler.vectors import LANES
from .kernels.tile_sizes import LISTED
from .program.job import Instruction
from .program.memory import NativeMemory
from .program.operands import GATHERED, WITHOUT_LOSS
from .program.plan import LISTS, NativePlan

COUNTED = 4096  # samples in which zeros are counted
MOST = 1 / 3  # share of numbers other than 0 up to which lists are faster (docs/notes/native.md)

#: the memory's samples before `load`
NO_SAMPLES: dict[str, np.ndarray] = {
    "u8": np.empty((0, 1), np.uint8),
    "f32": np.empty((0, 1), np.float32),
    "starts": np.empty((0, 1), np.int64),
    "entries": np.empty(0, np.int32),
    "labels": np.empty(0, np.int32),
    "targets": np.empty((0, 1), np.float32),
}


def samples_of(x: np.ndarray, goal: np.ndarray | None) -> dict[str, np.ndarray]:
    """Arrays of the memory for these samples, with their labels (samples,) or targets (samples, outputs)."""
    x = np.ascontiguousarray(x).reshape(len(x), math.prod(x.shape[1:]))
    pixels = {"u8": x} if x.dtype == np.uint8 else {"f32": x.astype(np.float32, copy=False)}
    if goal is None:
        return NO_SAMPLES | pixels
    if goal.ndim == 2:
        return NO_SAMPLES | pixels | {"targets": np.ascontiguousarray(goal, np.float32)}
    return NO_SAMPLES | pixels | {"labels": np.ascontiguousarray(goal, np.int32)}


def whole_bytes(memory: NativeMemory) -> bool:
    """True if samples are bytes in rows of whole vectors: a first layer with few outputs then reads the data set."""
    return len(memory.u8) > 0 and memory.u8.shape[1] % LANES == 0


def are_lists(memory: NativeMemory) -> bool:
    """True if the first layer reads lists of the samples' numbers other than 0."""
    return len(memory.starts) > 0


def rows_for(plan: NativePlan, memory: NativeMemory, has_loss: bool) -> list[Instruction]:
    """Rows of a plan, with the operations for these samples, and for steps with losses or without."""
    others = ({} if has_loss else WITHOUT_LOSS) | ({} if whole_bytes(memory) else GATHERED)
    first = plan.of_samples if are_lists(memory) else ()
    return [
        row._replace(operation=(LISTS if at in first else others).get(row.operation, row.operation))
        for at, row in enumerate(plan.rows)
    ]


def nonzeros(x: np.ndarray) -> float:
    """Share, 0 to 1, of numbers other than 0 in samples x (samples, ...), counted in COUNTED to twice as many."""
    some = x[:: max(1, len(x) // COUNTED)]
    return np.count_nonzero(some != 0) / max(1, some.size)


def mostly_zeros(x: np.ndarray) -> bool:
    """True if at most MOST of the numbers are other than 0."""
    return nonzeros(x) <= MOST


def list_nonzeros(depth: int, samples: int, call: Callable[..., None]) -> dict[str, np.ndarray]:
    """Lists of all samples. depth : inputs with padding. call : it counts and fills them (nonzeros/lists.py)."""
    starts = np.zeros((samples, -(-depth // LISTED) + 1), np.int64)
    call(starts=starts)
    ends = np.cumsum(starts[:, 1:]).reshape(samples, -1)
    starts[:, 1:] = ends
    starts[1:, 0] = ends[:-1, -1]
    entries = np.empty(2 * int(ends[-1, -1]), np.int32)
    call(starts=starts, entries=entries)
    return {"starts": starts, "entries": entries}
