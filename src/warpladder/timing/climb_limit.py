"""`ClimbLimit`: the seconds in which a climb is to end, and what fits into those that are left."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from time import perf_counter

from ..trainers.kernelwise.where import why_not

#: Repetitions that no limit leaves out: a median of three stands one disturbance.
LEAST_REPEATS = 3

#: Share of a first look after which concurrent proofs are ended, so that what is proven can be timed.
PROVING = 0.85

#: Seconds of a climb of the whole ladder, without the command's start and its page: with a GPU, and without one.
WITH_GPU, WITHOUT_GPU = 140.0, 82.0


def usual_limit() -> float:
    """Seconds in which a climb of the whole ladder is to end on this machine."""
    return WITH_GPU if why_not(None) is None else WITHOUT_GPU


@dataclass
class ClimbLimit:
    """Seconds in which a climb is to end; none by default. It counts from its making."""

    seconds: float = math.inf
    began: float = field(default_factory=lambda: perf_counter())

    @property
    def left(self) -> float:
        """Seconds that are left; negative when it is over."""
        return self.began + self.seconds - perf_counter()

    @property
    def proofs_end(self) -> float:
        """Time of `perf_counter` at which concurrent proofs of a first look are ended."""
        return self.began + PROVING * self.seconds
