"""Adagrad, an optimizer that warpladder does not have: added from outside of the package."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpladder.optimizers import NUMBERS, Optimizer


@dataclass(frozen=True)
class Adagrad(Optimizer):
    """Adagrad (Duchi et al. 2011), as `torch.optim.Adagrad` defines it, without lr_decay.

    Parameters
    ----------
    learning_rate : float
    eps : float
        Added to the root of the summed squares.
    """

    learning_rate: float = 0.01
    eps: float = 1e-10

    @property
    def slots(self) -> tuple[str, ...]:
        return ("sum",)

    def numbers(self, rates: np.ndarray, first: int) -> np.ndarray:
        """Columns: rate, eps."""
        out = np.zeros((len(rates), NUMBERS))
        out[:, 0], out[:, 1] = rates, self.eps
        return out
