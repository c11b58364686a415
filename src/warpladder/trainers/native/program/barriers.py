"""Removal of barriers between threads that divide each instruction, and a private copy of the batch for each thread.

A thread need not wait after an instruction if the next one reads only what the thread itself wrote. A cache line that
one thread has just written is slow to read for another, and slow to write again for the first. Weights, which are most
of the data, stay with one thread (linear_rows.py); all threads read the samples::

    one copy        thread 0   copy half the batch | wait | multiply all of it, half from the other's cache
    private copies  thread 0   copy its half, then the other half | multiply all of it
"""

from __future__ import annotations

from itertools import pairwise

from .job import NO_WAIT, NO_WAIT_AT_END, WAIT, Instruction, Sections
from .tensors import ActivationView, Tensor

#: operations that read and write the thread's own samples of flat tensors
BY_SAMPLE = {
    "few_outputs_of_bytes", "few_outputs", "multiply", "cross_entropy", "squared_error",
    "squared_error_of_targets", "label_loss", "element_loss", "element_loss_of_targets", "few_outputs_input_gradient",
}  # fmt: skip
#: operations that read activations and write a gradient or weights of the thread's own panels
BY_PANEL = {
    "few_outputs_weight_gradient_of_bytes", "few_outputs_weight_gradient", "weight_gradient", "weight_step",
    "bias_gradient", "sgd", "optimizer_loop", "scale_gradients",
}  # fmt: skip


def barriers(rows: list[Instruction], sections: Sections, samples: Tensor) -> list[int]:
    """Barrier of each row: WAIT, NO_WAIT or NO_WAIT_AT_END. samples : input of the first layer."""
    flags = []
    for row, after in pairwise(rows):
        # the second neither reads other threads' results of the first nor overwrites their inputs
        alike = _divided_by(row) is not None and _divided_by(row) == _divided_by(after)
        copied = row.operation == "gather_rows" and row.operands.y == samples.view and samples.copy_stride > 0
        flags.append(NO_WAIT if alike or copied else WAIT)
    flags.append(WAIT)
    if _ends_alone(rows, flags, sections, samples):
        flags[-1] = NO_WAIT_AT_END
    return flags


def _divided_by(row: Instruction) -> str | None:
    """Division of work among threads, "samples" or "panels"; None if the next instruction must wait."""
    if row.operation == "few_outputs_input_gradient" and row.operands.by_panel:
        return "panels"
    return "samples" if row.operation in BY_SAMPLE else "panels" if row.operation in BY_PANEL else None


def _ends_alone(rows: list[Instruction], flags: list[int], sections: Sections, samples: Tensor) -> bool:
    """True if a thread may begin its next step while others are still in this one: they read nothing that it then
    writes.

    This holds for a wide layer on private copies of the samples and a layer with few outputs after it: after the last
    wait each thread reads its own panels between the two, which its next product overwrites. The gradient of any other
    layer reads all of its input.
    """
    begin, end = sections.backward
    if not samples.copy_stride or (begin, end) != (sections.forward[1], len(rows)) or sections.forward[0] > 0:
        return False
    waits = [row for row in range(end - 1) if flags[row] == WAIT]
    first, *tail = rows[waits[-1] + 1 :]
    wide = [row.operands.x for row in tail if row.operation in ("weight_gradient", "weight_step")]
    return (
        first.operation == "few_outputs_input_gradient"
        and _divided_by(first) == "panels"
        and wide == [samples.samples_as_pixels()]
    )


def rows_of_thread(thread: int, rows: list[Instruction], samples: Tensor) -> list[Instruction]:
    """Rows of a thread, with its own copy of the samples if each thread has one."""
    if not samples.copy_stride:
        return rows
    shared = (samples.view, samples.samples_as_pixels())

    def own(operand: ActivationView | int) -> ActivationView | int:
        if isinstance(operand, ActivationView) and operand in shared:
            return operand._replace(offset=operand.offset + thread * samples.copy_stride)
        return operand

    return [row._replace(operands=type(row.operands)(*map(own, row.operands))) for row in rows]
