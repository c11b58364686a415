"""Adam: a step along the mean gradient, divided by the root of the mean squared gradient.

It imports optimizers/base.py alone. Begin with reference.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ...errors import ConfigError
from ...errors.arguments import shown
from ..base import NUMBERS, Optimizer

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam (Kingma and Ba 2015), as `torch.optim.Adam` defines it, without amsgrad.

    The slots are running means of the gradient and of its square. Each is divided by its bias correction, because it
    starts at zero. The step is the first mean over the root of the second.

    Parameters
    ----------
    learning_rate : float
    betas : tuple of two floats
        Decay of each mean, 0 to below 1.
    eps : float
        Term added to the root, above 0.
    weight_decay : float
        L2 penalty: weight_decay * w is added to the gradient.
    """

    #: Loss gradient 2, clip, decay 2; a mean 3 and its two factors 2; square, the other mean and its factors 6; root
    #: and its correction 3; eps 2; division, rate 2, subtraction.
    roundings: ClassVar[int] = 24
    learning_rate: float = 0.001
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0

    def check(self) -> None:
        pair = self.betas
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not all(_share(beta) for beta in pair):
            raise ConfigError(f"betas wants two numbers from 0 to below 1, as (0.9, 0.999), got {shown(pair)}")
        object.__setattr__(self, "betas", (float(pair[0]), float(pair[1])))
        if self.eps < 1e-30:
            raise ConfigError(f"eps wants at least 1e-30, got {self.eps:g}: a gradient of 0 would be divided by it")

    @property
    def slots(self) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")

    @property
    def steady(self) -> bool:
        return False

    def host_rounding(self, number: int) -> float:
        """Rounding of the bias corrections: a power of beta just below 1 has an error of a unit in its last place,
        2^-53, in each of two programs, and its difference from 1 keeps that error.
        """
        one, two = (1 - beta**number for beta in self.betas)
        return 2 * 2.0**-53 * (1 / one + 0.5 / two)

    def numbers(self, rates: np.ndarray, first: int) -> np.ndarray:
        """Numbers (steps, NUMBERS) float64 of Adam's updates t = first + 1, first + 2, ...

        Columns: rate / (1 - beta1^t), beta1, 1 - beta1, beta2, 1 - beta2, 1 / sqrt(1 - beta2^t), eps and weight decay.
        The bias corrections, 1 - beta^t, are computed here on the host; kernels and compiled loops only read them.
        """
        import numpy as np

        count = np.arange(first + 1, first + 1 + len(rates), dtype=np.float64)
        one, two = self.betas
        out = np.zeros((len(rates), NUMBERS))
        out[:, 0] = rates / (1 - one**count)
        out[:, 1:5] = (one, 1 - one, two, 1 - two)
        out[:, 5] = 1 / np.sqrt(1 - two**count)
        out[:, 6], out[:, 7] = self.eps, self.weight_decay
        return out


def _share(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1
