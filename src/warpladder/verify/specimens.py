"""Specimens: training steps whose truth is known, at states and on data where honest rounding flips no switch.

A ReLU or a max-pool is a switch. Where rounding flips one, the gradient jumps, and no bound on
rounding covers the jump. Two kinds of specimens keep clear of that, so that no bound is widened:

- screened: general numbers; a sample is taken only if every switch of the reference is further
  from flipping than rounding reaches (`bound` of the sums that lead to it), and so is the choice
  of its largest logit;
- exact: pixels are quarters, and the weights ahead of the last switch lie on a grid so coarse
  that every sum is exact in float32 in any order. Nothing rounds, so nothing flips, and equals
  are equal everywhere: ties and zeros are part of the test instead of its enemies.

The states follow a float64 trajectory, each rounded to float32 (and to the grid). A batch of a
heavy net repeats a few distinct samples, irregularly: the mean's truth is then a weighted mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..config import TrainConfig
from ..data.dataset import Dataset, pixels
from ..nets import CrossEntropyLoss, MaxPool2d, Net, ReLU
from ..ops.maxpool2d import reference as maxpool2d
from ..ops.relu import reference as relu
from ..ops.sgd import reference as sgd
from ..order import Order
from ..params import initial, slots, views
from ..tolerance import bound
from ..trainers.base import State
from ..trainers.reference import ReferenceTrainer
from .bounds import roundings
from .draws import Draw
from .witness import fit, fit_to_predict

BATCH_FLOPS = 4e8  # of the reference, for each specimen: says how many distinct samples a batch has
CANDIDATES = 64  # looked at for each screened sample wanted, before a net counts as too full of switches to screen
STARTS = 32  # initial weights that are tried until every tensor moves
REDRAWS = 8  # batches that are tried at a state until one is fit to judge by
BIAS = 0.1  # standard deviation of the biases of other starts than the first
PROMISE = 1 / 8  # of the loss: what a trajectory's first step takes off, to first order


@dataclass(frozen=True)
class Specimen:
    """One step: where it starts, which it is, and what must come of it.

    state : State, float32.
    step, size : which step of the case's epoch, and the samples in its batch.
    loss, correct : what its log must say.
    gradient : (param_count,) float64, of the mean loss.
    """

    state: State
    step: int
    size: int
    loss: float
    correct: int
    gradient: np.ndarray

    def after(self, config: TrainConfig) -> tuple[np.ndarray, np.ndarray]:
        """Parameters and velocity after the step with these settings, float64."""
        return sgd.step(self.state.params.astype(np.float64), self.gradient, self.state.velocity.astype(np.float64), config)

    def sizes(self, config: TrainConfig) -> tuple[np.ndarray, np.ndarray]:
        """What errors in the update and in the velocity are relative to: the same sums of their terms' sizes.

        Where gradient, momentum and decay cancel, their errors do not; nor does clipping take errors away in proportion.
        """
        params, gradient, velocity = (np.abs(a.astype(np.float64)) for a in (self.state.params, self.gradient, self.state.velocity))
        after, summed = sgd.step(params, gradient, velocity, config.but(clip_value=None))
        return params - after, summed


@dataclass(frozen=True)
class Case:
    """A data set, an order of its samples, and specimens among the steps of that epoch."""

    name: str
    dataset: Dataset
    order: Order
    specimens: tuple[Specimen, ...]


@dataclass(frozen=True)
class Pool:
    """Samples as they are stored, their scale, and `truth`, the net's outputs for them, float64."""

    x: np.ndarray
    scale: float
    truth: np.ndarray


def steady(reference: ReferenceTrainer, x: np.ndarray) -> np.ndarray:
    """(n,) bool: which samples of x (n, *in_shape) float64 keep every switch, and their largest logit, out of rounding's reach."""
    net = reference.net
    entering = reference.activations(x)
    out = np.ones(len(x), np.bool_)
    for i, layer in enumerate(net.layers):
        if i > net.first_trained and isinstance(layer, ReLU):
            out &= relu.margin(entering[i]) > bound("float32", roundings(net, i))
        if i > net.first_trained and isinstance(layer, MaxPool2d):
            assert layer.stride is not None
            out &= maxpool2d.margin(entering[i], layer.kernel_size, layer.stride) > bound("float32", roundings(net, i))
    if isinstance(net.loss, CrossEntropyLoss) and net.out_shape[0] > 1:
        logits = np.sort(entering[-1], axis=1)
        reach = bound("float32", roundings(net, len(net.layers))) * np.abs(logits).max(axis=1)
        out &= logits[:, -1] - logits[:, -2] > reach
    return out


def on_grid(net: Net, state: State, x: np.ndarray, rng: np.random.Generator) -> State:
    """A state near this one at which the net computes x (n, *in_shape), multiples of 1/4, exactly up to its last switch.

    In units of the product of both grids a sum is one of whole numbers; while the sum of their
    sizes stays within 2^24, float32 holds every partial sum in every order. Weights are rounded up
    or down by chance, so that neighbouring states differ; a layer whose sums would be too long gets a coarser grid.
    """
    switches = [i for i, layer in enumerate(net.layers) if i > net.first_trained and isinstance(layer, (ReLU, MaxPool2d))]
    params = state.params.astype(np.float32)
    ahead = [slot for slot in slots(net) if len(slot.shape) > 1 and switches and slot.layer < switches[-1]]
    biases = {slot.layer: slot for slot in slots(net) if len(slot.shape) == 1}
    unit = 0.25  # what enters the layer is a whole number of these
    for slot in ahead:
        bias = biases[slot.layer]
        w, b = state.params[slot.start : slot.stop], state.params[bias.start : bias.stop]
        entering = ReferenceTrainer(net, TrainConfig(), State(params, params)).activations(x)[slot.layer]
        peak = np.abs(entering).max(initial=0) / unit
        size = math.sqrt(float(np.mean(w.astype(np.float64) ** 2)))
        grid = 2.0 ** math.ceil(math.log2(size)) if size > 0 else 1.0
        while True:
            whole = np.floor(w / grid + rng.random(len(w)))
            offset = np.round((b + rng.normal(0, size, len(b))) / (unit * grid))
            if peak * np.abs(whole).reshape(slot.shape[0], -1).sum(axis=1).max() + np.abs(offset).max() <= 2.0**24:
                break
            grid *= 2
        unit *= grid
        params[slot.start : slot.stop], params[bias.start : bias.stop] = whole * grid, offset * unit
    return State(params, state.velocity.astype(np.float32))


def truth(reference: ReferenceTrainer, x: np.ndarray, y: np.ndarray, counts: np.ndarray) -> tuple[float, int, np.ndarray]:
    """Mean loss, correct samples and gradient of a batch in which sample i of x (n, *in_shape) float64 occurs counts[i] times."""
    loss, correct, gradient = 0.0, 0, np.zeros(reference.net.param_count)
    for times in np.unique(counts):
        some = counts == times
        its_loss, its_correct, its_gradient = reference.gradients(x[some], y[some])
        share = times * np.count_nonzero(some) / counts.sum()
        loss += float(share * its_loss)
        correct += int(times) * its_correct
        gradient += share * its_gradient
    return loss, correct, gradient


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
    seed : int
        Of the initial weights, where trajectories start.
    """

    def __init__(self, net: Net, config: TrainConfig, rng: np.random.Generator, seed: int) -> None:
        self.net, self.config, self.rng, self.seed = net, config, rng, seed
        self.distinct = max(2, int(BATCH_FLOPS / net.train_flops))

    def case(
        self,
        name: str,
        n: int,
        draws: Sequence[Draw],
        *,
        shuffle: bool = True,
        steps: Sequence[int] | None = None,
        distinct: int | None = None,
        start: np.ndarray | None = None,
    ) -> Case:
        """Follow a trajectory over some steps of an epoch of n samples, and give each batch samples that suit the state it meets.

        It begins at `start` (param_count,), or at initial weights at which every tensor moves, if there are any. The samples come
        from the first of the draws that offers enough; those that stand in no such step are zeros.
        """
        order = Order(int(self.rng.integers(2**32)), int(self.rng.integers(1, 1000)), n, shuffle)
        steps = range(self.config.steps(n)) if steps is None else steps
        tries = [(start, False)] if start is not None else [(self._start(i), True) for i in range(STARTS)]
        if start is None:
            tries.append((tries[0][0], False))  # a tensor that no start moves cannot move: then it must not
        for draw in draws:
            for some, moving in tries:
                try:
                    return self._case(name, order, draw, steps, distinct or self.distinct, some.astype(np.float64), moving)
                except TooManySwitches:
                    break
                except Unfit:
                    continue
        raise NoSpecimen(f"{name} data: no samples were found for net {self.net.name!r} that are fit to judge a step by")

    def _case(self, name: str, order: Order, draw: Draw, steps: Sequence[int], distinct: int, start: np.ndarray, moving: bool) -> Case:
        config, n = self.config, order.n
        batch = config.batch(n)
        x_all, y_all = np.zeros((n, *self.net.in_shape), draw.dtype), np.zeros(n, np.int32)
        state = State(start, np.zeros_like(start))
        specimens: list[Specimen] = []
        rate = 0.0
        for step in steps:
            positions = order.indices(step * batch, min((step + 1) * batch, n))
            for _ in range(REDRAWS):
                specimen, data = self._specimen(state, step, len(positions), draw, distinct)
                if len(positions) > distinct or fit(self.net, data, specimen.state.params, specimen.loss, specimen.gradient):
                    break
            else:
                raise Unfit
            x_all[positions] = data.train_x
            if data.train_y is not None:
                y_all[positions] = data.train_y
            if not specimens:
                if moving and not all(np.any(g) for g in views(self.net, specimen.gradient).values()):
                    raise Unfit
                slope = float(specimen.gradient @ specimen.gradient)
                rate = PROMISE * specimen.loss / slope if slope > 0 else 0.0
                if config.momentum:
                    specimen = replace(specimen, state=State(specimen.state.params, self._kick(specimen.gradient)))
            specimens.append(specimen)
            state = State(*specimen.after(config.but(learning_rate=rate)))
        return Case(name, self._dataset(name, x_all, y_all, draw.scale), order, tuple(specimens))

    def _dataset(self, name: str, x: np.ndarray, y: np.ndarray, scale: float) -> Dataset:
        labels = y if isinstance(self.net.loss, CrossEntropyLoss) else None
        return Dataset(name, x, labels, x[:1], None if labels is None else labels[:1], scale)

    def _specimen(self, state: State, step: int, size: int, draw: Draw, distinct: int) -> tuple[Specimen, Dataset]:
        """A step from a state near this one, and its batch as a data set."""
        count = min(size, distinct)
        rounded, x, y = self._suited(state, count, draw)
        which = self.rng.permutation(np.concatenate([np.arange(count), self.rng.integers(0, count, size - count)]))
        reference = ReferenceTrainer(self.net, self.config, rounded)
        found = truth(reference, pixels(x, draw.scale).astype(np.float64), y, np.bincount(which))
        return Specimen(rounded, step, size, *found), self._dataset("batch", x[which], y[which], draw.scale)

    def pools(self, draws: Sequence[Draw], most: int) -> tuple[State, tuple[Pool, ...]]:
        """A state, and samples of each kind, at most so many, to predict at it."""
        for i in range(1, STARTS):
            start = self._start(i)
            state = State(start, np.zeros_like(start))
            found = tuple(pool for pool in (self._pool(state, draw, most) for draw in draws) if pool is not None)
            if len(found) == len(draws):
                return state, found
        raise NoSpecimen(f"no samples were found for net {self.net.name!r} that are fit to judge its output by")

    def _pool(self, state: State, draw: Draw, most: int) -> Pool | None:
        reference = ReferenceTrainer(self.net, self.config, state)
        for _ in range(REDRAWS):
            x, _ = draw(self.rng, min(most, self.distinct))
            truth = reference.predict(x, draw.scale)
            if np.any(truth) and fit_to_predict(self.net, x, draw.scale, state.params, truth):
                return Pool(x, draw.scale, truth)
        return None

    def _start(self, number: int) -> np.ndarray:
        """(param_count,) float32: the initial weights of the seed, and others, whose biases are not zero."""
        out = initial(self.net, self.seed + number)
        for slot in slots(self.net) if number else ():
            if len(slot.shape) == 1:
                out[slot.start : slot.stop] = self.rng.normal(0, BIAS, slot.shape)
        return out

    def _kick(self, gradient: np.ndarray) -> np.ndarray:
        """A velocity that weighs as much as the gradient, tensor by tensor: from zero a first step would not show the momentum."""
        out = np.zeros(len(gradient), np.float32)
        for slot in slots(self.net):
            size = np.sqrt(np.mean(gradient[slot.start : slot.stop] ** 2))
            out[slot.start : slot.stop] = self.rng.normal(0, size, slot.stop - slot.start)
        return out

    def _suited(self, state: State, count: int, draw: Draw) -> tuple[State, np.ndarray, np.ndarray]:
        """The state in float32, and samples with labels that suit it."""
        if draw.exact:
            x, y = draw(self.rng, count)
            return on_grid(self.net, state, pixels(x, draw.scale).astype(np.float64), self.rng), x, y
        rounded = State(state.params.astype(np.float32), state.velocity.astype(np.float32))
        reference = ReferenceTrainer(self.net, self.config, rounded)
        xs: list[np.ndarray] = []
        ys: list[np.ndarray] = []
        for _ in range(CANDIDATES):
            x, y = draw(self.rng, count)
            keep = steady(reference, pixels(x, draw.scale).astype(np.float64))
            xs.append(x[keep])
            ys.append(y[keep])
            if sum(map(len, xs)) >= count:
                return rounded, np.concatenate(xs)[:count], np.concatenate(ys)[:count]
        raise TooManySwitches
