"""Kernels with one planted bug each (bugs/*.cu), and what the emulator must say of them.

Run as a script under AddressSanitizer it sends, each in a process of its own, those that AddressSanitizer must stop.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warpladder.device.emulator import EmulatedDevice

FOLDER = Path(__file__).parent / "bugs"


@dataclass(frozen=True)
class Unwritten:
    """An array that holds nothing yet."""

    shape: tuple[int, ...]
    dtype: Any = np.float32


@dataclass(frozen=True)
class Tiles:
    """A tensor map of an array, for tiles of so many rows."""

    array: np.ndarray
    rows: int


@dataclass(frozen=True)
class Bug:
    """One sample.

    arguments : arrays are copied to the device.
    kind, array : what the checker must report.
    also : kinds that may be reported besides.
    asan : whether AddressSanitizer or UBSan must stop it too.
    """

    kernel: str
    grid: Any
    block: Any
    arguments: tuple[Any, ...]
    kind: str
    array: str = ""
    asan: bool = False
    shared: int = 0
    cooperative: bool = False
    cluster: int = 1
    also: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.kernel.partition("<")[0]

    @property
    def path(self) -> Path:
        return next(path for path in sorted(FOLDER.glob("*.cu")) if re.search(rf"\b{self.name}\(", path.read_text()))

    def marked(self) -> set[int]:
        """The lines with an arrow in the kernel, and in device functions before it that no other kernel follows."""
        lines = self.path.read_text().splitlines()
        first = next(i for i, line in enumerate(lines) if re.search(rf"__global__ void {self.name}\(", line))
        last = next(i for i in range(first, len(lines)) if lines[i] == "}")
        before = [i for i, line in enumerate(lines[:first]) if line.startswith("__device__")]
        spans = [(i, next(j for j in range(i, len(lines)) if lines[j] == "}")) for i in before] + [(first, last)]
        return {i + 1 for a, b in spans for i in range(a, b + 1) if "// <-" in lines[i]}


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def ints(n: int, most: int = 8) -> np.ndarray:
    return (np.arange(n, dtype=np.int32) * 5 + 3) % most


def zeros(n: int, dtype: Any = np.float32) -> np.ndarray:
    return np.zeros(n, dtype)


OUT, UNFINISHED = "out of bounds", "unfinished copy"
ROWS = Tiles(floats(16, 32), 8)
BUGS = (
    Bug(
        "row_too_many",
        (3, 3),
        (16, 16),
        (floats(40, 10), floats(10, 36), zeros(40 * 36), 40, 36, 10),
        OUT,
        "a",
        asan=True,
    ),
    Bug("no_column_guard", (2, 5), 32, (floats(5 * 40), zeros(5 * 40), 5, 40), OUT, "y", asan=True, also=("race",)),
    Bug("no_left_border", 2, 64, (floats(100), zeros(100), 100), OUT, "x", asan=True),
    Bug("group_too_many", 2, 64, (floats(400), zeros(400), 100), OUT, "x", asan=True),
    Bug("local_too_short", 1, 32, (floats(40), zeros(32), 4), OUT, "kept", asan=True),
    Bug("null_bias", 1, 32, (floats(32), None, zeros(32)), OUT, asan=True),
    Bug("bin_too_few", 1, 32, (ints(32), zeros(7, np.int32)), OUT, "bins", asan=True),
    Bug("step_too_many", 1, (16, 16), (floats(256), floats(256), zeros(256)), OUT, "left", asan=True),
    Bug("wrong_pitch", 1, (16, 16), (floats(256), zeros(256)), OUT, "tile", asan=True),
    Bug("shifted_by_one<64>", 1, 64, (floats(64), zeros(64)), OUT, "kept", asan=True),
    Bug("dynamic_too_small", 1, 128, (floats(128), zeros(1)), OUT, "sums", asan=True, shared=8),
    Bug("carved_too_long", 1, 64, (floats(64), zeros(64), 64), OUT, "room", asan=True, shared=512),
    Bug("into_the_neighbour", 1, 32, (floats(32), zeros(32)), OUT, "near", asan=True),
    Bug("no_barrier_after_load", 1, (16, 16), (floats(256), zeros(256)), "race", "tile"),
    Bug("no_barrier_before_load", 1, (16, 16), (floats(3 * 256), zeros(256), 3), "race", "tile"),
    Bug("room_used_again", 1, 128, (floats(128), zeros(128)), "race", "room"),
    Bug("tree_without_barriers", 1, 128, (floats(128), zeros(1)), "race", "part"),
    Bug("last_warp_without_sync", 1, 128, (floats(128), zeros(1)), "race", "part"),
    Bug("volatile_warp", 1, 64, (floats(64), zeros(1)), "race", "part"),
    Bug("flag_before_the_number", 1, 64, (floats(1), zeros(1)), "race", "slot"),
    Bug("missing_syncwarp", 1, 128, (floats(128), zeros(128)), "race", "kept"),
    Bug("half_a_warp", 1, 32, (floats(32), zeros(32)), "race", "kept"),
    Bug("one_buffer_for_two", 1, 64, (floats(256), zeros(64), 4), "race", "buffer", also=("uninitialised",)),
    Bug("overwritten_behind_a_part_of_a_warp", 2, 48, (floats(96), zeros(96)), "race", "first"),
    Bug("histogram_without_atomics", 1, 64, (ints(64), zeros(8, np.int32)), "race", "mine"),
    Bug("barrier_in_a_branch", 1, (8, 8), (floats(64), zeros(64), 5), "barrier"),
    Bug("early_return", 1, 64, (floats(64), zeros(64), 40), "barrier"),
    Bug("two_barriers", 1, 64, (floats(64), zeros(64)), "barrier"),
    Bug("uneven_counts", 1, 64, (ints(64), zeros(64, np.int32)), "barrier"),
    Bug("grid_too_hasty", 4, 32, (zeros(4),), "barrier"),
    Bug("full_mask_in_a_branch", 1, 32, (floats(32), zeros(32)), "warp mask"),
    Bug("not_in_the_mask", 1, 32, (floats(32), zeros(32)), "warp mask"),
    Bug("masks_that_differ", 1, 32, (ints(32), zeros(32, np.uint32)), "warp mask"),
    Bug("lane_that_is_not_there", 1, 48, (floats(48), zeros(48)), "warp mask"),
    Bug("lane_that_has_left", 1, 32, (floats(32), zeros(32), 20), "warp mask"),
    Bug("no_zero_fill", 1, 64, (floats(64), zeros(64), 50), "uninitialised", "tile"),
    Bug("sum_from_nowhere", 1, 64, (ints(64), zeros(1, np.int32)), "uninitialised", "total", shared=4),
    Bug("output_not_cleared", 1, 64, (floats(64), Unwritten((64,))), "uninitialised", "y"),
    Bug("row_begins_anywhere", 2, 8, (floats(2 * 34), zeros(64), 34), "misaligned", "x", asan=True),
    Bug(
        "doubles_behind_floats",
        1,
        32,
        (floats(32), zeros(32, np.float64)),
        "misaligned",
        "room",
        asan=True,
        shared=33 * 4 + 32 * 8,
    ),
    Bug("sum_without_atomics", 8, 32, (floats(256), zeros(1)), "race", "total"),
    Bug("last_block_without_fence", 8, 32, (floats(8), zeros(8), zeros(1, np.uint32), zeros(1)), "race", "part"),
    Bug("fence_too_narrow", 8, 32, (floats(8), zeros(8), zeros(1, np.uint32), zeros(1)), "race", "part"),
    Bug("atomic_too_narrow", 8, 32, (ints(256), zeros(1, np.int32)), "race", "total"),
    Bug("polled_too_early", 4, 32, (floats(128), zeros(1, np.int32)), "race", "x", cooperative=True),
    Bug("neighbours_border", 4, 32, (floats(128),), "race", "x"),
    Bug("fence_of_one", 8, 32, (floats(256), zeros(256), zeros(1, np.uint32), zeros(32)), "race", "part"),
    Bug("flag_that_nobody_sets", 2, 32, (zeros(1, np.int32),), "deadlock"),
    Bug("flag_after_the_barrier", 1, 64, (zeros(1, np.int32),), "deadlock"),
    Bug("lock_taken_twice", 1, 1, (zeros(1, np.int32), zeros(1, np.int32)), "deadlock"),
    Bug("divide_by_zero", 1, 32, (ints(32), zeros(32, np.int32), 0), "trap", asan=True),
    Bug("assertion", 1, 32, (ints(32), zeros(32, np.int32)), "trap"),
    Bug("trapped", 1, 32, (ints(32), zeros(32, np.int32)), "trap"),
    Bug("no_wait", 1, 64, (floats(256), zeros(64)), UNFINISHED, "tile"),
    Bug("waits_for_too_few", 1, 64, (floats(4 * 256), zeros(64), 4), UNFINISHED, "ring"),
    Bug("no_commit", 1, 64, (floats(256), zeros(64)), UNFINISHED, "tile"),
    Bug("wait_without_barrier", 1, 64, (floats(256), zeros(64)), "race", "tile", also=(UNFINISHED,)),
    Bug("copy_begins_too_early", 1, 64, (floats(3 * 256), zeros(64), 3), "race", "tile", also=(UNFINISHED,)),
    Bug("fragment_before_its_copy", 1, 32, (floats(128), zeros(32, np.uint32)), UNFINISHED, "room"),
    Bug("copy_past_the_end", 1, 64, (floats(256), zeros(64)), OUT, "tile", asan=True),
    Bug("copy_to_an_odd_row", 1, 64, (floats(256), zeros(64)), "misaligned", "tile"),
    Bug(
        "fragment_from_an_odd_row", 1, 32, (zeros(72, np.uint16), zeros(32, np.uint32)), "misaligned", "rows", asan=True
    ),
    Bug("fragment_past_the_end", 1, 32, (zeros(64, np.uint16), zeros(32, np.uint32)), OUT, "rows", asan=True),
    Bug("half_a_warp_multiplies", 1, 32, (zeros(32),), "warp mask"),
    Bug("a_warp_of_sixteen", 1, 16, (zeros(16),), "warp mask"),
    Bug("one_in_each_branch", 1, 32, (zeros(32),), "warp mask"),
    Bug("rest_waits_elsewhere", 1, 32, (zeros(32),), "warp mask"),
    Bug("no_wait_for_the_tile", 1, 64, (ROWS, zeros(64)), UNFINISHED, "tile"),
    Bug("tile_from_an_odd_column", 1, 64, (ROWS, zeros(64)), "misaligned"),
    Bug("piece_from_an_odd_float", 1, 64, (floats(512), zeros(64)), "misaligned"),
    Bug("no_wait_for_the_piece", 1, 64, (floats(256), zeros(64)), UNFINISHED, "piece"),
    Bug("one_waits_for_all", 1, 64, (ROWS, zeros(64)), "race", "tile", also=(UNFINISHED,)),
    Bug("always_the_same_phase", 1, 64, (ROWS, zeros(64)), UNFINISHED, "tile"),
    Bug("others_saw_the_phase_before", 1, 96, (floats(6 * 256), zeros(64)), "phase"),
    Bug("too_many_bytes", 1, 64, (ROWS, zeros(64)), "phase"),
    Bug("too_few_arrive", 1, 32, (zeros(32),), "phase"),
    Bug("arrives_too_often", 1, 64, (ROWS, zeros(64)), "phase"),
    Bug("barrier_from_nowhere", 1, 32, (zeros(32),), "phase"),
    Bug("filled_too_early", 1, 64, (ROWS, zeros(64)), "race", "tile", also=(UNFINISHED,)),
    Bug("nobody_takes_the_tile", 1, 64, (ROWS, zeros(64)), UNFINISHED),
    Bug("no_fence_after_clearing", 1, 128, (zeros(128),), "wgmma fence"),
    Bug("sums_before_the_wait", 1, 128, (zeros(128),), "unfinished product"),
    Bug("nobody_waits_for_the_product", 1, 128, (zeros(128),), "unfinished product"),
    Bug("no_fence_for_the_tile", 1, 128, (zeros(128),), "proxy fence", "tile"),
    Bug(
        "filled_under_a_product",
        1,
        128,
        (Tiles(zeros(64 * 64, np.uint16).reshape(64, 64), 64), zeros(128)),
        "race",
        "tile",
        also=(UNFINISHED,),
    ),
    Bug("waits_for_the_phase_before", 2, 32, (zeros(64),), UNFINISHED, "numbers", cluster=2),
    Bug("sends_to_a_block_that_left", 2, 32, (), "cluster", cluster=2),
    Bug("writes_to_a_block_that_left", 2, 32, (zeros(64),), "cluster", "numbers", cluster=2),
    Bug("flag_without_a_fence", 2, 32, (zeros(64),), "race", "numbers", cluster=2),
    Bug("sent_under_a_read", 2, 32, (zeros(64),), "race", "numbers", cluster=2),
    Bug("one_warp_differs", 1, 128, (zeros(128),), "warpgroup"),
    Bug("one_warp_stays_away", 1, 128, (zeros(128),), "warpgroup"),
)


def send(device: EmulatedDevice, bug: Bug) -> list[np.ndarray]:
    """Run a sample; what its arrays hold then."""
    arguments = []
    for argument in bug.arguments:
        if isinstance(argument, np.ndarray):
            argument = device.array(argument)
        elif isinstance(argument, Tiles):
            argument = device.tensor_map(device.array(argument.array), argument.rows)
        elif isinstance(argument, Unwritten):
            argument = device.empty(argument.shape, argument.dtype)
        arguments.append(argument)
    kernel = device.kernel(bug.path, bug.kernel)
    kernel.bind(
        bug.grid, bug.block, *arguments, shared=bug.shared, cooperative=bug.cooperative, cluster=bug.cluster
    ).send()
    return [argument.download() for argument in arguments if hasattr(argument, "download")]


def stopped() -> None:
    """Print, for each sample, what a process that sends it exits with and what it says in the end."""
    device = EmulatedDevice(mode="asan")
    for bug in BUGS:
        if not bug.asan:
            continue
        with tempfile.TemporaryFile() as said:
            child = os.fork()
            if child == 0:
                os.dup2(said.fileno(), 2)
                try:
                    send(device, bug)
                finally:
                    os._exit(0)
            _, status = os.waitpid(child, 0)
            said.seek(0)
            print(
                json.dumps({"name": bug.name, "code": os.waitstatus_to_exitcode(status), "said": said.read().decode()}),
                flush=True,
            )


if __name__ == "__main__":
    stopped()
