"""`Allowance`: how large the errors that a normalisation makes of roundings may be, from start to start of a search."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..samples import SampleSource
from .format_errors import Excess
from .long_sums import LONG

STRICT = 3  # starts at which these errors must be within the bounds
GROWTH = 2**0.5  # factor by which they may be larger at each start after those
#: Times the largest allowed error from which on an error comes from a kink: other samples help, and no larger errors.
NEAR = 4.0
#: Accumulators that a sum of many numbers is taken to have after these numbers of starts in vain: near kinks, and all.
ACCUMULATORS, AFTER_KINKS, AFTER = 16, 3, 6
ENDLESS = 1 << 16  # numbers of a sum that is taken so from the first start on; those of LONG or fewer never are
AT_MOST = 8.0  # units of a bound that errors of such sums may be, if a start has shown them
AT_KINKS = 2  # starts with such errors after which a source is left for the next one


class Allowance:
    """Largest allowed error in units of its bound, for one net and one configuration.

    A start whose errors are a little larger lets the next start have larger ones, in later cases too: each begins where
    those before it had to end. Errors that are much larger come from samples near a kink, as where many blank pixels
    round alike. After AT_KINKS such starts of one source the next one is tried, in later cases first; the last source's
    starts let the errors grow.

    longest : numbers of the longest sum of a normalisation, in the constructor.
    accumulators : number of partial sums of a mean; several, once starts have failed with one.
    room : largest allowed error at the present start, in units of its bound.
    """

    def __init__(self, longest: int = 0) -> None:
        self.room, self.near, self.at_kinks, self.is_last = 1.0, 0, 0, True
        self.shown = 1.0  # by starts with several accumulators
        self.accumulators = ACCUMULATORS if longest >= ENDLESS else 1
        self.in_vain, self.in_vain_at_kinks, self.is_long = 0, 0, longest > LONG
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
        self.room = math.inf if is_given else max(self.shown, GROWTH ** max(0, growth))

    def leaves(self, source: SampleSource, reason: str) -> bool:
        """True if the search leaves a source after a start that failed for `reason`."""
        if isinstance(reason, Excess):
            self.in_vain += 1
            self.in_vain_at_kinks += not reason.times <= NEAR * self.room
            if (
                self.is_long
                and self.accumulators == 1
                and (self.in_vain >= AFTER or self.in_vain_at_kinks >= AFTER_KINKS)
            ):
                self.accumulators, self.near, self.at_kinks = ACCUMULATORS, 0, 0
                return False
        if isinstance(reason, Excess) and reason.times <= NEAR * self.room:
            self.near += 1
            if self.accumulators > 1:  # a start takes long
                self.shown = max(self.shown, min(AT_MOST, GROWTH * reason.times))
            return False
        self.at_kinks += 1
        if not isinstance(reason, Excess) or self.at_kinks < AT_KINKS or self.is_last:
            return False
        self.unsuited.add(id(source))
        return True
