"""What a program is made of: its memory, its instructions, and the call of an instruction.

A whole range of steps runs inside compiled code: Python is not asked between layers, nor
between steps. So that one compiled loop (run.py) serves every net, a net becomes a table of
instructions, a row each: an operation (operations.py) and its operands, offsets and views.
plan.py writes the table. The loop calls operations by address, so that each is compiled and
cached on its own, when a net first needs it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .views import FIELDS, View

OPERANDS = 48  # length of a row of the table, in whole numbers
#: operands that are left to a clock around the operation (clocks.py): nanoseconds so far, calls so far, and where the
#: operation lies
SPENT, CALLS, WHERE = range(OPERANDS - 4, OPERANDS - 1)
VIEWS = 3  # that an instruction's operands begin with
#: an operand of each instruction: whether threads need not wait for each other behind it (1), at a step's end neither
#: (TO_NEXT_STEP)
GOES_ON = SPENT - 1
TO_NEXT_STEP = 2
#: what a product asks memory for, meanwhile, of the next step's samples: none, those that its part of the threads
#: gathers, or all
NOTHING, OWN, ALL = range(3)
SUMMED = 16  # blocks whose gradients one accumulator adds; their sums are added to each other


#: the name of an operation (operations.py) and its operands
Row = tuple[str, list[int]]


def instruction(operation: str, views: list[View], *operands: int) -> Row:
    """One instruction; missing views are zeros, and the operands are those that the operation's docstring lists."""
    numbers: list[int] = []
    for view in views:
        numbers += view.ints()
    numbers += [0] * (FIELDS * (VIEWS - len(views)))
    numbers += [int(operand) for operand in operands]
    assert len(numbers) <= GOES_ON
    return operation, numbers + [0] * (OPERANDS - 1 - len(numbers))


class Settings(NamedTuple):
    """What is the same at all steps of a call."""

    scale: np.float32  # what a stored sample is multiplied by
    clip: np.float32  # infinite for no clipping
    rule: int  # where the optimizer's compiled loop lies; 0 where an operation of ours takes its place


class Call(NamedTuple):
    """What an instruction is asked to do: a block of n samples, or this thread's part of it."""

    slot: int  # row of the shared buffers
    thread: int  # row of what each part has for itself: offset tables, scratch
    part: int  # this is the part-th of `parts` parts
    parts: int
    first: int  # the block's first sample, by its place in `Memory.indices`
    n: int
    add: int  # whether earlier blocks left gradients to add to; for the update, how many gradients to sum
    step: int  # row of `Memory.numbers`
    inverse: np.float32  # 1 / loss terms in the whole batch
    settings: Settings


class Sections(NamedTuple):
    """Rows of the table by when they run, as (first, last + 1)."""

    prepare: tuple[int, int]  # once a step, all threads: weights rearranged
    forward: tuple[int, int]  # for every block of samples
    backward: tuple[int, int]  # for every block of samples: the loss, then its gradients
    collect: tuple[int, int]  # after a share's last block: gradients put in order
    update: tuple[int, int]  # once a step, all threads


class Job(NamedTuple):
    """What Python asks the compiled loop (run.py) for: whole numbers, one after the other."""

    parts: int  # into which the work is divided: what a step's bits depend on
    workers: int  # threads that do the parts, at most one for each
    first: int  # step, of those in `Memory.numbers`
    last: int  # the step behind the last
    patience: int  # waits that may end in sleep, before the range of steps is left early
    predicts: int  # whether `Memory.out` is wanted, and nothing trained
    together: int  # whether every instruction is divided into the parts; otherwise each part is a share of the batch
    block: int  # samples that go through the layers at once
    programs: int  # address of the table, which is there once for each thread
    length: int  # whole numbers in one thread's table
    memory: int  # address of `Memory.table`
    batch: int
    terms: int  # loss terms of a sample: 1, or its elements for MSE
    rule: int  # where the optimizer's compiled loop lies; 0 where an operation of ours takes its place
    channels: int  # of the net's output
    sections: Sections
    out_view: tuple[int, ...]  # of the net's output

    def ints(self) -> np.ndarray:
        """(JOB,) int64."""
        return np.array(
            [*self[:-2], *(edge for section in self.sections for edge in section), *self.out_view], np.int64
        )


# a job's entries, for compiled code
(J_PARTS, J_WORKERS, J_FIRST, J_LAST, J_PATIENCE, J_PREDICTS, J_TOGETHER, J_BLOCK, J_PROGRAMS, J_LENGTH, J_MEMORY, J_BATCH, J_TERMS, J_RULE,
 J_CHANNELS, J_SECTIONS) = range(len(Job._fields) - 1)  # fmt: skip
J_VIEW = J_SECTIONS + 2 * len(Sections._fields)
JOB = J_VIEW + FIELDS

# entries of `Memory.sync`, for compiled code and for who reads what it counted
ARRIVED, SLEEPERS, IMPATIENCE = 0, 1, 2  # threads here and asleep; spins that the next to wait leaves out
WAITS, STOPPED = 3, 4  # waits that ended in sleep; steps after which a range of steps is left early
# nanoseconds of all threads together: from first step to last; of these on a core; and asleep until somebody woke them
SPAN, RAN, SLEPT = 5, 6, 7
GENERATION = 8  # barriers so far, a cache line away from the others: those who wait read it all the time
WOKEN = 15  # when a barrier last woke those asleep

#: What takes the place of a loss in steps that report none.
WITHOUT_LOSS = {"cross_entropy": "cross_entropy_gradient", "squared_error": "squared_error_gradient"}

#: What takes the place of an operation on the data set's bytes where the samples are floats, or their rows no whole
#: vectors.
GATHERED = {"enter_thin_forward": "gather_thin_forward", "enter_thin_weight_gradient": "thin_weight_gradient"}
