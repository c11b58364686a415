"""Reference steps at extremes: samples that are nearly learnt or far from it, logits up to 10^4 and all below zero,
errors near zero and huge, saturated activations, large and small numbers inside a net, and some units that are
always 0. They begin from trained weights.

The last layer is changed so that its logits get the wanted magnitude; no earlier layer changes, so samples stay away
from kinks. A probability near 1 loses digits in p - 1, and a large logit has a large rounding error: the reference
computes their effect on each gradient, which is added to the step's tolerance.

In other cases pixels and biases are scaled by a power of two, or the last layer after a curved activation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..data.dataset import Dataset, pixels
from ..data.order import Order
from ..nets import (
    RESIDUAL_PARTS,
    AdaptiveAvgPool2d,
    AvgPool2d,
    BCEWithLogitsLoss,
    Conv2d,
    CrossEntropyLoss,
    Dropout,
    Flatten,
    LeakyReLU,
    Linear,
    MaxPool2d,
    ReLU,
    Upsample2d,
)  # fmt: skip
from ..nets.params import param_slices, views
from ..ops.loss import reference as losses
from ..trainers.base import State, goals
from .bounds import loss_bound, output_bound, spread, update_bounds
from .case_maker import CaseMaker, TooManyKinks, Unfit
from .kinks import has_clear_argmax, has_clear_sign
from .places import Places, places_in
from .reference import ReferenceTrainer
from .reference_cases import ReferenceCase, ReferenceStep
from .samples import Rescaled, SampleSource
from .verdict import distance
from .witness import plain_gradients

LARGEST = 16  # samples in a batch, all of them extreme
TRIES = 6  # draws of each case
LEVELS = {"nearly learnt": (1e-3, 1e-1), "learnt": (1e-6, 1e-5)}  # losses of samples
SPREAD = 5.0, 20.0  # logits of mixed samples
HUGE = 60.0, 2e4  # logits of samples far from learnt
LESS_HUGE = 60.0, 1e3  # in a coarse format
BELOW = 100.0, 300.0  # by which all logits are below zero: exp of any of them is 0 in float32
STEEP = 3.0, 12.0  # root mean square of the inputs of activations that saturate
DEAD, NEVER = 8, 32.0  # units for each one that is dead, and its bias below 0
POWERS = 5, 12  # powers of two by which pixels are scaled
MORE_POWERS = 20, 30  # where an optimizer squares no gradient: the more, the smaller are the cuts that show
INSIDE = 15, 20  # powers of two by which numbers inside the net are scaled
FEW_POWERS = 2, 4  # in a format coarser than fp32
ROUNDINGS = 12.0  # unit roundoffs of a probability by which its difference from the label may be off
UNSURE = 8.0  # a gradient over its error, at least, where an optimizer divides by gradients
#: Layers whose output is scaled as their input and biases are, by a power of two exactly.
HOMOGENEOUS = (
    Linear, Conv2d, ReLU, LeakyReLU, Dropout, MaxPool2d, AvgPool2d, AdaptiveAvgPool2d, Upsample2d, Flatten,
    *RESIDUAL_PARTS,
)  # fmt: skip


def make_learnt(maker: CaseMaker, sources: Sequence[SampleSource], trained: np.ndarray) -> tuple[ReferenceCase, ...]:
    """Cases of one step each at extremes, from trained parameters (param_count,); () if the net offers none."""
    if maker.net.normalizes:  # a sample far from the others would change theirs
        return ()
    drawer = _Drawer(maker, trained, np.random.default_rng([maker.seed, 4]))
    kinds = drawer.kinds()
    drawer.rng.shuffle(kinds)
    found = (drawer.case(kind, sources) for kind in kinds)
    return tuple(case for case in found if case is not None)


#: State, samples, labels, the activations of a net that classifies, else none, and the order of training.
_Samples = tuple[State, np.ndarray, np.ndarray, list[np.ndarray], Order]


class _Drawer:
    """Generator of cases at extremes from trained parameters (param_count,)."""

    def __init__(self, maker: CaseMaker, trained: np.ndarray, rng: np.random.Generator) -> None:
        self.maker, self.net, self.trained, self.rng = maker, maker.net, trained, rng
        self.is_classifier = isinstance(self.net.loss, CrossEntropyLoss)
        self.coarse = maker.precision.coarse
        self.drawn: dict[tuple[int, float], _Samples | None] = {}
        self.curves = [i for i, layer in enumerate(self.net.layers) if not isinstance(layer, HOMOGENEOUS)]
        self.first, self.last = (param_slices(self.net)[at].layer for at in (0, -1))

    def kinds(self) -> list[str]:
        """Names of the extremes that the net can have."""
        is_linear = isinstance(self.net.layers[-1], Linear) and self.net.out_shape[0] > 1
        kinds = ["steep"] if any(self._before(i) is not None for i in self.curves) else []
        joins = any(at <= self.first or i > self.last for i, at in self.net.skips.stored.items())
        if not self.curves and self.first != self.last and not joins:
            kinds += ["large inside", "small inside"]
        if not self.is_classifier:
            multiplies = isinstance(self.net.layers[self.last], Linear | Conv2d) and not joins
            can_scale = not self.curves or (max(self.curves) < self.last and multiplies)
            return [*kinds, *(["tiny", "huge"] if can_scale else [])]
        if not is_linear:
            return kinds
        kinds += ["mixed", "nearly learnt", "far from learnt"]
        if len(param_slices(self.net)[-1].shape) == 1:
            kinds.append("below zero")
        # nearly all digits of p - 1 are lost, which others divide by or do not hold
        return [*kinds, *(["learnt"] if self.maker.plain and not self.coarse else [])]

    def case(self, kind: str, sources: Sequence[SampleSource]) -> ReferenceCase | None:
        """Case of this kind that can judge a trainer; None after TRIES draws."""
        for attempt, source in enumerate(each for _ in range(TRIES) for each in sources):
            power, is_inside = 1.0, kind.endswith("inside")
            if not self.is_classifier and kind in ("tiny", "huge"):
                powers = FEW_POWERS if self.coarse else MORE_POWERS if self.maker.plain else POWERS
                power = 2.0 ** ((-1 if kind == "tiny" else 1) * self._drawn(powers))
            drawn = self._of_kind(kind, attempt, source, power)
            if drawn is None:
                continue
            state, x, y, entering, order = drawn
            scale = source.scale * power
            if is_inside:
                state, entering = self._inside(kind, state), []
            elif self.is_classifier and kind != "steep":
                state, y = self._sharpened(kind, state, entering[-1])
            elif power != 1:
                is_binary = isinstance(self.net.loss, BCEWithLogitsLoss)
                y = y * y.dtype.type(power) if y.ndim == 2 and not is_binary else y
                # targets, or inputs that are targets, go with the outputs
                scale = source.scale if self.curves and (y.ndim == 2 or power > 1) else scale
            labels = goals(self.net, y)
            data = Dataset(kind, x, labels, x[:1], None if labels is None else labels[:1], scale)
            step = self._step(state, data, entering, places_in(self.net, order, 0, len(x)))
            if step is not None:
                return ReferenceCase(kind, data, order, (step,))
        return None

    def _of_kind(self, kind: str, attempt: int, source: SampleSource, power: float) -> _Samples | None:
        """Samples of a kind, at a state with those changes that do not depend on the samples."""
        start = State(self.trained)
        if kind == "steep":
            return self._samples((-1 - attempt, 1.0), source, self._steepened(start, source))
        if kind.endswith("inside"):
            return self._samples((attempt, 0.0), source, State(self._with_dead_units()))
        if self.curves and not source.outputs and power < 1:  # inputs that are targets are scaled, and so all changes
            return self._samples((attempt, power), Rescaled(source, source.scale * power), self._scaled(start, power))
        drawn = self._samples((attempt, 1.0), source, start)
        return drawn if power == 1 or drawn is None else (self._scaled(drawn[0], power), *drawn[1:])

    def _samples(self, key: tuple[int, float], source: SampleSource, start: State) -> _Samples | None:
        """State near `start`, samples, labels and activations, equal for all kinds with this key: number of the
        attempt, and power of two of the samples' scale; None if no samples suit.
        """
        if key not in self.drawn:
            n = min(self.maker.config.batch_size or LARGEST, self.maker.distinct, LARGEST)
            # masks belong to places in the order: with them samples are stored in that order
            is_shuffled = bool(self.rng.integers(2)) and not self.net.is_random
            order = Order(int(self.rng.integers(2**32)), self._epoch(), n, is_shuffled)
            places = places_in(self.net, order, 0, n)
            try:
                state, x, y = self.maker.suited(start, n, source, places)
            except (TooManyKinks, Unfit):
                self.drawn[key] = None
            else:
                reference = ReferenceTrainer(self.net, self.maker.config, state)
                seen = pixels(x, source.scale).astype(np.float64)
                entering = reference.activations(seen, places) if self.is_classifier and key[0] >= 0 else []
                self.drawn[key] = state, x, y, entering, order
        return self.drawn[key]

    def _with_dead_units(self) -> np.ndarray:
        """Parameters at which some units before a ReLU are 0 for all samples, as in trained nets."""
        params, net = self.trained.copy(), self.net
        for place in param_slices(net):
            bias, after = params[place.start : place.stop], place.layer + 1
            if place.name.endswith("bias") and after <= self.last and isinstance(net.layers[after], ReLU):
                bias[self.rng.permutation(len(bias))[: len(bias) // DEAD]] = -NEVER
        return params

    def _inside(self, kind: str, state: State) -> State:
        """State in which all numbers between the first and the last trained layer are scaled by a power of two."""
        powers = FEW_POWERS if self.coarse else INSIDE if self.maker.plain else POWERS
        power = 2.0 ** ((1 if kind == "large inside" else -1) * self._drawn(powers))
        params = state.params.copy()
        for place in param_slices(self.net):
            is_bias = len(place.shape) == 1
            if place.layer == self.first or (is_bias and place.layer != self.last):
                params[place.start : place.stop] *= power
            elif place.layer == self.last and not is_bias:
                params[place.start : place.stop] /= power
        return state.but(params=params)

    def _before(self, layer: int) -> int | None:
        """Number of the trained layer whose scaled outputs are a layer's input; None if there is none."""
        trained = {place.layer for place in param_slices(self.net)}
        found = next((i for i in range(layer - 1, -1, -1) if i in trained or i in self.curves), None)
        return found if found in trained else None

    def _steepened(self, state: State, source: SampleSource) -> State:
        """State whose activations have inputs so large that they saturate."""
        params, at = state.params.copy(), 0
        state, named = state.but(params=params), views(self.net, params)
        entering = pixels(source(self.rng, LARGEST)[0], source.scale).astype(np.float64)
        for layer in self.curves:
            if (before := self._before(layer)) is None:
                continue
            inside = ReferenceTrainer(self.net, self.maker.config, state).through(entering, at, layer)
            factor = self._drawn(STEEP) / max(float(np.sqrt(np.mean(inside**2))), 1e-6)
            for kind in {"weight", "bias"} & self.net.layers[before].param_shapes(self.net.shapes[before]).keys():
                named[f"{self.net.names[before]}.{kind}"] *= factor
            if not self.net.skips.stored:  # else a connection may lead over this layer
                at, entering = layer, inside * factor
        return state

    def _epoch(self) -> int:
        """Number of a random epoch with losses."""
        every = self.maker.config.loss_every
        return every * int(self.rng.integers(1, (2**32 - 1) // every)) - 1

    def _drawn(self, between: tuple[float, float]) -> float:
        """Random number between two, uniform in its logarithm; an integer if both are."""
        drawn = float(np.exp(self.rng.uniform(*np.log(between))))
        return round(drawn) if all(isinstance(each, int) for each in between) else drawn

    def _scaled(self, state: State, power: float) -> State:
        """State with scaled biases or, after a curved activation, with all parameters of the last layer scaled."""
        params = state.params.copy()
        for name, tensor in views(self.net, params).items():
            if name.startswith(f"{self.net.names[self.last]}.") if self.curves else name.endswith("bias"):
                tensor *= params.dtype.type(power)
        return state.but(params=params)

    def _sharpened(self, kind: str, state: State, logits: np.ndarray) -> tuple[State, np.ndarray]:
        """State whose last layer gives logits of the wanted magnitude, and matching labels (n,).

        logits : (n, classes) of the unchanged state.
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
        elif kind == "below zero":
            b -= self._drawn(BELOW) + float(logits.max())
            labels = np.where(rng.random(n) < 0.5, logits.argmax(axis=1), rng.integers(0, classes, n))
        else:
            b[c] += self._drawn(LESS_HUGE if self.coarse else HUGE) + float(np.ptp(logits))
            labels = np.where(rng.random(n) < 1 / 8, c, others)
        return state.but(params=params), labels.astype(np.int32)

    def _step(
        self, state: State, data: Dataset, before: list[np.ndarray], places: Places | None
    ) -> ReferenceStep | None:
        """Step on these samples; None if the witness's error exceeds a third of the tolerance.

        before : `activations` of the samples before the last layer was changed; empty if other layers were changed too.
        places : places of the samples, if the net draws masks.
        """
        maker, net, precision, n = self.maker, self.net, self.maker.precision, len(data.train_x)
        reference = ReferenceTrainer(net, maker.config, state)
        x, y = pixels(data.train_x, data.scale).astype(np.float64), data.train_y
        last = len(net.layers) - 1
        entering = [*before[:-1], *(reference.leaving(last, a, places) for a in before[last : last + 1])]
        entering = entering or reference.activations(x, places)
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
        """Errors (param_count,) of each gradient, and error of the loss, from the rounding of outputs: a trained net's
        are close to their targets, and the difference has fewer digits than either.
        """
        out, loss = entering[-1], self.net.loss
        rounding = output_bound(self.net, self.maker.precision) * float(np.sqrt(np.mean(out**2)))
        errors = np.full(out.shape, losses.curvature(loss) * rounding / out.size)
        off = rounding * float(np.abs(losses.backward(loss, out, target)).sum())
        return spread(reference, entering, errors, self.rng, places), off

    def _uncertainty(
        self, reference: ReferenceTrainer, entering: Sequence[np.ndarray], y: np.ndarray, places: Places | None
    ) -> tuple[np.ndarray, float]:
        """Errors (param_count,) of each gradient, and error of the loss, from the rounding of probabilities and logits.

        entering : `activations` of the samples.
        """
        kind, of_net = self.maker.precision, self.net.loss
        assert isinstance(of_net, CrossEntropyLoss)
        logits, share = entering[-1], losses.shares(of_net, y, len(y))[:, None]
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        every = (q := losses.wanted(of_net, y, p.shape[1])).sum(axis=1, keepdims=True)
        # a logit's rounding error, at most
        rounding = output_bound(self.net, kind) * np.abs(logits).max(axis=1, keepdims=True)
        errors = share * (ROUNDINGS * kind.roundoff * (p * every + q) + 2 * p * (1 - p) * every * rounding)
        slope = np.abs(p * every - q).sum(axis=1, keepdims=True)
        own = ROUNDINGS * kind.roundoff * every * np.log(p.shape[1] + 1)
        off = float(np.sum(share * (slope * rounding + own)))
        return spread(reference, entering, errors, self.rng, places), off
