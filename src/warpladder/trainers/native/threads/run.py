"""Steps of training and batches of prediction, run by every thread at once.

The work is divided into parts in one of two ways, which the plan chooses. *Apart*: each part trains its own
share of the batch block by block, through all layers, without waiting; their gradients meet once
a step. Gradients of up to SUMMED blocks are added in one accumulator, and such subtotals to each other: a sum of
millions of like terms, of images whose pixels are mostly the same, is off by far more than one of thousands.
*Together*: every instruction is divided, and followed by a barrier where the next one needs what other threads do,
which suits weights too large to keep a gradient a part.

There are as many parts as the trainer has threads, and a step's bits depend on nothing else: where cores are short
fewer threads do the parts, some of them one after the other (workers.py).
"""

from __future__ import annotations

import numpy as np

from ..compiler.calls import call_at
from ..compiler.functions import inner, shared
from ..kernels.elementwise import read_out
from ..program.access import cut, doubles, floats, floats_2d, int64s, numbers_at
from ..program.job import (
    GOES_ON,
    J_BATCH,
    J_BLOCK,
    J_CHANNELS,
    J_FIRST,
    J_LAST,
    J_LENGTH,
    J_MEMORY,
    J_PARTS,
    J_PATIENCE,
    J_PREDICTS,
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
    SUMMED,
    TO_NEXT_STEP,
    WAITS,
    Call,
    Settings,
)
from ..program.memory import ACTIVATIONS, CORRECT, FACTORS, GRADIENTS, INDICES, LOSS, OUT, SUBTOTALS, SYNC
from ..program.views import FIELDS
from .barrier import atomic_add, atomic_load, atomic_store, barrier, own_clock, wall_clock
from .sharing import share

#: sections, in their order; for each int that it knows by its value numba would compile `run` once more
PREPARE, FORWARD, BACKWARD, COLLECT, UPDATE = np.arange(5)


@shared
def run(program, job, first, last, memory, call, end, workers):  # type: ignore[no-untyped-def]
    """Run the rows of the sections from `first` to `last` for the parts from `call.part` to before `end`.

    `workers` threads wait for each other after the last row, unless it goes on to the next step, and after each that
    does not go on. Loss and right answers are added to those of the call's step, part by part.
    """
    sync = int64s(memory, SYNC, 0)
    behind = job[J_SECTIONS + 2 * last + 1]
    for i in range(job[J_SECTIONS + 2 * first], behind):
        row = cut(program, i * OPERANDS, OPERANDS)
        for part in range(call.part, end):
            thread = call.thread + part - call.part
            own = Call(
                call.slot,
                thread,
                part,
                call.parts,
                call.first,
                call.n,
                call.add,
                call.step,
                call.inverse,
                call.settings,
            )
            loss, correct = call_at(row[0], cut(row, 1, OPERANDS - 1), memory, own)
            if loss != 0 or correct != 0:
                doubles(memory, LOSS, thread)[call.step] += loss
                int64s(memory, CORRECT, thread)[call.step] += int(correct)
        if row[1 + GOES_ON] == 0 or (i == behind - 1 and row[1 + GOES_ON] != TO_NEXT_STEP):
            barrier(sync, workers)


@inner
def _add(memory, to, of, slot):  # type: ignore[no-untyped-def]
    """Add a share's gradients, or its subtotals, to the other of the two."""
    total, more = floats(memory, to, slot), floats(memory, of, slot)
    for i in range(total.shape[0]):
        total[i] += more[i]


@inner
def _keep(memory, slot):  # type: ignore[no-untyped-def]
    """Make a share's gradients its first subtotals."""
    kept, own = floats(memory, SUBTOTALS, slot), floats(memory, GRADIENTS, slot)
    for i in range(kept.shape[0]):
        kept[i] = own[i]


@inner
def _opened(worker, at):  # type: ignore[no-untyped-def]
    """A `Job` from its address: its numbers, this thread's program, the table of the memory, and the settings."""
    job = numbers_at(at, JOB)
    program = numbers_at(job[J_PROGRAMS] + 8 * worker * job[J_LENGTH], job[J_LENGTH])
    memory = numbers_at(job[J_MEMORY], 3 * (OUT + 1))
    factors = floats(memory, FACTORS, 0)
    return job, program, memory, Settings(factors[0], factors[1], job[J_RULE])


def steps(worker, at):  # type: ignore[no-untyped-def]
    """Train the steps of a `Job` on batches of `Memory.indices`, or each on all of them; every thread calls this with
    its number and the job's address.

    Or `Memory.out` = the net's output for these samples, in PyTorch's order, where the job predicts: a step of one
    batch that ends behind the last layer.

    A program has a row an instruction, beginning with its operation's address; operations write the block's size to it.
    Where threads had to wait for each other too often the steps end early, before the one of number `sync[STOPPED]`.
    """
    job, program, memory, settings = _opened(worker, at)
    parts, workers, together, block = job[J_PARTS], job[J_WORKERS], job[J_TOGETHER] != 0, job[J_BLOCK]
    predicts, batch, terms = job[J_PREDICTS] != 0, job[J_BATCH], job[J_TERMS]
    total = int64s(memory, INDICES, 0).shape[0]
    sync = int64s(memory, SYNC, 0)
    began, had = 0, 0
    # who is alone waits for nobody; and where cores are short, Linux takes the core from a thread that asks what it had
    # of it
    if workers > 1:
        began, had = wall_clock(), own_clock()
    mine, end = share(parts, worker, workers)
    for i in range(job[J_FIRST], job[J_LAST]):
        begin = i * batch if batch < total else 0  # of full batches each step takes all samples again
        size = min(batch, total - begin)
        inverse = np.float32(1.0 / (size * terms))
        run(
            program,
            job,
            PREPARE,
            PREPARE,
            memory,
            Call(0, mine, mine, parts, begin, 0, 0, i, inverse, settings),
            end,
            workers,
        )
        # together: once, for all samples and this thread's parts of every instruction; apart: for each part, which is a
        # share of the samples
        for slot in range(0 if together else mine, 1 if together else end):
            thread, part, among, behind, waiting = (mine, mine, parts, end, workers) if together else (slot, 0, 1, 1, 1)
            first, last = (0, size) if together else share(size, slot, parts)
            for start in range(first, last, block):
                n = min(block, last - start)
                number = (start - first) // block
                fresh = number % SUMMED == 0
                if fresh and number > 0 and not predicts:  # apart: together there is one block
                    if number == SUMMED:
                        _keep(memory, slot)
                    else:
                        _add(memory, SUBTOTALS, GRADIENTS, slot)
                call = Call(slot, thread, part, among, begin + start, n, 0 if fresh else 1, i, inverse, settings)
                run(program, job, FORWARD, FORWARD if predicts else BACKWARD, memory, call, behind, waiting)
                if predicts:
                    lo, hi = share(n, worker, workers) if together else (0, n)
                    out = floats_2d(memory, OUT)
                    read_out(
                        floats(memory, ACTIVATIONS, slot), cut(job, J_VIEW, FIELDS), job[J_CHANNELS], out, start, lo, hi
                    )
                    barrier(sync, waiting)
            if last - first > SUMMED * block and not predicts:
                _add(memory, GRADIENTS, SUBTOTALS, slot)
            if last > first and not predicts:
                run(
                    program,
                    job,
                    COLLECT,
                    COLLECT,
                    memory,
                    Call(slot, thread, part, among, begin, 0, 0, i, inverse, settings),
                    behind,
                    waiting,
                )
        if predicts:
            break
        for part in range(mine, end):
            doubles(memory, LOSS, part)[i] /= terms
        # one more step is done: it has a wait, behind which all have seen this
        if (
            worker == 0
            and i + 2 < job[J_LAST]
            and atomic_load(sync, STOPPED) == 0
            and atomic_load(sync, WAITS) >= job[J_PATIENCE]
        ):
            atomic_store(sync, STOPPED, i + 2)
        if not together:  # who are together have waited where they must
            barrier(sync, workers)
        shares = 1 if together else min(parts, size)
        run(
            program,
            job,
            UPDATE,
            UPDATE,
            memory,
            Call(0, mine, mine, parts, begin, 0, shares, i, inverse, settings),
            end,
            workers,
        )
        if atomic_load(sync, STOPPED) == i + 1:
            break
    if workers > 1:
        atomic_add(sync, SPAN, wall_clock() - began)
        atomic_add(sync, RAN, own_clock() - had)
    return 0
