"""`ClimbLimit`: the time limit of a climb, and the work that fits into the seconds left."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from time import perf_counter

from ..trainers.kernelwise.where import why_not

#: Repetitions that a limit leaves out last: a median of three withstands one disturbance.
LEAST_REPEATS = 3

#: Seconds after its limit up to which a climb may make its first three repetitions, compare bits and measure memory.
GRACE = 8.0

#: Share of a quick climb after which concurrent proofs are ended, so that proven rungs can be timed.
PROVING = 0.85

#: Seconds of a climb of the whole ladder, without the command's start and its page: with a GPU, and without one.
WITH_GPU, WITHOUT_GPU = 140.0, 82.0


def usual_limit() -> float:
    """Time limit in seconds of a climb of the whole ladder on this machine."""
    return WITH_GPU if why_not(None) is None else WITHOUT_GPU


@dataclass
class ClimbLimit:
    """Time limit of a climb in seconds, infinite by default. Time runs from the object's creation."""

    seconds: float = math.inf
    began: float = field(default_factory=lambda: perf_counter())

    @property
    def left(self) -> float:
        """Seconds left; negative after the limit."""
        return self.end - perf_counter()

    @property
    def is_set(self) -> bool:
        """True if the climb has a time limit."""
        return math.isfinite(self.seconds)

    @property
    def end(self) -> float:
        """Time of `perf_counter` at which the limit is reached."""
        return self.began + self.seconds

    @property
    def passed(self) -> float:
        """Seconds since the object's creation."""
        return perf_counter() - self.began

    @property
    def proofs_end(self) -> float:
        """Time of `perf_counter` at which a quick climb ends its concurrent proofs."""
        return self.began + PROVING * self.seconds
