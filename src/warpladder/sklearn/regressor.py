"""`MLPRegressor`: scikit-learn's regressor, trained on a rung."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.neural_network import MLPRegressor as Theirs
from sklearn.utils import check_array
from sklearn.utils._param_validation import Interval, StrOptions

from .additions import INITIAL, LAYERS, RATES
from .perceptron import AUTO, RungPerceptron

if TYPE_CHECKING:
    from ..nets import Net


class MLPRegressor(RungPerceptron, Theirs):
    """Multi-layer perceptron regressor of scikit-learn, with each epoch trained by a rung of the ladder.

    Parameters, attributes and methods are those of `sklearn.neural_network.MLPRegressor`. Difference:

    - Rungs train in float32. Initial weights are scikit-learn's for the same `random_state`; the order of the samples
      is warpladder's, unless `shuffle=False`. The penalty `alpha` acts on intercepts too.

    Parameters
    ----------
    loss : {"squared_error", "poisson", "absolute_error", "huber"}
        The last two are warpladder's: the mean of |prediction - target|, and of Huber's function of it, linear beyond
        `delta`. The gradient is of the sum over outputs, as for scikit-learn's losses.
    delta : float
        Parameter of loss="huber".
    rung, dropout, batch_norm, weight_decay, schedule, initial
        As for `MLPClassifier`; loss="poisson" too is trained by scikit-learn alone.

    Attributes
    ----------
    rung_, rung_reason_, validation_loss_curve_
        As for `MLPClassifier`.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Theirs._parameter_constraints,
        **LAYERS,
        **RATES,
        **INITIAL,
        "rung": [str],
        "loss": [StrOptions({"squared_error", "poisson", "absolute_error", "huber"})],
        "delta": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        loss: str = "squared_error",
        hidden_layer_sizes: Any = (100,),
        activation: str = "relu",
        *,
        solver: str = "adam",
        alpha: float = 0.0001,
        batch_size: Any = "auto",
        learning_rate: str = "constant",
        learning_rate_init: float = 0.001,
        power_t: float = 0.5,
        max_iter: int = 200,
        shuffle: bool = True,
        random_state: Any = None,
        tol: float = 1e-4,
        verbose: bool = False,
        warm_start: bool = False,
        momentum: float = 0.9,
        nesterovs_momentum: bool = True,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        n_iter_no_change: int = 10,
        max_fun: int = 15000,
        rung: str = AUTO,
        delta: float = 1.0,
        dropout: float = 0.0,
        batch_norm: bool = False,
        weight_decay: float = 0.0,
        schedule: Any = None,
        initial: str | None = None,
    ) -> None:
        super().__init__(
            loss, hidden_layer_sizes, activation, solver=solver, alpha=alpha, batch_size=batch_size,
            learning_rate=learning_rate, learning_rate_init=learning_rate_init, power_t=power_t, max_iter=max_iter,
            shuffle=shuffle, random_state=random_state, tol=tol, verbose=verbose, warm_start=warm_start,
            momentum=momentum, nesterovs_momentum=nesterovs_momentum, early_stopping=early_stopping,
            validation_fraction=validation_fraction, beta_1=beta_1, beta_2=beta_2, epsilon=epsilon,
            n_iter_no_change=n_iter_no_change, max_fun=max_fun,
        )  # fmt: skip
        self.rung, self.delta = rung, delta
        self.dropout, self.batch_norm, self.weight_decay, self.schedule = dropout, batch_norm, weight_decay, schedule
        self.initial = initial

    def _validate_input(self, *arguments: Any, **options: Any) -> tuple[Any, np.ndarray]:
        """Samples and targets as arrays of numbers; this extends scikit-learn's method of the same name."""
        x, y = super()._validate_input(*arguments, **options)
        return x, _targets(y, "y")

    def _encoded(self, y: Any) -> np.ndarray:
        y = _targets(np.asarray(y), "y_val")
        y = check_array(y, ensure_2d=False, dtype=np.float64)
        return y[:, None] if y.ndim == 1 else y

    def _own_loss(self) -> str | None:
        return f"loss={self.loss!r}" if self.loss in ("absolute_error", "huber") else None

    def _goals(self, y: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            goals = np.ascontiguousarray(y, np.float32)
        if not np.isfinite(goals).all():
            raise ValueError("y holds numbers beyond the range of float32, in which rungs train: scale the targets")
        return goals

    def _seen(self, goals: np.ndarray) -> np.ndarray:
        return goals

    def _net(self, units: list[int]) -> Net:
        from ..nets import HuberLoss, L1Loss, MSELoss
        from .network import perceptron

        known = {"absolute_error": L1Loss(), "huber": HuberLoss(delta=float(self.delta))}
        return perceptron(units, self.activation, known.get(self.loss, MSELoss()), self.dropout, self.batch_norm)

    def _factors(self) -> tuple[float, float]:
        """Ratios of scikit-learn's loss and gradient to the net's: its squared error is half of MSELoss, and its
        gradients are of sums over the outputs.
        """
        return (0.5, self.n_outputs_ / 2) if self.loss == "squared_error" else (1.0, float(self.n_outputs_))

    def _beyond_goals(self, y: np.ndarray) -> str | None:
        return f"no rung has the loss {self.loss!r}" if self.loss == "poisson" else None


def _targets(y: np.ndarray, name: str) -> np.ndarray:
    """Targets, after a check that they are numbers: neither texts nor dates, which NumPy may convert."""
    if y.dtype.kind in "USmM":
        raise ValueError(f"{name} holds {'dates or times' if y.dtype.kind in 'mM' else 'texts'}: targets are numbers")
    return y
