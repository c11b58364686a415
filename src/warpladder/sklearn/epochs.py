"""`Fit`: the epochs of an estimator's fit on a rung, with scikit-learn's rules for rates and for stopping."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..config import TrainConfig
from ..data.dataset import Dataset
from ..data.order import Order
from ..errors import DivergedError
from ..nets import Net
from ..ops.loss import reference as losses
from ..rungs.base import Rung
from ..trainers.base import State, Trainer
from .samples import Samples

LEAST_RATE = 1e-6  # smallest adaptive rate, which ends the fit
BLOCK = 1 << 16  # numbers of a block that is converted to float32


class Fit:
    """Fit of an estimator in progress.

    Parameters
    ----------
    model : RungPerceptron
        Estimator, whose attributes are set after each epoch as scikit-learn does.
    net, config, rung
        Net, settings and rung; `config.learning_rate` is the first rate.
    samples : Samples
        Training samples; float64 becomes float32.
    held : Samples or None
        Held-out samples, for early stopping and `validation_loss_curve_`.
    incremental : bool
        True for one epoch that continues the last one, with the state of the optimizer.
    """

    def __init__(
        self, model: Any, net: Net, config: TrainConfig, rung: Rung, samples: Samples, held: Samples | None,
        incremental: bool,
    ) -> None:  # fmt: skip
        self.model, self.net, self.config, self.rung = model, net, config, rung
        self.held, self.incremental, self.stopped = held, incremental, False
        x = _narrow(samples.x, net)
        self.held_x = None if held is None else _narrow(held.x, net)
        self.seen = (None, None, None) if held is None else (held.x, model._seen(held.goals), held.weight)
        self.mean_weight = samples.mean_weight
        self.data = Dataset("X", x, samples.goals, x[:0], None, train_weight=samples.weight)
        if held is not None:
            model.validation_loss_curve_ = []
        weights, buffers = model._weights(net)
        slots, updates, rate = {}, 0, float(model.learning_rate_init)
        if incremental and hasattr(model, "_slots") and _fits(model._slots, net):
            slots, updates, rate = model._slots, model._updates, model._rate
        self.loss_factor, self.gradient_factor = model._factors()
        self.rate = rate
        self.trainer = self._trainer(State(weights, slots, updates, buffers))
        self.penalty = self._penalty(self._coefs(weights))

    def run(self) -> None:
        """Train until the loss stops improving, or for max_iter epochs; for one epoch if incremental."""
        model, samples = self.model, len(self.data.train_x)
        steps, before = self.config.steps(samples), len(model.loss_curve_) if self.incremental else 0
        model.n_iter_ = 0
        for epoch in range(1 if self.incremental else model.max_iter):
            model._callbacks.begin_epoch()
            order = Order(self.config.seed, before + epoch, samples, self.config.shuffle)
            with np.errstate(over="ignore", invalid="ignore"):
                log = self.trainer.run(order, 0, steps)
            self._note(float((log.loss * log.size).sum() / log.size.sum()), samples)
            if self.held is not None and self.held_x is not None:
                with np.errstate(over="ignore", invalid="ignore"):
                    out = self.trainer.predict(self.held_x, 1.0)
                    share = losses.shares(self.net.loss, self.held.goals, len(out), self.held.weight)
                    loss = losses.forward(self.net.loss, out.astype(np.float64), self.held.goals, share)
                model.validation_loss_curve_.append(self.loss_factor * loss)
            model._update_no_improvement_count(model.early_stopping, *self.seen)
            rate = self._next_rate()
            if model._no_improvement_count > model.n_iter_no_change:
                rate = self._without_progress(rate)
                if self.stopped:
                    break
                model._no_improvement_count = 0
            if rate != self.rate:
                self._change_rate(rate)
        self.end()

    def end(self) -> None:
        """Store the state of the optimizer in the model's attributes."""
        model, state = self.model, self.trainer.state()
        model._slots, model._updates, model._rate = dict(state.slots), state.step, self.rate

    def close(self) -> None:
        """Release the trainer's memory and threads."""
        self.trainer.close()

    def _change_rate(self, rate: float) -> None:
        """Continue with another learning rate.

        scikit-learn's momentum is a mean of steps, ours of gradients: the buffer is rescaled so that steps are equal.
        """
        state = self.trainer.state()
        slots = {
            name: slot * np.float32(self.rate / rate) if name == "momentum_buffer" else slot
            for name, slot in state.slots.items()
        }
        self.trainer.close()
        self.rate = rate
        self.trainer = self._trainer(state.but(slots=slots))

    def _trainer(self, state: State) -> Trainer:
        factor = self.gradient_factor if self.model.solver == "sgd" else 1.0
        config = self.config.but(learning_rate=self.rate * factor)
        trainer = self.rung.build(self.net, config, state)
        trainer.load(self.data)
        return trainer

    def _note(self, loss: float, samples: int) -> None:
        """Store the figures of an epoch in the model's attributes."""
        model, (params, buffers) = self.model, self.trainer.weights()
        if not np.isfinite(loss) or not np.isfinite(params).all():
            raise ValueError(
                "Solver produced non-finite parameter weights. The input data may contain large values and need to be "
                "preprocessed."
            ) from DivergedError(f"loss {loss} in epoch {model.n_iter_ + 1} on rung {self.rung.name!r}")
        model.coefs_, model.intercepts_ = model._arrays(self.net, params, buffers)
        before, self.penalty = self.penalty, self._penalty(model.coefs_ if buffers is None else self._coefs(params))
        model._raw = (params, buffers) if model.batch_norm else None
        model.n_iter_ += 1
        model.t_ += samples
        # scikit-learn adds each batch's penalty; this is the mean of the penalties at both ends of the epoch.
        model.loss_ = self.loss_factor * loss + (before + self.penalty) / 2
        model.loss_curve_.append(model.loss_)
        if model.verbose:
            print(f"Iteration {model.n_iter_}, loss = {model.loss_:.8f}")

    def _coefs(self, params: np.ndarray) -> list[np.ndarray]:
        """Weights as in scikit-learn's `coefs_`, from flat parameters (param_count,) without normalisations."""
        coefs, _ = self.model._arrays(self.net, params, None)
        return list(coefs)

    def _penalty(self, coefs: list[np.ndarray]) -> float:
        """Loss of the L2 penalty on coefs_, as scikit-learn adds it to a batch's loss."""
        batch = self.config.batch(len(self.data.train_x)) * self.mean_weight
        return (
            0.5
            * self.model._penalty_factor
            * sum(float(np.square(coef, dtype=np.float64).sum()) for coef in coefs)
            / batch
        )

    def _next_rate(self) -> float:
        model = self.model
        if model.solver == "sgd" and model.learning_rate == "invscaling":
            return float(model.learning_rate_init / (model.t_ + 1) ** model.power_t)
        return self.rate

    def _without_progress(self, rate: float) -> float:
        """Next learning rate if the rate is adaptive and can decrease; else stop the fit."""
        model = self.model
        what = "Validation score" if model.early_stopping else "Training loss"
        message = f"{what} did not improve more than tol={model.tol:f} for {model.n_iter_no_change} consecutive epochs."
        if model.solver == "sgd" and model.learning_rate == "adaptive":
            if rate > LEAST_RATE:
                if model.verbose:
                    print(f"{message} Setting learning rate to {rate / 5:f}")
                return rate / 5
            message += " Learning rate too small."
        if model.verbose:
            print(f"{message} Stopping.")
        self.stopped = True
        return rate


def _fits(slots: Mapping[str, np.ndarray], net: Net) -> bool:
    """True if an optimizer's slots (param_count,) are those of this net: it lost or got normalisations otherwise."""
    return all(slot.size == net.param_count for slot in slots.values())


def _narrow(x: np.ndarray, net: Net) -> np.ndarray:
    """Features (samples, features) as float32 (samples, *in_shape). Raises `ValueError` if they leave its range."""
    found = x if x.dtype == np.float32 and x.flags.c_contiguous else np.empty(x.shape, np.float32)
    rows = max(1, BLOCK // max(1, x.shape[1]))
    with np.errstate(over="ignore", invalid="ignore"):
        for first in range(0, len(x), rows):  # block by block, which stays in the cache until it is checked
            some = found[first : first + rows]
            if found is not x:
                some[...] = x[first : first + rows]
            # a sum of finite numbers may overflow: only then each is asked
            if not np.isfinite(some.sum()) and not np.isfinite(some).all():
                raise ValueError(
                    "X holds numbers beyond the range of float32, in which rungs train: scale the features"
                )
    return found.reshape(-1, *net.in_shape)
