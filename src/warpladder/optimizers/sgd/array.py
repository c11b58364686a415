"""Stochastic gradient descent as array expressions on the flat buffers of NumPy or CuPy."""

from __future__ import annotations

from typing import Any


def step(xp: Any, w: Any, g: Any, slots: tuple[Any, ...], term: Any, numbers: Any) -> None:
    """Change w and slots, (params,), in place, and overwrite g and term; xp : NumPy or CuPy; numbers : of w's dtype."""
    rate, momentum, nesterov, decay = numbers[:4]
    if decay:
        g += xp.multiply(w, decay, out=term)
    if slots:
        (v,) = slots
        v *= momentum
        v += g
        if nesterov:
            g += xp.multiply(v, momentum, out=term)
        else:
            g = v
    w -= xp.multiply(g, rate, out=term)
