"""Steps of training and batches of prediction, run by every thread at once.

Threads divide the work in one of two ways, which the plan chooses. *Apart*: each trains its own
share of the batch block by block, through all layers, without waiting; their gradients meet once
a step. *Together*: every instruction is divided and followed by a barrier, which suits weights
too large to keep a gradient a thread.
"""

from __future__ import annotations

import numpy as np
from numba import typeof, types

from ...ops.compiled import compiled
from .elementwise import read_out
from .inner import operation
from .memory import ACTIVATIONS, CORRECT, INDICES, LOSS, SYNC, cut, doubles, floats, int64s
from .program import OPERANDS, Call, Sections, Settings, call_at
from .sharing import share
from .sync import barrier


@operation
def section(program, section, memory, call):  # type: ignore[no-untyped-def]
    """Run a section's rows; with several parts, wait for each other after each. Returns the loss and the right answers of this part."""
    loss, correct = 0.0, 0.0
    sync = int64s(memory, SYNC, 0)
    for i in range(section[0], section[1]):
        row = cut(program, i * OPERANDS, OPERANDS)
        more, right = call_at(row[0], cut(row, 1, OPERANDS - 1), memory, call)
        loss += more
        correct += right
        barrier(sync, call.parts)
    return loss, correct


@compiled(nogil=True, error_model="numpy", no_cfunc_wrapper=True)
def train(thread, threads, together, block, programs, sections, memory, batch, terms, settings):  # type: ignore[no-untyped-def]
    """Train every batch of `Memory.indices`, the samples of consecutive steps; every thread calls this with its number.

    programs : for each thread a row an instruction, beginning with its operation's address; operations write the block's size to it.
    memory : `Memory.table`. block : samples that go through the layers at once. terms : loss terms of a sample (1, or its elements for MSE).
    """
    program = programs[thread]
    total = int64s(memory, INDICES, 0).shape[0]
    steps = (total + batch - 1) // batch
    sync, losses, corrects = int64s(memory, SYNC, 0), doubles(memory, LOSS, thread), int64s(memory, CORRECT, thread)
    for i in range(steps):
        begin = i * batch
        size = min(batch, total - begin)
        inverse = np.float32(1.0 / (size * terms))
        section(program, sections.prepare, memory, Call(0, thread, thread, threads, begin, 0, 0, i, inverse, settings))
        if together:
            slot, part, parts, first, last, shares = 0, thread, threads, 0, size, 1
        else:
            slot, part, parts, shares = thread, 0, 1, min(threads, size)
            first, last = share(size, thread, threads)
        loss, correct = 0.0, 0.0
        for start in range(first, last, block):
            n = min(block, last - start)
            call = Call(slot, thread, part, parts, begin + start, n, 0 if start == first else 1, i, inverse, settings)
            section(program, sections.forward, memory, call)
            more, right = section(program, sections.backward, memory, call)
            loss += more
            correct += right
        if last > first:
            section(program, sections.collect, memory, Call(slot, thread, part, parts, begin, 0, 0, i, inverse, settings))
        losses[i] = loss / terms
        corrects[i] = int(correct)
        barrier(sync, threads)
        section(program, sections.update, memory, Call(0, thread, thread, threads, begin, 0, shares, i, inverse, settings))
        barrier(sync, threads)


@compiled(nogil=True, error_model="numpy", no_cfunc_wrapper=True)
def predict(thread, threads, together, block, programs, sections, memory, out_view, channels, out, settings):  # type: ignore[no-untyped-def]
    """out (samples, features) = the net's output for the samples in `Memory.indices`, in PyTorch's order; nothing is trained."""
    program = programs[thread]
    total = out.shape[0]
    nothing = np.float32(0)
    sync = int64s(memory, SYNC, 0)
    section(program, sections.prepare, memory, Call(0, thread, thread, threads, 0, 0, 0, 0, nothing, settings))
    if together:
        slot, part, parts, first, last = 0, thread, threads, 0, total
    else:
        slot, part, parts = thread, 0, 1
        first, last = share(total, thread, threads)
    for start in range(first, last, block):
        n = min(block, last - start)
        section(program, sections.forward, memory, Call(slot, thread, part, parts, start, n, 0, 0, nothing, settings))
        lo, hi = share(n, part, parts)
        read_out(floats(memory, ACTIVATIONS, slot), out_view, channels, out[start : start + n], lo, hi)
        barrier(sync, parts)


_COMMON = (types.int64, types.int64, types.boolean, types.int64, types.int64[:, ::1], typeof(Sections(*[(0, 0)] * 5)), types.int64[::1])
_SETTINGS = typeof(Settings(np.float32(0), np.float32(0), 0))

#: what Python calls, by name: the function and the types of its arguments, the only ones that it is compiled for
ENTRIES = {
    "train": (train, (*_COMMON, types.int64, types.int64, _SETTINGS)),
    "predict": (predict, (*_COMMON, types.int64[::1], types.int64, types.float32[:, ::1], _SETTINGS)),
}
