"""`CaseMaker`: it makes reference cases along a float64 trajectory.

Each state of the trajectory is rounded to float32, unless the trainer stores float64, or to a grid, and each batch has
samples that suit its state. A large batch of a heavy net repeats its distinct samples irregularly: the truth is then a
weighted mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..config import TrainConfig
from ..data.dataset import Dataset, pixels
from ..data.order import Order
from ..machine.precision import Precision, named
from ..nets import Net
from ..nets.params import initial, param_slices, views
from ..optimizers import SGD
from ..optimizers.schedules import Constant
from ..trainers.base import State, goals
from .bias_sums import BiasSums, has_like_terms
from .bounds import update_bounds
from .normalised.allowance import Allowance
from .normalised.format_errors import counts_errors, with_format_errors
from .normalised.long_sums import LEAST, longest_sum
from .normalised.whole_batches import cancelled_biases, drawn_buffers, whole_step
from .patience import Patience
from .places import Moments, places_in
from .reference import ReferenceTrainer
from .reference_cases import ReferenceCase, ReferenceStep, truth
from .samples import SampleSource, drawn_weights
from .suited_samples import REDRAWS, SuitedSamples, TooManyKinks, Unfit
from .weight_sums import allow, are_few, beyond, weight_sums
from .witness import RESERVE, Batch, amplified_errors, misfit, misfit_in_coarse

BATCH_FLOPS = 4e8  # FLOPs of the reference in a step: sets the number of distinct samples in a batch
REPEATED = 9  # average times that a sample is in a batch, at most: like terms round alike, errors grow with the root
STARTS = 32  # starts tried until every tensor moves
FEW = 8  # samples for each one that repeats another where masks or a normalisation make each its own
#: Batches drawn at a state where a normalisation mostly amplifies a coarse format's errors beyond the bounds.
SELDOM = 24
NORMALISED = 2  # batches drawn there in other formats: whether these errors are small depends on the state
PATIENCE = 2  # draws in which sums of equal terms must be as near as all others
BIAS = 0.1  # standard deviation of the biases of all starts but the first
BELOW = 2.0**-26  # share of a weight that is added to it in fp64: float32 would lose it
SLIGHT = 1e-9  # share of all gradients' size up to which a tensor's gradient is only rounding, in fp64
PROMISE = 1 / 8  # share of the loss that a trajectory's first step takes off, to first order
FULL = 97  # samples where the batch is the full training set


class NoReferenceStep(Exception):
    """Exception: the net has no step that could prove anything."""


@dataclass(frozen=True)
class _WantedCase:
    """Request for a case: its name, order and steps, distinct samples in a batch, and True if updates are checked."""

    name: str
    order: Order
    steps: Sequence[int]
    distinct: int
    updates: bool


class CaseMaker:
    """Maker of reference cases for one net and one configuration.

    Parameters
    ----------
    net, config
    rng : numpy.random.Generator
    precision : str or Precision
        Precision of the trainer's products.
    weighted : bool
        True if samples have weights.
    """

    def __init__(
        self, net: Net, config: TrainConfig, rng: np.random.Generator, precision: str | Precision = "fp32",
        weighted: bool = False,
    ) -> None:  # fmt: skip
        self.weighted = weighted
        self.net, self.config, self.rng, self.precision = net, config, rng, named(precision)
        self.seed = int(rng.integers(2**31))  # seed of initial weights other than the configuration's and the caller's
        self.moments = Moments(config, self.seed)
        self.suited = SuitedSamples(net, config, rng, self.precision)
        self.distinct = max(2, int(BATCH_FLOPS / net.train_flops))
        self.patience = Patience()
        self.allowance = Allowance(0 if self.precision.coarse else longest_sum(net, config.batch_size or FULL))

    def case(
        self, name: str, order: Order, sources: Sequence[SampleSource], *,
        steps: Sequence[int] | None = None, distinct: int | None = None, start: np.ndarray | None = None,
        updates: bool = True, fresh: bool = False,
    ) -> ReferenceCase:  # fmt: skip
        """Case of steps along a trajectory, whose batches suit their states.

        It begins at `start` (param_count,), or at initial weights at which every tensor changes, if there are any. The
        samples come from the first source that offers enough; samples in none of the steps are zeros.

        steps : numbers of the steps in the epoch; None for all.
        distinct : largest number of distinct samples in a batch.
        updates : False if only the log is checked.
        fresh : True if no update precedes the first step, else some do.
        """
        steps = range(self.config.steps(order.n)) if steps is None else steps
        made = 0 if fresh else self.moments.moment(order.n, len(steps))
        wanted = _WantedCase(name, order, steps, distinct or self.distinct, updates)
        reason = ""
        self.patience.begin()
        sources = self.allowance.in_order(sources)
        for source in sources:
            self.allowance.begin_source(source is sources[-1])
            for params, must_move in self._starts() if start is None else [(start, False)]:
                self.allowance.begin_start(start is not None)
                try:
                    first = State(
                        params.astype(np.float64), step=made, buffers=drawn_buffers(self.net, self.rng, self.precision)
                    )
                    return self._case(wanted, source, first, must_move)
                except TooManyKinks:
                    reason = "hardly any sample is away from every kink"
                    self.patience.failed()
                    break
                except Unfit as unfit:
                    reason = unfit.args[0]
                    self.patience.failed()
                    if self.allowance.leaves(source, reason):
                        break
                if self.patience.is_over:
                    raise NoReferenceStep(self._in_vain(name, f"{reason}, after {self.patience.tries} tries"))
        raise NoReferenceStep(self._in_vain(name, reason))

    def at_zero(
        self, order: Callable[[int], Order], most: int, least: int, sources: Sequence[SampleSource]
    ) -> ReferenceCase:
        """Case at weights of zero, of `most` samples or half until it is fit: terms of many classes are alike."""
        try:
            return self.case("zeros", order(most), sources, steps=[0], start=np.zeros(self.net.param_count))
        except NoReferenceStep:
            if most // 2 < least:
                raise
            return self.at_zero(order, most // 2, least, sources)

    def _in_vain(self, name: str, reason: str) -> str:
        return f"{name} data: no samples were found for net {self.net.name!r} that are fit to judge a step by: {reason}"

    def _case(self, wanted: _WantedCase, source: SampleSource, state: State, must_move: bool) -> ReferenceCase:
        """Case with samples of one source, from one start. Raises `Unfit` or `TooManyKinks` if there is none."""
        config, order, n = self.config, wanted.order, wanted.order.n
        batch = config.batch(n)
        x_all = np.zeros((n, *self.net.in_shape), source.dtype)
        y_all = np.zeros((n, source.outputs), np.float32) if source.outputs else np.zeros(n, np.int32)
        weights = np.ones(n, np.float32) if self.weighted else None
        steps: list[ReferenceStep] = []
        rate = 0.0
        for number in wanted.steps:
            positions = order.indices(number * batch, min((number + 1) * batch, n))
            step, data = self._fit_step(wanted, source, state, (number, len(positions)), not steps, must_move)
            x_all[positions] = data.train_x
            if data.train_y is not None:
                y_all[positions] = data.train_y
            if weights is not None:
                weights[positions] = data.train_weight
            rate = rate if steps else self._rate(step)
            steps.append(step)
            if wanted.updates:  # else all steps begin at the start
                after, held = step.after(config.but(learning_rate=rate, schedule=Constant()))
                state = State(after, held, step.state.step + 1, step.buffers)
        dataset = self._dataset(wanted.name, x_all, y_all, source.scale, weights)
        return ReferenceCase(wanted.name, dataset, order, tuple(steps), wanted.updates)

    def _fit_step(
        self, wanted: _WantedCase, source: SampleSource, state: State, place: tuple[int, int], first: bool,
        must_move: bool,
    ) -> tuple[ReferenceStep, Dataset]:  # fmt: skip
        """Step whose batch can judge a trainer, and the batch as a data set. Raises `Unfit` after REDRAWS batches.

        place : number of the step in the epoch, and samples in its batch.
        first : True for the first step of a case.
        """
        several = SELDOM if self.precision.coarse else NORMALISED
        for number in range(several if self.net.normalizes else REDRAWS):
            step, data, reason, gradients = self._step(wanted, source, state, place, number >= PATIENCE)
            if not reason and first:
                idle = cancelled_biases(self.net)
                still = [
                    name for name, g in views(self.net, step.gradient).items() if name not in idle and not np.any(g)
                ]
                if must_move and still:
                    raise Unfit(f"{still[0]} does not move")
            if not reason and (first or not self.plain):
                step = self.with_slots(step)
            if not reason and wanted.updates and not self.plain:
                reason = amplified_errors(self.net, self.config, step, gradients, self.precision)
            if not reason:
                self.patience.begin()
                return step, data
            self.patience.failed()
            if self.patience.is_over:
                break
        raise Unfit(reason)

    def _repeated(self, count: int, size: int) -> np.ndarray:
        """Numbers (size,) of the samples in a batch with `count` distinct ones, in a random order in which two equal
        ones follow each other.
        """
        which = np.concatenate([np.arange(count), self.rng.integers(0, count, size - count)])
        if count == size:  # at its place a mask makes each sample its own
            return which
        repeated = which[-1]
        which = self.rng.permutation(which)
        one, other = np.flatnonzero(which == repeated)[:2]
        which[[one + 1, other]] = which[[other, one + 1]]
        return which

    def _dataset(
        self, name: str, x: np.ndarray, y: np.ndarray, scale: float, weights: np.ndarray | None
    ) -> Dataset:  # fmt: skip
        labels = goals(self.net, y)
        tested = None if labels is None else labels[:1]
        return Dataset(name, x, labels, x[:1], tested, scale, train_weight=weights)

    def _step(
        self, wanted: _WantedCase, source: SampleSource, state: State, place: tuple[int, int], allows: bool
    ) -> tuple[ReferenceStep, Dataset, str, list[np.ndarray]]:
        """Step from a state near this one, its batch as a data set, the reason why it cannot judge a trainer, or "",
        and the witnesses' gradients.

        allows : True if sums of like terms may be as far off as a program that adds them one by one, where all batches
            have many of them.
        """
        number, size = place
        first = number * self.config.batch(wanted.order.n)
        places = places_in(self.net, wanted.order, first, first + size)
        is_whole = places is not None or self.net.normalizes  # no sample repeats another one
        count = size if is_whole else min(size, max(wanted.distinct, -(-size // REPEATED)))
        least = LEAST if self.net.normalizes else 2
        again = max(0, min(size - wanted.distinct, size // FEW + 1)) if is_whole and size >= least else 0
        rounded, x, y = self.suited.find(state, count, source, places, again, self.allowance.accumulators)
        which = self._repeated(count, size)
        seen, counts = pixels(x, source.scale).astype(np.float64), np.bincount(which)
        adds = wanted.updates and not self.precision.coarse and not self.net.normalizes
        sums = BiasSums(self.net, which, self.precision) if adds else None
        weights = drawn_weights(self.rng, count) if self.weighted else None
        batch, reference = (seen, y, counts, places, weights), ReferenceTrainer(self.net, self.config, rounded)
        results = (0.0, 0, rounded.params) if self.net.normalizes else truth(reference, *batch, sums=sums)
        step = ReferenceStep(rounded, number, size, wanted.order.n, *results)
        if self.net.normalizes:
            step = whole_step(reference, step, seen, y, self.precision, places, weights)
            if counts_errors(self.net, size, self.precision) and wanted.updates and np.any(rounded.params):
                step, reason = with_format_errors(
                    self.net, step, batch, self.precision, self.rng, self.allowance.room, self.allowance.accumulators
                )
                if reason:
                    return step, self._dataset("batch", x, y, source.scale, weights), reason, []
        if sums is not None and (allows or are_few(self.net, size)):
            step, reason = self._with_sums(step, sums, batch, allows)
            if reason:
                return step, self._dataset("batch", x, y, source.scale, weights), reason, []
        of_batch = None if weights is None else weights[which]
        data = self._dataset("batch", x[which], y[which], source.scale, of_batch)
        if not self.precision.coarse:
            return step, data, *misfit(self.net, data, step, self.precision, sums, places, wanted.updates)
        return step, data, *misfit_in_coarse(self.net, batch, step, self.precision, wanted.updates)

    def _with_sums(
        self, step: ReferenceStep, sums: BiasSums, batch: Batch, allows: bool
    ) -> tuple[ReferenceStep, str]:  # fmt: skip
        """Step with the errors of sums one by one as additional tolerance where many terms are equal, and the reason
        why a weight's are too large to judge a trainer by, or "".
        """
        net, bounds = self.net, update_bounds(self.net, step.size, self.precision)
        is_few = are_few(net, step.size)
        off = weight_sums(net, step.state, self.precision, batch) if is_few and len(batch[0]) == step.size else {}
        if not allows:
            name = beyond(net, off, step.gradient, bounds, RESERVE)
            return step, f"the gradient of {name} where its terms are added one after the other" if name else ""
        unsure = sums.allow(step.gradient, bounds, RESERVE) if has_like_terms(net) or is_few else None
        more = allow(net, off, step.gradient, bounds, RESERVE)
        if unsure is None and not np.any(more):
            return step, ""
        return replace(step, uncertainty=more if unsure is None else unsure + more), ""

    def moving_start(self, number: int, made: int, dataset: Dataset, order: Order) -> tuple[State, float]:
        """Start `number` with random slots after `made` updates, and the rate that removes the loss, to first order."""
        state = State(self.start(number), step=made, buffers=drawn_buffers(self.net, self.rng, self.precision))
        state = state.copied(self.precision.element)
        reference = ReferenceTrainer(self.net, self.config, state)
        reference.load(dataset)
        size, n = self.config.batch(order.n), order.n
        results = reference.gradients(
            *reference.batch(order.indices(0, size)), places=places_in(self.net, order, 0, size)
        )
        step = self.with_slots(ReferenceStep(state, 0, size, n, *results))
        return step.state, self._rate(step) / PROMISE

    def _starts(self) -> Iterator[tuple[np.ndarray, bool]]:
        """Starts to try, each with True if every tensor must change at it; at the last one tensors may stay."""
        for number in range(STARTS):
            yield self.start(number), True
        yield self.start(0), False

    def start(self, number: int) -> np.ndarray:
        """Start (param_count,): initial weights, with biases other than zero except for number 0; in fp64 no weight is
        a float32 number.
        """
        out = initial(self.net, self.seed + number)
        for place in param_slices(self.net) if number else ():
            if len(place.shape) == 1:
                out[place.start : place.stop] += self.rng.normal(0, BIAS, place.shape)  # a normalisation's weight is 1
        if self.precision.element == "float64":
            return out * (1 + self.rng.normal(0, BELOW, len(out)))
        return out

    @property
    def plain(self) -> bool:
        """True if a step is a sum of gradients, which does not amplify rounding errors."""
        return isinstance(self.config.optimizer, SGD)

    def _rate(self, step: ReferenceStep) -> float:
        """Learning rate of the trajectory: the update's parts together reduce the loss by the share PROMISE."""
        along = -step.gradient
        if not self.plain:  # an update from zero gradients can go in any direction, even against the gradient
            along = step.after(self.config.but(learning_rate=1.0, schedule=Constant()))[0] - step.params
        descent = float(np.abs(step.gradient) @ np.abs(along))
        return PROMISE * step.loss / descent if descent > 0 else 0.0

    def with_slots(self, step: ReferenceStep) -> ReferenceStep:
        """Step with random slots in its state, drawn tensor by tensor. A tensor whose gradient is 0, or only rounding,
        has slots as large as all gradients would give it: a step that zero gradients leave out shows.
        """
        size = float(np.sqrt(np.mean(np.square(step.gradient)))) or 1.0
        out = {name: np.zeros(self.net.param_count, self.precision.element) for name in self.config.optimizer.slots}
        params, gradient = step.params, step.gradient
        for place in param_slices(self.net) if out else ():
            here = slice(place.start, place.stop)
            moves = np.abs(gradient[here]).max(initial=0) > SLIGHT * size
            seen = gradient[here] if moves else np.full(place.shape, size).ravel()
            for name, values in self.config.optimizer.drawn(self.rng, params[here], seen).items():
                out[name][here] = values
        return replace(step, state=step.state.but(slots=out))
