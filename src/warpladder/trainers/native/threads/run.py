"""Steps of training and batches of prediction, run by every thread at once.

The plan divides the work into parts. *Separate*: each part trains its own share of the batch block by block, through
all layers, without waiting; the gradients are added once a step. Gradients of up to SUMMED blocks are added in one
accumulator, and such subtotals to each other: a sum of millions of like terms has a far larger error than one of
thousands. *Together*: every instruction is divided, with a barrier if the next one needs other threads' work, which
suits weights too large for a gradient of each part.

There are as many parts as the trainer has threads, and a step's bits depend on nothing else: with too few cores,
fewer threads run the parts, some of them in sequence (workers.py).
"""

import numpy as np

from ..compiler.functions import call_at, call_barrier, call_rows, inner
from ..kernels.samples import read_out
from ..program import job as at
from ..program.access import cut, doubles, floats, floats_2d, int64s, numbers_at, reader, share
from ..program.job import BlockWork, StepScaling
from ..program.memory import ACTIVATIONS, CORRECT, FACTORS, GRADIENTS, INDICES, LOSS, OUT, SUBTOTALS, SYNC
from ..program.tensors import ActivationView
from .barrier import atomic_add, atomic_load, atomic_store, own_clock, wall_clock

PREPARE, FORWARD, BACKWARD, COLLECT, UPDATE = range(5)  # sections, in their order

_read_view = reader(ActivationView)


def rows(worker, job_at, work, sections, team):  # type: ignore[no-untyped-def]
    """Run the rows of sections first to last, for the parts `work.part` to before `team[0]`.

    The `team[1]` threads wait for each other after rows whose barrier is WAIT, and after the last, unless it runs the
    next step. Loss and correct predictions are added to the step's, by part.
    """
    job, program, memory = opened(worker, job_at)
    sync = int64s(memory, SYNC, 0)
    last = job[at.J_SECTIONS + 2 * sections[1] + 1]
    for i in range(job[at.J_SECTIONS + 2 * sections[0]], last):
        row = cut(program, i * at.ROW, at.ROW)
        for part in range(work.part, team[0]):
            thread = work.thread + part - work.part
            own = BlockWork(
                work.slot, thread, part, work.parts, work.first, work.n, work.add, work.step, work.inverse,
                work.settings,
            )  # fmt: skip
            loss, correct = call_at(row[0], cut(row, 1, at.ROW - 1), memory, own)
            if loss != 0 or correct != 0:
                doubles(memory, LOSS, thread)[work.step] += loss
                int64s(memory, CORRECT, thread)[work.step] += int(correct)
        if row[at.BARRIER] == at.WAIT or (i == last - 1 and row[at.BARRIER] != at.NO_WAIT_AT_END):
            call_barrier(job[at.J_BARRIER], sync, team[1])


def clocked(operands, memory, work):  # type: ignore[no-untyped-def]
    """Call the operation at operands[CLOCKED_ADDRESS - 1], and add its nanoseconds and calls; see clocks.py."""
    began = wall_clock()
    result = call_at(operands[at.CLOCKED_ADDRESS - 1], operands, memory, work)
    operands[at.SPENT - 1] += wall_clock() - began
    operands[at.CALLS - 1] += 1
    return result


@inner
def _add(memory, to, of, slot):  # type: ignore[no-untyped-def]
    """Add array `of` of a share to its array `to`: gradients to subtotals, or the reverse."""
    total, more = floats(memory, to, slot), floats(memory, of, slot)
    for i in range(total.shape[0]):
        total[i] += more[i]


@inner
def _begin_block(memory, slot, number):  # type: ignore[no-untyped-def]
    """Move gradients to the subtotals at the start of SUMMED blocks; returns True if none are left to add to."""
    fresh = number % at.SUMMED == 0
    if fresh and number > 0:
        if number == at.SUMMED:
            first, own = floats(memory, SUBTOTALS, slot), floats(memory, GRADIENTS, slot)
            for i in range(first.shape[0]):
                first[i] = own[i]
        else:
            _add(memory, SUBTOTALS, GRADIENTS, slot)
    return fresh


@inner
def opened(worker, job_at):  # type: ignore[no-untyped-def]
    """`StepsJob` from its address: its numbers, this thread's program, and the memory's table."""
    job = numbers_at(job_at, at.JOB)
    program = numbers_at(job[at.J_PROGRAMS] + 8 * worker * job[at.J_LENGTH], job[at.J_LENGTH])
    return job, program, numbers_at(job[at.J_MEMORY], 3 * (OUT + 1))


@inner
def settings(job, memory):  # type: ignore[no-untyped-def]
    """Numbers that are equal in all steps of a job, `StepScaling`."""
    factors = floats(memory, FACTORS, 0)
    return StepScaling(factors[0], factors[1], job[at.J_LOOP], job[at.J_MASK_KEY], job[at.J_POSITION])


def steps(worker, job_at):  # type: ignore[no-untyped-def]
    """Run the steps of a `StepsJob`; every thread calls this with its number and the job's address.

    A step trains on a batch of `NativeMemory.indices`, or each on all of them. If threads wait for each other too
    often, the steps end before number `sync[STOPPED]`.
    """
    job, _, memory = opened(worker, job_at)
    scaling = settings(job, memory)
    parts, workers, together, batch = job[at.J_PARTS], job[at.J_WORKERS], job[at.J_TOGETHER] != 0, job[at.J_BATCH]
    sync, total, block = int64s(memory, SYNC, 0), int64s(memory, INDICES, 0).shape[0], job[at.J_BLOCK]
    began, had = 0, 0
    # one thread alone waits for no other; and where cores are short, Linux takes the core from a thread that reads its
    # clock
    if workers > 1:
        began, had = wall_clock(), own_clock()
    mine, end = share(parts, worker, workers)
    for i in range(job[at.J_FIRST], job[at.J_LAST]):
        begin = i * batch if batch < total else 0  # with full batches each step takes all samples again
        size = min(batch, total - begin)
        inverse = np.float32(1.0 / (size * job[at.J_TERMS]))
        whole = BlockWork(0, mine, mine, parts, begin, 0, 0, i, inverse, scaling)
        call_rows(job[at.J_ROWS], worker, job_at, whole, (PREPARE, PREPARE), (end, workers))
        # all samples, and this thread's parts of every instruction; or for each part a share of the samples
        for slot in range(mine, mine + 1 if together else end):
            work, (first, last), team = whole, (0, size), (end, workers)
            if not together:  # waits for no other thread
                work = BlockWork(slot, slot, 0, 1, begin, 0, 0, i, inverse, scaling)
                (first, last), team = share(size, slot, parts), (1, 1)
            for start in range(first, last, block):
                now = BlockWork(
                    work.slot, work.thread, work.part, work.parts, begin + start, min(block, last - start),
                    0 if _begin_block(memory, work.slot, (start - first) // block) else 1, i, inverse, scaling,
                )  # fmt: skip
                call_rows(job[at.J_ROWS], worker, job_at, now, (FORWARD, BACKWARD), team)
            if last > first:
                if last - first > at.SUMMED * block:
                    _add(memory, GRADIENTS, SUBTOTALS, work.slot)
                call_rows(job[at.J_ROWS], worker, job_at, work, (COLLECT, COLLECT), team)
        for part in range(mine, end):
            doubles(memory, LOSS, part)[i] /= job[at.J_TERMS]
        # one more step is done: it has a wait, after which all threads have seen this
        impatient = worker == 0 and i + 2 < job[at.J_LAST] and atomic_load(sync, at.STOPPED) == 0
        if impatient and atomic_load(sync, at.WAITS) >= job[at.J_PATIENCE]:
            atomic_store(sync, at.STOPPED, i + 2)
        if not together:  # threads that work together have waited where they must
            call_barrier(job[at.J_BARRIER], sync, workers)
        shares = 1 if together else min(parts, size)
        whole = BlockWork(0, mine, mine, parts, begin, 0, shares, i, inverse, scaling)
        call_rows(job[at.J_ROWS], worker, job_at, whole, (UPDATE, UPDATE), (end, workers))
        if atomic_load(sync, at.STOPPED) == i + 1:
            break
    if workers > 1:
        atomic_add(sync, at.SPAN, wall_clock() - began)
        atomic_add(sync, at.RAN, own_clock() - had)
    return 0


def predictions(worker, job_at):  # type: ignore[no-untyped-def]
    """Predict all samples of `NativeMemory.indices`, in PyTorch's order of features; every thread calls this."""
    job, _, memory = opened(worker, job_at)
    scaling, zero = settings(job, memory), np.float32(0)
    parts, workers, together, block = job[at.J_PARTS], job[at.J_WORKERS], job[at.J_TOGETHER] != 0, job[at.J_BLOCK]
    total, out = int64s(memory, INDICES, 0).shape[0], floats_2d(memory, OUT)
    view = _read_view(cut(job, at.J_VIEW, at.JOB - at.J_VIEW))
    mine, end = share(parts, worker, workers)
    whole = BlockWork(0, mine, mine, parts, 0, 0, 0, 0, zero, scaling)
    call_rows(job[at.J_ROWS], worker, job_at, whole, (PREPARE, PREPARE), (end, workers))
    for slot in range(mine, mine + 1 if together else end):
        (first, last), team, number = (0, total), (end, workers), worker
        if not together:
            (first, last), team, number = share(total, slot, parts), (1, 1), 0
        for start in range(first, last, block):
            n = min(block, last - start)
            work = BlockWork(0, mine, mine, parts, start, n, 0, 0, zero, scaling)
            if not together:
                work = BlockWork(slot, slot, 0, 1, start, n, 0, 0, zero, scaling)
            call_rows(job[at.J_ROWS], worker, job_at, work, (FORWARD, FORWARD), team)
            activations = floats(memory, ACTIVATIONS, work.slot)
            read_out(activations, view, job[at.J_CHANNELS], out, start, share(n, number, team[1]))
            call_barrier(job[at.J_BARRIER], int64s(memory, SYNC, 0), team[1])
    return 0
