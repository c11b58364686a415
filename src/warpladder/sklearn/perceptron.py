"""`RungPerceptron`: the fit of scikit-learn's perceptrons, with each epoch trained by a rung."""

from __future__ import annotations

import inspect
import warnings
from abc import abstractmethod
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network._multilayer_perceptron import BaseMultilayerPerceptron

from ..errors import ConfigError, RungError
from .additions import Additions
from .callbacks import Callbacks, CallbackSupportMixin, StoppedByCallback
from .samples import Samples, given, note_held_out

if TYPE_CHECKING:
    from ..config import TrainConfig
    from ..nets import Net
    from ..optimizers import Optimizer

AUTO = "auto"
#: Name of scikit-learn's own arithmetic, in place of a rung.
OWN = "scikit-learn"
EXPECTED_EPOCHS = 50  # expected epochs of a fit that may stop early, for the choice of a rung
#: Costs of scikit-learn's arithmetic, as in `Cost` of train/auto.py: seconds of a step, FLOP and parameter.
STEP, FLOP, PARAMETER = 8e-4, 2.5e-11, 1.6e-8
IMPORT = 0.35  # seconds to import the rungs, once in a process

#: Parameters of the replaced method, which may differ in another version of scikit-learn.
_FIT = ["self", "X", "y", "sample_weight", "activations", "deltas", "coef_grads", "intercept_grads", "layer_units",
        "incremental"]  # fmt: skip


class RungPerceptron(Additions, CallbackSupportMixin, BaseMultilayerPerceptron):
    """Base class of the estimators, which replaces scikit-learn's methods that train its perceptrons.

    Derived classes define the differences between labels and targets.
    """

    rung: str
    rung_: str
    rung_reason_: str
    validation_loss_curve_: list[float] | None
    _given: tuple[Any, Any] | None = None  # X_val and y_val of a fit in progress
    _callbacks: Callbacks | None = None  # callbacks of a fit in progress

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, X_val: Any = None, y_val: Any = None) -> Any:
        """Fit the perceptron to samples.

        Parameters
        ----------
        X, y, sample_weight
            Arguments of scikit-learn's `fit`.
        X_val, y_val : array_like or None
            Held-out samples: `validation_loss_curve_` is the loss on them after each epoch, and `early_stopping` uses
            them instead of a part of X.
        """
        if (X_val is None) != (y_val is None):
            raise ValueError("X_val and y_val are given together, or neither of them")
        self._given = None if X_val is None else (X_val, y_val)
        try:
            return super().fit(X, y, sample_weight)
        finally:
            del self._given

    def _fit(self, X: Any, y: Any, sample_weight: Any = None, incremental: bool = False) -> Any:
        """Fit to samples as the user gave them, and call the callbacks of scikit-learn; this extends its method."""
        rows = self._rows(X, begins=not incremental or not hasattr(self, "coefs_"))
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        epochs = 0 if self.solver == "lbfgs" else 1 if incremental else self.max_iter
        task = "partial_fit" if incremental else "fit"
        try:
            self._callbacks = Callbacks(self, task, epochs, {"X": X, "y": y, "metadata": metadata})
            super()._fit(rows, y, sample_weight, incremental)
            self._callbacks.end()
        finally:
            self.__dict__.pop("_callbacks", None)
        return self

    def _rows(self, X: Any, begins: bool = False) -> Any:
        """Samples as rows (samples, features). begins : True for the first samples of a fit."""
        return X

    def _backprop(self, *arguments: Any) -> Any:
        """Loss and gradients of a batch by scikit-learn; the first of an epoch calls the callbacks."""
        if self._callbacks is not None:
            self._callbacks.begin_epoch()
        return super()._backprop(*arguments)

    def _update_no_improvement_count(self, *arguments: Any) -> None:
        """End an epoch of either arithmetic: note its score or loss, and call the callbacks."""
        best = self._best_coefs
        super()._update_no_improvement_count(*arguments)
        if self._best_coefs is not best:
            self._best_raw = self._raw
        if self.early_stopping and self.rung_ == OWN:
            note_held_out(self, *arguments[1:])
        if self._callbacks is not None:
            self._callbacks.end_epoch()

    @abstractmethod
    def _goals(self, y: np.ndarray) -> np.ndarray:
        """Labels (samples,) int32, or targets (samples, outputs) float32, as a net needs them; y is 2-d."""

    @abstractmethod
    def _seen(self, goals: np.ndarray) -> np.ndarray:
        """Labels or targets of held-out samples in the form that `score` takes."""

    @abstractmethod
    def _encoded(self, y: Any) -> np.ndarray:
        """Labels or targets of held-out samples, 2-d, encoded like those of `fit`."""

    def _weighted(self, y: np.ndarray, sample_weight: Any, incremental: bool) -> Any:
        """Weights (samples,) multiplied by the weights of the classes, or None; y is 2-d."""
        return sample_weight

    def _own_loss(self) -> str | None:
        """Name of the loss if scikit-learn's arithmetic lacks it, else None."""
        return None

    def _rung_alone(self) -> str | None:
        """Name of a setting that rungs alone compute, not scikit-learn's arithmetic; None without one."""
        return "X_val" if self._given is not None else self._asked() or self._own_loss()

    @abstractmethod
    def _net(self, units: list[int]) -> Net:
        """Net of a perceptron with these widths, from features to outputs."""

    def _weights(self, net: Net) -> tuple[np.ndarray, np.ndarray | None]:
        """Flat parameters (param_count,) and running statistics (buffer_count,) of the net, or None without any."""
        from ..nets.params import initial_buffers
        from .network import flat_weights

        if self._raw is not None and len(self._raw[0]) == net.param_count:  # batch_norm may have changed
            return self._raw
        flat = flat_weights(net, self.coefs_, self.intercepts_)
        return flat, initial_buffers(net) if net.normalizes else None

    def _arrays(
        self, net: Net, params: np.ndarray, buffers: np.ndarray | None
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Lists `coefs_` and `intercepts_` of flat parameters (param_count,) and running statistics (buffer_count,)."""
        from .network import coefs_of

        return coefs_of(net, params, self.n_outputs_, buffers)

    def _initialize(self, y: np.ndarray, layer_units: list[int], dtype: Any) -> None:
        super()._initialize(y, layer_units, dtype)
        self._raw = self._best_raw = None
        if self.initial is not None:
            self._draw(self.initial, layer_units, dtype)

    def _factors(self) -> tuple[float, float]:
        """Ratio of scikit-learn's loss to the net's, and of the gradients."""
        return 1.0, 1.0

    @abstractmethod
    def _beyond_goals(self, y: np.ndarray) -> str | None:
        """Reason why no rung can train on these labels or targets (samples, outputs); None if one can."""

    def _fit_lbfgs(self, *arguments: Any) -> None:
        self._leave("lbfgs needs the loss of all samples at weights of its choice")
        super()._fit_lbfgs(*arguments)

    def _fit_stochastic(self, X: Any, y: np.ndarray, sample_weight: Any, *buffers: Any) -> None:
        """Train the perceptron; this replaces scikit-learn's method of the same name."""
        layer_units, incremental = buffers[-2:]
        sample_weight = self._weighted(y, sample_weight, incremental)
        self.validation_loss_curve_ = None
        self._check_additions(incremental, layer_units)
        self._choose(X, y, sample_weight, layer_units, incremental)
        if self.verbose:
            print(f"Rung {self.rung_}: {self.rung_reason_}")
        if self.rung_ == OWN:
            try:
                super()._fit_stochastic(X, y, sample_weight, *buffers)
            except StoppedByCallback:
                self._keep_best()
            return
        if self.early_stopping and incremental:
            raise ValueError("partial_fit does not support early_stopping=True")
        X = X if isinstance(X, np.ndarray) else X.toarray()
        goals = self._goals(y)
        trained, held = self._parts(X, goals, y, sample_weight)
        self._train(trained, held, layer_units, incremental)

    def _parts(self, x: np.ndarray, goals: np.ndarray, y: np.ndarray, weight: Any) -> tuple[Samples, Samples | None]:
        """Training samples, and held-out samples or None."""
        if self._given is not None:
            return Samples(x, goals, weight), given(self, *self._given, goals)
        if not self.early_stopping:
            return Samples(x, goals, weight), None
        strata = y if is_classifier(self) and y.shape[1] == 1 else None
        at, held_at = train_test_split(
            np.arange(len(x)), random_state=self._random_state, test_size=self.validation_fraction, stratify=strata
        )
        if len(held_at) < 2:
            raise ValueError(
                "The validation set is too small. Increase 'validation_fraction' or the size of your dataset."
            )
        weights = (None, None) if weight is None else (weight[at], weight[held_at])
        return Samples(x[at], goals[at], weights[0]), Samples(x[held_at], goals[held_at], weights[1])

    def _train(self, samples: Samples, held: Samples | None, units: list[int], incremental: bool) -> None:
        """Train epochs until the loss stops improving, or max_iter epochs; in `partial_fit` one epoch."""
        from ..ladder import find
        from .epochs import Fit

        x = samples.x

        if self.batch_size != "auto" and self.batch_size > len(x):
            warnings.warn(
                "Got `batch_size` less than 1 or larger than sample size. It is going to be clipped", stacklevel=4
            )
        net = self._net(units)
        config = self._config(len(x), samples.mean_weight).but(
            seed=int(self._random_state.randint(2**31 - 1)) if self.shuffle or net.is_random else 0,
            drop_last=0 < len(x) % self._batch(len(x)) < net.least_batch,
        )
        rung = find(self.rung_)
        if (why := rung.unsupported(net, config)) is not None:
            raise RungError(f"rung {rung.name!r} cannot train this perceptron: {why}")
        fit = Fit(self, net, config, rung, samples, held, incremental)
        try:
            fit.run()
        except StoppedByCallback:
            fit.stopped = True
            fit.end()
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
        self._keep_best()

    def _keep_best(self) -> None:
        """Restore the weights of the best epoch if `early_stopping` is set."""
        if self.early_stopping:
            self.coefs_, self.intercepts_, self._raw = self._best_coefs, self._best_intercepts, self._best_raw

    def _choose(self, x: Any, y: np.ndarray, sample_weight: Any, units: list[int], incremental: bool) -> None:
        """Set `rung_` and `rung_reason_`. A fit in parts keeps its first rung."""
        began = "_optimizer" if getattr(self, "rung_", "") == OWN else "_slots"
        if incremental and hasattr(self, began):
            return
        only = self._rung_alone()
        samples, epochs = x.shape[0], min(self.max_iter, EXPECTED_EPOCHS)
        seconds = self._their_seconds(samples, epochs, units)
        if (reason := self._beyond(x, y, sample_weight)) is not None:
            self._leave(reason)
        elif self.rung == AUTO and seconds < IMPORT and only is None:
            self.rung_ = OWN
            self.rung_reason_ = f"{seconds:.1g} s by estimate, cold start included, in which no rung is imported"
        elif (reason := self._no_optimizer()) is not None:
            self._leave(reason)
        elif self.rung != AUTO:
            self.rung_, self.rung_reason_ = self.rung, "requested"
        else:
            from ..train.auto import Cost, fastest

            theirs = [Cost(OWN, -IMPORT, STEP, FLOP, PARAMETER)] if only is None else []
            net, config = self._net(units), self._config(samples)
            self.rung_, self.rung_reason_ = fastest(net, config, samples, epochs, theirs, x)

    def _their_seconds(self, samples: int, epochs: int, units: list[int]) -> float:
        """Estimated seconds of a fit by scikit-learn's arithmetic."""
        weights = sum(a * b for a, b in pairwise(units))
        steps = epochs * -(-samples // self._batch(samples))
        return steps * (STEP + PARAMETER * weights) + epochs * samples * 6 * weights * FLOP

    def _batch(self, samples: int) -> int:
        return min(200 if self.batch_size == "auto" else int(self.batch_size), samples)

    def _config(self, samples: int, mean_weight: float = 1.0) -> TrainConfig:
        from ..config import TrainConfig

        size = self._batch(samples)
        return TrainConfig(
            epochs=min(self.max_iter, 2**31 - 1),
            batch_size=size,
            optimizer=self._optimizer_of(size * mean_weight),
            shuffle=self.shuffle,
            schedule=self._schedule(),
        )

    def _optimizer_of(self, batch: float) -> Optimizer:
        from ..optimizers import SGD, Adam, AdamW

        _, factor = self._factors()  # factor of gradients: it scales steps of SGD, but not of Adam
        rate, decay = float(self.learning_rate_init), float(self._penalty_factor) / batch / factor  # NumPy's too
        if self.solver == "adam":
            return (AdamW if self.weight_decay else Adam)(
                learning_rate=rate, betas=(float(self.beta_1), float(self.beta_2)), eps=float(self.epsilon) / factor,
                weight_decay=float(self.weight_decay) or decay,
            )  # fmt: skip
        nesterov = bool(self.nesterovs_momentum and self.momentum > 0)
        return SGD(
            learning_rate=rate * factor, momentum=float(self.momentum), nesterov=nesterov,
            weight_decay=decay,
        )  # fmt: skip

    def _beyond(self, x: Any, y: np.ndarray, sample_weight: Any) -> str | None:
        """Reason why no rung can train this fit; None if one can."""
        if sample_weight is not None and not (np.min(sample_weight) >= 0 and np.any(sample_weight)):
            return "a weight of a sample is below 0, or all are 0"
        if not isinstance(x, np.ndarray) and self.rung == AUTO:
            return "a rung would make the sparse matrix dense (a named one does)"
        return self._beyond_goals(y)

    def _no_optimizer(self) -> str | None:
        """Reason why no optimizer has these settings; None if one has."""
        try:
            self._optimizer_of(1)
        except ConfigError as error:
            return str(error)
        return None

    def _leave(self, reason: str) -> None:
        """Let scikit-learn's arithmetic fit, for this reason. Raises `RungError` if a rung was named."""
        if self.rung != AUTO:
            raise RungError(
                f"rung {self.rung!r} cannot train this: {reason}; rung='auto' takes scikit-learn's arithmetic"
            )
        only = self._rung_alone()
        if only is not None:
            raise RungError(
                f"{only} wants a rung, for scikit-learn's arithmetic lacks it, but no rung trains this: {reason}"
            )
        self.rung_, self.rung_reason_ = OWN, reason


if list(inspect.signature(BaseMultilayerPerceptron._fit_stochastic).parameters) != _FIT:
    raise ImportError("warpladder.sklearn wants scikit-learn 1.7 to 1.9: another one trains its perceptron otherwise")
