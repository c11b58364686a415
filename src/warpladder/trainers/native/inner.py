"""Functions that compiled code alone calls: operations, each compiled on its own, and parts of them.

A way in from Python is not made for either: unpacking Python objects would take longer to compile than what they do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from ...ops.compiled import compiled

#: as in C: a division by zero gives an infinity and raises nothing
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


@cache
def operation(function: Callable) -> Any:
    """Have a function compiled on its own, to be called by its address, and its machine code kept. Asked again, it gives the same."""
    return compiled(function, **_OPTIONS)


def inner(function: Callable) -> Any:
    """Have a function's lines stand wherever compiled code calls it: they are compiled once, with those around them, and not also alone."""
    import numba

    return numba.njit(inline="always", **_OPTIONS)(function)
