"""Witness: plain array code in the trainer's precision, which decides if a step can judge a trainer.

A sum whose terms cancel has a large relative error in every program, and no bound is widened for it. If the
witness itself comes near a bound, other samples are drawn. It only chooses steps: an error of its own would show in
every draw, and then there is no proof at all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..config import TrainConfig
from ..data.dataset import Dataset, pixels
from ..data.order import Order
from ..machine.precision import Precision, named
from ..nets import BCEWithLogitsLoss, Conv2d, CrossEntropyLoss, ElementLoss, Layer, Linear, Net
from ..nets.params import views
from ..ops.engine.base import Op
from ..ops.linear.array import ArrayLinear
from ..ops.tables.array import TABLE
from ..ops.tables.reference import with_references
from ..trainers.base import State
from ..trainers.layerwise import Batch as BoundBatch
from ..trainers.layerwise import LayerwiseTrainer
from .bias_sums import BiasSums
from .bounds import loss_bound, step_bounds, update_bounds
from .normalised.whole_batches import judged
from .places import Places
from .reference import ReferenceTrainer
from .reference_cases import ReferenceStep, truth
from .verdict import distance

HALVES = 2.0**-22  # unit roundoff of a factor that two halves hold
RESERVE = 3.0  # times that the witness's error must fit into each bound
NEARBY = 3  # witnesses with other roundings of the parameters, or of the gradients
#: Most samples of a batch that other roundings of its gradients try: where one sample's terms cancel, the other samples
#: of a larger batch have the larger gradients. And times that the errors of these witnesses, and of the four of a net
#: that normalises, must fit into each bound: of several the largest counts.
FEW_SAMPLES, NEARBY_RESERVE = 16, 2.0
#: RESERVE of a format coarser than fp32: nearly all of any program's error there is the rounding of the same factors.
COARSE_RESERVE = 2.0
#: RESERVE of a gradient whose errors of the format are counted: its tolerance is at least SIGMAS of them.
COUNTED_RESERVE = 1.5

#: Size of an output from which on the errors of its sum are counted, where the loss takes its exponential; and numbers
#: of a batch's outputs, at most, of which they are where it takes the difference from a target, which few may meet.
LARGE, FEW = 8.0, 8

#: At rate 0 and from a momentum of zero, the momentum after one step is the gradient.
SETTINGS = TrainConfig(batch_size=None, learning_rate=0.0, momentum=0.5, shuffle=False)

#: A batch with repetitions: samples (n, *in_shape) float64, labels (n,), times that each sample is in the batch, the
#: samples' places if the net draws masks, and their weights if they have some.
Batch = tuple[np.ndarray, np.ndarray, np.ndarray, Places | None, np.ndarray | None]


class Halved(ReferenceTrainer):
    """Reference whose products have factors of two halves, as tensor cores take them in place of float32: 22 bits of
    the largest number of a pixel's channels, or of an output's weights.
    """

    def __init__(self, net: Net, config: TrainConfig, state: State) -> None:
        super().__init__(net, config, state, replace(named("fp32"), factors=HALVES))

    def _factors(self, layer: Layer, *given: np.ndarray | None) -> tuple:
        if not isinstance(layer, Linear | Conv2d):
            return given
        return tuple(None if a is None else _of_largest(a) for a in given)


def _of_largest(a: np.ndarray) -> np.ndarray:
    """Numbers (n, channels, ...) rounded to HALVES of the largest of all channels."""
    largest = np.abs(a).max(axis=1 if a.ndim > 1 else 0, keepdims=True)
    unit = np.exp2(np.ceil(np.log2(np.where(largest > 0, largest, 1.0)))) * HALVES
    return np.asarray(np.round(a / unit) * unit)


class ErringLinear(ArrayLinear):
    """Linear layer whose outputs are off, up or down, by what one accumulator may err: half of the root of the number
    of its roundings, of half a unit in the last place each, of an output or of what its terms add up to if they have
    random signs.
    """

    seed, sign = 1, 1

    def forward(self, n: int) -> None:
        super().forward(n)
        t = self.buffers
        y = t.y[:n]
        signs = np.random.default_rng(self.seed).choice(np.array([-self.sign, self.sign], y.dtype), y.shape)
        size = np.maximum(np.abs(y), np.sqrt(np.square(t.x[:n]) @ np.square(t.w).T))
        y += signs * np.spacing(size) * y.dtype.type(max(1.0, math.sqrt(t.x.shape[1]) / 4))


class OtherwiseErringLinear(ErringLinear):
    """Linear layer whose outputs are off as those of `ErringLinear`, each with another random sign."""

    seed = 2


class OppositelyErringLinear(ErringLinear):
    """ErringLinear with the opposite signs."""

    sign = -1


class Witness(LayerwiseTrainer):
    """Trainer of plain code in fp32 or fp64 at parameters (param_count,); `sums` receives the terms of its gradients.

    places : consecutive places of the samples on which it trains, if the net draws masks.
    linear : op of Linear layers; None for the table's.
    """

    def __init__(
        self, net: Net, params: np.ndarray, precision: str | Precision = "fp32", sums: BiasSums | None = None,
        places: Places | None = None, linear: type[ArrayLinear] | None = None,
    ) -> None:  # fmt: skip
        kind = named(precision)
        table, wide = with_references(TABLE, net), "float64" if kind.wide else None
        if linear is not None:
            table = replace(table, layers={**table.layers, Linear: linear})
        super().__init__(net, SETTINGS, State(params), table, dtype=kind.element, sums=wide)
        self.sums, self.passed, self.places = sums, 0, places

    def _begin(self, mask_key: int, position: int) -> None:
        if self.places is not None:
            super()._begin(self.places.key, int(self.places.at[position]))

    def _pass(self, n: int, has_loss: bool) -> None:
        super()._pass(n, has_loss)
        assert self.batch is not None
        for layer in () if self.sums is None else self.sums.truth:
            dy = self.batch.gradients[layer + 1]
            assert self.sums is not None and dy is not None
            self.sums.add_witness(self.passed, layer, dy[:n])
        self.passed += n


class OffByOne(Op):
    """Op of a layer with weights whose dy is off by one unit in the last place, each number up or down at random."""

    def __init__(self, op: Op, random: np.random.Generator) -> None:
        super().__init__(op.layer, op.buffers)
        self.op, self.random = op, random

    def forward(self, n: int) -> None:
        self.op.forward(n)

    def backward(self, n: int) -> None:
        dy = self.buffers.dy[:n]
        towards = self.random.choice(np.array([-np.inf, np.inf], dy.dtype), dy.shape)
        np.nextafter(dy, towards, out=dy, where=dy != 0)
        self.op.backward(n)


class OtherwiseRounded(Witness):
    """Witness with other roundings of the gradients, by `seed`; its forward pass is a Witness's, so no ReLU's sign or
    pool's maximum is another one. A sum that cancels shows in it, though one program's roundings of it may cancel too.
    """

    def __init__(self, net: Net, params: np.ndarray, precision: Precision, places: Places | None, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        super().__init__(net, params, precision, places=places)

    def _bind(self, capacity: int, train: bool) -> BoundBatch:
        bound = super()._bind(capacity, train)
        if train:
            changed = {i: OffByOne(op, self.random) for i, op in bound.ops if isinstance(op.layer, Linear | Conv2d)}
            bound.ops = [(i, changed.get(i, op)) for i, op in bound.ops]
        return bound


def _tried(witness: Witness, dataset: Dataset) -> tuple[float, np.ndarray]:
    """Loss and gradient (param_count,) that a witness finds for a whole data set."""
    witness.load(dataset)
    log = witness.run(Order(0, 0, len(dataset.train_x), shuffle=False), 0, 1)
    return float(log.loss[0]), witness.state().slots["momentum_buffer"]


def misfit(
    net: Net, dataset: Dataset, step: ReferenceStep, precision: Precision, sums: BiasSums | None,
    places: Places | None = None, updates: bool = True,
) -> tuple[str, list[np.ndarray]]:  # fmt: skip
    """Reason why a batch cannot judge a trainer in a precision that is not coarse, or "", and the gradients found.

    dataset : the batch, as a whole data set.
    sums : true terms of the batch, if they are known. If they alone show that the batch cannot judge, the slower
        witness does not run, and no gradient is found.
    updates : False if only the bound of the loss is checked.
    places : places of the samples, if the net draws masks.
    """
    bounds = update_bounds(net, step.size, precision)
    if sums is not None and (beyond := sums.serial_error(step.gradient, bounds, RESERVE)):
        return f"plain {precision.name} code itself: {beyond}", []
    trainer = Witness(net, step.state.params, precision, sums, places)
    loss, gradient = _tried(trainer, dataset)
    reserve = NEARBY_RESERVE if net.normalizes else RESERVE
    beyond = _beyond(net, step, loss, gradient, reserve, precision, updates)
    if sums is not None and not beyond:
        beyond = sums.repeated_error(step.gradient, bounds, RESERVE)
    found = [gradient]
    params = step.state.params
    erring = (Witness(net, params, precision, None, places, op) for op in _erring(net, trainer, step.size))
    near: Iterator[Witness] = iter(())  # a small batch's terms cancel, and one program's errors may too
    if net.normalizes:
        near = nearby(net, step.state, precision, places)
    elif step.size <= FEW_SAMPLES:
        near = (OtherwiseRounded(net, params, precision, places, seed) for seed in range(NEARBY))
    for witnesses, reserve in ((erring, COUNTED_RESERVE), (near, NEARBY_RESERVE)):
        for witness in () if beyond or not updates else witnesses:
            loss, gradient = _tried(witness, dataset)
            found.append(gradient)
            beyond = beyond or _beyond(net, step, loss, gradient, reserve, precision, updates)
    return f"plain {precision.name} code itself: {beyond}" if beyond else "", found


def _erring(net: Net, trainer: Witness, size: int) -> tuple[type[ErringLinear], ...]:
    """Layers of the witnesses that err on purpose where the errors of an output's sum may show in the loss of the
    trainer's last batch, of `size` samples: large outputs of which it takes the exponential, or few differences from
    targets, of which one may nearly vanish.
    """
    if isinstance(net.loss, ElementLoss) and size * math.prod(net.out_shape) <= FEW:
        return ErringLinear, OppositelyErringLinear
    if not isinstance(net.loss, CrossEntropyLoss | BCEWithLogitsLoss) or trainer.batch is None:
        return ()
    is_large = bool(np.any(np.abs(trainer.batch.activations[-1]) > LARGE))
    return (ErringLinear, OtherwiseErringLinear) if is_large else ()


def misfit_in_coarse(
    net: Net, batch: Batch, step: ReferenceStep, precision: Precision, updates: bool = True
) -> tuple[str, list[np.ndarray]]:
    """Reason why a batch cannot judge a trainer in a format coarser than fp32, or "", and each witness's gradient."""
    gradients = []
    for witness in honest(net, SETTINGS, State(step.state.params), precision):
        loss, _, gradient = truth(witness, *batch)
        if beyond := _beyond(net, step, loss, gradient, COARSE_RESERVE, precision, updates):
            return f"plain {precision.name} code itself: {beyond}", []
        gradients.append(gradient)
    return "", gradients


def plain_gradients(
    net: Net, dataset: Dataset, params: np.ndarray, precision: Precision, places: Places | None = None
) -> Iterator[tuple[float, np.ndarray, float]]:
    """Loss and gradient (param_count,) of a whole data set by each witness at `params`, and its errors' reserve."""
    if not precision.coarse:
        yield *_tried(Witness(net, params, precision, places=places), dataset), RESERVE
        return
    x, y = pixels(dataset.train_x, dataset.scale).astype(np.float64), dataset.train_y
    for witness in honest(net, SETTINGS, State(params), precision):
        loss, _, gradient = witness.gradients(x, y, places=places)
        yield loss, gradient, COARSE_RESERVE


def amplified_errors(
    net: Net, config: TrainConfig, step: ReferenceStep, gradients: list[np.ndarray], precision: Precision
) -> str:
    """Reason why the optimizer amplifies the witnesses' errors in the gradient beyond the bounds; "" if it does not.

    A sum of gradient, momentum and decay does not amplify them; a gradient divided by its own magnitude may change its
    sign.
    """
    config = config.but(learning_rate=1.0)
    reserve = COARSE_RESERVE if precision.coarse else RESERVE
    limits = step_bounds(net, step.size, precision, config)
    (after, slots), (change, scales) = step.after(config), step.error_scales(config, limits, net)
    wanted, scales = {"update": after, **slots}, {"update": change, **scales}
    for gradient in gradients:
        moved, held = step.after(config, gradient.astype(np.float64))
        for what, found in {"update": moved, **held}.items():
            off, sizes = views(net, found - wanted[what]), views(net, scales[what])
            for name in judged(net, config):
                limit = limits[name]
                error = distance(off[name], np.zeros(off[name].shape), sizes[name])
                if not error * reserve <= limit:
                    off_by = f"{what} of {name} is off by {error:.1e} for the gradient's rounding"
                    return f"{off_by}, more than 1/{reserve:g} of the bound of {limit:.1e}"
    return ""


def _beyond(
    net: Net,
    step: ReferenceStep,
    loss: float,
    gradient: np.ndarray,
    reserve: float,
    precision: Precision,
    updates: bool,
) -> str:
    """Sentence on the first bound that is not `reserve` times the witness's error; "" if all are."""
    found, wanted = views(net, gradient), views(net, step.gradient)
    unsure = None if step.uncertainty is None else views(net, step.uncertainty)
    off = distance(np.array([loss]), np.array([step.loss]))
    errors = {"the loss": (off, loss_bound(net, step.size, precision), reserve)}
    reserve = COUNTED_RESERVE if precision.coarse and net.normalizes else reserve
    for name, limit in update_bounds(net, step.size, precision).items() if updates else ():
        scale = None if unsure is None else np.abs(wanted[name]) + unsure[name] / limit
        errors[f"the gradient of {name}"] = (distance(found[name], wanted[name], scale), limit, reserve)
    for what, (error, limit, reserve) in errors.items():
        if not error * reserve <= limit:
            return f"{what} is off by {error:.1e}, more than 1/{reserve:g} of the bound of {limit:.1e}"
    return ""


def predicting(net: Net, state: State, precision: Precision) -> list[Witness | ReferenceTrainer]:
    """Honest predicting programs at a state: of a coarser format, one for each choice of stored, and so rounded,
    results.
    """
    if not precision.coarse:
        witness = Witness(net, state.params, precision)
        witness.set_state(state)
        return [witness, Halved(net, SETTINGS, state)] if _takes_halves(net, precision) else [witness]
    parts = ("bias", "product", "sum") if precision.stored else ()
    choices = itertools.chain.from_iterable(itertools.combinations(parts, count) for count in range(len(parts) + 1))
    return [ReferenceTrainer(net, SETTINGS, state, precision.name, stores) for stores in choices]


def _takes_halves(net: Net, precision: Precision) -> bool:
    """True if a program by halves is a witness: in float32 if the net normalises, which may amplify small channels."""
    return net.normalizes and precision.element == "float32" and not precision.coarse


def nearby(net: Net, state: State, precision: Precision, places: Places | None = None) -> Iterator[Witness]:
    """Witnesses whose parameters, but those that are 0, are the next numbers up or down. A sum that cancels shows in
    them, though one program's roundings of it may cancel as well.
    """
    random, element = np.random.default_rng(0), np.dtype(precision.element)
    for _ in range(NEARBY):
        towards = random.choice(np.array([-np.inf, np.inf], element), state.params.shape)
        params = state.params.astype(element)
        np.nextafter(params, towards, out=params, where=params != 0)
        witness = Witness(net, params, precision, places=places)
        witness.set_state(State(params, buffers=state.buffers))
        yield witness


def honest(net: Net, config: TrainConfig, start: State, precision: Precision) -> list[ReferenceTrainer]:
    """Honest training programs of a coarser format at a state: two kinds if the format is also stored; else none."""
    once, twice = ("bias", "sum"), ("bias", "product", "sum")
    kinds = ((once, twice) if precision.stored else (once,)) if precision.coarse else ()
    return [ReferenceTrainer(net, config, start, precision.name, stores) for stores in kinds]
