"""AdamW as array expressions on the flat buffers of NumPy or CuPy: weight decay, then the step of Adam."""

from __future__ import annotations

from typing import Any

from ..adam import array as adam


def step(xp: Any, w: Any, g: Any, slots: tuple[Any, ...], term: Any, numbers: Any) -> None:
    """Change w and slots, (params,), in place, and overwrite g and term; xp : NumPy or CuPy; numbers : of w's dtype."""
    *others, decay = numbers
    w -= xp.multiply(w, decay, out=term)
    adam.step(xp, w, g, slots, term, (*others, 0))
