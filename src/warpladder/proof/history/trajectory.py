"""`Trajectory`: steps of the reference, or of a twin of it to which the largest honest rounding errors are added."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...config import TrainConfig
from ...data.dataset import Dataset
from ...data.order import Order
from ...machine.precision import Precision
from ...nets import Layer, Net
from ...nets.params import param_slices
from ...ops.loss import reference as losses
from ...ops.update import reference as update
from ...optimizers import SGD
from ...trainers.base import State
from ..bounds import slope_errors
from ..normalised.whole_batches import cancelled_biases
from ..places import Places, places_in
from ..reference import ReferenceTrainer
from .crossings import Crossings, differ

AT_ONCE = 1 << 14  # numbers of a block of parameters, few enough to stay in the cache
SAMPLED = 1 << 14  # numbers of an update that stand for all of them
#: Roundoffs of 1 that are lost in a derivative that is computed from an output: 1 - y^2 has twice the error of y, which
#: is up to two units in the last place.
LOST = 4.0
EVERY = 5  # steps of a twin for which a difference of gradients holds; no multiple of an epoch's steps
GROWN = 2.0  # times as large as when the difference was computed, a tensor's gradient needs another one


class StepSamples(NamedTuple):
    """Samples of a step of the reference.

    some : (n,) int64, their numbers in the data set. x : (n, *in_shape) float64. y : (n,) labels or (n, outputs)
    targets; None if x is the target. places : in the order, if the net draws masks. shares : (n,) float64, of the loss.
    """

    some: np.ndarray
    x: np.ndarray
    y: np.ndarray | None
    places: Places | None
    shares: np.ndarray


class Errors(NamedTuple):
    """Rounding errors of a twin, with the same signs in every step.

    shares : (2 or 3, param_count) float64, shares of an update and of a parameter that are added to the parameter after
        each step, and, if factors are rounded, the share of a parameter that is added only while a step computes its
        gradients, in every step.
    signs : (samples, *out_shape) of the errors of the outputs' gradient that exceed `relative` times it, as where a
        sample is nearly learnt.
    precision : precision of the outputs.
    """

    shares: np.ndarray
    signs: np.ndarray
    relative: float
    precision: Precision


class Saturated(ReferenceTrainer):
    """Twin's reference in which derivatives that are computed from rounded outputs have lost digits, as 1 - y^2 where y
    is nearly 1; each unit's errors have one sign in all steps.
    """

    errors: Errors

    def _backward(self, layer: Layer, is_first: bool, *factors: np.ndarray | None) -> tuple:
        found = super()._backward(layer, is_first, *factors)
        dy = factors[2]
        if not layer.reads_output or dy is None:
            return found
        signs = np.random.default_rng(dy[0].size).choice((-1.0, 1.0), dy.shape[1:])
        lost = LOST * self.errors.precision.roundoff * np.abs(dy)
        return found[0] + signs * np.maximum(0, lost - self.errors.relative * np.abs(found[0])), *found[1:]


class Trajectory:
    """Steps of the reference; as a twin, with rounding errors added.

    A twin stays so close to the truth that its gradient's difference changes slowly: the difference is computed in
    every EVERY-th step, and used until the next one. It is computed in every step of large logits, in the first steps,
    and where a tensor's gradient grows: a unit that leaves saturation may move more in one step than in all others.

    spreads : for each step, root of the sum of squares of the gradient's products with the distance from the truth: the
        loss's difference if their signs are random. A single twin's may happen to cancel.
    losses : one for each step; end : parameters after the last step.
    least, smallest : norm of the smallest update, by tensor and of all parameters; a twin has neither.
    program : for a witness, an honest program of a coarser format at `start`.
    farthest : by tensor, largest distance from the truth after any step that `measure` saw.
    ahead : largest product of the distance from the truth with the truth's way from the start, after any step.
    updates : of the reference, some numbers of each step's update, every `stride`-th.
    calm : steps that a copy did not make itself.
    """

    def __init__(
        self, net: Net, config: TrainConfig, start: State, errors: Errors | None = None,
        program: ReferenceTrainer | None = None,
    ) -> None:  # fmt: skip
        self.net, self.config, self.errors, self.number = net, config, errors, start.step
        self.trainer = ReferenceTrainer(net, config, start) if program is None else program
        if errors is not None and any(layer.reads_output for layer in net.layers):
            self.trainer = twin = Saturated(net, config, start)
            twin.errors = errors
        self.is_witness = program is not None
        self.losses: list[float] = []
        self.spreads: list[float] = []
        self.sizes: list[dict[str, float]] = []
        self.farthest: dict[str, float] = {}
        self.ahead, self.updates = 0.0, list[np.ndarray]()
        self.stride = max(1, net.param_count // SAMPLED)
        self.calm = 0
        self.rounded = None if errors is None or len(errors.shares) == 2 else 1 + errors.shares[2]
        self.off: tuple[float, np.ndarray | float] = 0.0, 0.0  # a twin's loss and gradient less the true ones
        optimizer = config.optimizer
        self.is_plain = isinstance(optimizer, SGD) and not (
            optimizer.momentum or optimizer.weight_decay or config.clip_value or config.clip_norm
        )

    def gradients(self, batch: StepSamples) -> tuple[float, np.ndarray]:
        """Loss and gradient (param_count,) of a batch, at the present parameters."""
        trainer, exact, loss = self.trainer, self.trainer.params, self.net.loss
        if self.rounded is not None:
            trainer.params = exact * self.rounded
        self.entering = trainer.activations(batch.x, batch.places)
        out, target = self.entering[-1], trainer.target(batch.x, batch.y)
        value, slope = losses.forward(loss, out, target, batch.shares), losses.backward(loss, out, target, batch.shares)
        if self.errors is not None:
            slope += self._lost_digits(batch, slope, out, target)
        gradient = trainer.pulled_back(self.entering, slope, places=batch.places)
        trainer.buffers = trainer.moved_buffers(self.entering)
        trainer.params = exact
        return value, gradient

    def _lost_digits(self, batch: StepSamples, slope: np.ndarray, out: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Errors (n, *out_shape) of the outputs' gradient `slope`, of that shape, beyond the relative ones."""
        errors = self.errors
        assert errors is not None
        off = slope_errors(self.net, out, target, errors.precision, batch.shares)
        return np.asarray(errors.signs[batch.some] * np.maximum(0, off - errors.relative * np.abs(slope)))

    def crossing(self, batch: StepSamples, kinks: Crossings) -> np.ndarray | None:
        """Gradient (param_count,) with all kinks crossed that rounding may cross in the step whose gradient was found
        last; None if it may cross none.
        """
        target = self.trainer.target(batch.x, batch.y)
        return kinks.gradient(self.trainer, self.entering, target, batch.shares, batch.places)

    def differs(self, gradient: np.ndarray, true: np.ndarray, rate: float, least: float) -> bool:
        """True if a gradient makes another step than the true one.

        rate, least : of the step, and the least of all steps: their updates are compared with the smallest one.
        """
        return differ(self.trainer, self._moved(gradient, rate), self._moved(true, rate), least / rate if rate else 1.0)

    def _moved(self, gradient: np.ndarray, rate: float) -> np.ndarray:
        """Update (param_count,) by a gradient; in plain SGD the gradient stands for it."""
        if self.is_plain:
            return gradient
        trainer = self.trainer
        after = update.step(trainer.params, gradient, trainer.slots, self.config, rate, self.number + 1)[0]
        return np.asarray(after - trainer.params)

    def copied(self) -> Trajectory:
        """Copy that goes on by itself."""
        out = Trajectory(self.net, self.config, self.trainer.state().but(step=self.number))
        out.losses, out.calm = list(self.losses), len(self.losses)
        return out

    def measure(self, true: Trajectory) -> None:
        """Take the distance of each tensor from the true one if it is the farthest so far; at kinks it changes fast."""
        off = self.trainer.norms(self.end - true.end)
        self.farthest = {name: max(far, self.farthest.get(name, 0.0)) for name, far in off.items()}

    def losses_off(self, other: Trajectory) -> np.ndarray:
        """Largest difference (steps,) of another trajectory's losses up to each step, at least its spread."""
        off = np.abs(np.subtract(other.losses, self.losses))
        return np.asarray(np.maximum.accumulate(np.maximum(off, other.spreads) if other.spreads else off))

    def near(self, batch: StepSamples, true: tuple[float, np.ndarray], is_fresh: bool) -> tuple[float, np.ndarray]:
        """Loss and gradient (param_count,) of a twin, from the true ones of the same step. is_fresh : True if their
        difference is computed.
        """
        if self.rounded is not None or self.is_witness:
            return self.gradients(batch)
        if is_fresh:
            loss, gradient = self.gradients(batch)
            self.off = loss - true[0], gradient - true[1]
        return true[0] + self.off[0], true[1] + self.off[1]

    def step(self, loss: float, moved: np.ndarray, rate: float) -> None:
        """Make a step by a batch's gradient `moved` (param_count,), which the update overwrites, and note its loss."""
        trainer, noise = self.trainer, None if self.errors is None else self.errors.shares
        self.number += 1
        if self.is_plain:
            _step(trainer.params, moved, rate, noise)
        else:
            after, slots = update.step(trainer.params, moved, trainer.slots, self.config, rate, self.number)
            np.subtract(after, trainer.params, out=moved)
            if noise is not None:
                _add_errors(after, moved.copy(), noise)
                slots = {name: slot + noise[0] * np.abs(slot) for name, slot in slots.items()}
            trainer.params, trainer.slots = after, slots
        if noise is None and not self.calm and not self.is_witness:
            self.sizes.append(trainer.norms(moved))
            self.updates.append(moved[:: self.stride].copy())
        self.losses.append(loss)

    @property
    def end(self) -> np.ndarray:
        return self.trainer.params

    @property
    def least(self) -> dict[str, float]:
        return {name: min(size[name] for size in self.sizes) for name in self.sizes[0]}

    @property
    def smallest(self) -> float:
        return min(float(np.sqrt(sum(each**2 for each in size.values()))) for size in self.sizes)


def moving(net: Net) -> np.ndarray:
    """Mask (param_count,) bool, False for biases whose gradient is rounding errors alone."""
    mask, idle = np.ones(net.param_count, np.bool_), cancelled_biases(net)
    for place in param_slices(net):
        mask[place.start : place.stop] = place.name not in idle
    return mask


def train(
    true: Trajectory, twins: list[Trajectory], dataset: Dataset, orders: tuple[Order, ...], precision: Precision
) -> Trajectory:  # fmt: skip
    """Train epochs by the reference and by its twins. Returns the twin that crosses kinks; the reference if there is
    none, as in coarse formats, whose twins cross kinks themselves.
    """
    kinks, crossing = Crossings(true.net, precision), true
    n, config, trainer = len(dataset.train_x), true.config, true.trainer
    batch, steps = config.batch(n), config.steps(n)
    trainer.load(dataset)
    all_x, all_y = trainer.batch(np.arange(n))
    rates = config.rates(true.number, true.number + len(orders) * steps, n).tolist()
    least, start, judged = min(rates), trainer.params.copy(), moving(true.net)
    sizes: dict[str, float] = {}  # of the gradient when differences were computed
    for number, order in enumerate(orders):
        indices = order.indices(0, n)
        for step in range(steps):
            some = indices[step * batch : (step + 1) * batch]
            at = places_in(true.net, order, step * batch, step * batch + len(some))
            y = None if all_y is None else all_y[some]
            shares = losses.shares(true.net.loss, y, len(some)) if trainer.shares is None else trainer.shares.at(some)
            samples = StepSamples(some, all_x[some], y, at, shares)
            found = true.gradients(samples)
            done = number * steps + step
            now = trainer.norms(found[1])
            grows = done < EVERY or any(now[name] > GROWN * size for name, size in sizes.items())
            is_fresh = grows or done % EVERY == 0 or kinks.is_steep(true.entering[-1])
            sizes = now if is_fresh else sizes
            near, slight = twins if crossing is true else [*twins, crossing], None
            if not precision.coarse:
                crossing, slight = _cross(true, crossing, samples, found, (rates[done], least), kinks)
            for twin in twins:
                if not precision.coarse:
                    twin.spreads.append(float(np.linalg.norm(found[1] * (twin.end - true.end))))
                loss, gradient = twin.near(samples, found, is_fresh)
                twin.step(loss, gradient if slight is None or twin.is_witness else gradient + slight, rates[done])
            if not precision.coarse and is_fresh:
                kinks.measure(true.entering, [twin.entering for twin in near])
            true.step(*found, rates[done])
            way = (true.end - start) * judged
            for twin in (*twins, *(() if crossing is true else (crossing,))):
                twin.ahead = max(twin.ahead, abs(float(way @ (twin.end - true.end))))
            if crossing is not true:
                crossing.measure(true)
    return crossing


def _cross(
    true: Trajectory, crossing: Trajectory, batch: StepSamples, found: tuple[float, np.ndarray],
    rates: tuple[float, float], kinks: Crossings,
) -> tuple[Trajectory, np.ndarray | None]:  # fmt: skip
    """Twin that crosses kinks, after its next step: the true trajectory up to the first step that crossing makes
    another one. Before it, the change of the gradient by crossing, which the other twins make; None if there is none.

    found : results of the true step, which comes next. rates : of the step, and the least of all. Afterwards the twin
    crosses the kinks that are near it, and those that are nearer to the truth than the twin is.
    """
    crossed = true.crossing(batch, kinks)
    change = None if crossed is None else crossed - found[1]
    if crossing is true:
        if crossed is None or not true.differs(crossed, found[1], *rates):
            return true, change
        crossing = true.copied()
        crossing.step(found[0], crossed, rates[0])
        return crossing, None
    loss, gradient = crossing.gradients(batch)
    crossed = crossing.crossing(batch, kinks)
    gradient = gradient if crossed is None else crossed
    crossing.step(loss, gradient if change is None else gradient + change, rates[0])
    return crossing, None


def _step(params: np.ndarray, gradient: np.ndarray, rate: float, noise: np.ndarray | None) -> None:
    """Make a step of SGD in place, by blocks, and leave the update in `gradient`; with noise, its magnitude is lost."""
    for first in range(0, len(params), AT_ONCE):
        block = slice(first, first + AT_ONCE)
        moved = gradient[block]
        moved *= -rate
        params[block] += moved
        if noise is not None:
            _add_errors(params[block], moved, noise[:, block])


def _add_errors(params: np.ndarray, moved: np.ndarray, noise: np.ndarray) -> None:
    """Add errors to parameters after an update by `moved`, which is overwritten. noise : (2, count), shares of both."""
    params += np.multiply(np.abs(moved, out=moved), noise[0], out=moved)
    params += np.multiply(np.abs(params, out=moved), noise[1], out=moved)
