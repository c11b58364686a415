"""The making of specimens, along a float64 trajectory.

Each state of the trajectory is rounded to float32, where the trainer keeps that, or to a grid, and each batch is made
of samples that suit the state it meets. A large batch of a heavy net repeats its distinct samples, irregularly: the
truth of a mean is then a weighted mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ..config import TrainConfig
from ..data.dataset import Dataset, pixels
from ..data.order import Order
from ..machine.precision import Precision, named
from ..nets import CrossEntropyLoss, Net
from ..nets.params import initial, param_slices, views
from ..optimizers import SGD
from ..optimizers.schedules import Constant
from ..trainers.base import State
from .bias_sums import Sums
from .kinks import decided, on_grid, steady
from .reference import ReferenceTrainer, slices
from .reference_cases import Case, Pool, Specimen, truth
from .samples import Draw
from .witness import fit_to_predict, misfit, misfit_coarsely, unsteady

BATCH_FLOPS = 4e8  # of the reference, for each specimen: says how many distinct samples a batch has
# times that a sample stands in a batch, on an average, at most: like terms round alike, which errors show as the root
# of this
REPEATED = 9
CANDIDATES = 64  # looked at for each screened sample wanted, before a net counts as too full of switches to screen
SPARE = 4  # samples drawn for each one wanted, where a coarse format makes some of them useless
STARTS = 32  # initial weights that are tried until every tensor moves
REDRAWS = 8  # batches that are tried at a state until one is fit to judge by
BIAS = 0.1  # standard deviation of the biases of other starts than the first
BELOW = 2.0**-26  # of a weight, what is added to it where fp64 is kept: float32 would lose it
PROMISE = 1 / 8  # of the loss: what a trajectory's first step takes off, to first order
MOMENTS = 64  # of a run that are tried for a case's first update
EARLY = 50  # updates of a run in which Adam's corrections are large
LONG = 10_000  # updates of a run where nothing else counts them
LEAST_SHARE = 1e-6  # of the optimizer's rate that a schedule leaves there


class TooManySwitches(Exception):
    """Hardly a sample keeps clear of every switch."""


class Unfit(Exception):
    """Some tensor does not move at all, or no batch is fit to judge by."""


class NoSpecimen(Exception):
    """This net offers no step that could prove anything."""


class Maker:
    """Makes cases for one net and one configuration.

    Parameters
    ----------
    net, config
    rng : numpy.random.Generator
    precision : str or Precision
        What the trainer computes products in.
    """

    def __init__(
        self, net: Net, config: TrainConfig, rng: np.random.Generator, precision: str | Precision = "fp32"
    ) -> None:
        self.net, self.config, self.rng, self.precision = net, config, rng, named(precision)
        self.seed = int(rng.integers(2**31))  # of no weights that the configuration or the caller names
        self.moments = np.random.default_rng(
            [self.seed, 2]
        )  # numbers of its own, since what else is drawn does not hang on the schedule
        self.placed = False
        self.distinct = max(2, int(BATCH_FLOPS / net.train_flops))

    def case(
        self,
        name: str,
        order: Order,
        draws: Sequence[Draw],
        *,
        steps: Sequence[int] | None = None,
        distinct: int | None = None,
        start: np.ndarray | None = None,
        updates: bool = True,
        fresh: bool = False,
    ) -> Case:
        """Follow a trajectory over some steps of an epoch, and give each batch samples that suit the state it meets.

        It begins at `start` (param_count,), or at initial weights at which every tensor moves, if there are any. The
        samples come from the first of the draws that offers enough; those that stand in no such step are zeros. Without
        `updates` the batches need to be fit to judge a log by, and no more. `fresh`: no update was made before the
        first, else some were.
        """
        steps = range(self.config.steps(order.n)) if steps is None else steps
        made = 0 if fresh else self._moment(order.n, len(steps))
        against = ""
        for draw in draws:
            for some, moving in self._starts() if start is None else [(start, False)]:
                try:
                    start_here = State(some.astype(np.float64), step=made)
                    case = self._case(name, order, draw, steps, distinct or self.distinct, start_here, moving, updates)
                    return replace(case, updates=updates)
                except TooManySwitches:
                    against = "hardly a sample keeps clear of every switch"
                    break
                except Unfit as unfit:
                    against = str(unfit)
        raise NoSpecimen(
            f"{name} data: no samples were found for net {self.net.name!r} that are fit to judge a step by: {against}"
        )

    def _case(
        self,
        name: str,
        order: Order,
        draw: Draw,
        steps: Sequence[int],
        distinct: int,
        state: State,
        moving: bool,
        updates: bool,
    ) -> Case:
        config, n = self.config, order.n
        batch = config.batch(n)
        x_all, y_all = np.zeros((n, *self.net.in_shape), draw.dtype), np.zeros(n, np.int32)
        specimens: list[Specimen] = []
        rate = 0.0
        for step in steps:
            positions = order.indices(step * batch, min((step + 1) * batch, n))
            for _ in range(REDRAWS):
                specimen, data, against, gradients = self._specimen(
                    state, step, len(positions), n, draw, distinct, updates
                )
                if not against and not specimens:
                    still = [name for name, g in views(self.net, specimen.gradient).items() if not np.any(g)]
                    if moving and still:
                        raise Unfit(f"{still[0]} does not move")
                if not against and not (specimens and self.plain):
                    specimen = self._amid(specimen)
                if not against and updates and not self.plain:
                    against = unsteady(self.net, config, specimen, gradients, self.precision)
                if not against:
                    break
            else:
                raise Unfit(against)
            x_all[positions] = data.train_x
            if data.train_y is not None:
                y_all[positions] = data.train_y
            rate = rate if specimens else self._rate(specimen)
            specimens.append(specimen)
            after, held = specimen.after(config.but(learning_rate=rate, schedule=Constant()))
            state = State(after, held, specimen.state.step + 1)
        return Case(name, self._dataset(name, x_all, y_all, draw.scale), order, tuple(specimens))

    def _dataset(self, name: str, x: np.ndarray, y: np.ndarray, scale: float) -> Dataset:
        labels = y if isinstance(self.net.loss, CrossEntropyLoss) else None
        return Dataset(name, x, labels, x[:1], None if labels is None else labels[:1], scale)

    def _specimen(
        self, state: State, step: int, size: int, samples: int, draw: Draw, distinct: int, updates: bool
    ) -> tuple[Specimen, Dataset, str, list[np.ndarray]]:
        """A step from a state near this one, its batch as a data set, why it is not fit to judge by, empty where it is,
        and the witnesses' gradients.
        """
        count = min(size, max(distinct, -(-size // REPEATED)))
        rounded, x, y = self._suited(state, count, draw)
        which = self.rng.permutation(np.concatenate([np.arange(count), self.rng.integers(0, count, size - count)]))
        seen, counts = pixels(x, draw.scale).astype(np.float64), np.bincount(which)
        sums = Sums(self.net, which, self.precision) if updates and not self.precision.coarse else None
        specimen = Specimen(
            rounded,
            step,
            size,
            samples,
            *truth(ReferenceTrainer(self.net, self.config, rounded), seen, y, counts, sums),
        )
        data = self._dataset("batch", x[which], y[which], draw.scale)
        if not self.precision.coarse:
            return specimen, data, *misfit(self.net, data, specimen, self.precision, sums)
        return specimen, data, *misfit_coarsely(self.net, seen, y, counts, specimen, self.precision, updates)

    def pools(self, draws: Sequence[Draw], most: int) -> tuple[State, tuple[Pool, ...]]:
        """A state, and samples of each kind, at most so many, to predict at it."""
        for i in range(1, STARTS):
            state = State(self._start(i))
            found = tuple(pool for pool in (self._pool(state, draw, most) for draw in draws) if pool is not None)
            if len(found) == len(draws):
                return state, found
        raise NoSpecimen(f"no samples were found for net {self.net.name!r} that are fit to judge its output by")

    def _pool(self, state: State, draw: Draw, most: int) -> Pool | None:
        reference = ReferenceTrainer(self.net, self.config, state)
        count = min(most, self.distinct)
        for _ in range(REDRAWS):
            x, _ = draw(self.rng, count)
            truth = reference.predict(x, draw.scale)
            alone = fit_to_predict(self.net, x, draw.scale, state.params, truth, self.precision)
            if len(alone) and np.any(truth):
                return Pool(x, draw.scale, truth, alone)
        return None

    def _starts(self) -> Iterator[tuple[np.ndarray, bool]]:
        """Starts to try, and whether every tensor has to move there: a tensor that no start moves cannot move, and then
        must not.
        """
        for number in range(STARTS):
            yield self._start(number), True
        yield self._start(0), False

    def _start(self, number: int) -> np.ndarray:
        """(param_count,): the initial weights of the seed, and others, whose biases are not zero; in fp64 none is a
        number of float32.
        """
        out = initial(self.net, self.seed + number)
        for place in param_slices(self.net) if number else ():
            if len(place.shape) == 1:
                out[place.start : place.stop] = self.rng.normal(0, BIAS, place.shape)
        if self.precision.element == "float64":
            return out * (1 + self.rng.normal(0, BELOW, len(out)))
        return out

    @property
    def plain(self) -> bool:
        """Whether a step goes along the gradient, and along a momentum that is a sum of gradients: it makes nothing
        more of a rounding error.
        """
        return isinstance(self.config.optimizer, SGD)

    def _moment(self, samples: int, steps: int) -> int:
        """Updates made before a case of so many steps: amid the run, where the schedule leaves a rate; 0 where it
        leaves none.

        The first case that is made, on which settings bite, stands early, where corrections of a start at zero are far
        from 1, and where the rate is not the optimizer's own, if there is such a place. Where the schedule never
        changes it, runs are as long as real ones are, not as the case's few samples make them.
        """
        config, never, first = self.config.but(learning_rate=1.0), self.config.schedule.steady, not self.placed
        self.placed = True
        last = max(1, LONG if never else 0, config.epochs * config.steps(samples) - steps)
        logs = np.exp(self.moments.uniform(0, np.log(last), MOMENTS // 2)).astype(np.int64)
        moments = self.moments.permutation([*self.moments.integers(1, last + 1, MOMENTS // 2), *logs])
        if first:
            moments = np.concatenate([self.moments.integers(1, min(last, EARLY) + 1, MOMENTS), moments])
        found = 0
        for moment in moments.tolist():
            rates = config.rates(moment, moment + steps, samples)
            if rates.min() >= LEAST_SHARE:
                found = found or moment
                if never or not first or np.any(rates != 1.0):
                    return moment
        return found

    def _rate(self, specimen: Specimen) -> float:
        """At which a trajectory goes on: the update's parts together take PROMISE of the loss off."""
        along = -specimen.gradient
        if not self.plain:  # an update from zero gradients can go any way, and against the gradient
            along = specimen.after(self.config.but(learning_rate=1.0, schedule=Constant()))[0] - specimen.params
        slope = float(np.abs(specimen.gradient) @ np.abs(along))
        return PROMISE * specimen.loss / slope if slope > 0 else 0.0

    def _amid(self, specimen: Specimen) -> Specimen:
        """The specimen with slots in its state, drawn tensor by tensor."""
        out = {name: np.zeros(self.net.param_count, self.precision.element) for name in self.config.optimizer.slots}
        params, gradient = specimen.params, specimen.gradient
        for place in param_slices(self.net) if out else ():
            here = slice(place.start, place.stop)
            for name, values in self.config.optimizer.drawn(self.rng, params[here], gradient[here]).items():
                out[name][here] = values
        return replace(specimen, state=specimen.state.but(slots=out))

    def _suited(self, state: State, count: int, draw: Draw) -> tuple[State, np.ndarray, np.ndarray]:
        """The state as the trainer keeps it, and samples with labels that suit it."""
        if draw.exact:
            return self._exact(state, count, draw)
        rounded = state.copied(self.precision.element)
        reference = ReferenceTrainer(self.net, self.config, rounded)
        xs: list[np.ndarray] = []
        ys: list[np.ndarray] = []
        for _ in range(CANDIDATES):
            x, y = draw(self.rng, count)
            for some in slices(self.net, count):  # no more are looked at than are wanted
                keep = steady(reference, pixels(x[some], draw.scale).astype(np.float64), self.precision)
                xs.append(x[some][keep])
                ys.append(y[some][keep])
                if sum(map(len, xs)) >= count:
                    return rounded, np.concatenate(xs)[:count], np.concatenate(ys)[:count]
        raise TooManySwitches

    def _exact(self, state: State, count: int, draw: Draw) -> tuple[State, np.ndarray, np.ndarray]:
        """The state on a grid, and samples on another.

        In a coarser format than fp32 a logit's rounding is large enough that samples have to be chosen whose largest
        logit is clear.
        """
        coarse = self.precision.coarse and bool(np.any(state.params))  # from zeros all logits tie, exactly
        x, y = draw(self.rng, SPARE * count if coarse else count)
        seen = pixels(x, draw.scale).astype(np.float64)
        rounded = on_grid(self.net, state, seen, self.rng, self.precision)
        if coarse:
            clear = decided(self.net, ReferenceTrainer(self.net, self.config, rounded).through(seen), self.precision)
            if np.count_nonzero(clear) < count:
                raise Unfit("too few samples have a largest logit that rounding cannot change")
            x, y = x[clear][:count], y[clear][:count]
        return rounded, x, y
