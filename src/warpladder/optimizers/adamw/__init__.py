"""AdamW: Adam with a weight decay that is decoupled from the gradient.

It imports optimizers/adam alone. Begin with reference.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..adam import Adam

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class AdamW(Adam):
    """AdamW (Loshchilov and Hutter 2019), as `torch.optim.AdamW` defines it, without amsgrad.

    A parameter shrinks by rate * weight_decay of itself at each step. All else is Adam.

    Parameters
    ----------
    learning_rate : float
    betas : tuple of two floats
        Decay of each mean, 0 to below 1.
    eps : float
        Term added to the root, above 0.
    weight_decay : float
        Share of itself, times the rate, that a parameter loses at a step.
    """

    weight_decay: float = 0.01

    @property
    def stores(self) -> int:
        """Number of roundings per step: with a weight decay three, of the factor near 1, of its product, and of the
        sum.
        """
        return 3 if self.weight_decay else 1

    def numbers(self, rates: np.ndarray, first: int) -> np.ndarray:
        """Numbers (steps, NUMBERS) float64 of AdamW's updates: Adam's, with rate * weight_decay as the last one."""
        out = super().numbers(rates, first)
        out[:, 7] = rates * self.weight_decay
        return out
