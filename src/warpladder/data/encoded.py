"""`Encoded`: array of a data set that remembers what its numbers mean in the user's units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from .labels import ClassValue
    from .tables.encoding import TableEncoding

    Encoding: TypeAlias = TableEncoding | tuple[ClassValue, ...] | None


class Encoded(np.ndarray[Any, Any]):
    """Class numbers, or the samples, class numbers or targets of a table, as a net sees them.

    Parts of the array keep the encoding. Arithmetic and joined arrays lose it, since their numbers may mean another
    thing.

    encoding : the table's encoding, or the classes that the numbers count; None if it was lost.
    """

    encoding: Encoding

    def __array_finalize__(self, source: Any) -> None:
        self.encoding = getattr(source, "encoding", None)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        plain = np.asarray(array)
        return plain[()] if return_scalar else plain

    def __reduce__(self) -> Any:
        return encoded, (np.asarray(self), self.encoding)


def encoded(values: np.ndarray, encoding: Encoding) -> np.ndarray:
    """View of an array of numbers that this encoding made."""
    marked = values.view(Encoded)
    marked.encoding = encoding
    return marked


def is_encoded(values: Any, encoding: Encoding) -> bool:
    """True for an array of a data set with this encoding, or a part of it."""
    return isinstance(values, Encoded) and values.encoding is not None and values.encoding == encoding
