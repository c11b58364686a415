"""What a thread does without the others where they work together: behind which instructions it need not wait, and a
copy of the samples of its own.

What one thread has just written is slow to read for another, and slow to write again for the first, on some machines at
all times and on others by the
minute. Weights, which are most of it, stay with one thread already (plan.py); the samples are read by all::

    one copy      thread 0   gather half | wait | multiply all, half of it from the other's cache
    a copy each   thread 0   gather own half, then the other, whose bytes have come from memory meanwhile | multiply all
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from .job import GOES_ON, TO_NEXT_STEP, VIEWS, Row, Sections
from .tensors import Tensor
from .views import FIELDS

#: operations that read and write their own samples of flat tensors
OF_SAMPLES = {"enter_thin_forward", "thin_forward", "multiply", "cross_entropy", "squared_error", "thin_input_gradient"}
#: operations that read activations and write a gradient, step weights, or write an input gradient that others read by
#: the same panels
OF_PANELS = {
    "enter_thin_weight_gradient",
    "thin_weight_gradient",
    "weight_gradient",
    "weight_step",
    "bias_gradient",
    "sgd",
    "by_rule",
}
BY_PANEL = VIEWS * FIELDS + 5  # where "thin_input_gradient" has it


def go_on(rows: list[Row], sections: Sections, samples: Tensor) -> None:
    """Mark the instructions behind which threads need not wait; samples: what the first layer reads."""
    for row, behind in pairwise(rows):
        # the second needs nothing that other threads do in the first, nor overwrites what they read there
        alike = _kind(row) is not None and _kind(row) == _kind(behind)
        gathered = row[0] == "gather_rows" and _views_of(samples, 0)[0] == row[1][:FIELDS] and samples.apart > 0
        row[1][GOES_ON] = alike or gathered
    if _ends_alone(rows, sections, samples):
        rows[-1][1][GOES_ON] = TO_NEXT_STEP


def _kind(row: Row) -> str | None:
    """By what an instruction is divided, where it can follow another one of its kind without a wait."""
    does, operands = row
    if does == "thin_input_gradient" and operands[BY_PANEL]:
        return "panels"
    return "samples" if does in OF_SAMPLES else "panels" if does in OF_PANELS else None


def _ends_alone(rows: list[Row], sections: Sections, samples: Tensor) -> bool:
    """Whether a thread may begin its next step while others are still in this one: what it writes then, before it
    waits, nobody else reads.

    So it is with a wide layer on samples of which each thread has a copy, and a thin one behind it: behind the last
    wait each thread reads its own panels of what is between the two, and then its product overwrites these. Every other
    layer's gradient reads all of what it was given.
    """
    begin, end = sections.backward
    if not samples.apart or (begin, end) != (sections.forward[1], len(rows)) or sections.forward[0] > 0:
        return False
    waits = [row for row in range(end - 1) if not rows[row][1][GOES_ON]]
    tail = rows[waits[-1] + 1 :]
    first, wide = tail[0], [operands for does, operands in tail if does in ("weight_gradient", "weight_step")]
    return (
        first[0] == "thin_input_gradient"
        and _kind(first) == "panels"
        and [each[:FIELDS] for each in wide] == [_views_of(samples, 0)[1]]
    )


def rows_of(thread: int, rows: list[Row], samples: Tensor) -> list[Row]:
    """A thread's table: the given one, with its own copy of the samples where each thread has one."""
    if not samples.apart:
        return rows
    own = dict(zip(map(tuple, _views_of(samples, 0)), _views_of(samples, thread), strict=True))
    changed = []
    for does, operands in rows:
        views = [operands[i * FIELDS : (i + 1) * FIELDS] for i in range(VIEWS)]
        numbers = [number for view in views for number in own.get(tuple(view), view)]
        changed.append((does, numbers + operands[VIEWS * FIELDS :]))
    return changed


def _views_of(samples: Tensor, thread: int) -> list[list[int]]:
    """The views of a thread's copy, sample by sample and as pixels."""
    return [
        replace(view, offset=view.offset + thread * samples.apart).ints()
        for view in (samples.view, samples.samples_as_pixels())
    ]
