"""AdamW: Adam whose weight decay goes past the gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..adam import Adam

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class AdamW(Adam):
    """AdamW (Loshchilov and Hutter 2019), as `torch.optim.AdamW` defines it, without amsgrad.

    Adam, but for the weight decay: a parameter shrinks by rate * weight_decay of itself at each step, whatever its
    gradient is.

    Parameters
    ----------
    learning_rate : float
    betas : tuple of two floats
        How much of each mean is kept at a step, 0 to below 1.
    eps : float
        Added to the root, above 0.
    weight_decay : float
        Share of itself, times the rate, that a parameter loses at a step.
    """

    weight_decay: float = 0.01

    @property
    def stores(self) -> int:
        """A parameter that shrinks is multiplied by a factor near 1, which is rounded, the product is, and then the
        sum.
        """
        return 3 if self.weight_decay else 1

    def numbers(self, rates: np.ndarray, first: int) -> np.ndarray:
        """Columns as Adam's, but for the last, which is rate * weight_decay."""
        out = super().numbers(rates, first)
        out[:, 7] = rates * self.weight_decay
        return out
