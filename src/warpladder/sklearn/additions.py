"""`Additions`: parameters that scikit-learn's perceptrons lack, for layers, initial weights and learning rates."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

if TYPE_CHECKING:
    from ..optimizers.schedules import Schedule

#: Constraints of the parameters, by name: of every estimator, and of perceptrons.
RATES: dict[str, Any] = {
    "weight_decay": [Interval(Real, 0, None, closed="left")],
    "schedule": [str, HasMethods(["rates", "described"]), None],
}
INITIAL: dict[str, Any] = {"initial": [StrOptions({"he", "glorot", "pytorch"}), None]}
LAYERS: dict[str, Any] = {"dropout": [Interval(Real, 0, 1, closed="left")], "batch_norm": ["boolean"]}


class Additions:
    """Base class of estimators with these parameters; those that a derived class lacks keep these values.

    Attributes
    ----------
    _raw, _best_raw : pair of ndarray or None
        Parameters (param_count,) and running statistics (buffer_count,) of a net with normalisations, of the last epoch
        and of the best one: `coefs_` and `intercepts_` have the normalisation multiplied in.
    """

    dropout: float = 0.0
    batch_norm: bool = False
    weight_decay: float = 0.0
    schedule: Any = None
    initial: str | None = None
    solver: str
    alpha: float
    max_iter: int
    learning_rate_init: float
    learning_rate: str
    coefs_: list[np.ndarray]
    _random_state: np.random.RandomState
    _raw: tuple[np.ndarray, np.ndarray] | None = None
    _best_raw: tuple[np.ndarray, np.ndarray] | None = None

    def _asked(self) -> str | None:
        """First of the additions that is used, as text; None if there is none."""
        used = {name: getattr(self, name) for name in (*LAYERS, *RATES)}
        return next((f"{name}={value!r}" for name, value in used.items() if value), None)

    def _check_additions(self, incremental: bool, layer_units: list[int]) -> None:
        """Raise `ValueError` if parameters do not go together, or not with the weights from which the fit goes on."""
        self._check_weights(layer_units)
        if self.weight_decay and self.solver != "adam":
            raise ValueError(f"weight_decay={self.weight_decay} makes solver='adam' AdamW: {self.solver!r} has none")
        if self.schedule and self.solver == "sgd" and self.learning_rate != "constant":
            raise ValueError(f"schedule takes the place of learning_rate={self.learning_rate!r}: give one of them")
        if self.schedule and incremental:
            raise ValueError("schedule has max_iter epochs from the first to the last, which partial_fit does not know")
        if self.schedule and (warmup := self._schedule().warmup) > self.max_iter:
            warnings.warn(
                f"the warm-up of {warmup:g} epochs is longer than max_iter={self.max_iter}: the learning rate never "
                f"comes to {self.learning_rate_init:g}",
                stacklevel=5,
            )

    def _check_weights(self, layer_units: list[int]) -> None:
        """Raise `ValueError` if the weights from which a fit goes on have not these widths, features to outputs."""
        widths = [*map(len, self.coefs_), self.coefs_[-1].shape[1]]
        if widths != list(layer_units):
            raise ValueError(
                f"the fit before has widths {widths}, features to outputs, this one wants {list(layer_units)}: keep "
                "hidden_layer_sizes and the targets as they were, or fit anew, without warm_start and partial_fit"
            )

    def _draw(self, rule: str, layer_units: list[int], dtype: Any) -> None:
        """Draw initial `coefs_` and `intercepts_` by a rule, in place of scikit-learn's."""
        from ..nets import MSELoss
        from ..nets.params import initial
        from .network import coefs_of, perceptron

        net = perceptron(layer_units, "identity", MSELoss())
        params = initial(net, int(self._random_state.randint(2**31 - 1)), rule).astype(dtype)
        self.coefs_, self.intercepts_ = coefs_of(net, params, layer_units[-1])
        self._best_coefs = [coef.copy() for coef in self.coefs_]
        self._best_intercepts = [bias.copy() for bias in self.intercepts_]

    @property
    def _penalty_factor(self) -> float:
        """Factor of the L2 penalty: `alpha`, whose place `weight_decay` takes."""
        return 0.0 if self.weight_decay else self.alpha

    def _schedule(self) -> Schedule:
        """Schedule of the learning rate. Raises `ConfigError` for a text that names none."""
        from ..config.spelling import read
        from ..optimizers.schedules import Constant, Schedule

        return (
            read(Schedule, self.schedule or "constant", Constant())
            if isinstance(self.schedule or "", str)
            else self.schedule
        )
