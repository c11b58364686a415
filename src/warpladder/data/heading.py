"""Whether the first line of a CSV table is a header, where the first column may hold names of classes."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: What may stand for a finite number in a table of features.
NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")


def is_header(first: Sequence[bytes], second: Sequence[bytes] | None) -> bool:
    """Whether a table's first line names its columns.

    Parameters
    ----------
    first, second : sequences of bytes
        The cells of the first two lines, bare; None where there is no second one. The first cell of the first line is
        no number.
    """
    if second is not None and (not second[0] or NUMBER.fullmatch(second[0])):
        return True  # labels are numbers below it
    return first[0].lower() == b"label" or not all(map(NUMBER.fullmatch, first[1:]))


def counts_columns(first: Sequence[bytes]) -> bool:
    """Whether the cells behind the first one are 0, 1, 2, ... or 1, 2, 3, ..., as pandas names the columns of an array."""
    others = list(first[1:])
    return len(others) > 1 and others in [
        [b"%d" % (number + start) for number in range(len(others))] for start in (0, 1)
    ]
