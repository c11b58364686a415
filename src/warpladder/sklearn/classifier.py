"""`MLPClassifier`: scikit-learn's, trained on a rung."""

from __future__ import annotations

import inspect
import warnings
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier as Theirs

from ..errors import ConfigError, RungError

if TYPE_CHECKING:
    from ..config import TrainConfig
    from ..optimizers import Optimizer

AUTO = "auto"
#: Rung of a fit that scikit-learn's own arithmetic does.
OWN = "scikit-learn"
EXPECTED_EPOCHS = 50  # of a fit that may stop early, for the choice of a rung
#: Costs of scikit-learn's arithmetic, as `Cost` in train/auto.py has them: seconds of a step, FLOP and parameter.
STEP, FLOP, PARAMETER = 8e-4, 2.5e-11, 1.6e-8
IMPORT = 0.35  # seconds in which the rungs are imported, once in a process

#: Parameters of the method that is replaced: another scikit-learn may have others.
_FIT = ["self", "X", "y", "sample_weight", "activations", "deltas", "coef_grads", "intercept_grads", "layer_units",
        "incremental"]  # fmt: skip


class MLPClassifier(Theirs):
    """Multi-layer perceptron classifier: scikit-learn's, with each epoch trained by a rung of the ladder.

    Every parameter, attribute and method is that of `sklearn.neural_network.MLPClassifier`; what differs:

    - Rungs train in float32. Initial weights are scikit-learn's for the same `random_state`; the order of the samples
      is warpladder's, unless `shuffle=False`. The penalty `alpha` acts on intercepts too.
    - Two classes train two outputs, whose difference is the logit that `coefs_` gives.

    Parameters
    ----------
    rung : str
        "auto" takes what should be done first, cold start included: a rung, or for a few samples scikit-learn's own
        arithmetic; to that it leaves what no rung can train (lbfgs, tanh and logistic, several labels, sample weights).
        A rung by name, as "native", refuses these. A sparse matrix stays with scikit-learn, a rung by name makes it
        dense.

    Attributes
    ----------
    rung_ : str
        Rung that trained; "scikit-learn" for its own arithmetic.
    rung_reason_ : str
        Reason why it was taken.
    """

    rung_: str
    rung_reason_: str
    _parameter_constraints: ClassVar[dict[str, Any]] = {**Theirs._parameter_constraints, "rung": [str]}

    def __init__(
        self,
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
    ) -> None:
        super().__init__(
            hidden_layer_sizes, activation, solver=solver, alpha=alpha, batch_size=batch_size,
            learning_rate=learning_rate, learning_rate_init=learning_rate_init, power_t=power_t, max_iter=max_iter,
            shuffle=shuffle, random_state=random_state, tol=tol, verbose=verbose, warm_start=warm_start,
            momentum=momentum, nesterovs_momentum=nesterovs_momentum, early_stopping=early_stopping,
            validation_fraction=validation_fraction, beta_1=beta_1, beta_2=beta_2, epsilon=epsilon,
            n_iter_no_change=n_iter_no_change, max_fun=max_fun,
        )  # fmt: skip
        self.rung = rung

    def _fit_lbfgs(self, *arguments: Any) -> None:
        self._leave("lbfgs needs the loss of all samples at weights of its choice")
        super()._fit_lbfgs(*arguments)

    def _fit_stochastic(self, X: Any, y: np.ndarray, sample_weight: Any, *buffers: Any) -> None:
        """Train: in place of scikit-learn's method of this name."""
        layer_units, incremental = buffers[-2:]
        self._choose(X, y, sample_weight, layer_units, incremental)
        if self.verbose:
            print(f"Rung {self.rung_}: {self.rung_reason_}")
        if self.rung_ == OWN:
            super()._fit_stochastic(X, y, sample_weight, *buffers)
            return
        if self.early_stopping and incremental:
            raise ValueError("partial_fit does not support early_stopping=True")
        X = X if isinstance(X, np.ndarray) else X.toarray()
        labels = y.argmax(axis=1) if y.shape[1] > 1 else y.ravel().astype(np.int32)
        held: Any = (None, None)
        if self.early_stopping:
            X, held_x, labels, held_y = train_test_split(
                X, labels, random_state=self._random_state, test_size=self.validation_fraction, stratify=labels
                if y.shape[1] == 1 else None,
            )  # fmt: skip
            if held_x.shape[0] < 2:
                raise ValueError(
                    "The validation set is too small. Increase 'validation_fraction' or the size of your dataset."
                )
            held = (held_x, self.classes_[held_y])
        self._train(X, labels, held, layer_units, incremental)

    def _train(self, x: np.ndarray, labels: np.ndarray, held: Any, units: list[int], incremental: bool) -> None:
        """Epochs until no progress, max_iter or, in `partial_fit`, one."""
        from ..ladder import find
        from .epochs import Fit
        from .network import perceptron

        if self.batch_size != "auto" and self.batch_size > len(x):
            warnings.warn(
                "Got `batch_size` less than 1 or larger than sample size. It is going to be clipped", stacklevel=4
            )
        net = perceptron(units, self.activation)
        config = self._config(len(x)).but(seed=int(self._random_state.randint(2**31 - 1)) if self.shuffle else 0)
        rung = find(self.rung_)
        if (why := rung.unsupported(net, config)) is not None:
            raise RungError(f"rung {rung.name!r} cannot train this perceptron: {why}")
        fit = Fit(self, net, config, rung, x, labels, held, incremental)
        try:
            fit.run()
        except KeyboardInterrupt:
            warnings.warn("Training interrupted by user.", stacklevel=3)
        finally:
            fit.close()
        if not incremental and self.n_iter_ == self.max_iter and not fit.stopped:
            warnings.warn(
                f"Stochastic Optimizer: Maximum iterations ({self.max_iter}) reached and the optimization hasn't "
                "converged yet.",
                ConvergenceWarning,
                stacklevel=3,
            )
        if self.early_stopping:
            self.coefs_, self.intercepts_ = self._best_coefs, self._best_intercepts

    def _choose(self, x: Any, y: np.ndarray, sample_weight: Any, units: list[int], incremental: bool) -> None:
        """Set `rung_` and `rung_reason_`. A fit in parts keeps the rung that it began with."""
        began = "_optimizer" if getattr(self, "rung_", "") == OWN else "_slots"
        if incremental and hasattr(self, began) and (sample_weight is None or self.rung_ == OWN):
            return
        samples, epochs = x.shape[0], min(self.max_iter, EXPECTED_EPOCHS)
        seconds = self._their_seconds(samples, epochs, units)
        if (reason := self._beyond(x, y, sample_weight)) is not None:
            self._leave(reason)
        elif self.rung == AUTO and seconds < IMPORT:
            self.rung_ = OWN
            self.rung_reason_ = f"{seconds:.1g} s by estimate, cold start included, in which no rung is imported"
        elif (reason := self._no_optimizer()) is not None:
            self._leave(reason)
        elif self.rung != AUTO:
            self.rung_, self.rung_reason_ = self.rung, "requested"
        else:
            from ..train.auto import Cost, fastest
            from .network import perceptron

            theirs = Cost(OWN, -IMPORT, STEP, FLOP, PARAMETER)
            net, config = perceptron(units, self.activation), self._config(samples)
            self.rung_, self.rung_reason_ = fastest(net, config, samples, epochs, [theirs])

    def _their_seconds(self, samples: int, epochs: int, units: list[int]) -> float:
        """Seconds that scikit-learn's arithmetic should take."""
        weights = sum(a * b for a, b in pairwise(units))
        steps = epochs * -(-samples // self._batch(samples))
        return steps * (STEP + PARAMETER * weights) + epochs * samples * 6 * weights * FLOP

    def _batch(self, samples: int) -> int:
        return min(200 if self.batch_size == "auto" else int(self.batch_size), samples)

    def _config(self, samples: int) -> TrainConfig:
        from ..config import TrainConfig

        size = self._batch(samples)
        return TrainConfig(
            epochs=self.max_iter, batch_size=size, optimizer=self._optimizer_of(size), shuffle=self.shuffle
        )

    def _optimizer_of(self, batch: int) -> Optimizer:
        from ..optimizers import SGD, Adam

        decay = self.alpha / batch
        if self.solver == "adam":
            return Adam(
                learning_rate=self.learning_rate_init, betas=(self.beta_1, self.beta_2), eps=self.epsilon,
                weight_decay=decay,
            )  # fmt: skip
        nesterov = bool(self.nesterovs_momentum and self.momentum > 0)
        return SGD(learning_rate=self.learning_rate_init, momentum=self.momentum, nesterov=nesterov, weight_decay=decay)

    def _beyond(self, x: Any, y: np.ndarray, sample_weight: Any) -> str | None:
        """Reason why no rung can train this; None if one can."""
        if self.activation not in ("relu", "identity"):
            return f"no rung has the activation {self.activation!r} yet"
        if sample_weight is not None:
            return "no rung takes sample weights yet"
        if self._label_binarizer.y_type_.startswith("multilabel"):
            return "no rung trains several labels of a sample yet"
        if not isinstance(x, np.ndarray) and self.rung == AUTO:
            return "a rung would make the sparse matrix dense"
        if y.shape[1] > 1 and not (y.sum(axis=1) == 1).all():
            return "a sample has no class"
        return None

    def _no_optimizer(self) -> str | None:
        """Reason why no optimizer has these settings; None if one has."""
        try:
            self._optimizer_of(1)
        except ConfigError as error:
            return str(error)
        return None

    def _leave(self, reason: str) -> None:
        """Leave the fit to scikit-learn's arithmetic, if no rung was named."""
        if self.rung != AUTO:
            raise RungError(
                f"rung {self.rung!r} cannot train this: {reason}; rung='auto' takes scikit-learn's arithmetic"
            )
        self.rung_, self.rung_reason_ = OWN, reason


if list(inspect.signature(Theirs._fit_stochastic).parameters) != _FIT:
    raise ImportError("warpladder.sklearn wants scikit-learn 1.7 to 1.9: another one trains its perceptron otherwise")
