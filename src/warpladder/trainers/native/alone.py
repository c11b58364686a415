"""What a thread does without the others where they work together: behind which instructions it need not wait, and a copy of the samples of its own.

What one thread has just written is slow to read for another, and slow to write again for the first, on some machines at all times and on others by the
minute. Weights, which are most of it, stay with one thread already (plan.py); the samples are read by all::

    one copy      thread 0   gather half | wait | multiply all, half of it from the other's cache
    a copy each   thread 0   gather own half, then the other, whose bytes have come from memory meanwhile | multiply all
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

from .program import GOES_ON, VIEWS, Row
from .tensors import Tensor
from .views import FIELDS

#: operations that read and write their own samples of flat tensors; that read activations and write a gradient or step weights; that update
OF_SAMPLES = ("enter_thin_forward", "thin_forward", "multiply", "cross_entropy", "squared_error", "thin_input_gradient")
OF_GRADIENTS = ("enter_thin_weight_gradient", "thin_weight_gradient", "weight_gradient", "weight_step", "bias_gradient")
OF_UPDATES = ("sgd", "by_rule")
#: pairs of operations, one behind the other, of which the second needs nothing that other threads do in the first, nor overwrites what they read there
GO_ON = {pair for kind in (OF_SAMPLES, OF_GRADIENTS, OF_UPDATES) for pair in product(kind, kind)}


def go_on(rows: list[Row], samples: Tensor) -> None:
    """Mark the instructions behind which threads need not wait; samples: what the first layer reads."""
    for (does, operands), (then, _) in pairwise(rows):
        operands[GOES_ON] = (does, then) in GO_ON or (
            does == "gather_rows" and _views_of(samples, 0)[0] == operands[:FIELDS] and samples.apart > 0
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
    return [replace(view, offset=view.offset + thread * samples.apart).ints() for view in (samples.view, samples.samples_as_pixels())]
