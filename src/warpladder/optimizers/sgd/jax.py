"""Stochastic gradient descent for JAX: a function of one tensor, compiled by XLA with the rest of the step."""

from __future__ import annotations

from typing import Any


def step(w: Any, g: Any, slots: dict[str, Any], optimizer: Any, numbers: Any) -> tuple[Any, dict[str, Any]]:
    """Parameters and slots after a step from w with gradient g, all of one shape. numbers: (NUMBERS,), of this step."""
    rate, momentum, decay = numbers[0], numbers[1], numbers[3]
    if optimizer.weight_decay:
        g = g + decay * w
    if not optimizer.momentum:
        return w - rate * g, {}
    v = momentum * slots["momentum_buffer"] + g
    g = g + momentum * v if optimizer.nesterov else v
    return w - rate * g, {"momentum_buffer": v}
