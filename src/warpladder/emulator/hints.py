"""How each kind of fault is usually mended, in a line."""

HINTS: dict[str, str] = {}
