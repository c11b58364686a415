"""Stochastic gradient descent, with momentum or without.

It imports optimizers/base.py alone. Begin with reference.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ...errors import ConfigError
from ..base import NUMBERS, Optimizer

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class SGD(Optimizer):
    """Stochastic gradient descent, as `torch.optim.SGD` defines it, without dampening.

    The slot `momentum_buffer` becomes momentum * momentum_buffer + g + weight_decay * w; the step is rate times it.

    Parameters
    ----------
    learning_rate : float
    momentum : float
        Below 1; 0 needs no slot.
    nesterov : bool
        True for a step of g + momentum * momentum_buffer; needs a momentum.
    weight_decay : float
        L2 penalty: weight_decay * w is added to the gradient.
    """

    roundings: ClassVar[int] = 8  # loss gradient, clip, decay, momentum, rate, subtraction
    learning_rate: float = 0.01
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0

    def check(self) -> None:
        if self.momentum >= 1:
            raise ConfigError(f"momentum wants a number below 1, got {self.momentum:g}: steps would only grow")
        if self.nesterov and self.momentum == 0:
            raise ConfigError("nesterov needs a momentum above 0")

    @property
    def slots(self) -> tuple[str, ...]:
        return ("momentum_buffer",) if self.momentum else ()

    def drawn(self, rng: np.random.Generator, params: np.ndarray, gradient: np.ndarray) -> dict[str, np.ndarray]:
        """Random momentum buffer (count,) float64, normal with the gradient's root mean square, by name."""
        size = math.sqrt((gradient**2).mean())
        return {name: rng.normal(0, size, len(gradient)) for name in self.slots}

    def numbers(self, rates: np.ndarray, first: int) -> np.ndarray:
        """Columns of SGD: rate, momentum, 1 for Nesterov's momentum (else 0), weight decay."""
        import numpy as np

        out = np.zeros((len(rates), NUMBERS))
        out[:, 0], out[:, 1:4] = rates, (self.momentum, self.nesterov, self.weight_decay)
        return out
