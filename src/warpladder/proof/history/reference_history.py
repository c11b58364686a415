"""`ReferenceHistory`: more than a hundred steps whose losses and last weights are known up to rounding.

Training is chaotic: a difference of one rounding grows from step to step, and no formula bounds it. So it is measured:
the float64 reference trains once, and again as a twin, which adds errors of the largest magnitude of an honest step
after every step, always with the same signs. The distance of the twin from the reference bounds an honest trainer's.
Data, start and rate are drawn until this distance is small compared with the smallest update: then a single omitted
step shows. A second twin crosses every kink that rounding may cross, from the first such step on (crossings.py). If
factors of products are rounded to a coarser format, weights are rounded before every step too, which can change a
ReLU's mask for as long as an input stays close to zero. No single twin has all such changes, so the farthest of several
is used, and honest programs of the format are among them: another one rounds the same factors, and has the same masks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...config import TrainConfig
from ...data.dataset import Dataset
from ...data.order import Order
from ...nets.params import param_slices
from ...trainers.base import State, goals
from ..bounds import loss_bound, step_bounds
from ..case_maker import CaseMaker
from ..normalised.whole_batches import cancelled_biases
from ..samples import SampleSource
from ..witness import honest
from .trajectory import Errors, Trajectory, moving, train

STEPS = 101, 113  # bounds between which the number of steps is drawn
FLOPS = 2e9  # FLOPs of all trajectories of a net, at most; a heavy net's history is shorter
COST = 20.0  # FLOPs that a parameter costs in a step of the reference, next to those of the net
FEWEST = 6  # steps, however heavy the net
TRIES = 3  # starts and rates that are tried until a step that is left out shows
SLOWER = 0.25  # share of the rate that the next try has
CALM = 1 / 2  # share of the epochs, at least, to which a history is cut that is not sharp where it crosses kinks
MARGIN = 4.0  # times the distance of the twin from the reference
CROSSED = 2.0  # times the distance of the twin that crosses all kinks: another trainer crosses some of them
SHOWS = 1 / 4  # share of the smallest update that is tolerated
STORED = 1.0  # unit roundoffs of a parameter that the twin adds in every step: the largest that storing one has
LEAST_RATE_SHARE = 1 / 50  # least share of the largest rate that a step of a history has
TWINS = 5  # twins of a history in a precision with rounded factors
MOMENTS = 8  # updates of a run that are tried as the first
TOTAL = 1.0  # share of the loss that all steps take off, to first order
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
    way : (param_count,) float64, change of the parameters over all steps, zero where it is rounding errors alone.
    ahead : share of this way by which an honest trainer may be ahead or late; a step left out is `share` of it or
        more. Other differences are hardly ever along this one direction, so that it shows much less.
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
    way: np.ndarray
    ahead: float
    share: float

    @property
    def sharpness(self) -> float:
        """Smallest update over the tolerance of all parameters, or along the way: above 1, an omitted step shows.

        It is 0 where training went astray.
        """
        if not np.all(np.isfinite(self.end)):
            return 0.0
        most = float(np.sqrt(sum(each**2 for each in self.tolerances.values() if math.isfinite(each))))
        return max(self.least / most if most > 0 else 0.0, self.share / self.ahead)

    def along(self, end: np.ndarray) -> float:
        """Share of the way by which parameters (param_count,) are ahead of the true ones, or late."""
        return abs(float(self.way @ (end - self.end))) / (float(self.way @ self.way) or 1.0)


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
    found, calm = _followed(maker, config, dataset, orders, start, rng)
    if found.sharpness <= 1 and CALM * len(orders) <= calm < len(orders):
        return _followed(maker, config, dataset, orders[:calm], start, rng)[0]
    return found


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
) -> tuple[ReferenceHistory, int]:  # fmt: skip
    """History of these epochs: the reference, and the distance of its twins; and how many of them cross no kinks."""
    net, precision, n = maker.net, maker.precision, len(dataset.train_x)
    bounds = step_bounds(net, config.batch(n), precision, config)
    more = config.optimizer.host_rounding(start.step + 1)
    true, twins, shape = Trajectory(net, config, start), list[Trajectory](), (n, *net.out_shape)
    for _ in range(TWINS if precision.coarse else 1):
        noise = rng.choice((-1.0, 1.0), (2 + precision.coarse, net.param_count))
        for place in param_slices(net):
            noise[0, place.start : place.stop] *= bounds[place.name] + more
        noise[1] *= STORED * precision.roundoff
        noise[2:] *= precision.factors
        errors = Errors(noise, rng.choice((-1.0, 1.0), shape), min(bounds.values()), precision)
        twins.append(Trajectory(net, config, start, errors))
    twins += [Trajectory(net, config, start, program=each) for each in honest(net, config, start, precision)]
    crossing = train(true, twins, dataset, orders, precision)
    drift, loss_drift = dict.fromkeys(true.least, 0.0), np.zeros(len(true.losses))
    for twin in twins:
        drift = {name: max(drift[name], off) for name, off in true.trainer.norms(twin.end - true.end).items()}
        loss_drift = np.maximum(loss_drift, true.losses_off(twin))
    every, outputs = np.array(true.losses), true.trainer.predict(dataset.train_x, dataset.scale)
    stored = true.trainer.norms(len(every) * STORED * precision.roundoff * true.end)
    tolerances = {name: max(MARGIN * drift[name], SHOWS * true.least[name], stored[name]) for name in drift}
    tolerances = {name: allowed + CROSSED * crossing.farthest.get(name, 0.0) for name, allowed in tolerances.items()}
    tolerances |= dict.fromkeys(cancelled_biases(net), math.inf)  # their gradient is rounding errors alone
    # a loss is a difference of outputs, whose errors do not fall with it
    size = float(np.max(np.abs(every))) + float(np.max(np.abs(outputs)))
    allowed = MARGIN * (loss_drift + loss_bound(net, config.batch(n), precision) * size)
    allowed += CROSSED * true.losses_off(crossing)
    movements = true.trainer.norms(true.end - start.params)
    way = (true.end - start.params) * moving(net)
    ahead, share = _along(true, way, [*twins, crossing], 0.0 if precision.coarse else max(bounds.values()) + more)
    history = ReferenceHistory(
        config,
        dataset,
        orders,
        start,
        every,
        allowed,
        true.end,
        movements,
        tolerances,
        true.smallest,
        way,
        ahead,
        share,
    )
    return history, len(orders) if crossing is true else crossing.calm // config.steps(n)


def _along(
    true: Trajectory, way: np.ndarray, twins: list[Trajectory], bound: float
) -> tuple[float, float]:  # fmt: skip
    """Share of the way by which an honest trainer may be ahead or late, and the smallest share of a step.

    Along the way all errors of updates may have one sign, and storing may lose all of a parameter's movement.

    twins : the last one crosses kinks. bound : of an update's error; 0 where honest programs are among the twins.
    """
    square, roundoff = float(way @ way), np.finfo(np.float32).eps / 2
    if not square > 0:
        return math.inf, 0.0
    *others, crossing = (twin.ahead / square for twin in twins)
    stored = len(true.losses) * true.config.optimizer.stores * roundoff * np.abs(true.end)
    lost = float(np.abs(way) @ np.minimum(np.abs(way), stored)) / square
    some = way[:: true.stride]
    shares = np.array(true.updates) @ some / max(float(some @ some), float(np.finfo(np.float64).tiny))
    return MARGIN * (max(others) + bound) + CROSSED * crossing + lost, max(0.0, float(shares.min()))
