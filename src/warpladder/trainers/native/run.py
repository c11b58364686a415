"""Steps of training and batches of prediction, run by every thread at once.

Threads divide the work in one of two ways, which the plan chooses. *Apart*: each trains its own
share of the batch block by block, through all layers, without waiting; their gradients meet once
a step. *Together*: every instruction is divided and followed by a barrier, which suits weights
too large to keep a gradient a thread.
"""

from __future__ import annotations

import numpy as np

from .arrays import cut, doubles, floats, floats_2d, int64s, numbers_at
from .calls import call_at
from .elementwise import read_out
from .inner import inner, shared
from .memory import ACTIVATIONS, CORRECT, FACTORS, INDICES, LOSS, OUT, SYNC
from .program import (
    J_BATCH,
    J_BLOCK,
    J_CHANNELS,
    J_LENGTH,
    J_MEMORY,
    J_PROGRAMS,
    J_RULE,
    J_SECTIONS,
    J_TERMS,
    J_THREADS,
    J_TOGETHER,
    J_VIEW,
    JOB,
    OPERANDS,
    Call,
    Settings,
)
from .sharing import share
from .sync import barrier
from .views import FIELDS

PREPARE, FORWARD, BACKWARD, COLLECT, UPDATE = range(5)  # sections, in their order


@shared
def run(program, job, first, last, memory, call):  # type: ignore[no-untyped-def]
    """Run the rows of the sections from `first` to `last`; with several parts, wait for each other after each. Returns this part's loss and right answers."""
    loss, correct = 0.0, 0.0
    sync = int64s(memory, SYNC, 0)
    for i in range(job[J_SECTIONS + 2 * first], job[J_SECTIONS + 2 * last + 1]):
        row = cut(program, i * OPERANDS, OPERANDS)
        more, right = call_at(row[0], cut(row, 1, OPERANDS - 1), memory, call)
        loss += more
        correct += right
        barrier(sync, call.parts)
    return loss, correct


@inner
def _opened(thread, at):  # type: ignore[no-untyped-def]
    """A `Job` from its address: its numbers, this thread's program, the table of the memory, and the settings."""
    job = numbers_at(at, JOB)
    program = numbers_at(job[J_PROGRAMS] + 8 * thread * job[J_LENGTH], job[J_LENGTH])
    memory = numbers_at(job[J_MEMORY], 3 * (OUT + 1))
    factors = floats(memory, FACTORS, 0)
    return job, program, memory, Settings(factors[0], factors[1], job[J_RULE])


def train(thread, at):  # type: ignore[no-untyped-def]
    """Train every batch of `Memory.indices`, the samples of consecutive steps; every thread calls this with its number and the address of a `Job`.

    A program has a row an instruction, beginning with its operation's address; operations write the block's size to it.
    """
    job, program, memory, settings = _opened(thread, at)
    threads, together, block, batch, terms = job[J_THREADS], job[J_TOGETHER] != 0, job[J_BLOCK], job[J_BATCH], job[J_TERMS]
    total = int64s(memory, INDICES, 0).shape[0]
    steps = (total + batch - 1) // batch
    sync, losses, corrects = int64s(memory, SYNC, 0), doubles(memory, LOSS, thread), int64s(memory, CORRECT, thread)
    for i in range(steps):
        begin = i * batch
        size = min(batch, total - begin)
        inverse = np.float32(1.0 / (size * terms))
        run(program, job, PREPARE, PREPARE, memory, Call(0, thread, thread, threads, begin, 0, 0, i, inverse, settings))
        if together:
            slot, part, parts, first, last, shares = 0, thread, threads, 0, size, 1
        else:
            slot, part, parts, shares = thread, 0, 1, min(threads, size)
            first, last = share(size, thread, threads)
        loss, correct = 0.0, 0.0
        for start in range(first, last, block):
            n = min(block, last - start)
            call = Call(slot, thread, part, parts, begin + start, n, 0 if start == first else 1, i, inverse, settings)
            more, right = run(program, job, FORWARD, BACKWARD, memory, call)
            loss += more
            correct += right
        if last > first:
            run(program, job, COLLECT, COLLECT, memory, Call(slot, thread, part, parts, begin, 0, 0, i, inverse, settings))
        losses[i] = loss / terms
        corrects[i] = int(correct)
        barrier(sync, threads)
        run(program, job, UPDATE, UPDATE, memory, Call(0, thread, thread, threads, begin, 0, shares, i, inverse, settings))
        barrier(sync, threads)
    return 0


def predict(thread, at):  # type: ignore[no-untyped-def]
    """`Memory.out` = the net's output for the samples in `Memory.indices`, in PyTorch's order; nothing is trained."""
    job, program, memory, settings = _opened(thread, at)
    threads, together, block = job[J_THREADS], job[J_TOGETHER] != 0, job[J_BLOCK]
    out = floats_2d(memory, OUT)
    total = out.shape[0]
    nothing = np.float32(0)
    sync = int64s(memory, SYNC, 0)
    run(program, job, PREPARE, PREPARE, memory, Call(0, thread, thread, threads, 0, 0, 0, 0, nothing, settings))
    if together:
        slot, part, parts, first, last = 0, thread, threads, 0, total
    else:
        slot, part, parts = thread, 0, 1
        first, last = share(total, thread, threads)
    for start in range(first, last, block):
        n = min(block, last - start)
        run(program, job, FORWARD, FORWARD, memory, Call(slot, thread, part, parts, start, n, 0, 0, nothing, settings))
        lo, hi = share(n, part, parts)
        read_out(floats(memory, ACTIVATIONS, slot), cut(job, J_VIEW, FIELDS), job[J_CHANNELS], out[start : start + n], lo, hi)
        barrier(sync, parts)
    return 0
