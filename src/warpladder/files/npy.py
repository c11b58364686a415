"""Reader of .npy files without pickle; any damage raises `ValueError` with one line."""

from __future__ import annotations

import struct
import tokenize
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

#: Errors of NumPy for a truncated or damaged file.
_DAMAGE = (
    ValueError, EOFError, MemoryError, OverflowError, TypeError, KeyError, IndexError, AttributeError, SyntaxError,
    RecursionError, struct.error, tokenize.TokenError,
)  # fmt: skip


@contextmanager
def damage_named() -> Iterator[None]:
    """Context that replaces NumPy's errors about a damaged .npy file by a `ValueError` with one line."""
    try:
        yield
    except _DAMAGE as error:
        reason = (str(error).splitlines() or [""])[0]
        if "object" in reason.lower():
            raise ValueError("it holds Python objects, which are never read: store numbers") from None
        raise ValueError(f"it is cut off, damaged or something else ({reason or type(error).__name__:.200})") from None


def read_npy(path: Path) -> np.ndarray:
    """Array of a .npy file.

    Raises
    ------
    OSError, ValueError
        The file cannot be read, or is damaged; the message is one line with the reason.
    """
    import numpy as np

    with open(path, "rb") as file, damage_named():
        return np.lib.format.read_array(file, allow_pickle=False)


def map_npy(path: Path) -> np.ndarray:
    """Array of a .npy file, mapped into memory and read when used; errors as in `read_npy`."""
    import numpy as np

    with open(path, "rb") as file, damage_named():
        np.lib.format.read_magic(file)  # another file may be an archive or a pickle
    with damage_named():
        return np.load(path, mmap_mode="r", allow_pickle=False)
