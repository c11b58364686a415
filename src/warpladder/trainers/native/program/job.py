"""Instructions of a program and arguments of compiled code: rows of numbers, and the names of their positions.

One compiled loop (threads/run.py) runs a range of steps of any net, without Python: a net becomes a table with a row
for each instruction, an operation's address (operands.py) and operands, written by plan.py. Each operation is compiled
and cached separately, when a net first needs it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .tensors import ActivationView

ROW = 48  # numbers of an instruction in the table: address, operands, zeros, and the four below
BARRIER = ROW - 4  # whether threads wait for each other after the instruction: WAIT, NO_WAIT or NO_WAIT_AT_END
#: numbers that a clock around the operation uses (clocks.py): nanoseconds so far, calls so far, the operation's address
SPENT, CALLS, CLOCKED_ADDRESS = range(ROW - 3, ROW)
WAIT, NO_WAIT, NO_WAIT_AT_END = range(3)  # the last also lets a thread begin its next step without waiting
SUMMED = 16  # blocks whose gradients one accumulator adds; the sums of these groups are added to each other


class Instruction(NamedTuple):
    """Operation with its operands (a NamedTuple of operands.py) and layers; no layers for samples, loss and update."""

    operation: str
    operands: Any
    layers: range = range(0)
    barrier: int = WAIT

    def numbers(self) -> list[int]:
        """Row without its address, ROW - 1 integers: operands, views field by field, then zeros."""
        flat: list[int] = []
        for operand in self.operands:
            flat += operand if isinstance(operand, ActivationView) else [int(operand)]
        assert len(flat) < BARRIER
        row = flat + [0] * (ROW - 1 - len(flat))
        row[BARRIER - 1] = self.barrier
        return row


class StepScaling(NamedTuple):
    """Numbers that are equal in all steps of a call."""

    scale: np.float32  # factor of a stored sample
    clip: np.float32  # limit of a gradient's elements; infinite for none
    loop: int  # address of the optimizer's compiled loop; 0 if no instruction calls it
    mask_key: int  # key of the epoch's random masks; -1 in predictions, which have none
    position: int  # position in the epoch's order of the first sample of `NativeMemory.indices`


class BlockWork(NamedTuple):
    """Work of one thread in an instruction: a part of a block of n samples."""

    slot: int  # row of the shared buffers
    thread: int  # row of the buffers that each part has for itself: offset tables, scratch
    part: int  # number of the part
    parts: int  # parts into which the instruction is divided
    first: int  # the block's first sample, by its place in `NativeMemory.indices`
    n: int  # samples of the block
    add: int  # 1: earlier blocks left gradients to add to; in the update, the number of gradients to sum
    step: int  # row of `NativeMemory.numbers`
    inverse: np.float32  # 1 / loss terms of the whole batch
    settings: StepScaling


class Sections(NamedTuple):
    """Rows of the table by section, as (first, last + 1)."""

    prepare: tuple[int, int]  # once a step, all threads: weights transposed and folded
    forward: tuple[int, int]  # for every block of samples
    backward: tuple[int, int]  # for every block of samples: the loss, then its gradients
    collect: tuple[int, int]  # after a share's last block: gradients put in order
    update: tuple[int, int]  # once a step, all threads


class StepsJob(NamedTuple):
    """Arguments of the compiled loop (threads/run.py), as a row of integers."""

    parts: int  # into which the work is divided: a step's bits depend on it
    workers: int  # threads that do the parts, at most one for each
    first: int  # first step, a row of `NativeMemory.numbers`
    last: int  # the step after the last
    patience: int  # waits that may end in sleep, before the range of steps ends early
    together: int  # 1: every instruction is divided into the parts; 0: each part is a share of the batch
    block: int  # samples that go through the layers at once
    programs: int  # address of the table, of which each thread has a copy
    length: int  # whole numbers of one thread's table
    memory: int  # address of `NativeMemory.table`
    batch: int
    terms: int  # loss terms of a sample: 1, or its elements for MSE
    loop: int  # address of the optimizer's compiled loop; 0 if no instruction calls it
    rows: int  # address of `rows` (threads/run.py)
    barrier: int  # address of `barrier` (threads/barrier.py)
    mask_key: int  # as in `StepScaling`
    position: int  # as in `StepScaling`
    channels: int  # of the net's output
    sections: Sections
    out_view: ActivationView  # of the net's output

    def ints(self) -> np.ndarray:
        """Arguments as an array (JOB,) int64."""
        return np.array(
            [*self[:-2], *(edge for section in self.sections for edge in section), *self.out_view], np.int64
        )


# a job's entries, for compiled code
(J_PARTS, J_WORKERS, J_FIRST, J_LAST, J_PATIENCE, J_TOGETHER, J_BLOCK, J_PROGRAMS, J_LENGTH, J_MEMORY,
 J_BATCH, J_TERMS, J_LOOP, J_ROWS, J_BARRIER, J_MASK_KEY, J_POSITION, J_CHANNELS,
 J_SECTIONS) = range(len(StepsJob._fields) - 1)  # fmt: skip
J_VIEW = J_SECTIONS + 2 * len(Sections._fields)
JOB = J_VIEW + len(ActivationView._fields)

# entries of `NativeMemory.sync`
ARRIVED, SLEEPERS, IMPATIENCE = 0, 1, 2  # threads here and asleep; spins that the next thread to wait leaves out
WAITS, STOPPED = 3, 4  # waits that ended in sleep; steps after which a range of steps ends early
# nanoseconds of all threads: from first step to last; of these on a core; and asleep until they were woken
SPAN, RAN, SLEPT = 5, 6, 7
GENERATION = 8  # barriers so far, a cache line away from the others: waiting threads read it all the time
WOKEN = 15  # time at which a barrier last woke sleeping threads
