"""`Encoded`: array of a table's data set that remembers the encoding of its numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .encoding import TableEncoding


class Encoded(np.ndarray[Any, Any]):
    """Samples, class numbers or targets of a table as its net sees them.

    Parts of the array keep the encoding. Arithmetic and joined arrays lose it, since their numbers may mean another
    thing.

    encoding : encoding that made the numbers; None if it was lost.
    """

    encoding: TableEncoding | None

    def __array_finalize__(self, source: Any) -> None:
        self.encoding = getattr(source, "encoding", None)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        plain = np.asarray(array)
        return plain[()] if return_scalar else plain

    def __reduce__(self) -> Any:
        return encoded, (np.asarray(self), self.encoding)


def encoded(values: np.ndarray, encoding: TableEncoding | None) -> np.ndarray:
    """View of an array of numbers that this encoding made."""
    marked = values.view(Encoded)
    marked.encoding = encoding
    return marked


def is_encoded(values: Any, encoding: TableEncoding) -> bool:
    """True for an array of a data set with this encoding, or a part of it."""
    return isinstance(values, Encoded) and values.encoding == encoding
