"""How work is divided among threads."""

from __future__ import annotations

from ..compiler.functions import inner


@inner
def share(total, part, parts):  # type: ignore[no-untyped-def]
    """The part-th of `parts` nearly equal ranges of 0..total-1; the first ones are the larger."""
    size, rest = divmod(total, parts)
    first = part * size + min(part, rest)
    return first, first + size + (1 if part < rest else 0)
