"""`Allowance`: how large the errors that a normalisation makes of roundings may be, from start to start of a search."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..samples import SampleSource
from .format_errors import Excess

STRICT = 3  # starts at which these errors must be within the bounds
GROWTH = 2**0.5  # factor by which they may be larger at each start after those
#: Times the largest allowed error from which on an error comes from a kink: other samples help, and no larger errors.
NEAR = 4.0
AT_KINKS = 2  # starts with such errors after which a source is left for the next one


class Allowance:
    """Largest allowed error in units of its bound, for one net and one configuration.

    A start whose errors are a little larger lets the next start have larger ones, in later cases too: each begins where
    those before it had to end. Errors that are much larger come from samples near a kink, as where many blank pixels
    round alike. After AT_KINKS such starts of one source the next one is tried, in later cases first; the last source's
    starts let the errors grow.

    room : largest allowed error at the present start, in units of its bound.
    """

    def __init__(self) -> None:
        self.room, self.near, self.at_kinks, self.is_last = 1.0, 0, 0, True
        self.unsuited = set[int]()  # ids of sources whose samples are mostly near kinks

    def in_order(self, sources: Sequence[SampleSource]) -> list[SampleSource]:
        """Sources with those last whose samples are mostly near kinks."""
        return sorted(sources, key=lambda source: id(source) in self.unsuited)

    def begin_source(self, is_last: bool) -> None:
        """Begin the search in a source."""
        self.at_kinks, self.is_last = 0, is_last

    def begin_start(self, is_given: bool) -> None:
        """Begin a start. is_given : True if there is no other, so that no error is too large."""
        growth = self.near + self.at_kinks * self.is_last + 1 - STRICT
        self.room = math.inf if is_given else GROWTH ** max(0, growth)

    def leaves(self, source: SampleSource, reason: str) -> bool:
        """True if the search leaves a source after a start that failed for `reason`."""
        if isinstance(reason, Excess) and reason.times <= NEAR * self.room:
            self.near += 1
            return False
        self.at_kinks += 1
        if not isinstance(reason, Excess) or self.at_kinks < AT_KINKS or self.is_last:
            return False
        self.unsuited.add(id(source))
        return True
