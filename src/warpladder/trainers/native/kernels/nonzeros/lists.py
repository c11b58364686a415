"""Lists of the samples' numbers other than 0, made once when data are loaded; products.py multiplies by them.

A list has LISTED inputs of a sample, and an entry two numbers of 32 bits: the place of the input's weights in their
block, input * WIDTH, and the bits of the scaled number.
"""

import numpy as np

from ...compiler.functions import inner
from ...compiler.vectors import WIDTH
from ...program.access import bytes_2d, floats, floats_2d, int32s, int64s, share
from ...program.job import J_WORKERS
from ...program.memory import ENTRIES, F32, STARTS, U8
from ...threads.run import opened, settings
from ..tile_sizes import LISTED


@inner
def _list(line, scale, entries, values, at):  # type: ignore[no-untyped-def]
    """Fill the list of a block of a sample's numbers, from entry `at` on."""
    for k in range(line.shape[0]):
        if line[k] != 0:
            entries[2 * at], values[2 * at + 1] = k * WIDTH, np.float32(line[k]) * scale
            at += 1


@inner
def _count(line):  # type: ignore[no-untyped-def]
    count = 0
    for k in range(line.shape[0]):
        count += 1 if line[k] != 0 else 0
    return count


def list_nonzeros(worker, job_at):  # type: ignore[no-untyped-def]
    """Count the entries of each block of all samples, or, once there are entries, fill them; each thread its share."""
    job, _, memory = opened(worker, job_at)
    pixels_u8, pixels_f32, scale = bytes_2d(memory, U8), floats_2d(memory, F32), settings(job, memory).scale
    entries, values = int32s(memory, ENTRIES, 0), floats(memory, ENTRIES, 0)
    is_bytes, fills = pixels_u8.shape[0] > 0, entries.shape[0] > 0
    features = pixels_u8.shape[1] if is_bytes else pixels_f32.shape[1]
    first, last = share(pixels_u8.shape[0] + pixels_f32.shape[0], worker, job[J_WORKERS])
    for sample in range(first, last):
        starts = int64s(memory, STARTS, sample)
        for block in range(starts.shape[0] - 1):
            begin, end = block * LISTED, min((block + 1) * LISTED, features)
            if is_bytes:
                if fills:
                    _list(pixels_u8[sample, begin:end], scale, entries, values, starts[block])
                else:
                    starts[block + 1] = _count(pixels_u8[sample, begin:end])
            elif fills:
                _list(pixels_f32[sample, begin:end], scale, entries, values, starts[block])
            else:
                starts[block + 1] = _count(pixels_f32[sample, begin:end])
    return 0
