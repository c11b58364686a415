"""`MLPClassifier`: scikit-learn's classifier, trained on a rung."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.neural_network import MLPClassifier as Theirs
from sklearn.utils import column_or_1d
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.class_weight import compute_sample_weight

from .additions import INITIAL, LAYERS, RATES
from .perceptron import AUTO, RungPerceptron

if TYPE_CHECKING:
    from ..nets import Net


class MLPClassifier(RungPerceptron, Theirs):
    """Multi-layer perceptron classifier of scikit-learn, with each epoch trained by a rung of the ladder.

    Parameters, attributes and methods are those of `sklearn.neural_network.MLPClassifier`. Differences:

    - Rungs train in float32. Initial weights are scikit-learn's for the same `random_state`; the order of the samples
      is warpladder's, unless `shuffle=False`. The penalty `alpha` acts on intercepts too.
    - Two classes train two outputs; `coefs_` gives their difference, the logit.

    Parameters
    ----------
    rung : str
        "auto" takes the fastest by estimate, with its start: a rung, or for a few samples scikit-learn's own
        arithmetic. scikit-learn also trains what no rung can (lbfgs, weights below 0), and sparse matrices.
        A named rung, as "native", refuses the former, and makes a sparse matrix dense.
    class_weight : dict, "balanced" or None
        Factors of the samples' weights, by class; "balanced" gives all classes equal weight.
    dropout : float
        Probability that an output of a hidden layer is dropped in training, 0 to below 1.
    batch_norm : bool
        True normalises each hidden layer before its activation, as `BatchNorm1d`. `coefs_` and `intercepts_` have the
        running statistics multiplied in, so that predictions are scikit-learn's. A last batch of one sample, which has
        no variance, is left out.
    weight_decay : float
        Above 0 solver="adam" is AdamW with this decay, as `torch.optim.AdamW` has it, and no penalty `alpha`.
    schedule : Schedule, str or None
        Schedule of the learning rate over max_iter epochs, as `wl.Cosine(warmup=1)` or "onecycle:pct_start=0.2".
    initial : {"he", "glorot", "pytorch"} or None
        Rule of the initial weights, as `TrainConfig(initial=...)`; None draws scikit-learn's.

    Attributes
    ----------
    rung_ : str
        Rung that trained; "scikit-learn" for its own arithmetic.
    rung_reason_ : str
        Reason for this rung.
    validation_loss_curve_ : list of float or None
        Loss on the held-out samples (X_val, or those of `early_stopping`) after each epoch, without the
        penalty; None without held-out samples, or if scikit-learn's own arithmetic trained.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Theirs._parameter_constraints,
        **LAYERS,
        **RATES,
        **INITIAL,
        "rung": [str],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

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
        class_weight: Any = None,
        dropout: float = 0.0,
        batch_norm: bool = False,
        weight_decay: float = 0.0,
        schedule: Any = None,
        initial: str | None = None,
    ) -> None:
        super().__init__(
            hidden_layer_sizes, activation, solver=solver, alpha=alpha, batch_size=batch_size,
            learning_rate=learning_rate, learning_rate_init=learning_rate_init, power_t=power_t, max_iter=max_iter,
            shuffle=shuffle, random_state=random_state, tol=tol, verbose=verbose, warm_start=warm_start,
            momentum=momentum, nesterovs_momentum=nesterovs_momentum, early_stopping=early_stopping,
            validation_fraction=validation_fraction, beta_1=beta_1, beta_2=beta_2, epsilon=epsilon,
            n_iter_no_change=n_iter_no_change, max_fun=max_fun,
        )  # fmt: skip
        self.rung, self.class_weight = rung, class_weight
        self.dropout, self.batch_norm, self.weight_decay, self.schedule = dropout, batch_norm, weight_decay, schedule
        self.initial = initial

    def _validate_input(self, *arguments: Any, **options: Any) -> tuple[Any, np.ndarray]:
        """Samples and encoded labels, with a warning of dates; this extends scikit-learn's method of the same name."""
        x, y = super()._validate_input(*arguments, **options)
        if self.classes_.dtype.kind in "UOmM":
            from ..data.labels import warn_of_dates

            warn_of_dates(self.classes_.astype(str).tolist(), "y: its labels")
        return x, y

    @property
    def _has_several_labels(self) -> bool:
        return bool(self._label_binarizer.y_type_.startswith("multilabel"))

    def _encoded(self, y: Any) -> np.ndarray:
        y = column_or_1d(y) if not self._has_several_labels else y
        if not self._has_several_labels and (unknown := np.setdiff1d(y, self.classes_)).size:
            raise ValueError(f"y_val has labels that y has not: {unknown[:5].tolist()}")
        return np.asarray(self._label_binarizer.transform(y))

    def _weighted(self, y: np.ndarray, sample_weight: Any, incremental: bool) -> Any:
        if self.class_weight is None:
            return sample_weight
        if self._has_several_labels:
            raise ValueError("class_weight is for samples with one label each: give sample_weight")
        if incremental and isinstance(self.class_weight, str):
            raise ValueError(
                "class_weight='balanced' wants all samples at once: for partial_fit give a dict of weights"
            )
        labels = self.classes_[y.argmax(axis=1) if y.shape[1] > 1 else y.ravel().astype(int)]
        weight = compute_sample_weight(self.class_weight, labels)
        if not (np.isfinite(weight).all() and weight.any()):
            raise ValueError(f"class_weight={self.class_weight!r}: wants finite numbers, not all of them 0")
        return weight if sample_weight is None else weight * sample_weight

    def _factors(self) -> tuple[float, float]:
        """Ratios of scikit-learn's loss and gradient to the net's: with several labels scikit-learn sums over the
        outputs, and BCEWithLogitsLoss takes their mean.
        """
        return (float(self.n_outputs_),) * 2 if self._has_several_labels else (1.0, 1.0)

    def _goals(self, y: np.ndarray) -> np.ndarray:
        if self._has_several_labels:
            return np.ascontiguousarray(y, np.float32)
        return y.argmax(axis=1).astype(np.int32) if y.shape[1] > 1 else y.ravel().astype(np.int32)

    def _seen(self, goals: np.ndarray) -> np.ndarray:
        return goals.astype(int) if self._has_several_labels else self.classes_[goals]

    def _net(self, units: list[int]) -> Net:
        from ..nets import BCEWithLogitsLoss, CrossEntropyLoss
        from .network import perceptron

        if self._has_several_labels:
            return perceptron(units, self.activation, BCEWithLogitsLoss(), self.dropout, self.batch_norm)
        widths = [*units[:-1], max(2, units[-1])]
        return perceptron(widths, self.activation, CrossEntropyLoss(), self.dropout, self.batch_norm)

    def _beyond_goals(self, y: np.ndarray) -> str | None:
        if self._has_several_labels:
            return None
        if y.shape[1] > 1 and not (y.sum(axis=1) == 1).all():
            return "a sample has no class"
        return None
