"""`SuitedSamples`: a state as a trainer stores it, and samples at which a step from it can judge a trainer."""

from __future__ import annotations

import numpy as np

from ..config import TrainConfig
from ..data.dataset import pixels
from ..machine.precision import Precision
from ..nets import Net
from ..nets.params import views
from ..trainers.base import State
from .kinks import away_from_kinks, has_classes, is_clear_or_tied, on_grid
from .normalised.long_sums import different, least_different
from .normalised.whole_batches import moved_together
from .places import Places
from .reference import ReferenceTrainer, slices
from .samples import SampleSource

REDRAWS = 8  # batches drawn at a state until one can judge a trainer
CANDIDATES = 64  # samples screened for each one wanted, before a net counts as having too many kinks
# samples drawn for each one wanted where a coarse format makes some useless, and wanted for each one more elsewhere
SPARE, SPARE_SHARE = 4, 64
REPLACED = 8  # times that samples of a whole batch are replaced in a coarse format


class TooManyKinks(Exception):
    """Exception: too few samples are away from all kinks."""


class Unfit(Exception):
    """Exception: a tensor does not change, or no batch can judge a trainer."""


class SuitedSamples:
    """Generator of samples that suit a state, for one net and one configuration. rng : draws them."""

    def __init__(self, net: Net, config: TrainConfig, rng: np.random.Generator, precision: Precision) -> None:
        self.net, self.config, self.rng, self.precision = net, config, rng, precision

    def find(
        self, state: State, count: int, source: SampleSource, places: Places | None = None, again: int = 0,
        accumulators: int = 1,
    ) -> tuple[State, np.ndarray, np.ndarray]:  # fmt: skip
        """State as the trainer stores it, and samples with labels that suit it, at `places` if the net draws masks.

        again : most samples of the batch that may repeat another one, if `places` are given or the net normalises.
        accumulators : number of partial sums of a normalisation's means.
        """
        if self.net.normalizes:
            return self._together(state, count, source, places, again, accumulators)
        if source.exact:
            return self._exact(state, count, source)
        rounded = state.copied(self.precision.element)
        reference = ReferenceTrainer(self.net, self.config, rounded)
        if places is not None:
            return rounded, *self._suited_at(reference, source, places, again)
        xs, ys = list[np.ndarray](), list[np.ndarray]()
        for _ in range(CANDIDATES):
            x, y = source(self.rng, count)
            for some in slices(self.net, count):  # no more are looked at than are wanted
                seen = pixels(x[some], source.scale).astype(np.float64)
                keep = away_from_kinks(reference, seen, self.precision, y=y[some])
                xs.append(x[some][keep])
                ys.append(y[some][keep])
                if sum(map(len, xs)) >= count:
                    return rounded, np.concatenate(xs)[:count], np.concatenate(ys)[:count]
        raise TooManyKinks

    def _together(
        self, state: State, count: int, source: SampleSource, places: Places | None, again: int, accumulators: int
    ) -> tuple[State, np.ndarray, np.ndarray]:
        """State with moved biases and a batch of samples that depend on each other; at a state of zeros any batch.

        Samples near a kink are replaced, which changes the others' numbers a little. In a coarse format a batch of
        many numbers has some near a kink at any shift: then it has fewer different samples.
        """
        rounded = state.copied(self.precision.element)
        reference = ReferenceTrainer(self.net, self.config, rounded)
        for _ in range(REDRAWS):
            x, y = source(self.rng, count)
            if not np.any(state.params):
                return rounded, x, y
            which = self._alike(count, again, accumulators)
            for last in range(REPLACED)[::-1]:
                seen = pixels(x[which], source.scale).astype(np.float64)
                params, near = moved_together(reference, seen, self.precision, places, last > 0, accumulators)
                if not np.any(near):
                    return rounded.but(params=params), x[which], y[which]
                near = np.unique(which[near])
                x[near], y[near] = source(self.rng, len(near))
        raise Unfit("hardly any batch is away from every kink")

    def _alike(self, count: int, again: int, accumulators: int) -> np.ndarray:
        """Numbers (count,) of the different samples of a whole batch: up to `again` repeat others, and mostly many more
        in a coarse format or where sums are long.
        """
        which, few = np.arange(count), different(self.net, count, self.precision, accumulators)
        if self.precision.coarse:
            least = min(count, least_different(self.net, 2))
            some = np.array(sorted({max(least, count >> i) for i in range(count.bit_length())}))
            few = int(self.rng.choice(some, p=(1 / some) / np.sum(1 / some)))  # of few numbers more batches are fit
        if self.precision.coarse or few < count:
            return self.rng.permutation(np.concatenate([which[:few], self.rng.integers(0, few, count - few)]))
        to, by = self._pairs(count, again)
        which[to] = by
        return which

    def _suited_at(
        self, reference: ReferenceTrainer, source: SampleSource, places: Places, again: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Samples and labels (count, ...), one for each of `places`, whose masks leave no kink within rounding."""
        count = len(places.at)
        x, y = source(self.rng, count)
        left = np.arange(count)  # places whose sample does not suit
        for attempt in range(CANDIDATES):
            tried = np.resize(left, max(count, CANDIDATES)) if attempt else left
            drawn = source(self.rng, len(tried)) if attempt else (x, y)
            seen = pixels(drawn[0], source.scale).astype(np.float64)
            suits = away_from_kinks(reference, seen, self.precision, places[tried], drawn[1])
            x[tried[suits]], y[tried[suits]] = drawn[0][suits], drawn[1][suits]
            left = np.setdiff1d(left, tried[suits])
            if not len(left):
                self._repeat_at(reference, source, places, again, (x, y))
                return x, y
        raise Unfit("hardly any sample is away from every kink with the mask of a place")

    def _repeat_at(
        self, reference: ReferenceTrainer, source: SampleSource, places: Places, again: int,
        samples: tuple[np.ndarray, np.ndarray],
    ) -> None:  # fmt: skip
        """Put samples (x, y) at up to `again` other places, if they suit the masks there too."""
        x, y = samples
        for _ in range(REDRAWS if again else 0):
            to, by = self._pairs(len(x), again)
            seen = pixels(x[by], source.scale).astype(np.float64)
            suits = away_from_kinks(reference, seen, self.precision, places[to], y[by])
            to, by = to[suits], by[suits]
            x[to], y[to] = x[by], y[by]
            if len(to):
                return

    def _pairs(self, count: int, again: int) -> tuple[np.ndarray, np.ndarray]:
        """Places (again,) of samples that repeat others, and places (again,) of those, often the next ones."""
        to = self.rng.permutation(count)[:again]
        rest = np.setdiff1d(np.arange(count), to)
        by = rest[self.rng.integers(0, len(rest), len(to))]
        following = (to + 1) % count
        return to, np.where(np.isin(following, rest) & (self.rng.random(len(to)) < 1 / 2), following, by)

    def _exact(self, state: State, count: int, source: SampleSource) -> tuple[State, np.ndarray, np.ndarray]:
        """State on a grid, samples on another, and labels; the largest logit is clear, since its sum is not exact."""
        coarse = self.precision.coarse
        weights = (w for w in views(self.net, state.params).values() if w.ndim > 1)
        screens = has_classes(self.net, coarse) and any(map(np.any, weights))  # else logits are biases, exactly
        x, y = source(self.rng, count + screens * ((SPARE - 1) * count if coarse else count // SPARE_SHARE + SPARE))
        seen = pixels(x, source.scale).astype(np.float64)
        rounded = on_grid(self.net, state, seen, self.rng, self.precision)
        if not screens:
            return rounded, x, y
        clear = is_clear_or_tied(ReferenceTrainer(self.net, self.config, rounded), seen, y, self.precision)
        if coarse and np.count_nonzero(clear) < count:
            raise Unfit("too few samples have a largest logit that rounding cannot change")
        first = np.argsort(~clear, kind="stable")[:count]
        return rounded, x[first], y[first]
