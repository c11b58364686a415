"""scikit-learn's MLPClassifier, for the nets that it can be."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from ..config import TrainConfig
from ..data.dataset import Dataset, pixels
from ..errors import DataError
from ..nets import CrossEntropyLoss, Flatten, Linear, Net, ReLU
from ..order import Order
from ..params import views
from ..rungs.base import Rung
from ..trainers.base import State, StepLog, Trainer, check_fit, check_range

if TYPE_CHECKING:
    from sklearn.neural_network import MLPClassifier

CALL_STEPS = 100  # steps that one call of partial_fit trains: its checks of the input then hardly count


class SklearnTrainer(Trainer):
    """One `partial_fit` trains many batches in the order given to it; that is faster than one a batch, and than `fit`."""

    def __init__(self, net: Net, config: TrainConfig, state: State) -> None:
        from sklearn.neural_network import MLPClassifier

        self.net, self.config = net, config
        self._linear = [i for i, layer in enumerate(net.layers) if isinstance(layer, Linear)]
        hidden = tuple(layer.out_features for layer in net.layers if isinstance(layer, Linear))[:-1]
        self.model: MLPClassifier = MLPClassifier(
            hidden,
            solver="sgd",
            alpha=0.0,
            batch_size=config.batch_size or 1,
            learning_rate_init=config.learning_rate,
            momentum=config.momentum,
            nesterovs_momentum=config.nesterov,
            shuffle=False,
        )
        self._x: np.ndarray | None = None
        # it makes its arrays when it first sees data; what they hold is replaced at once
        features, classes = int(np.prod(net.in_shape)), net.out_shape[0]
        self._fit(np.zeros((1, features), np.float32), np.zeros(1, np.int64), classes=np.arange(classes))
        self.set_state(state)

    def _fit(self, x: np.ndarray, y: np.ndarray, **more: Any) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Got `batch_size` less than 1 or larger than sample size")
            self.model.partial_fit(x, y, **more)

    def load(self, dataset: Dataset) -> None:
        check_fit(self.net, dataset)
        assert dataset.train_y is not None
        self._x = pixels(dataset.train_x, dataset.scale).reshape(len(dataset.train_x), -1)
        self._y = dataset.train_y.astype(np.int64)
        self.model.set_params(batch_size=self.config.batch(len(self._x)))

    def run(self, order: Order, first: int, last: int) -> StepLog:
        if self._x is None:
            raise DataError(f"net {self.net.name!r} has nothing to train on: call load(dataset) before run")
        samples = len(self._x)
        check_range(self.config, order, samples, first, last)
        batch = self.config.batch(samples)
        size = np.minimum(batch, samples - np.arange(first, last) * batch)
        loss = np.zeros(last - first)
        for step in range(first, last, CALL_STEPS):
            stop = min(step + CALL_STEPS, last)
            if batch == samples:
                x, y = self._x, self._y  # a full batch's sums are the same in every order
            else:
                chosen = order.indices(step * batch, min(stop * batch, samples))
                x, y = self._x[chosen], self._y[chosen]
            self._fit(x, y)
            loss[step - first : stop - first] = self.model.loss_
        return StepLog(loss, np.zeros(last - first, np.int64), size)

    def state(self) -> State:
        params, velocity = np.empty(self.net.param_count, np.float32), np.empty(self.net.param_count, np.float32)
        rate = self.config.learning_rate
        held = self.model._optimizer.velocities
        count = len(self._linear)
        named, moving = views(self.net, params), views(self.net, velocity)
        for number, layer in enumerate(self._linear):
            named[f"{layer}.weight"][...] = self.model.coefs_[number].T
            named[f"{layer}.bias"][...] = self.model.intercepts_[number]
            # its velocity has the rate in it, and the sign of a step
            moving[f"{layer}.weight"][...] = held[number].T / -rate
            moving[f"{layer}.bias"][...] = held[count + number] / -rate
        if not self.config.momentum:
            velocity[:] = 0
        return State(params, velocity)

    def set_state(self, state: State) -> None:
        rate = self.config.learning_rate
        held = self.model._optimizer.velocities
        count = len(self._linear)
        named = views(self.net, state.params.astype(np.float32))
        moving = views(self.net, state.velocity.astype(np.float32))
        for number, layer in enumerate(self._linear):
            self.model.coefs_[number][...] = named[f"{layer}.weight"].T
            self.model.intercepts_[number][...] = named[f"{layer}.bias"]
            held[number][...] = -rate * moving[f"{layer}.weight"].T
            held[count + number][...] = -rate * moving[f"{layer}.bias"]

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        if x.shape[1:] != self.net.in_shape:
            raise DataError(f"net {self.net.name!r} takes samples of shape {self.net.in_shape}, got {x.shape[1:]}")
        out = np.empty((len(x), *self.net.out_shape), np.float32)
        for first in range(0, len(x), 1024):
            some = pixels(x[first : first + 1024], scale)
            # predict_proba gives probabilities; their logarithms differ from the logits by a constant a row
            rows = self.model.predict_proba(some.reshape(len(some), -1))
            out[first : first + 1024] = np.log(np.maximum(rows, np.finfo(np.float32).tiny))
        return out

    def memory(self) -> dict[str, int]:
        size = 4 * self.net.param_count
        held = {"parameters": size, "gradients": size, "optimiser": size}
        if self._x is not None:
            held["data"] = self._x.nbytes + self._y.nbytes
        return held


def build(net: Net, config: TrainConfig, state: State) -> Trainer:
    return SklearnTrainer(net, config, state)


def unsupported(net: Net, config: TrainConfig) -> str | None:
    layers = net.layers[1:] if isinstance(net.layers[0], Flatten) else net.layers
    kinds = [type(layer) for layer in layers]
    if kinds[0::2] != [Linear] * len(kinds[0::2]) or kinds[1::2] != [ReLU] * len(kinds[1::2]) or len(kinds) % 2 == 0:
        return "MLPClassifier is Linear layers with ReLU between them, and nothing else"
    if not isinstance(net.loss, CrossEntropyLoss):
        return "MLPClassifier knows cross-entropy only"
    if net.out_shape[0] == 2:
        return "MLPClassifier trains two classes with one output"
    if config.weight_decay:
        return "MLPClassifier divides its weight decay by the batch and spares the biases"
    if config.clip_value is not None:
        return "MLPClassifier cannot clip gradients"
    if config.drop_last:
        return "MLPClassifier always trains the last batch"
    if config.learning_rate == 0:
        return "MLPClassifier wants a rate above 0"
    return None


PEER = Rung(
    name="sklearn",
    title="scikit-learn's MLPClassifier",
    idea="solver='sgd' on float32 rows gathered for a hundred batches at a time.",
    build=build,
    unsupported=unsupported,
    deviations=(
        "the loss of each step is the mean of up to a hundred steps",
        "right answers of training are not counted",
        "predictions are logarithms of probabilities, not logits",
    ),
)
