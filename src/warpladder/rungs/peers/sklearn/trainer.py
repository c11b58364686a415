"""Trainer by scikit-learn's MLPClassifier. docs/peers.md has the measurements for its settings."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.neural_network import MLPClassifier
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from ....config import TrainConfig
from ....data.dataset import pixels
from ....data.order import Order
from ....errors import RungError
from ....machine.facts import cores
from ....nets import Net
from ....nets.params import param_slices, views
from ....optimizers import Adam
from ....trainers.base import (
    State,
    StepLog,
    Trainer,
    check_fit,
    check_no_weights,
    check_range,
    check_samples,
    not_loaded,
)

if TYPE_CHECKING:
    from ....data.dataset import Dataset

#: Numbers of input in one call of partial_fit, or one batch: few calls, and rows that are still in the
#: cache.
BLOCK = 1 << 20


class Recorder(MLPClassifier):
    """MLPClassifier that records each batch's loss and number of correct samples; tune : called before each update."""

    log: list[tuple[float, int]]
    tune: Callable[[], None] | None = None

    def _backprop(self, X: np.ndarray, y: np.ndarray, *rest: Any) -> Any:
        found = super()._backprop(X, y, *rest)
        activations = next(each for each in rest if isinstance(each, list))
        labels = y.argmax(axis=1)
        right = activations[-1].argmax(axis=1) == labels
        loss = float(found[0])
        given = activations[-1][np.arange(len(labels)), labels]
        if given.min() < np.finfo(given.dtype).eps:  # scikit-learn's loss takes it for that number
            logits = activations[-2] @ self.coefs_[-1] + self.intercepts_[-1]
            logits -= logits.max(axis=1, keepdims=True)
            each = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(labels)), labels]
            loss = float(np.mean(each, dtype=np.float64))
        self.log.append((loss, int(np.count_nonzero(right))))
        if self.tune is not None:
            self.tune()
        return found


class SklearnTrainer(Trainer):
    """Trainer that calls `partial_fit` on consecutive blocks of gathered rows, batch by batch within a block."""

    def __init__(self, net: Net, config: TrainConfig, state: State, threads: int | None = None) -> None:
        self.net, self.config, self.threads = net, config, threads
        self.blas = ThreadpoolController()
        named = [place for place in param_slices(net) if len(place.shape) > 1]
        self.model = Recorder(
            hidden_layer_sizes=tuple(place.shape[0] for place in named[:-1]), alpha=0.0, batch_size=1,
            learning_rate_init=config.learning_rate, **solver(config.optimizer), shuffle=False, tol=0.0,
            n_iter_no_change=np.inf,
        )  # fmt: skip
        self.model.log, self.step = [], 0
        features, classes = named[0].shape[1], np.arange(net.out_shape[0])
        # it allocates at its first call; set_state overwrites the weights that result
        self.model.partial_fit(np.zeros((1, features), np.float32), classes[:1], classes=classes)
        self.x: np.ndarray | None = None
        self.held: dict[str, np.ndarray] | None = (
            None  # the slots as they were last given or taken; None once training has changed them
        )
        self.set_state(state)

    def load(self, dataset: Dataset) -> None:
        check_fit(self.net, dataset)
        check_no_weights(dataset, "sklearn")
        self.x, self.labels, self.scale = (
            dataset.train_x.reshape(len(dataset.train_x), -1),
            dataset.train_y,
            dataset.scale,
        )

    def run(self, order: Order, first: int, last: int) -> StepLog:
        if self.x is None or self.labels is None:
            raise not_loaded(self.net)
        n = len(self.x)
        check_range(self.config, order, n, first, last)
        batch = self.config.batch(n)
        rows = order.indices(first * batch, min(last * batch, n))
        block = max(1, BLOCK // (batch * self.x.shape[1])) * batch
        self.model.log, self.held = [], None
        if not self.config.steady:
            rates = iter(self.config.rates(self.step, self.step + last - first, n).tolist())
            self.model.tune = lambda: tune(self.model._optimizer, self.config.optimizer, next(rates))
        with self.blas.limit(limits=self.threads or cores(), user_api="blas"):
            for start in range(0, len(rows), block):
                some = rows[start : start + block]
                self.model.batch_size = min(batch, len(some))
                self._fit(pixels(self.x[some], self.scale), self.labels[some])
        if len(self.model.log) != last - first:
            found = f"{len(self.model.log)} batches where {last - first} were asked for"
            raise RungError(f"scikit-learn trained {found}: another version than this peer knows")
        self.step += last - first
        loss, correct = zip(*self.model.log, strict=True) if self.model.log else ((), ())
        sizes = np.minimum(batch, n - np.arange(first, last) * batch)
        return StepLog(np.array(loss, np.float64), np.array(correct, np.int64), sizes)

    def _fit(self, x: np.ndarray, y: np.ndarray) -> None:
        try:
            with warnings.catch_warnings():
                # MLPClassifier catches Ctrl-C: it warns and returns, and the caller would continue
                warnings.filterwarnings("error", "Training interrupted", UserWarning)
                self.model.partial_fit(x, y)
        except UserWarning as warning:
            if not isinstance(warning.__context__, KeyboardInterrupt):
                raise
            raise warning.__context__ from None
        except ValueError:
            if all(np.isfinite(a).all() for a in itertools.chain(self.model.coefs_, self.model.intercepts_)):
                raise  # weights that are not finite are for the log to tell

    def _tensors(self, weights: list[np.ndarray], biases: list[np.ndarray]) -> dict[str, np.ndarray]:
        """Tensors by the net's names and in its shapes; scikit-learn's weight matrices are (in, out)."""
        both = itertools.chain.from_iterable(zip((w.T for w in weights), biases, strict=True))
        return dict(zip((place.name for place in param_slices(self.net)), both, strict=True))

    @property
    def _params(self) -> dict[str, np.ndarray]:
        return self._tensors(self.model.coefs_, self.model.intercepts_)

    @property
    def _slots(self) -> dict[str, tuple[dict[str, np.ndarray], float]]:
        """Arrays of scikit-learn for each slot, and the factor by which it multiplies the slot."""
        kept, count = self.model._optimizer, len(self.model.coefs_)
        found = {"momentum_buffer": (kept.velocities, -self.config.learning_rate)} if self.model.solver == "sgd" else {
            "exp_avg": (kept.ms, 1.0), "exp_avg_sq": (kept.vs, 1.0),
        }  # fmt: skip
        return {name: (self._tensors(arrays[:count], arrays[count:]), scale) for name, (arrays, scale) in found.items()}

    def state(self) -> State:
        params = np.zeros(self.net.param_count, np.float32)
        for name, view in views(self.net, params).items():
            view[...] = self._params[name]
        if self.held is None:
            self.held = {slot: np.zeros_like(params) for slot in self.config.optimizer.slots}
            for slot, flat in self.held.items():
                tensors, scale = self._slots[slot]
                for name, view in views(self.net, flat).items():
                    view[...] = tensors[name] / scale
        return State(params, {slot: flat.copy() for slot, flat in self.held.items()}, self.step)

    def set_state(self, state: State) -> None:
        for name, view in views(self.net, state.params).items():
            self._params[name][...] = view
        held = self.state().slots
        for slot, (tensors, scale) in self._slots.items():
            # what it gave out itself is not rounded a second time; without momentum it multiplies its last step by 0,
            # be that NaN
            if slot not in held or not np.array_equal(state.slot(slot), held[slot]):
                for name, view in views(self.net, state.slot(slot)).items():
                    tensors[name][...] = view * scale
        self.held = {slot: np.array(state.slot(slot), np.float32) for slot in held}
        self.step = state.step
        if self.model.solver == "adam":
            self.model._optimizer.t = state.step

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        """Logits (n, outputs) of samples, computed from the weights: MLPClassifier returns only their softmax."""
        check_samples(self.net, x)
        last = len(self.model.coefs_) - 1
        a = pixels(x.reshape(len(x), math.prod(x.shape[1:])), scale)
        for i, (w, b) in enumerate(zip(self.model.coefs_, self.model.intercepts_, strict=True)):
            a = a @ w + b
            if i < last:
                np.maximum(a, 0, out=a)
        return a

    def memory(self) -> dict[str, int]:
        weights = 4 * self.net.param_count
        held = {"parameters": weights, "optimizer": weights * len(self._slots)}
        if self.x is not None and self.labels is not None:
            held["data"] = self.x.nbytes + self.labels.nbytes
        return held

    def close(self) -> None:
        self.x = None


def solver(optimizer: Any) -> dict[str, Any]:
    """Arguments of MLPClassifier for an optimizer and its settings."""
    if isinstance(optimizer, Adam):
        return {"solver": "adam", "beta_1": optimizer.betas[0], "beta_2": optimizer.betas[1], "epsilon": optimizer.eps}
    return {"solver": "sgd", "momentum": optimizer.momentum, "nesterovs_momentum": optimizer.nesterov}


def tune(kept: Any, optimizer: Any, rate: float) -> None:
    """Set scikit-learn's optimizer for a step at this rate.

    Its Adam adds eps to the root of the uncorrected second mean, torch.optim's to the root of the corrected one: eps
    times the root of the correction makes them equal.
    """
    if isinstance(optimizer, Adam):
        kept.learning_rate_init = rate
        kept.epsilon = optimizer.eps * math.sqrt(1 - optimizer.betas[1] ** (kept.t + 1))
    else:
        kept.learning_rate = rate
