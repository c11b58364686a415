"""An operation that calls another one and counts what it takes: compiled code behind clocks.py."""

from __future__ import annotations

from ..program.job import CALLS, SPENT, WHERE
from ..threads.barrier import wall_clock
from .calls import call_at


def clocked(operands, memory, call):  # type: ignore[no-untyped-def]
    """What the operation at operands[WHERE] gives; the nanoseconds that it took are added to operands[SPENT]."""
    began = wall_clock()
    result = call_at(operands[WHERE], operands, memory, call)
    operands[SPENT] += wall_clock() - began
    operands[CALLS] += 1
    return result
