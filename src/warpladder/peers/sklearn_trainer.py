"""Training with scikit-learn's MLPClassifier. docs/peers.md has the measurements behind how it is used."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.neural_network import MLPClassifier
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from ..config import TrainConfig
from ..data.dataset import pixels
from ..errors import DataError, RungError
from ..machine import cores
from ..nets import Net
from ..order import Order
from ..params import slots, views
from ..trainers.base import State, StepLog, Trainer, check_fit, check_range

if TYPE_CHECKING:
    from ..data.dataset import Dataset

#: Numbers of input that one call of partial_fit is given, or one batch: few calls, and rows that are still in the cache.
BLOCK = 1 << 20


class Recorder(MLPClassifier):
    """An MLPClassifier that keeps each batch's loss and number of correct samples, which `partial_fit` sums up or forgets."""

    log: list[tuple[float, int]]

    def _backprop(self, X: np.ndarray, y: np.ndarray, *rest: Any) -> Any:
        found = super()._backprop(X, y, *rest)
        activations = next(each for each in rest if isinstance(each, list))
        right = activations[-1].argmax(axis=1) == y.argmax(axis=1)
        self.log.append((float(found[0]), int(np.count_nonzero(right))))
        return found


class SklearnTrainer(Trainer):
    """A range of steps is `partial_fit` on consecutive blocks of gathered rows; it goes through a block batch by batch."""

    def __init__(self, net: Net, config: TrainConfig, state: State, threads: int | None = None) -> None:
        self.net, self.config, self.threads = net, config, threads
        self.blas = ThreadpoolController()
        named = [slot for slot in slots(net) if len(slot.shape) > 1]
        self.model = Recorder(
            hidden_layer_sizes=tuple(slot.shape[0] for slot in named[:-1]),
            solver="sgd",
            alpha=0.0,
            batch_size=1,
            learning_rate_init=config.learning_rate,
            momentum=config.momentum,
            nesterovs_momentum=config.nesterov,
            shuffle=False,
            tol=0.0,
            n_iter_no_change=np.inf,
        )
        self.model.log = []
        features, classes = named[0].shape[1], np.arange(net.out_shape[0])
        # it allocates when it first sees samples; set_state overwrites what it learns from this one
        self.model.partial_fit(np.zeros((1, features), np.float32), classes[:1], classes=classes)
        self.x: np.ndarray | None = None
        self.velocity: np.ndarray | None = None  # in our units, as it was last given or taken; None once training has changed it
        self.set_state(state)

    def load(self, dataset: Dataset) -> None:
        check_fit(self.net, dataset)
        self.x, self.labels, self.scale = dataset.train_x.reshape(len(dataset.train_x), -1), dataset.train_y, dataset.scale

    def run(self, order: Order, first: int, last: int) -> StepLog:
        if self.x is None or self.labels is None:
            raise DataError(f"net {self.net.name!r} has nothing to train on: call load(dataset) before run")
        n = len(self.x)
        check_range(self.config, order, n, first, last)
        batch = self.config.batch(n)
        rows = order.indices(first * batch, min(last * batch, n))
        block = max(1, BLOCK // (batch * self.x.shape[1])) * batch
        self.model.log, self.velocity = [], None
        with self.blas.limit(limits=self.threads or cores(), user_api="blas"):
            for start in range(0, len(rows), block):
                some = rows[start : start + block]
                self.model.batch_size = min(batch, len(some))
                self._fit(pixels(self.x[some], self.scale), self.labels[some])
        if len(self.model.log) != last - first:
            found = f"{len(self.model.log)} batches where {last - first} were asked for"
            raise RungError(f"scikit-learn trained {found}: another version than this peer knows")
        loss, correct = zip(*self.model.log, strict=True) if self.model.log else ((), ())
        sizes = np.minimum(batch, n - np.arange(first, last) * batch)
        return StepLog(np.array(loss, np.float64), np.array(correct, np.int64), sizes)

    def _fit(self, x: np.ndarray, y: np.ndarray) -> None:
        try:
            self.model.partial_fit(x, y)
        except ValueError:
            if all(np.isfinite(a).all() for a in itertools.chain(self.model.coefs_, self.model.intercepts_)):
                raise  # weights that are not finite are for the log to tell

    def _tensors(self, weights: list[np.ndarray], biases: list[np.ndarray]) -> dict[str, np.ndarray]:
        """By our names and in our shapes: scikit-learn's matrices are (in, out)."""
        both = itertools.chain.from_iterable(zip((w.T for w in weights), biases, strict=True))
        return dict(zip((slot.name for slot in slots(self.net)), both, strict=True))

    @property
    def _params(self) -> dict[str, np.ndarray]:
        return self._tensors(self.model.coefs_, self.model.intercepts_)

    @property
    def _velocities(self) -> dict[str, np.ndarray]:
        """Scikit-learn's velocity is ours times minus the learning rate."""
        count = len(self.model.coefs_)
        return self._tensors(self.model._optimizer.velocities[:count], self.model._optimizer.velocities[count:])

    def state(self) -> State:
        params = np.zeros(self.net.param_count, np.float32)
        for name, view in views(self.net, params).items():
            view[...] = self._params[name]
        if self.velocity is None:
            self.velocity = np.zeros_like(params)
            for name, view in views(self.net, self.velocity).items():
                view[...] = self._velocities[name] / -self.config.learning_rate if self.config.momentum else 0.0
        return State(params, self.velocity.copy())

    def set_state(self, state: State) -> None:
        for name, view in views(self.net, state.params).items():
            self._params[name][...] = view
        # what it gave out itself is not rounded a second time; without momentum it multiplies its last step by 0, be that NaN
        if not self.config.momentum or not np.array_equal(state.velocity, self.state().velocity):
            for name, view in views(self.net, state.velocity).items():
                self._velocities[name][...] = view * -self.config.learning_rate
        self.velocity = np.array(state.velocity, np.float32)

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        """The logits, of which MLPClassifier shows only the softmax: its weights, multiplied out."""
        if x.shape[1:] != self.net.in_shape:
            raise DataError(f"net {self.net.name!r} takes samples of shape {self.net.in_shape}, got {x.shape[1:]}")
        last = len(self.model.coefs_) - 1
        a = pixels(x.reshape(len(x), math.prod(x.shape[1:])), scale)
        for i, (w, b) in enumerate(zip(self.model.coefs_, self.model.intercepts_, strict=True)):
            a = a @ w + b
            if i < last:
                np.maximum(a, 0, out=a)
        return a

    def memory(self) -> dict[str, int]:
        weights = 4 * self.net.param_count
        held = {"parameters": weights, "optimiser": weights}
        if self.x is not None and self.labels is not None:
            held["data"] = self.x.nbytes + self.labels.nbytes
        return held

    def close(self) -> None:
        self.x = None
