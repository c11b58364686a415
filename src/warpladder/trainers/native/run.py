"""Steps of training and batches of prediction, run by every thread at once.

The work is divided into parts in one of two ways, which the plan chooses. *Apart*: each part trains its own
share of the batch block by block, through all layers, without waiting; their gradients meet once
a step. *Together*: every instruction is divided and followed by a barrier, which suits weights
too large to keep a gradient a part.

There are as many parts as the trainer has threads, and a step's bits depend on nothing else: where cores are short fewer threads do the
parts, some of them one after the other (workers.py).
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
    J_FIRST,
    J_LAST,
    J_LENGTH,
    J_MEMORY,
    J_PARTS,
    J_PATIENCE,
    J_PROGRAMS,
    J_RULE,
    J_SECTIONS,
    J_TERMS,
    J_TOGETHER,
    J_VIEW,
    J_WORKERS,
    JOB,
    OPERANDS,
    RAN,
    SPAN,
    STOPPED,
    WAITS,
    Call,
    Settings,
)
from .sharing import share
from .sync import atomic_add, atomic_load, atomic_store, barrier, own_clock, wall_clock
from .views import FIELDS

PREPARE, FORWARD, BACKWARD, COLLECT, UPDATE = range(5)  # sections, in their order


@shared
def run(program, job, first, last, memory, call, end, workers):  # type: ignore[no-untyped-def]
    """Run the rows of the sections from `first` to `last` for the parts from `call.part` to before `end`; `workers` threads wait for each other after each row.

    Loss and right answers are added to those of the call's step, part by part.
    """
    sync = int64s(memory, SYNC, 0)
    for i in range(job[J_SECTIONS + 2 * first], job[J_SECTIONS + 2 * last + 1]):
        row = cut(program, i * OPERANDS, OPERANDS)
        for part in range(call.part, end):
            thread = call.thread + part - call.part
            own = Call(call.slot, thread, part, call.parts, call.first, call.n, call.add, call.step, call.inverse, call.settings)
            loss, correct = call_at(row[0], cut(row, 1, OPERANDS - 1), memory, own)
            if loss != 0 or correct != 0:
                doubles(memory, LOSS, thread)[call.step] += loss
                int64s(memory, CORRECT, thread)[call.step] += int(correct)
        barrier(sync, workers)


@inner
def _opened(worker, at):  # type: ignore[no-untyped-def]
    """A `Job` from its address: its numbers, this thread's program, the table of the memory, and the settings."""
    job = numbers_at(at, JOB)
    program = numbers_at(job[J_PROGRAMS] + 8 * worker * job[J_LENGTH], job[J_LENGTH])
    memory = numbers_at(job[J_MEMORY], 3 * (OUT + 1))
    factors = floats(memory, FACTORS, 0)
    return job, program, memory, Settings(factors[0], factors[1], job[J_RULE])


def train(worker, at):  # type: ignore[no-untyped-def]
    """Train the steps of a `Job` on batches of `Memory.indices`; every thread calls this with its number and the job's address.

    A program has a row an instruction, beginning with its operation's address; operations write the block's size to it.
    Where threads had to wait for each other too often the steps end early, and `sync[STOPPED]` says before which one.
    """
    began, had = wall_clock(), own_clock()
    job, program, memory, settings = _opened(worker, at)
    parts, workers, together, block, batch, terms = (
        job[J_PARTS],
        job[J_WORKERS],
        job[J_TOGETHER] != 0,
        job[J_BLOCK],
        job[J_BATCH],
        job[J_TERMS],
    )
    total = int64s(memory, INDICES, 0).shape[0]
    sync = int64s(memory, SYNC, 0)
    mine = share(parts, worker, workers)
    for i in range(job[J_FIRST], job[J_LAST]):
        begin = i * batch
        size = min(batch, total - begin)
        inverse = np.float32(1.0 / (size * terms))
        everything = Call(0, mine[0], mine[0], parts, begin, 0, 0, i, inverse, settings)
        run(program, job, PREPARE, PREPARE, memory, everything, mine[1], workers)
        if together:
            for start in range(0, size, block):
                call = Call(
                    0, mine[0], mine[0], parts, start + begin, min(block, size - start), 0 if start == 0 else 1, i, inverse, settings
                )
                run(program, job, FORWARD, BACKWARD, memory, call, mine[1], workers)
            run(program, job, COLLECT, COLLECT, memory, everything, mine[1], workers)
        else:
            for part in range(mine[0], mine[1]):
                first, last = share(size, part, parts)
                for start in range(first, last, block):
                    n = min(block, last - start)
                    call = Call(part, part, 0, 1, begin + start, n, 0 if start == first else 1, i, inverse, settings)
                    run(program, job, FORWARD, BACKWARD, memory, call, 1, 1)
                if last > first:
                    run(program, job, COLLECT, COLLECT, memory, Call(part, part, 0, 1, begin, 0, 0, i, inverse, settings), 1, 1)
        for part in range(mine[0], mine[1]):
            doubles(memory, LOSS, part)[i] /= terms
        barrier(sync, workers)
        shares = 1 if together else min(parts, size)
        update = Call(0, mine[0], mine[0], parts, begin, 0, shares, i, inverse, settings)
        run(program, job, UPDATE, UPDATE, memory, update, mine[1], workers)
        if worker == 0 and atomic_load(sync, WAITS) >= job[J_PATIENCE]:
            atomic_store(sync, STOPPED, i + 1)
        barrier(sync, workers)
        if atomic_load(sync, STOPPED) == i + 1:
            break
    atomic_add(sync, SPAN, wall_clock() - began)
    atomic_add(sync, RAN, own_clock() - had)
    return 0


def predict(worker, at):  # type: ignore[no-untyped-def]
    """`Memory.out` = the net's output for the samples in `Memory.indices`, in PyTorch's order; nothing is trained."""
    job, program, memory, settings = _opened(worker, at)
    parts, workers, together, block = job[J_PARTS], job[J_WORKERS], job[J_TOGETHER] != 0, job[J_BLOCK]
    total = floats_2d(memory, OUT).shape[0]
    sync = int64s(memory, SYNC, 0)
    nothing = np.float32(0)
    mine = share(parts, worker, workers)
    run(program, job, PREPARE, PREPARE, memory, Call(0, mine[0], mine[0], parts, 0, 0, 0, 0, nothing, settings), mine[1], workers)
    if together:
        for start in range(0, total, block):
            n = min(block, total - start)
            run(
                program,
                job,
                FORWARD,
                FORWARD,
                memory,
                Call(0, mine[0], mine[0], parts, start, n, 0, 0, nothing, settings),
                mine[1],
                workers,
            )
            first, last = share(n, worker, workers)
            _give(memory, job, 0, start, n, first, last)
            barrier(sync, workers)
    else:
        for part in range(mine[0], mine[1]):
            first, last = share(total, part, parts)
            for start in range(first, last, block):
                n = min(block, last - start)
                run(program, job, FORWARD, FORWARD, memory, Call(part, part, 0, 1, start, n, 0, 0, nothing, settings), 1, 1)
                _give(memory, job, part, start, n, 0, n)
    return 0


@shared
def _give(memory, job, slot, start, n, first, last):  # type: ignore[no-untyped-def]
    """Rows from `first` to before `last` of a block's output, to `Memory.out`, where the block begins at `start`."""
    out = floats_2d(memory, OUT)
    read_out(floats(memory, ACTIVATIONS, slot), cut(job, J_VIEW, FIELDS), job[J_CHANNELS], out[start : start + n], first, last)
