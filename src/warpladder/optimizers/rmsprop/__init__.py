"""RMSprop: a step along the gradient, divided by the root of the mean squared gradient.

It imports optimizers/base.py alone. Begin with reference.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ...errors import ConfigError
from ..base import NUMBERS, Optimizer

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class RMSprop(Optimizer):
    """RMSprop (Hinton 2012), as `torch.optim.RMSprop` defines it, not centered.

    Parameters
    ----------
    learning_rate : float
    alpha : float
        Decay of the mean squared gradient, 0 to below 1.
    eps : float
        Term added to the root, above 0.
    weight_decay : float
        L2 penalty: weight_decay * w is added to the gradient.
    momentum : float
        Share of the previous step that is added to the quotient; 0 needs no slot.
    """

    #: Loss gradient 2, clip, decay 2; square, mean and its factors 6; root, eps 2; division; momentum 2; rate 2,
    #: subtraction.
    roundings: ClassVar[int] = 20
    learning_rate: float = 0.01
    alpha: float = 0.99
    eps: float = 1e-8
    weight_decay: float = 0.0
    momentum: float = 0.0

    def check(self) -> None:
        if self.alpha >= 1:
            raise ConfigError(f"alpha wants a number from 0 to below 1, got {self.alpha:g}")
        if self.eps < 1e-30:
            raise ConfigError(f"eps wants at least 1e-30, got {self.eps:g}: a gradient of 0 would be divided by it")

    @property
    def slots(self) -> tuple[str, ...]:
        return ("square_avg", "momentum_buffer") if self.momentum else ("square_avg",)

    def numbers(self, rates: np.ndarray, first: int) -> np.ndarray:
        """Numbers (steps, NUMBERS) float64 of RMSprop's updates: rate, alpha, 1 - alpha, eps, decay, momentum."""
        import numpy as np

        out = np.zeros((len(rates), NUMBERS))
        out[:, 0] = rates
        out[:, 1:6] = self.alpha, 1 - self.alpha, self.eps, self.weight_decay, self.momentum
        return out
