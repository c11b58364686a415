"""Reference steps at extremes: samples that are nearly learnt or far from it, logits up to 10^4, errors near zero and
huge. They begin from trained weights.

The last layer is changed so that its logits get the wanted size; nothing before it changes, so samples stay away from
kinks. A probability near 1 loses digits in p - 1, and a large logit has a large rounding error: how much of either
reaches each gradient is computed with the reference, and added to what a step may be off by.

Where the loss is squared, pixels and biases are scaled by a power of two, which scales all numbers exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..data.dataset import Dataset, pixels
from ..data.order import Order
from ..nets import BCEWithLogitsLoss, Conv2d, CrossEntropyLoss, Dropout, Flatten, Linear, MaxPool2d, ReLU, Upsample2d
from ..nets.params import param_slices, views
from ..ops.loss import reference as losses
from ..trainers.base import State, goals
from .bounds import loss_bound, output_bound, update_bounds
from .case_maker import CaseMaker, TooManyKinks, Unfit
from .kinks import has_clear_argmax, has_clear_sign
from .places import Places, places_in
from .reference import ReferenceTrainer
from .reference_cases import ReferenceCase, ReferenceStep
from .samples import SampleSource
from .verdict import distance
from .witness import plain_gradients

LARGEST = 256  # samples in a batch
TRIES = 6  # draws of each case
LEVELS = {"nearly learnt": (1e-3, 1e-1), "learnt": (1e-6, 1e-5)}  # losses of samples
SPREAD = 5.0, 20.0  # logits of mixed samples
HUGE = 60.0, 2e4  # logits of samples far from learnt
LESS_HUGE = 60.0, 1e3  # in a format coarser than fp32
POWERS = 5, 12  # powers of two by which pixels are scaled
MORE_POWERS = 20, 30  # where an optimizer squares no gradient: the more, the smaller are the cuts that show
FEW_POWERS = 2, 4  # in a format coarser than fp32
ROUNDINGS = 12.0  # unit roundoffs of a probability by which its difference from the label may be off
DRAWS = 4  # of the signs of such errors
FEW = 4  # samples of a draw, at least, if each draw has its own
UNSURE = 8.0  # a gradient over its error, at least, where an optimizer divides by gradients
HOMOGENEOUS = (Linear, Conv2d, ReLU, Dropout, MaxPool2d, Upsample2d, Flatten)


def make_learnt(maker: CaseMaker, sources: Sequence[SampleSource], trained: np.ndarray) -> tuple[ReferenceCase, ...]:
    """Cases of one step each at extremes, from trained parameters (param_count,); none if the net offers none."""
    if maker.net.normalizes:  # a sample far from the others would change theirs
        return ()
    drawer = _Drawer(maker, trained, np.random.default_rng([maker.seed, 4]))
    kinds = ["mixed", "nearly learnt", "far from learnt"] if drawer.is_classifier else ["tiny", "huge"]
    if drawer.is_classifier and maker.plain and not maker.precision.coarse:
        kinds.append("learnt")  # nearly all digits of p - 1 are lost, which others divide by or do not hold
    drawer.rng.shuffle(kinds)
    found = (drawer.case(kind, sources) for kind in kinds if drawer.can_change)
    return tuple(case for case in found if case is not None)


#: State, samples, labels, the activations of a net that classifies, else none, and the order of training.
_Samples = tuple[State, np.ndarray, np.ndarray, list[np.ndarray], Order]


class _Drawer:
    """Draws cases from trained parameters, (param_count,)."""

    def __init__(self, maker: CaseMaker, trained: np.ndarray, rng: np.random.Generator) -> None:
        self.maker, self.net, self.trained, self.rng = maker, maker.net, trained, rng
        self.is_classifier = isinstance(self.net.loss, CrossEntropyLoss)
        self.coarse = maker.precision.coarse
        self.drawn: dict[int, _Samples | None] = {}
        if self.is_classifier:
            self.can_change = isinstance(self.net.layers[-1], Linear) and self.net.out_shape[0] > 1
        else:
            self.can_change = all(isinstance(layer, HOMOGENEOUS) for layer in self.net.layers)

    def case(self, kind: str, sources: Sequence[SampleSource]) -> ReferenceCase | None:
        """Case of this kind that is fit to judge by, or None after TRIES draws."""
        for attempt, source in enumerate(each for _ in range(TRIES) for each in sources):
            drawn = self._samples(attempt, source)
            if drawn is None:
                continue
            state, x, y, entering, order = drawn
            scale = source.scale
            if self.is_classifier:
                state, y = self._sharpened(kind, state, entering[-1])
            else:
                is_binary = isinstance(self.net.loss, BCEWithLogitsLoss)
                powers = FEW_POWERS if self.coarse else MORE_POWERS if self.maker.plain else POWERS
                power = 2.0 ** ((-1 if kind == "tiny" else 1) * self._drawn(powers))
                state, scale = self._scaled(state, power), scale * power
                y = y * y.dtype.type(power) if y.ndim == 2 and not is_binary else y
            labels = goals(self.net, y)
            data = Dataset(kind, x, labels, x[:1], None if labels is None else labels[:1], scale)
            step = self._step(state, data, entering, places_in(self.net, order, 0, len(x)))
            if step is not None:
                return ReferenceCase(kind, data, order, (step,))
        return None

    def _samples(self, attempt: int, source: SampleSource) -> _Samples | None:
        """State, samples, labels and activations of an attempt, the same for all kinds; None if no samples suit."""
        if attempt not in self.drawn:
            n = min(self.maker.config.batch_size or LARGEST, self.maker.distinct, LARGEST)
            # masks belong to places in the order: with them samples are stored in that order
            is_shuffled = bool(self.rng.integers(2)) and not self.net.is_random
            order = Order(int(self.rng.integers(2**32)), self._epoch(), n, is_shuffled)
            places = places_in(self.net, order, 0, n)
            try:
                state, x, y = self.maker.suited(State(self.trained), n, source, places)
            except (TooManyKinks, Unfit):
                self.drawn[attempt] = None
            else:
                reference = ReferenceTrainer(self.net, self.maker.config, state)
                seen = pixels(x, source.scale).astype(np.float64)
                entering = reference.activations(seen, places) if self.is_classifier else []
                self.drawn[attempt] = state, x, y, entering, order
        return self.drawn[attempt]

    def _epoch(self) -> int:
        """An epoch with losses."""
        every = self.maker.config.loss_every
        return every * int(self.rng.integers(1, (2**32 - 1) // every)) - 1

    def _drawn(self, between: tuple[float, float]) -> float:
        """Number between two, by its logarithm; whole if both are."""
        drawn = float(np.exp(self.rng.uniform(*np.log(between))))
        return round(drawn) if all(isinstance(each, int) for each in between) else drawn

    def _scaled(self, state: State, power: float) -> State:
        params = state.params.copy()
        for name, tensor in views(self.net, params).items():
            if name.endswith("bias"):
                tensor *= params.dtype.type(power)
        return state.but(params=params)

    def _sharpened(self, kind: str, state: State, logits: np.ndarray) -> tuple[State, np.ndarray]:
        """State whose last layer gives logits of the wanted size, and labels (n,) to match.

        logits : (n, classes) of the state before.
        """
        rng, n, classes = self.rng, len(logits), self.net.out_shape[0]
        params = state.params.copy()
        last = param_slices(self.net)[-1]
        if len(last.shape) > 1:  # no bias that could favour a class
            w, b, kind = params[last.start : last.stop], params[:0], "mixed"
        else:
            w, b = (params[place.start : place.stop] for place in param_slices(self.net)[-2:])
        c = int(rng.integers(classes))
        others = (c + rng.integers(1, classes, n)) % classes
        if kind == "mixed":
            factor = self._drawn(SPREAD) / max(float(np.sqrt(np.mean(logits**2))), 1e-6)
            w *= params.dtype.type(factor)
            b *= params.dtype.type(factor)
            labels = np.where(rng.random(n) < 0.5, logits.argmax(axis=1), rng.integers(0, classes, n))
        elif kind in LEVELS:
            rest = np.delete(logits, c, axis=1)
            gap = np.log(np.exp(rest - rest.max()).sum(axis=1)) + rest.max() - logits[:, c]
            b[c] += float(np.mean(gap)) - np.log(self._drawn(LEVELS[kind]))
            labels = np.full(n, c)
        else:
            b[c] += self._drawn(LESS_HUGE if self.coarse else HUGE) + float(np.ptp(logits))
            labels = np.where(rng.random(n) < 1 / 8, c, others)
        return state.but(params=params), labels.astype(np.int32)

    def _step(
        self, state: State, data: Dataset, before: list[np.ndarray], places: Places | None
    ) -> ReferenceStep | None:
        """The step on these samples, or None if the witness misses a third of what it may be off by.

        before : `activations` of the samples before the last layer was changed; empty if other layers were, too.
        places : of the samples, if the net draws masks.
        """
        maker, net, precision, n = self.maker, self.net, self.maker.precision, len(data.train_x)
        reference = ReferenceTrainer(net, maker.config, state)
        x, y = pixels(data.train_x, data.scale).astype(np.float64), data.train_y
        last = len(net.layers) - 1
        if before:
            entering = [*before[:-1], reference.leaving(last, before[last], places)]
        else:
            entering = reference.activations(x, places)
        results = reference.gradients(x, y, entering=entering, places=places)
        loss, gradient = results[0], results[2]
        uncertainty, off, largest = np.zeros(net.param_count), 0.0, 0.0
        if self.is_classifier:
            assert y is not None
            logits = entering[-1]
            if not np.all(has_clear_argmax(net, logits, precision)):
                return None
            largest = float(np.max(logits.max(axis=1) - logits[np.arange(n), y]))
            uncertainty, off = self._uncertainty(reference, entering, y, places)
        else:
            target = reference.target(x, y)
            if not np.all(has_clear_sign(net, entering[-1], target, precision)):
                return None
            uncertainty, off = self._uncertainty_of_residuals(reference, entering, target, places)
        if not (np.isfinite(loss) and loss > 0 and np.all(np.isfinite(gradient))):
            return None
        bounds, allowed = update_bounds(net, n, precision), loss_bound(net, n, precision) * loss + off
        wanted, unsure = views(net, gradient), views(net, uncertainty)
        if len(maker.config.optimizer.slots) > 1 and any(
            not np.sqrt(np.mean(unsure[name] ** 2)) <= np.sqrt(np.mean(wanted[name] ** 2)) / UNSURE for name in wanted
        ):
            return None  # a division by the root of a gradient's squares is far from linear in its error
        for found_loss, found, reserve in plain_gradients(net, data, state.params, precision, places):
            if not abs(found_loss - loss) * reserve <= allowed:
                return None
            for name, tensor in views(net, found).items():
                scale = np.abs(wanted[name]) + unsure[name] / bounds[name]
                if not distance(tensor, wanted[name], scale) * reserve <= bounds[name]:
                    return None
        made = 0 if maker.config.steady else maker.moments.moment(n, 1)
        step = ReferenceStep(state.but(step=made), 0, n, n, *results, uncertainty, off, largest)
        return maker.with_slots(step)

    def _uncertainty_of_residuals(
        self, reference: ReferenceTrainer, entering: Sequence[np.ndarray], target: np.ndarray, places: Places | None
    ) -> tuple[np.ndarray, float]:
        """Errors of each gradient, (param_count,), and of the loss, from the rounding of outputs: a trained net's are
        close to their targets, and the difference has fewer digits than either.
        """
        out, loss = entering[-1], self.net.loss
        rounding = output_bound(self.net, self.maker.precision) * float(np.sqrt(np.mean(out**2)))
        errors = np.full(out.shape, losses.curvature(loss) * rounding / out.size)
        off = rounding * float(np.abs(losses.backward(loss, out, target)).sum())
        return self._spread(reference, entering, errors, places), off

    def _uncertainty(
        self, reference: ReferenceTrainer, entering: Sequence[np.ndarray], y: np.ndarray, places: Places | None
    ) -> tuple[np.ndarray, float]:
        """Errors of each gradient, (param_count,), and of the loss, from the rounding of probabilities and logits.

        entering : `activations` of the samples.
        """
        kind, of_net = self.maker.precision, self.net.loss
        assert isinstance(of_net, CrossEntropyLoss)
        logits, share = entering[-1], losses.shares(of_net, y, len(y))[:, None]
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        q = losses.wanted(of_net, y, p.shape[1])
        every = q.sum(axis=1, keepdims=True)
        # a logit's rounding error, at most
        rounding = output_bound(self.net, kind) * np.abs(logits).max(axis=1, keepdims=True)
        errors = share * (ROUNDINGS * kind.roundoff * (p * every + q) + 2 * p * (1 - p) * every * rounding)
        slope = np.abs(p * every - q).sum(axis=1, keepdims=True)
        own = ROUNDINGS * kind.roundoff * every * np.log(p.shape[1] + 1)
        return self._spread(reference, entering, errors, places), float(np.sum(share * (slope * rounding + own)))

    def _spread(
        self, reference: ReferenceTrainer, entering: Sequence[np.ndarray], errors: np.ndarray, places: Places | None
    ) -> np.ndarray:
        """Largest error of each gradient, (param_count,), by DRAWS drawn signs of the outputs' errors: of few outputs
        the mean would be too small.

        Each draw has its own share of many samples, and stands for all of them: errors of samples add by their
        squares, so that the largest of the draws, times the root of their number, is at least all samples' error.
        """
        n, largest = len(errors), np.zeros(self.net.param_count)
        shares = DRAWS if n >= FEW * DRAWS else 1
        order = self.rng.permutation(n)
        for draw in range(DRAWS):
            some = order[draw % shares :: shares]
            signs = self.rng.choice((-1.0, 1.0), errors[some].shape)
            at = None if places is None else places[some]
            found = reference.pulled_back([each[some] for each in entering], signs * errors[some], places=at)
            np.maximum(largest, np.sqrt(shares) * np.abs(found), out=largest)
        return largest
