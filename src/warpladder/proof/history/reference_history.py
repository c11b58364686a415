"""`ReferenceHistory`: more than a hundred steps whose losses and last weights are known up to rounding.

Training is chaotic: a difference of one rounding grows from step to step, and no formula bounds it. So it is measured:
the float64 reference trains once, and again as a twin, which adds errors of the largest magnitude of an honest step
after every step, always with the same signs. The distance of the twin from the reference bounds an honest trainer's.
Data, start and rate are drawn until this distance is small compared with the smallest update: then a single omitted
step shows. A second twin crosses every kink that rounding may cross, from the first such step on (crossings.py). If
factors of products are rounded to a coarser format, weights are rounded before every step too, which can change a
ReLU's mask for as long as an input stays close to zero. No single twin has all such changes, so the farthest of several
is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...config import TrainConfig
from ...data.dataset import Dataset
from ...data.order import Order
from ...machine.precision import Precision
from ...nets import Net
from ...nets.params import param_slices
from ...ops.loss import reference as losses
from ...ops.update import reference as update
from ...optimizers import SGD
from ...trainers.base import State, goals
from ..bounds import loss_bound, step_bounds
from ..case_maker import CaseMaker
from ..places import Places, places_in
from ..reference import ReferenceTrainer
from ..samples import SampleSource
from ..whole_batches import cancelled_biases
from .crossings import Crossings

STEPS = 101, 113  # bounds between which the number of steps is drawn
FLOPS = 2e9  # FLOPs of all trajectories of a net, at most; a heavy net's history is shorter
COST = 20.0  # FLOPs that a parameter costs in a step of the reference, next to those of the net
FEWEST = 6  # steps, however heavy the net
TRIES = 3  # starts and rates that are tried until a step that is left out shows
SLOWER = 0.25  # share of the rate that the next try has
MARGIN = 4.0  # times the distance of the twin from the reference
CROSSED = 2.0  # times the distance of the twin that crosses all kinks: another trainer crosses some of them
SHOWS = 1 / 4  # share of the smallest update that is tolerated
STORED = 1.0  # unit roundoffs of a parameter that the twin adds in every step: the largest that storing one has
LEAST_RATE_SHARE = 1 / 50  # least share of the largest rate that a step of a history has
TWINS = 6  # twins of a history in a precision with rounded factors
MOMENTS = 8  # updates of a run that are tried as the first
TOTAL = 1.0  # share of the loss that all steps take off, to first order
AT_ONCE = 1 << 14  # numbers of a block of parameters, few enough to stay in the cache
EVERY = 5  # steps of a twin for which a difference of gradients holds; no multiple of an epoch's steps
LATEST = 2.0**24  # updates made before a history with a constant rate, at most


@dataclass(frozen=True)
class ReferenceHistory:
    """Epochs of a small data set, from a start, and their true results.

    config : settings of the trainer, at a rate at which training is steady.
    dataset, orders, start : the data, the epochs, and the state before them.
    losses, loss_tolerances : (steps,) float64, true losses, and their differences that rounding explains.
    end : (param_count,) float64, true parameters after the last step.
    movements, tolerances : by tensor, norm of its change over all steps, and of the difference at the end that rounding
        explains.
    least : norm of the smallest update of all parameters.
    """

    config: TrainConfig
    dataset: Dataset
    orders: tuple[Order, ...]
    start: State
    losses: np.ndarray
    loss_tolerances: np.ndarray
    end: np.ndarray
    movements: dict[str, float]
    tolerances: dict[str, float]
    least: float

    @property
    def sharpness(self) -> float:
        """Smallest update over the tolerance of all parameters: above 1, an omitted step shows."""
        most = float(np.sqrt(sum(each**2 for each in self.tolerances.values() if math.isfinite(each))))
        return self.least / most if most > 0 else 0.0


def make_history(maker: CaseMaker, source: SampleSource) -> ReferenceHistory:
    """First history in which an omitted step shows, or of several the one with the greatest sharpness."""
    rng = np.random.default_rng([maker.seed, 3])
    best: ReferenceHistory | None = None
    for number in range(TRIES):
        with np.errstate(all="ignore"):
            found = _draw(maker, source, rng, number)
        if best is None or found.sharpness > best.sharpness:
            best = found
        if best.sharpness > 1:
            break
    assert best is not None
    return best


def _draw(maker: CaseMaker, source: SampleSource, rng: np.random.Generator, number: int) -> ReferenceHistory:
    """History from start `number`, at a rate that decreases with the number."""
    net, config = maker.net, maker.config
    n = int(rng.integers(2, max(3, min(config.batch_size or 3, 3) + 1)))
    affordable = int(FLOPS / ((net.train_flops * n + COST * net.param_count) * 2))
    if net.normalizes:
        n = min(config.batch_size or 8, 8) * (1 if config.batch_size is None or config.batch_size >= 8 else 2)
    each = config.steps(n)
    epochs = -(-max(FEWEST, min(int(rng.integers(*STEPS)), affordable)) // each)
    config = config.but(epochs=max(config.epochs, 2 * epochs))  # schedules end after the history
    x, y = source(rng, n)
    labels = goals(net, y)
    dataset = Dataset("history", x, labels, x[:1], None if labels is None else labels[:1], source.scale)
    seed, first, shuffle = int(rng.integers(2**32)), int(rng.integers(2**32 - epochs)), bool(rng.integers(2))
    orders = tuple(Order(seed, first + epoch, n, shuffle) for epoch in range(epochs))
    made, epochs = _moment(config, rng, n, epochs)
    orders = orders[:epochs]
    start, rate = maker.moving_start(number + 1, made, dataset, orders[0])
    config = config.but(learning_rate=rate * TOTAL * SLOWER**number / (epochs * each))
    return _followed(maker, config, dataset, orders, start, rng)


def _moment(config: TrainConfig, rng: np.random.Generator, n: int, epochs: int) -> tuple[int, int]:
    """Updates before the first step, and number of epochs from this moment whose rate is not too small."""
    if config.steady:
        return int(np.exp(rng.uniform(0, np.log(LATEST)))), epochs
    each, found = config.steps(n), (0, 0)
    for moment in (0, *rng.integers((config.epochs - epochs) * each + 1, size=MOMENTS).tolist()):
        rates = config.but(learning_rate=1.0).rates(moment, moment + epochs * each, n)
        small = np.flatnonzero(rates < LEAST_RATE_SHARE * rates.max())
        usable = (int(small[0]) if len(small) else len(rates)) // each if rates.max() > LEAST_RATE_SHARE else 0
        found = (moment, usable) if usable >= found[1] else found
    return found[0], max(1, found[1])


def _followed(
    maker: CaseMaker, config: TrainConfig, dataset: Dataset, orders: tuple[Order, ...], start: State,
    rng: np.random.Generator,
) -> ReferenceHistory:  # fmt: skip
    """History of these epochs: the reference, and the distance of its twins."""
    net, precision, n = maker.net, maker.precision, len(dataset.train_x)
    bounds = step_bounds(net, config.batch(n), precision, config)
    more = config.optimizer.host_rounding(start.step + 1)
    true, twins = _Trajectory(net, config, start), list[_Trajectory]()
    for _ in range(TWINS if precision.coarse else 1):
        noise = rng.choice((-1.0, 1.0), (2 + precision.coarse, net.param_count))
        for place in param_slices(net):
            noise[0, place.start : place.stop] *= bounds[place.name] + more
        noise[1] *= STORED * precision.roundoff
        noise[2:] *= precision.factors
        twins.append(_Trajectory(net, config, start, noise))
    crossing = _train(true, twins, dataset, orders, precision)
    drift, loss_drift = dict.fromkeys(true.least, 0.0), np.zeros(len(true.losses))
    for twin in twins:
        drift = {name: max(drift[name], off) for name, off in true.trainer.norms(twin.end - true.end).items()}
        loss_drift = np.maximum(loss_drift, true.losses_off(twin))
    every, outputs = np.array(true.losses), true.trainer.predict(dataset.train_x, dataset.scale)
    stored = true.trainer.norms(len(every) * STORED * precision.roundoff * true.end)
    tolerances = {name: max(MARGIN * drift[name], SHOWS * true.least[name], stored[name]) for name in drift}
    crossed = true.trainer.norms(crossing.end - true.end)
    tolerances = {name: allowed + CROSSED * crossed[name] for name, allowed in tolerances.items()}
    tolerances |= dict.fromkeys(cancelled_biases(net), math.inf)  # their gradient is rounding errors alone
    # a loss is a difference of outputs, whose errors do not fall with it
    size = float(np.max(np.abs(every))) + float(np.max(np.abs(outputs)))
    allowed = MARGIN * (loss_drift + loss_bound(net, config.batch(n), precision) * size)
    allowed += CROSSED * true.losses_off(crossing)
    movements = true.trainer.norms(true.end - start.params)
    return ReferenceHistory(
        config, dataset, orders, start, every, allowed, true.end, movements, tolerances, true.smallest
    )


#: Samples, labels or targets, places, and the samples' shares of the loss.
_Batch = tuple[np.ndarray, np.ndarray | None, Places | None, Any]


class _Trajectory:
    """Steps of the reference; as a twin, with rounding errors added.

    A twin stays so close to the truth that its gradient's difference changes slowly: the difference is computed in
    every EVERY-th step, and used until the next one.

    noise : (2 or 3, param_count) float64, or None: shares of an update and of a parameter that are added to the
        parameter after each step, and, if factors are rounded, the share of a parameter that is added only while a step
        computes its gradients, in every step.
    losses : one for each step; end : parameters after the last step.
    least, smallest : norm of the smallest update, by tensor and of all parameters; a twin has neither.
    """

    def __init__(self, net: Net, config: TrainConfig, start: State, noise: np.ndarray | None = None) -> None:
        self.net, self.config, self.noise, self.number = net, config, noise, start.step
        self.trainer = ReferenceTrainer(net, config, start)
        self.losses: list[float] = []
        self.sizes: list[dict[str, float]] = []
        self.rounded = None if noise is None or len(noise) == 2 else 1 + noise[2]
        self.off: tuple[float, np.ndarray | float] = 0.0, 0.0  # a twin's loss and gradient less the true ones
        optimizer = config.optimizer
        self.is_plain = isinstance(optimizer, SGD) and not (
            optimizer.momentum or optimizer.weight_decay or config.clip_value or config.clip_norm
        )

    def gradients(self, batch: _Batch) -> tuple[float, np.ndarray]:
        """Loss and gradient of a batch."""
        trainer, exact = self.trainer, self.trainer.params
        if self.rounded is not None:
            trainer.params = exact * self.rounded
        x, y, places, shares = batch
        self.entering = trainer.activations(x, places)
        loss, _, gradient = trainer.gradients(x, y, None, self.entering, places, shares)
        trainer.buffers = trainer.moved_buffers(self.entering)
        trainer.params = exact
        return loss, gradient

    def crossing(self, batch: _Batch, found: tuple[float, np.ndarray], kinks: Crossings) -> np.ndarray | None:
        """Gradient with all kinks crossed that rounding may cross in the step whose results were found."""
        x, y, places, shares = batch
        target = self.trainer.target(x, y)
        if shares is None:
            shares = losses.shares(self.net.loss, y, len(x))
        return kinks.gradient(self.trainer, self.entering, target, shares, places, found[1])

    def copied(self) -> _Trajectory:
        """Copy that goes on by itself."""
        out = _Trajectory(self.net, self.config, self.trainer.state().but(step=self.number))
        out.losses = list(self.losses)
        return out

    def losses_off(self, other: _Trajectory) -> np.ndarray:
        """Largest difference (steps,) of another trajectory's losses up to each step."""
        return np.asarray(np.maximum.accumulate(np.abs(np.subtract(other.losses, self.losses))))

    def near(self, batch: _Batch, true: tuple[float, np.ndarray], step: int) -> tuple[float, np.ndarray]:
        """Loss and gradient of a twin, from the true ones of the same step."""
        if self.rounded is not None:
            return self.gradients(batch)
        if step % EVERY == 0:
            loss, gradient = self.gradients(batch)
            self.off = loss - true[0], gradient - true[1]
        return true[0] + self.off[0], true[1] + self.off[1]

    def step(self, loss: float, moved: np.ndarray, rate: float) -> None:
        """Make a step by the gradient `moved`, which is overwritten."""
        trainer, noise = self.trainer, self.noise
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
        if noise is None:
            self.sizes.append(trainer.norms(moved))
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


def _train(
    true: _Trajectory, twins: list[_Trajectory], dataset: Dataset, orders: tuple[Order, ...], precision: Precision
) -> _Trajectory:  # fmt: skip
    """Train epochs by the reference and by its twins. Returns the twin that crosses kinks; the reference if there is
    none, as in coarse formats, whose twins cross kinks themselves.
    """
    kinks, crossing = Crossings(true.net, precision), true
    n, config, trainer = len(dataset.train_x), true.config, true.trainer
    batch, steps = config.batch(n), config.steps(n)
    trainer.load(dataset)
    all_x, all_y = trainer.batch(np.arange(n))
    rates = config.rates(true.number, true.number + len(orders) * steps, n).tolist()
    for number, order in enumerate(orders):
        indices = order.indices(0, n)
        for step in range(steps):
            some = indices[step * batch : (step + 1) * batch]
            at = places_in(true.net, order, step * batch, step * batch + len(some))
            shares = None if trainer.shares is None else trainer.shares.at(some)
            samples = all_x[some], None if all_y is None else all_y[some], at, shares
            found = true.gradients(samples)
            done = number * steps + step
            for twin in twins:
                twin.step(*twin.near(samples, found, done), rates[done])
                if done % EVERY == 0:
                    kinks.measure(true.entering, twin.entering)
            if not precision.coarse:
                crossing = _cross(true, crossing, samples, found, rates[done], kinks)
            true.step(*found, rates[done])
    return crossing


def _cross(
    true: _Trajectory, crossing: _Trajectory, batch: _Batch, found: tuple[float, np.ndarray], rate: float,
    kinks: Crossings,
) -> _Trajectory:  # fmt: skip
    """Twin that crosses kinks, after its next step: the true trajectory up to the first step with kinks to cross.

    found : results of the true step, which comes next. The twin crosses kinks by itself too, now and then, so each of
    its gradients is computed.
    """
    own = found if crossing is true else crossing.gradients(batch)
    other = crossing.crossing(batch, own, kinks)
    if crossing is true:
        if other is None:
            return true
        crossing = true.copied()
    crossing.step(own[0], own[1] if other is None else other, rate)
    return crossing


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
