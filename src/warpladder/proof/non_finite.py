"""Checks that NaN and infinity reach the log, the weights and the outputs, as in IEEE arithmetic.

A program may multiply by a mask or omit a term, so that 0 times NaN is NaN in one and 0 in another. So a number must be
NaN only if it depends on the NaN by a path of nonzero factors: where the gradient of a finite twin is not zero.
"""

from __future__ import annotations

import numpy as np

from ..data.dataset import Dataset, pixels
from ..data.order import Order
from ..nets import BCEWithLogitsLoss, CrossEntropyLoss, L1Loss, ReLU
from ..nets.params import param_slices, views
from ..trainers.base import State
from .bounds import output_bound, output_scale
from .context import GuardedTrainer, ProofContext
from .places import places_in
from .reference import ReferenceTrainer
from .reference_cases import ReferenceCase

SAMPLES = 4  # samples in a batch, at most


def check_non_finite(context: ProofContext, trainer: GuardedTrainer, case: ReferenceCase) -> None:
    """Check a step with a NaN or an infinity in the last bias, a step with a NaN in a sample, and outputs of both.

    If the last trained layer has no bias, only the sample is used: a program may omit a NaN weight's product with 0.
    """
    checks = _NonFiniteChecks(context, trainer, case)
    with np.errstate(all="ignore"):
        has_bias = len(param_slices(context.net)[-1].shape) == 1
        if has_bias:
            checks.check_bias(np.nan)
        if has_bias and isinstance(context.net.loss, CrossEntropyLoss):
            checks.check_infinite_bias()
        checks.check_slots()
        checks.check_sample()


class _NonFiniteChecks:
    """Checks with a few samples of a case as float32 numbers, from the state at which the case begins."""

    def __init__(self, context: ProofContext, trainer: GuardedTrainer, case: ReferenceCase) -> None:
        self.context, self.trainer, self.net = context, trainer, context.net
        step = case.steps[0]
        n = min(SAMPLES, step.size)
        batch = context.config.batch(case.order.n)
        some = case.order.indices(step.step * batch, step.step * batch + n)
        self.state = step.state
        self.x = pixels(case.dataset.train_x[some], case.dataset.scale)
        self.many = np.resize(self.x, (SAMPLES, *self.x.shape[1:]))  # to predict, however small a batch is
        self.y = None if case.dataset.train_y is None else case.dataset.train_y[some]
        self.order = Order(int(context.rng.integers(2**32)), case.order.epoch, n, bool(context.rng.integers(2)))
        self.gradient = self._truth(self.state, self.x)[1]
        self.trainer.load(self._dataset(self.x))

    def _truth(self, state: State, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Loss and gradient (param_count,) of the reference's step on samples x; a number that a mask drops is 0, even
        a NaN.
        """
        some = self.order.indices(0, len(x))
        places = places_in(self.net, self.order, 0, len(x))
        y = None if self.y is None else self.y[some]
        reference = ReferenceTrainer(self.net, self.context.config, state)
        loss, _, gradient = reference.gradients(x[some].astype(np.float64), y, places=places)
        return loss, gradient

    def _dataset(self, x: np.ndarray) -> Dataset:
        return Dataset("non-finite", x, self.y, x[:1], None if self.y is None else self.y[:1])

    def _stepped(self, state: State, x: np.ndarray, where: str) -> State | None:
        """State after a step on x whose log is checked; None if the trainer refuses to train on a NaN, or makes no
        update in fp16, as loss scalers do if a gradient is not finite, or if masks drop every NaN.
        """
        if self.net.is_random and np.isfinite(self._truth(state, x)[0]):
            return None
        self.trainer.set_state(state)
        try:
            log = self.trainer.trainer.run(self.order, 0, 1)
        except (ArithmeticError, ValueError):
            return None
        if log.has_loss:
            self._holds(not np.isfinite(log.loss[0]), f"the loss is {log.loss[0]:g} in {where}")
        after = self.context.state(self.trainer, where)
        is_left_out = self.context.cases.precision.name == "fp16" and np.array_equal(
            after.params, state.params, equal_nan=True
        )
        return None if is_left_out else after

    def _biased(self, value: float) -> tuple[State, int]:
        """State with `value` at a random index of the last bias, and this index."""
        last = [place for place in param_slices(self.net) if len(place.shape) == 1][-1]
        place = int(self.context.rng.integers(last.stop - last.start))
        params = self.state.params.copy()
        params[last.start + place] = value
        return self.state.but(params=params), place

    def check_bias(self, value: float) -> None:
        """Check that a NaN in the last bias reaches the loss, all weights that depend on it, and the outputs."""
        state, place = self._biased(value)
        where = f"a step with {value} in the last bias"
        after = self._stepped(state, self.x, where)
        later = self.net.layers[param_slices(self.net)[-1].layer + 1 :]
        drops = any(isinstance(layer, ReLU) for layer in later)  # it may take the NaN for not above 0
        if after is not None and isinstance(self.net.loss, CrossEntropyLoss) and not drops:
            self._check_weights(state, after, where)  # a probability depends on every logit
        self.trainer.set_state(state)
        out = self.trainer.predict(self.x, 1.0)
        seen = out.reshape(len(out), self.net.out_shape[0], -1)[:, place]
        is_last = self.net.layers[-1].param_shapes(self.net.shapes[-2])
        if is_last:
            self._holds(np.all(np.isnan(seen)), f"outputs are finite where a bias is {value}")

    def check_infinite_bias(self) -> None:
        """Check that an infinite logit makes the loss, and all that depends on it, NaN; a Sigmoid after it hides it."""
        state, _ = self._biased(np.inf)
        if np.isfinite(self._truth(state, self.x)[0]):
            return
        where = "a step with an infinity in the last bias"
        after = self._stepped(state, self.x, where)
        if after is not None:
            self._check_weights(state, after, where)

    def check_slots(self) -> None:
        """Check that a NaN in a slot reaches the weight next to it."""
        for name in self.context.config.optimizer.slots:
            slots = {each: self.state.slot(each).copy() for each in self.context.config.optimizer.slots}
            place = int(self.context.rng.integers(self.net.param_count))
            slots[name][place] = np.nan
            self.trainer.set_state(self.state.but(slots=slots))
            self.trainer.run(self.order, 0, 1)
            where = f"a step with a NaN in {name}"
            after = self.context.state(self.trainer, where)
            self._holds(np.isnan(after.params[place]), f"a weight is finite after {where}")

    def check_sample(self) -> None:
        """Check that a NaN in a sample reaches its outputs and the loss, and not other samples' outputs."""
        bad = int(self.context.rng.integers(SAMPLES))
        many = self.many.copy()
        many[bad] = np.nan
        trainer, others = self.trainer, np.arange(SAMPLES) != bad
        trainer.set_state(self.state)
        clean, out = trainer.predict(self.many, 1.0), trainer.predict(many, 1.0)
        # a convolution may read only its padding, so that no output depends on the sample
        reached = np.isnan(
            ReferenceTrainer(self.net, self.context.config, self.state).predict(many[bad : bad + 1], 1.0)[0]
        )
        self._holds(np.all(np.isnan(out[bad][reached])), "outputs of a sample of NaN are finite")
        what = "outputs next to a sample of NaN, and without it,"
        bounds = {"the output": output_bound(self.net, self.context.cases.precision)}
        scales = {"the output": output_scale(clean[others])}
        self.context.ledger.near("NaN", what, {"the output": (out[others], clean[others])}, bounds, scales)
        if self.y is not None and not reached.any():
            return
        if isinstance(self.net.loss, BCEWithLogitsLoss) and self.y is None:  # a target of NaN is refused
            return
        x = self.x.copy()
        # not the first or the last sample, if there are others: a data set is another one all the same
        x[int(self.context.rng.integers(1, len(x) - 1)) if len(x) > 2 else -1] = np.nan
        trainer.load(self._dataset(x))
        where = "a step with a sample of NaN"
        after = self._stepped(self.state, x, where)
        if after is None or isinstance(self.net.loss, L1Loss):  # a sign by two comparisons is 0 for NaN
            return
        last = param_slices(self.net)[-1]
        if last.layer != len(self.net.layers) - 1:  # a ReLU after it may take the NaN for not above 0
            return
        moved = views(self.net, self._must(self.state, x))[last.name]
        seen = views(self.net, after.params)[last.name]
        self._holds(np.all(np.isnan(seen[moved])), f"{last.name} is finite after {where}")

    def _must(self, state: State, x: np.ndarray) -> np.ndarray:
        """Mask (param_count,) bool, True for parameters that must be NaN after a step on x: the gradient is not
        zero in the finite twin, and masks do not drop every NaN on its path.
        """
        moves = self.gradient != 0
        return moves & ~np.isfinite(self._truth(state, x)[1]) if self.net.is_random else moves

    def _check_weights(self, before: State, after: State, where: str) -> None:
        """Check that all parameters of `_must` are NaN."""
        must = views(self.net, self._must(before, self.x))
        for name, tensor in views(self.net, after.params).items():
            lost = np.count_nonzero(np.isfinite(tensor[must[name]]))
            self._holds(not lost, f"{lost} numbers of {name} are finite after {where}")

    def _holds(self, condition: object, message: str) -> None:
        self.context.ledger.holds("NaN", condition, f"NaN: {message}")
