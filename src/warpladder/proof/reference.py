"""Reference trainer: training in float64 with the reference operations, the truth of a proof."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..config import TrainConfig
from ..data.order import Order
from ..errors import DataError
from ..machine.precision import Precision, named
from ..nets import RESIDUAL_PARTS, Conv2d, Layer, Linear, Net
from ..nets.params import buffer_views, param_slices, views
from ..ops.batchnorm import reference as batchnorm
from ..ops.dropout.reference import masked
from ..ops.gather import reference as gather
from ..ops.loss import reference as losses
from ..ops.residual import reference as residual
from ..ops.tables import reference as layers
from ..ops.update import reference as update
from ..trainers.base import State, StepLog, Trainer, check_fit, check_range, goals
from ..trainers.shares import BatchShares
from .places import Places, places_in
from .tolerance import rounded

if TYPE_CHECKING:
    from ..data.dataset import Dataset

#: Bytes of the largest activation of the samples that go through the layers together; more would not stay in the cache.
SLICE_BYTES = 1 << 21

#: Called with the number of each trained layer, and the gradient of its output.
Watch = Callable[[int, np.ndarray], None]


def slices(net: Net, n: int) -> Iterator[slice]:
    """Slices of the samples 0..n-1 whose activations fit the cache; only one if samples depend on each other."""
    step = max(1, n) if net.normalizes else max(1, SLICE_BYTES // (8 * max(map(math.prod, net.shapes))))
    return (slice(first, min(first + step, n)) for first in range(0, n, step))


class ReferenceTrainer(Trainer):
    """Trainer in float64 with which all others are compared; its `State` arrays are float64.

    Inputs are the float32 numbers of every rung, widened. Besides the methods of trainers it has `activations`,
    `gradients` and `margins` for the proof.

    Parameters
    ----------
    net, config, state
        As for every rung's `build`.
    precision : str or Precision
        "fp64" for the truth. Another name of `precision.PRECISIONS` gives an honest program of this precision: factors
        of products are rounded to it, forward and backward, and so are results if the format is also stored.
    stores : collection of str
        Results of a layer with weights that are rounded in the forward pass if the format is stored: its "bias", its
        "product" before the bias is added, and their "sum". Some programs round a product twice and some once.
    """

    slots: dict[str, np.ndarray]
    step: int

    def __init__(
        self, net: Net, config: TrainConfig, state: State, precision: str | Precision = "fp64",
        stores: Collection[str] = ("bias", "sum"),
    ) -> None:  # fmt: skip
        self.net, self.config, self.precision, self.stores = net, config, named(precision), stores
        self.dataset: Dataset | None = None
        self.shares: BatchShares | None = None
        self.set_state(state)

    @property
    def params(self) -> np.ndarray:
        """Present parameters (param_count,) float64."""
        return self._params

    @params.setter
    def params(self, values: np.ndarray) -> None:
        self._params, self._named = values, views(self.net, values)

    @property
    def buffers(self) -> np.ndarray:
        """Present running means and variances (buffer_count,) float64."""
        return self._buffers

    @buffers.setter
    def buffers(self, values: np.ndarray) -> None:
        self._buffers, self._named_buffers = values, buffer_views(self.net, values)

    def load(self, dataset: Dataset) -> None:
        check_fit(self.net, dataset, self.config)
        self.dataset, self.shares = dataset, BatchShares.of(self.net.loss, dataset, self.config)

    def run(self, order: Order, first: int, last: int) -> StepLog:
        if self.dataset is None:
            raise DataError(f"net {self.net.name!r} has nothing to train on: call load(dataset) before run")
        samples = len(self.dataset.train_x)
        check_range(self.config, order, samples, first, last)
        batch = self.config.batch(samples)
        log = StepLog(np.zeros(last - first), np.zeros(last - first, np.int64), np.zeros(last - first, np.int64))
        for row, step in enumerate(range(first, last)):
            first_at, last_at = step * batch, min((step + 1) * batch, samples)
            x, y = self.batch(order.indices(first_at, last_at))
            places = places_in(self.net, order, first_at, last_at)
            shares = None if self.shares is None else self.shares.at(order.indices(first_at, last_at))
            entering = self.activations(x, places)
            log.loss[row], log.correct[row], g = self.gradients(x, y, None, entering, places, shares)
            self.buffers = self.moved_buffers(entering)
            log.size[row] = len(x)
            rate = float(self.config.rates(self.step, self.step + 1, samples)[0])
            self.step += 1
            self.params, self.slots = update.step(self.params, g, self.slots, self.config, rate, self.step)
        return log if self.config.has_loss(order.epoch) else StepLog.without_loss(log.size)

    def batch(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Samples x (n, *in_shape) float64 of the loaded data set, and their labels or targets, or None."""
        if self.dataset is None:
            raise DataError(f"net {self.net.name!r} has no data: call load(dataset) first")
        x = gather.rows(self.dataset.train_x, indices, self.dataset.scale).astype(np.float64)
        return x, None if self.dataset.train_y is None else self.dataset.train_y[indices]

    def activations(self, x: np.ndarray, places: Places | None = None) -> list[np.ndarray]:
        """Inputs of each layer, and last the net's outputs, for samples x (n, *in_shape) float64.

        places : places of the samples, if the net trains on them and draws masks; without them nothing is dropped.
        """
        out = [x]
        for i in range(len(self.net.layers)):
            out.append(self.leaving(i, out[-1], places, skip=self.stored(i, out)))
        return out

    def stored(self, i: int, entering: Sequence[np.ndarray]) -> np.ndarray | None:
        """Stored input (n, *shape) of residual layer `i`, from the layers' inputs `entering`; None for other layers."""
        at = self.net.skips.stored.get(i)
        return None if at is None else entering[at]

    def leaving(
        self, i: int, x: np.ndarray, places: Places | None = None, trains: bool = True, skip: np.ndarray | None = None
    ) -> np.ndarray:
        """Output of layer `i`, (n, *shape), for its input x (n, *shape), both float64; places as in `activations`.

        trains : True if x is a whole batch, by whose statistics the layer normalises; else by the running ones.
        skip : stored input of a residual layer, as `stored` gives it.
        """
        layer, named, name = self.net.layers[i], self._named, self.net.names[i]
        if isinstance(layer, RESIDUAL_PARTS):
            return residual.forward(layer, x, skip)
        if layer.normalizes and not trains:
            held = self._named_buffers
            w, b, mean, var = (
                source.get(f"{name}.{kind}")
                for source, kind in ((named, "weight"), (named, "bias"), (held, "running_mean"), (held, "running_var"))
            )
            assert mean is not None and var is not None
            return batchnorm.predict(layer, x, w, b, mean, var)  # type: ignore[arg-type]
        if places is not None and layer.is_random:
            return masked(x, places.mask(layer, i, x.shape[1:]))
        if not self.precision.factors:
            return layers.forward(layer, x, named.get(f"{name}.weight"), named.get(f"{name}.bias"))
        x, w = self._factors(layer, x, named.get(f"{name}.weight"))
        return self._with_bias(layer, x, w, named.get(f"{name}.bias"))

    def through(
        self, x: np.ndarray, first: int = 0, last: int | None = None, trains: bool = False
    ) -> np.ndarray:  # fmt: skip
        """Input of layer `last`, or net's output, for the input x (n, *shape) float64 of layer `first`, in slices; no
        residual connection may lead over the input of `first`. trains : as in `leaving`.
        """
        last = len(self.net.layers) if last is None else last
        out = np.empty((len(x), *self.net.shapes[last]))
        for some in slices(self.net, len(x)):
            a, held = x[some], dict[int, np.ndarray]()
            for i in range(first, last):
                if i in self.net.skips.stored.values():
                    held[i] = a
                at = self.net.skips.stored.get(i)
                a = self.leaving(i, a, trains=trains, skip=None if at is None else held[at])
            out[some] = a
        return out

    def moved_buffers(self, entering: Sequence[np.ndarray]) -> np.ndarray:
        """Buffers (buffer_count,) after a batch with these `activations`."""
        flat = self.buffers.copy()
        held = buffer_views(self.net, flat)
        for i, layer in enumerate(self.net.layers):
            if layer.normalizes:
                name = self.net.names[i]
                both = held[f"{name}.running_mean"], held[f"{name}.running_var"]
                for at, after in zip(both, batchnorm.moved(layer, entering[i], *both), strict=True):  # type: ignore
                    at[...] = after
        return flat

    def _with_bias(self, layer: Layer, x: np.ndarray, w: np.ndarray | None, b: np.ndarray | None) -> np.ndarray:
        """Output (n, *out_shape) of a layer for inputs x and parameters w and b, with its stored results rounded."""
        if b is None:
            return np.asarray(self._results(layer, layers.forward(layer, x, w, b))[0])
        b = self._stored("bias", layer, b)
        if "product" not in self.stores:
            return self._stored("sum", layer, layers.forward(layer, x, w, b))
        product = self._stored("product", layer, layers.forward(layer, x, w, np.zeros_like(b)))
        return self._stored("sum", layer, product + b.reshape(-1, *[1] * (product.ndim - 2)))

    def _stored(self, what: str, layer: Layer, a: np.ndarray) -> np.ndarray:
        """Array a, the layer's "bias", "product" or "sum", rounded if this result is stored."""
        return np.asarray(self._results(layer, a)[0]) if what in self.stores else a

    def _factors(self, layer: Layer, *given: np.ndarray | None) -> tuple:
        """Factors of a layer's products, rounded to the precision."""
        if not self.precision.factors or not isinstance(layer, Linear | Conv2d):
            return given
        return tuple(None if a is None else rounded(a, self.precision) for a in given)

    def _results(self, layer: Layer, *given: np.ndarray) -> tuple:
        """Results of a layer's products, rounded if the format is stored."""
        return self._factors(layer, *given) if self.precision.stored else given

    def gradients(
        self, x: np.ndarray, y: np.ndarray | None, watch: Watch | None = None,
        entering: Sequence[np.ndarray] | None = None, places: Places | None = None, shares: np.ndarray | None = None,
    ) -> tuple[float, int, np.ndarray]:  # fmt: skip
        """Mean loss, number of correct samples (0 without labels) and the loss's gradient (param_count,) at the present
        parameters.

        x is (n, *in_shape) float64, y (n,) labels or (n, outputs) targets; without targets x is the target and y is
        ignored. shares : (n,) shares of the samples in the mean of their batch; None for a batch without weights of
        samples. entering : `activations` of x, if they are known. places : as in `activations`.
        """
        entering = self.activations(x, places) if entering is None else entering
        out = entering[-1]
        kind, target = self.net.loss, self.target(x, y)
        if shares is None:
            shares = losses.shares(kind, y, len(x))
        loss, correct = losses.forward(kind, out, target, shares), losses.correct(kind, out, target)
        return loss, correct, self.pulled_back(entering, losses.backward(kind, out, target, shares), watch, places)

    def target(self, x: np.ndarray, y: np.ndarray | None) -> np.ndarray:
        """Labels (n,) or targets (n, *out_shape) of samples x (n, *in_shape): from y, or x itself without goals."""
        goal = goals(self.net, y)
        if goal is not None and goal.ndim == 1:
            return goal
        return (x if goal is None else goal).reshape(len(x), *self.net.out_shape)

    def pulled_back(
        self, entering: Sequence[np.ndarray], d: np.ndarray, watch: Watch | None = None, places: Places | None = None
    ) -> np.ndarray:
        """Gradient (param_count,) float64 from the outputs' gradient d (n, *out_shape) and the `activations`, computed
        with the same places.
        """
        flat = np.zeros(self.net.param_count)
        w, dw, returned = self._named, views(self.net, flat), self.net.skips.returned
        held: dict[int, np.ndarray] = {}  # gradients of layers' inputs that a residual layer adds
        for i in reversed(range(self.net.first_trained, len(self.net.layers))):
            layer, name = self.net.layers[i], self.net.names[i]
            if i + 1 in returned.values():
                held[i + 1] = d
            if isinstance(layer, RESIDUAL_PARTS):
                d = residual.backward(layer, d, held.get(returned.get(i, -1)))
                continue
            if watch is not None and (f"{name}.bias" in w or f"{name}.weight" in w):
                watch(i, d)
            if places is not None and layer.is_random:
                d = masked(d, places.mask(layer, i, self.net.shapes[i]))
                continue
            factors = self._factors(layer, entering[i], w.get(f"{name}.weight"), d)
            found = self._backward(layer, i == self.net.first_trained, *factors)
            d, trained = (d, found) if i == self.net.first_trained else (found[0], found[1:])
            if trained:
                for kind, gradient in zip(layer.param_shapes(self.net.shapes[i]), trained, strict=False):
                    dw[f"{name}.{kind}"][...] = gradient
        return flat

    def _backward(self, layer: Layer, is_first: bool, *factors: np.ndarray | None) -> tuple:
        """Gradients of a layer's input and parameters, of the first trained one of its parameters alone."""
        gradients = layers.weight_gradients if is_first else layers.backward
        return self._results(layer, *gradients(layer, *factors))  # type: ignore[arg-type]

    def norms(self, values: np.ndarray) -> dict[str, float]:
        """Norm of each tensor of a flat buffer (param_count,), by name."""
        places = param_slices(self.net)
        squares = np.add.reduceat(np.square(values), [place.start for place in places])
        return dict(zip((place.name for place in places), np.sqrt(squares).tolist(), strict=True))

    def margins(self, x: np.ndarray) -> np.ndarray:
        """Distance (n,) of each sample of x (n, *in_shape) float64 from the nearest kink.

        It is the smallest relative distance over all ReLUs, max-pools and other layers with kinks after a trained
        layer: of a ReLU's input from 0, or of a pool's largest from its second, divided by the root mean square of the
        sample's numbers at this layer. Before the first trained layer nothing rounds.
        """
        closest = np.full(len(x), np.inf)
        for i, a in enumerate(self.activations(x)[:-1]):
            if i > self.net.first_trained and layers.switches(self.net.layers[i]):
                closest = np.minimum(closest, layers.margin(self.net.layers[i], a))
        return closest

    def state(self) -> State:
        slots = {name: slot.copy() for name, slot in self.slots.items()}
        return State(self.params.copy(), slots, self.step, self.buffers.copy() if self.net.normalizes else None)

    def set_state(self, state: State) -> None:
        self.params, self.step = np.array(state.params, np.float64), state.step
        self.buffers = np.array(state.buffers_of(self.net), np.float64)
        self.slots = {name: np.array(state.slot(name), np.float64) for name in self.config.optimizer.slots}

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        """Outputs (samples, *out_shape) float64 of samples times scale, not rounded, unlike the rungs'."""
        if x.shape[1:] != self.net.in_shape:
            raise DataError(f"net {self.net.name!r} takes samples of shape {self.net.in_shape}, got {x.shape[1:]}")
        out = np.empty((len(x), *self.net.out_shape))
        for some in slices(self.net, len(x)):
            out[some] = self.through(gather.rows(x, np.arange(len(x))[some], scale).astype(np.float64))
        return out

    def memory(self) -> dict[str, int]:
        return {"parameters": self.params.nbytes, "optimizer": sum(slot.nbytes for slot in self.slots.values())}
