"""RMSprop for JAX: a function of one tensor, compiled by XLA with the rest of the step."""

from __future__ import annotations

from typing import Any

from jax import numpy as jnp


def step(w: Any, g: Any, slots: dict[str, Any], optimizer: Any, numbers: Any) -> tuple[Any, dict[str, Any]]:
    """Parameters and slots after a step from w with gradient g, all of one shape. numbers: (NUMBERS,), of this step."""
    rate, alpha, rest, eps, decay, momentum = numbers[:6]
    if optimizer.weight_decay:
        g = g + decay * w
    square = alpha * slots["square_avg"] + rest * g * g
    change = g / (jnp.sqrt(square) + eps)
    if not optimizer.momentum:
        return w - rate * change, {"square_avg": square}
    change = momentum * slots["momentum_buffer"] + change
    return w - rate * change, {"square_avg": square, "momentum_buffer": change}
