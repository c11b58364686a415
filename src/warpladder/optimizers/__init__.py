"""Optimizers, in order of complexity, each a folder; and schedules of the learning rate (schedules.py).

w: parameter, g: its gradient, t: number of the update, from 1.

    sgd      g = g + weight_decay w
             b = momentum b + g                                    slot "momentum_buffer"
             w = w - rate b                                        Nesterov: w - rate (g + momentum b)

    adam     g = g + weight_decay w
             m = beta1 m + (1 - beta1) g                           slot "exp_avg"
             v = beta2 v + (1 - beta2) g g                         slot "exp_avg_sq"
             w = w - rate (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)

    rmsprop  g = g + weight_decay w
             v = alpha v + (1 - alpha) g g                         slot "square_avg"
             b = momentum b + g / (sqrt(v) + eps)                  slot "momentum_buffer", if there is momentum
             w = w - rate b

    adamw    w = w - rate weight_decay w, then adam without its first line

One file for each language: `__init__.py` names the optimizer and its settings and computes the bias corrections on the
host, in float64 (`numbers`). `reference.py` is the step in float64, `array.py` in NumPy and CuPy, `loops.py` as a loop
that numba compiles, `step.cu` in CUDA, `jax.py` in JAX. ops/update/ runs them.

They import errors and each other. Begin with sgd/, then base.py.
"""

from .adam import Adam
from .adamw import AdamW
from .base import NUMBERS, Optimizer
from .rmsprop import RMSprop
from .sgd import SGD

__all__ = ["NUMBERS", "SGD", "Adam", "AdamW", "Optimizer", "RMSprop"]
