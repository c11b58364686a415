"""`ExtremesDrawer` draws a net's cases at extremes.

The last layer is changed so that its logits get the wanted size; nothing before it changes, so samples stay away from
kinks. In other cases weights, pixels and biases are scaled by powers of two, or inputs of activations are spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ... import nets
from ...data.dataset import Dataset, pixels
from ...data.order import Order
from ...nets.params import param_slices, views
from ...trainers.base import State, goals
from ..bias_sums import BiasSums, has_like_terms
from ..bounds import loss_bound, of_probabilities, of_residuals, update_bounds
from ..case_maker import CaseMaker
from ..kinks import has_clear_argmax, has_clear_sign
from ..normalised.format_errors import counts_errors, with_format_errors
from ..normalised.long_sums import LEAST
from ..normalised.whole_batches import judged, whole_step
from ..patience import Patience
from ..places import Places, places_in
from ..reference import ReferenceTrainer
from ..reference_cases import ReferenceCase, ReferenceStep, truth
from ..samples import Rescaled, SampleSource
from ..suited_samples import TooManyKinks, Unfit
from ..verdict import distance
from ..witness import RESERVE, amplified_errors, plain_gradients
from .magnitudes import KINDS, magnified
from .sharp import decided, sharpened, small_share
from .steep import steepened

LARGEST = 16  # samples in a batch, all of them extreme
TRIES, SECONDS = 6, 15.0  # draws of each case, and processor seconds that all may spend in vain
DEAD, NEVER = 8, 32.0  # units for each one that is dead, and its bias below 0
POWERS = 5, 12  # powers of two by which pixels are scaled
MORE_POWERS = 20, 30  # where an optimizer squares no gradient: the more, the smaller are the cuts that show
INSIDE = 15, 20  # powers of two by which numbers inside the net are scaled
POWERS_OF = {"small pixels": (28, 34)}  # by which a slot is smaller than any gradient of ordinary pixels
FEW_POWERS = 2, 4  # in a format coarser than fp32
BINARY = "mixed", "learnt"  # kinds of a binary loss
UNSURE = 8.0  # a gradient over its error, at least, where an optimizer divides by gradients
#: Layers whose output is scaled as their input and biases are, by a power of two exactly.
HOMOGENEOUS = (
    nets.Linear, nets.Conv2d, nets.ReLU, nets.LeakyReLU, nets.Dropout, nets.MaxPool2d, nets.AvgPool2d,
    nets.AdaptiveAvgPool2d, nets.Upsample2d, nets.Flatten, *nets.RESIDUAL_PARTS,
)  # fmt: skip


def make_extremes(maker: CaseMaker, sources: Sequence[SampleSource], trained: np.ndarray) -> tuple[ReferenceCase, ...]:
    """Cases of one step each at extremes, from trained parameters (param_count,); none if the net offers none."""
    if maker.net.normalizes and (maker.config.batch_size or LARGEST) < LEAST:
        return ()
    drawer = ExtremesDrawer(maker, trained, np.random.default_rng([maker.seed, 4]))
    kinds = drawer.kinds(bool(sources[0].outputs))
    drawer.rng.shuffle(kinds)
    found = (drawer.case(kind, sources) for kind in kinds)
    return tuple(case for case in found if case is not None)


#: State, samples, labels, the activations of a net that classifies, else none, and the order of training.
_Samples = tuple[State, np.ndarray, np.ndarray, list[np.ndarray], Order]


class ExtremesDrawer:
    """Draws cases from trained parameters, (param_count,)."""

    def __init__(self, maker: CaseMaker, trained: np.ndarray, rng: np.random.Generator) -> None:
        self.maker, self.net, self.trained, self.rng = maker, maker.net, trained, rng
        self.is_classifier = isinstance(self.net.loss, nets.CrossEntropyLoss)
        self.is_binary = isinstance(self.net.loss, nets.BCEWithLogitsLoss)
        self.coarse, self.patience = maker.precision.coarse, Patience(SECONDS)
        self.drawn: dict[tuple[str, int, float], _Samples | None] = {}
        self.curves = [i for i, layer in enumerate(self.net.layers) if not isinstance(layer, HOMOGENEOUS)]
        self.first, self.last = (param_slices(self.net)[at].layer for at in (0, -1))
        found = ((i, self._before(i)) for i in self.curves)
        self.before = {i: layer for i, layer in found if layer is not None}

    def kinds(self, has_targets: bool) -> list[str]:
        """Kinds of extremes that the net has. has_targets : False for labels and for inputs that are targets."""
        joins = any(at <= self.first or i > self.last for i, at in self.net.skips.stored.items())
        if self.net.normalizes:  # a sample far from the others would change theirs
            steep = ["steep"] if self.before else []
            return steep if joins or self.first == self.last else [*steep, "large inside", "small inside"]
        is_linear = isinstance(self.net.layers[-1], nets.Linear) and self.net.out_shape[0] > 1
        kinds = ["steep"] if self.before else []
        if self.first != self.last and not joins:
            kinds += ["large inside", "small inside"]
        if (self.is_classifier or has_targets) and not joins:
            kinds += ["large pixels", "small pixels"]
        if not self.is_classifier:
            multiplies = isinstance(self.net.layers[self.last], nets.Linear | nets.Conv2d) and not joins
            can_scale = not self.curves or (max(self.curves) < self.last and multiplies)
            sizes = ["tiny", "huge"] if has_targets or not self.is_binary else ["tiny"]  # else targets leave 0 to 1
            is_smooth = isinstance(self.net.loss, nets.MSELoss | nets.HuberLoss)
            uneven = ["uneven"] if has_targets and is_smooth and self.maker.config.batch_size != 1 else []
            if self.is_binary and has_targets and self._ends_in_logits():
                kinds += ["mixed", *(["learnt"] if self.maker.plain and not self.coarse else [])]
            return [*kinds, *uneven, *(sizes if can_scale else [])]
        kinds += ["faint"] * (not joins)
        if not is_linear:
            return kinds
        kinds += ["mixed", "nearly learnt", "far from learnt"]
        if len(param_slices(self.net)[-1].shape) == 1:
            kinds += ["below zero", "above zero", *(["uneven"] if self.maker.config.batch_size != 1 else [])]
        # nearly all digits of p - 1 are lost, which others divide by or do not hold
        return [*kinds, *(["learnt"] if self.maker.plain and not self.coarse else [])]

    def case(self, kind: str, sources: Sequence[SampleSource]) -> ReferenceCase | None:
        """Case of this kind that is fit to judge by, or None after TRIES draws."""
        self.patience.begin()
        for attempt, source in enumerate(each for _ in range(TRIES) for each in sources):
            if attempt:
                self.patience.failed()
            if self.patience.is_over:
                break
            if kind in KINDS:
                found = self._magnified(kind, attempt, source)
            elif kind == "steep":
                found = self._steepened(attempt, source)
            elif self.is_classifier:
                found = self._sharpened(kind, attempt, source)
            elif kind == "uneven":
                found = self._uneven(attempt, source)
            elif kind in BINARY:
                found = self._decided(kind, attempt, source)
            else:
                found = self._scaled_case(kind, attempt, source)
            if found is None:
                continue
            (state, x, y, entering, order), scale = found
            labels = goals(self.net, y)
            data = Dataset(kind, x, labels, x[:1], None if labels is None else labels[:1], scale)
            step = self._step(state, data, entering, places_in(self.net, order, 0, len(x)))
            if step is not None:
                return ReferenceCase(kind, data, order, (step,))
        return None

    def _magnified(self, kind: str, attempt: int, source: SampleSource) -> tuple[_Samples, float] | None:
        """Samples, and their scale, at a state with numbers of other magnitudes."""
        powers = FEW_POWERS if self.coarse else POWERS_OF.get(kind, INSIDE) if self.maker.plain else POWERS
        sizes, start = KINDS[kind] * int(self._drawn(powers)), State(self._with_dead_units())
        scale = source.scale * 2.0**sizes.pixels
        if self.curves:  # kinks are elsewhere then
            seen = pixels(source(self.rng, LARGEST)[0], source.scale).astype(np.float64)
            state = magnified(self.net, self.maker.config, start, seen, sizes)
            found = self._samples((kind, attempt, 0.0), Rescaled(source, scale), state)
            return None if found is None else (found, scale)
        drawn = self._samples(("inside", attempt, 0.0), source, start)
        if drawn is None:
            return None
        state, x, y, _, order = drawn
        seen = pixels(x, source.scale).astype(np.float64)
        return (magnified(self.net, self.maker.config, state, seen, sizes), x, y, [], order), scale

    def _steepened(self, attempt: int, source: SampleSource) -> tuple[_Samples, float] | None:
        """Samples, and their scale, at a state at which activations see their whole range."""
        seen = pixels(source(self.rng, LARGEST)[0], source.scale).astype(np.float64)
        state = steepened(self.net, self.maker.config, State(self.trained), seen, self.before, self.rng)
        drawn = self._samples(("steep", attempt, 0.0), source, state)
        return None if drawn is None else (drawn, source.scale)

    def _sharpened(self, kind: str, attempt: int, source: SampleSource) -> tuple[_Samples, float] | None:
        """Samples, and their scale, at a state whose logits have the wanted size."""
        drawn = self._samples(("plain", attempt, 1.0), source, State(self.trained))
        if drawn is None:
            return None
        state, x, _, entering, order = drawn
        state, y = sharpened(self.net, kind, state, entering[-1], self.maker.precision, self.rng)
        return (state, x, y, entering, order), source.scale

    def _uneven(self, attempt: int, source: SampleSource) -> tuple[_Samples, float] | None:
        """Samples, and their scale, of which all but one have targets close to their outputs."""
        drawn = self._samples(("plain", attempt, 1.0), source, State(self.trained))
        if drawn is None:
            return None
        state, x, y, entering, order = drawn
        share = np.full((len(x), 1), small_share(self.net, len(x), self.maker.precision, self.rng))
        share[self.rng.integers(len(x))] = 1
        reference = ReferenceTrainer(self.net, self.maker.config, state)
        places = places_in(self.net, order, 0, len(x))
        out = reference.activations(pixels(x, source.scale).astype(np.float64), places)[-1].reshape(y.shape)
        return (state, x, (out + (y - out) * share).astype(y.dtype), entering, order), source.scale

    def _ends_in_logits(self) -> bool:
        """True if the last layer is trained and has a bias."""
        places = param_slices(self.net)
        return self.last == len(self.net.layers) - 1 and len(places[-1].shape) == 1

    def _decided(self, kind: str, attempt: int, source: SampleSource) -> tuple[_Samples, float] | None:
        """Samples, and their scale, of a binary loss: large logits and targets of 0 and 1, some of which they miss; or,
        if "learnt", all nearly met.
        """
        drawn = self._samples(("plain", attempt, 1.0), source, State(self.trained))
        if drawn is None:
            return None
        state, x, y, entering, order = drawn
        reference, places = ReferenceTrainer(self.net, self.maker.config, state), places_in(self.net, order, 0, len(x))
        out = reference.activations(pixels(x, source.scale).astype(np.float64), places)[-1]
        state, target = decided(self.net, kind, state, out, self.rng)
        return (state, x, target.reshape(y.shape).astype(y.dtype), entering, order), source.scale

    def _scaled_case(self, kind: str, attempt: int, source: SampleSource) -> tuple[_Samples, float] | None:
        """Samples, and their scale, whose squared errors are near zero, or huge."""
        powers = FEW_POWERS if self.coarse else MORE_POWERS if self.maker.plain else POWERS
        power = 2.0 ** ((-1 if kind == "tiny" else 1) * self._drawn(powers))
        start, scale = State(self.trained), source.scale * power
        if self.curves and not source.outputs and power < 1:  # inputs that are targets are scaled, and so all changes
            drawn = self._samples(("plain", attempt, power), Rescaled(source, scale), self._scaled(start, power))
        else:
            drawn = self._samples(("plain", attempt, 1.0), source, start)
            drawn = None if drawn is None else (self._scaled(drawn[0], power), *drawn[1:])
        if drawn is None:
            return None
        state, x, y, entering, order = drawn
        y = y * y.dtype.type(power) if y.ndim == 2 and not self.is_binary else y
        # targets, or inputs that are targets, go with the outputs
        stays = self.curves and (y.ndim == 2 or power > 1)
        return (state, x, y, entering, order), source.scale if stays else scale

    def _samples(self, key: tuple[str, int, float], source: SampleSource, start: State) -> _Samples | None:
        """State near `start`, samples, labels and activations, the same for all kinds with this key; None if no samples
        suit. Activations are those that "plain" samples have.

        key : kind of the start, number of the attempt, and power of two of the samples' scale.
        """
        if key not in self.drawn:
            n = min(self.maker.config.batch_size or LARGEST, self.maker.distinct, LARGEST)
            # masks belong to places in the order: with them samples are stored in that order
            is_shuffled = bool(self.rng.integers(2)) and not self.net.is_random
            order = Order(int(self.rng.integers(2**32)), self._epoch(), n, is_shuffled)
            places = places_in(self.net, order, 0, n)
            try:
                state, x, y = self.maker.suited.find(start, n, source, places)
            except (TooManyKinks, Unfit):
                self.drawn[key] = None
            else:
                reference = ReferenceTrainer(self.net, self.maker.config, state)
                seen = pixels(x, source.scale).astype(np.float64)
                entering = reference.activations(seen, places) if self.is_classifier and key[0] == "plain" else []
                self.drawn[key] = state, x, y, entering, order
        return self.drawn[key]

    def _with_dead_units(self) -> np.ndarray:
        """Parameters (param_count,) at which some units before a ReLU are 0 for all samples, as in trained nets."""
        params, net = self.trained.copy(), self.net
        for place in param_slices(net):
            bias, after = params[place.start : place.stop], place.layer + 1
            if place.name.endswith("bias") and after <= self.last and isinstance(net.layers[after], nets.ReLU):
                bias[self.rng.permutation(len(bias))[: len(bias) // DEAD]] = -NEVER
        return params

    def _before(self, layer: int) -> int | None:
        """Number of the trained layer whose scaled outputs enter a layer without parameters; None if there is none."""
        trained = {place.layer for place in param_slices(self.net)}
        if layer in trained:  # a layer of the user's: no activation
            return None
        found = next((i for i in range(layer - 1, -1, -1) if i in trained or i in self.curves), None)
        return found if found in trained else None

    def _epoch(self) -> int:
        """Random number of an epoch with losses, below 2^32."""
        every = self.maker.config.loss_every
        return every * int(self.rng.integers(1, (2**32 - 1) // every)) - 1

    def _drawn(self, between: tuple[float, float]) -> float:
        """Random number between two, uniform in its logarithm; a whole one if both are whole."""
        drawn = float(np.exp(self.rng.uniform(*np.log(between))))
        return round(drawn) if all(isinstance(each, int) for each in between) else drawn

    def _scaled(self, state: State, power: float) -> State:
        """State whose biases are scaled, or all parameters of the last layer after a curve."""
        params = state.params.copy()
        for name, tensor in views(self.net, params).items():
            if name.startswith(f"{self.net.names[self.last]}.") if self.curves else name.endswith("bias"):
                tensor *= params.dtype.type(power)
        return state.but(params=params)

    def _step(
        self, state: State, data: Dataset, before: list[np.ndarray], places: Places | None
    ) -> ReferenceStep | None:
        """Reference's step on these samples; None if they cannot judge a trainer, as where the witness needs more than
        a third of a bound.

        before : `activations` of the samples before the last layer was changed; empty if other layers were, too.
        places : of the samples, if the net draws masks.
        """
        maker, net, precision, n = self.maker, self.net, self.maker.precision, len(data.train_x)
        reference = ReferenceTrainer(net, maker.config, state)
        x, y = pixels(data.train_x, data.scale).astype(np.float64), data.train_y
        last = len(net.layers) - 1
        entering = [*before[:-1], *(reference.leaving(last, a, places) for a in before[last : last + 1])]
        entering = entering or reference.activations(x, places)
        loss, _, gradient = results = reference.gradients(x, y, entering=entering, places=places)
        out, target = entering[-1], reference.target(x, y)
        if not np.all(has_clear_argmax(net, out, precision) & has_clear_sign(net, out, target, precision)):
            return None
        largest = float(np.max(out.max(axis=1) - out[np.arange(n), target])) if self.is_classifier else 0.0
        spreads = of_probabilities if self.is_classifier else of_residuals
        uncertainty, off = spreads(reference, entering, target, precision, self.rng, places)
        if not (np.isfinite(loss) and loss > 0 and np.all(np.isfinite(gradient))):
            return None
        if has_like_terms(net) and not net.normalizes and not precision.coarse:
            sums = BiasSums(net, np.arange(n), precision)
            truth(reference, x, x if y is None else y, np.ones(n), places, sums=sums)
            more = sums.allow(gradient, update_bounds(net, n, precision), RESERVE)
            uncertainty = uncertainty if more is None else uncertainty + more
        made = 0 if maker.config.steady else maker.moments.moment(n, 1)
        step = ReferenceStep(state.but(step=made), 0, n, n, *results, uncertainty, off, largest)
        if net.normalizes:
            step = whole_step(reference, step, x, y, precision, places)
            step = replace(step, uncertainty=uncertainty + (0.0 if step.uncertainty is None else step.uncertainty))
            if not precision.coarse and counts_errors(net, n, precision):
                batch = x, x if y is None else y, np.ones(n), places, None
                several = maker.allowance.accumulators
                step, beyond = with_format_errors(net, step, batch, precision, self.rng, 1.0, several)
                if beyond:
                    return None
            uncertainty = uncertainty if step.uncertainty is None else step.uncertainty
        bounds, allowed = update_bounds(net, n, precision), loss_bound(net, n, precision) * loss + off
        wanted, unsure = views(net, gradient), views(net, uncertainty)
        if not maker.plain and any(
            not np.sqrt(np.mean(unsure[name] ** 2)) <= np.sqrt(np.mean(wanted[name] ** 2)) / UNSURE
            for name in judged(net, maker.config)
        ):
            return None  # a division by the root of a gradient's squares is far from linear in its error
        gradients = []
        for found_loss, found, reserve in plain_gradients(net, data, state.params, precision, places):
            gradients.append(found)
            if not abs(found_loss - loss) * reserve <= allowed:
                return None
            for name, tensor in views(net, found).items():
                scale = np.abs(wanted[name]) + unsure[name] / bounds[name]
                if not distance(tensor, wanted[name], scale) * reserve <= bounds[name]:
                    return None
        step = maker.with_slots(step)
        return None if not maker.plain and amplified_errors(net, maker.config, step, gradients, precision) else step
