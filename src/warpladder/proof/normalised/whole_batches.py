"""Proofs of nets that normalise by the statistics of a batch: its samples depend on each other.

Another sample changes the statistics and with them all other samples' numbers, so samples cannot be screened one by
one. Instead the bias before a kink moves: it shifts a channel until a gap between its numbers lies at the kink.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from ... import nets
from ...config import TrainConfig
from ...machine.precision import Precision
from ...nets.params import buffer_slices, buffer_views, initial_buffers, param_slices, views
from ...ops.batchnorm import reference as batchnorm
from ...ops.loss import reference as losses
from ...ops.maxpool2d import reference as maxpool
from ...ops.tables import reference as layers
from ...optimizers import SGD
from ...trainers.base import State
from ..bounds import distance_bound, products, roundings, update_bounds
from ..kinks import has_clear_argmax
from ..places import Places
from ..reference import ReferenceTrainer
from ..reference_cases import ReferenceStep
from .long_sums import LEAST, LONG, OF_WINDOWS, in_a_row_at, normalising, one_after_another

#: Powers of two by which deviations in running statistics are larger or smaller than usual; in a coarse format.
POWERS, COARSE_POWERS = (7.5, 10.0), (4.0, 4.0)
#: Layers whose output, if all numbers of a channel are shifted, is shifted channel by channel, or number by number.
SHIFTED = (
    nets.MaxPool2d,
    nets.AvgPool2d,
    nets.AdaptiveAvgPool2d,
    nets.Upsample2d,
    nets.Flatten,
    nets.Linear,
    nets.Branch,
    nets.Sum,
)
#: Layers that pass a shift of a channel on as it is.
PASSED = (nets.MaxPool2d, nets.AvgPool2d, nets.AdaptiveAvgPool2d, nets.Upsample2d, nets.Branch, nets.Sum)
#: Times its limit that a number must be away from 0, in a coarse format and in others: the shifts of other channels
#: change a sample's size too, and an earlier normalisation amplifies roundings.
COARSE_ROOM, ROOM = 1.5, 4.0
#: Mean of a channel of LONG numbers, in deviations, where a bias can make it so: the sum of a large mean's terms, one
#: by one, is less exact than most bounds.
MEAN = 0.25
FAR = 0.5  # root mean squares by which a channel is shifted at most for a wider gap than rounding needs
AT_POOL = 1.5  # times its limit that two numbers of a pool's window must differ by, where a ReLU may make both zero


def rest_of(net: nets.Net, batch: int, usual: int) -> int:
    """Number of samples in a partial batch of a proof: `usual`, or more if the net normalises few numbers of each."""
    pixels = [math.prod(net.shapes[i][1:]) for i in normalising(net)]
    return max(usual, min(batch, -(-(LEAST + 1) // min(pixels)))) if pixels and usual else usual


@lru_cache(maxsize=256)
def cancelled_biases(net: nets.Net) -> frozenset[str]:
    """Names of the biases that a later normalisation subtracts again: their gradient is only rounding errors."""
    biased = [i for i, layer in enumerate(net.layers) if "bias" in layer.param_shapes(net.shapes[i])]
    return frozenset(f"{net.names[i]}.bias" for i in biased if _is_cancelled(net, i + 1))


def _is_cancelled(net: nets.Net, at: int) -> bool:
    """True if on each path a normalisation subtracts any shift of a channel at the input of layer `at`."""
    if at == len(net.layers):
        return False
    layer, returned = net.layers[at], net.skips.returned
    if isinstance(layer, nets.Branch):  # the other path goes on where its gradient comes from
        return at in returned and _is_cancelled(net, at + 1) and _is_cancelled(net, returned[at])
    if isinstance(layer, nets.Shortcut):
        return _is_cancelled(net, returned[at])
    passes = isinstance(layer, SHIFTED) or (isinstance(layer, nets.Conv2d) and not layer.padding)
    return layer.normalizes or (passes and _is_cancelled(net, at + 1))


def judged(net: nets.Net, config: TrainConfig) -> frozenset[str]:
    """Names of the tensors whose update can be judged: all, but no cancelled biases if an optimizer divides by
    gradients, and so makes steps of its usual magnitude from rounding errors.
    """
    names = frozenset(place.name for place in param_slices(net))
    return names if isinstance(config.optimizer, SGD) else names - cancelled_biases(net)


def drawn_buffers(net: nets.Net, rng: np.random.Generator, precision: Precision) -> np.ndarray | None:
    """Buffers (buffer_count,) float32 as after training; None without buffers. Half of the channels have variances near
    1 and means near 0, the others larger or smaller ones; large means are below 0: a ReLU passes those channels on.
    """
    if not net.normalizes:
        return None
    flat = initial_buffers(net)
    named = buffer_views(net, flat)
    for name, variance in named.items():
        if name.endswith("running_var"):
            kinds = rng.permutation(np.resize(rng.permutation((1, -1, 0, 0)), len(variance)))
            powers = rng.uniform(*(COARSE_POWERS if precision.coarse else POWERS), variance.shape)
            deviation = 2.0 ** (kinds * powers)
            variance[...] = rng.uniform(0.5, 2, variance.shape) * deviation**2
            mean = rng.normal(0, 0.5, variance.shape) * deviation
            named[name.replace("_var", "_mean")][...] = np.where(kinds == 1, -np.abs(mean), mean)
    return flat


def moved_together(
    reference: ReferenceTrainer, x: np.ndarray, precision: Precision, places: Places | None = None,
    widely: bool = False, accumulators: int = 1,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Parameters (param_count,) near the reference's, in the precision's format, at which as few numbers of the batch x
    (n, *in_shape) as shifts of biases achieve are near a kink; and a mask (n,) bool of the samples that have one at the
    first layer that has any, or whose largest logit is not clear.

    accumulators : number of partial sums of a normalisation's means.
    widely : True if numbers of a pool's window must be so far apart that no errors of long sums change their order.
    """
    net, params = reference.net, reference.params.astype(precision.element)
    moved = ReferenceTrainer(net, reference.config, State(params))
    named, wide, entering = views(net, params), views(net, moved.params), [x]
    for i, layer in enumerate(net.layers):
        a = entering[i]
        if i > net.first_trained and layers.switches(layer):
            limit = distance_bound(precision, roundings(net, i), products(net, i, precision))
            first = _shifting(net, i)
            name = f"{net.names[first]}.bias"
            if isinstance(layer, nets.ReLU | nets.LeakyReLU) and name in named:
                bias = named[name]
                before = bias.astype(np.float64)
                size = float(np.sqrt(np.mean(a.reshape(len(a), -1) ** 2, axis=1)).max())
                room = limit * (COARSE_ROOM if precision.coarse else ROOM)
                wide_room = max(room, in_a_row_at(net, i, len(x), precision, accumulators))
                most = _highest(net, i, a, precision, size)
                bias += _shifts(a, (room, wide_room), size, most).astype(bias.dtype)
                wide[name][...] = bias
                for at in range(first + 1, i + 1):
                    entering[at] = entering[at] + batchnorm.across(bias - before, a)
            if widely and isinstance(layer, nets.MaxPool2d):
                limit = max(limit, OF_WINDOWS * in_a_row_at(net, i, len(x), precision, accumulators))
            near = ~(layers.margin(layer, entering[i]) > limit)
            if np.any(near):
                return params, near
        if i and layer.normalizes and a[:, 0].size > LONG and not precision.coarse:
            entering[i] = _with_small_means(moved, (named, wide), entering, places)
        entering.append(moved.leaving(i, entering[i], places, skip=moved.stored(i, entering)))
    return params, ~has_clear_argmax(net, entering[-1], precision)


def _with_small_means(
    moved: ReferenceTrainer, named: Sequence[dict[str, np.ndarray]], entering: Sequence[np.ndarray],
    places: Places | None,
) -> np.ndarray:  # fmt: skip
    """Last of the layers' inputs `entering`, (n, channels, ...), with a small mean in each channel: the bias of the
    layer before is moved, if the normalisation subtracts it, or the weights of a layer without a bias.

    named : tensors by name, in the format and wide, which are moved.
    """
    net, i, a = moved.net, len(entering) - 1, entering[-1]
    layer, name, over = net.layers[i - 1], net.names[i - 1], batchnorm.axes(a)
    off = a.mean(over) - MEAN * a.std(over)
    params, wide = named
    if f"{name}.bias" in cancelled_biases(net):
        bias = params[f"{name}.bias"]
        before = bias.astype(np.float64)
        bias -= off.astype(bias.dtype)
        wide[f"{name}.bias"][...] = bias
        return a + batchnorm.across(bias - before, a)
    if f"{name}.bias" in params or f"{name}.weight" not in params:
        return a
    weight, alike = params[f"{name}.weight"], np.full((len(a), 1, *a.shape[2:]), 1 / a[:, 0].size)
    met = layers.weight_gradients(layer, entering[i - 1], wide[f"{name}.weight"][:1], alike)[0]  # means of the inputs
    size = np.square(met).sum()
    steps = np.multiply.outer(off, met[0] / size) if size > 0 else np.zeros(weight.shape)
    norms = [np.sqrt(np.square(each).reshape(len(off), -1).sum(axis=1)) for each in (steps, weight)]
    near = norms[0] <= norms[1]  # the filter stays of its kind
    weight[near] -= steps[near].astype(weight.dtype)
    wide[f"{name}.weight"][...] = weight
    return moved.leaving(i - 1, entering[i - 1], places, skip=moved.stored(i - 1, entering))


def _shifting(net: nets.Net, at: int) -> int:
    """Number of the layer whose output's shift reaches layer `at` unchanged, through pools and sums of residual
    connections.
    """
    at -= 1
    while isinstance(net.layers[at], PASSED):
        at -= 1
    return at


def _highest(net: nets.Net, relu: int, a: np.ndarray, precision: Precision, size: float) -> np.ndarray:
    """Highest shifts (channels,) of a ReLU's inputs a (n, channels, ...), whose samples have this root mean square at
    most, at which it leaves zeros in each window of a pool after it whose largest two numbers are nearly equal.
    """
    pool = net.layers[relu + 1] if relu + 1 < len(net.layers) else None
    if not (isinstance(pool, nets.MaxPool2d) and isinstance(net.layers[relu], nets.ReLU)) or pool.kernel_size == 1:
        return np.full(a.shape[1], np.inf)
    windows = np.sort(np.stack(maxpool.positions(pool, a)), axis=0)
    best, gap = windows[-1], windows[-1] - windows[-2]
    reach = AT_POOL * distance_bound(precision, roundings(net, relu + 1), products(net, relu + 1, precision)) * size
    tied = np.where((gap > 0) & (gap <= reach), best, -np.inf)
    return np.asarray(-reach - tied.max(axis=batchnorm.axes(a)))


def _shifts(a: np.ndarray, rooms: tuple[float, float], size: float, most: np.ndarray) -> np.ndarray:
    """Smallest shifts (channels,) of at most `most` after which no number of a (n, channels, ...) is near 0.

    rooms : distance from 0 that is near, relative to a sample's root mean square, which is at most `size` before; and
        the distance that is wanted, if a gap within FAR root mean squares has it, else that of the largest such gap. A
        shift adds to both.
    """
    room, wanted = rooms
    rows = np.sort(np.moveaxis(a, 1, 0).reshape(a.shape[1], -1), axis=1)
    out = np.zeros(len(rows))
    for channel, row in enumerate(rows):
        if np.abs(row).min() > wanted * size and most[channel] >= 0:
            continue
        beyond = 4 * room * (size + np.abs(row).max())
        edges = np.concatenate([[row[0] - beyond], row, [row[-1] + beyond]])
        shifts = -(edges[1:] + edges[:-1]) / 2
        gaps = np.diff(edges) / (2 * (size + np.abs(shifts)))
        usable = (gaps > room) & (shifts <= most[channel])
        if not np.any(usable):  # all numbers are 0, or NaN: another batch may have a gap
            continue
        close = usable & (np.abs(shifts) <= FAR * size)
        widest = min(wanted, gaps[close].max()) if np.any(close) else room
        usable &= gaps >= widest
        out[channel] = shifts[usable][np.argmin(np.abs(shifts[usable]))]
    return out


def whole_step(
    reference: ReferenceTrainer, step: ReferenceStep, x: np.ndarray, y: np.ndarray | None, precision: Precision,
    places: Places | None = None, weights: np.ndarray | None = None,
) -> ReferenceStep:  # fmt: skip
    """Step with its results, including buffers, on the batch x (n, *in_shape) float64, y (n,) or (n, outputs).

    weights : (n,) of the samples, or None. The uncertainty of a cancelled bias's gradient is the magnitude of its terms
    times the bound.
    """
    net, names, limits = reference.net, cancelled_biases(reference.net), update_bounds(reference.net, len(x), precision)
    unsure, lost = np.zeros(net.param_count), np.zeros(net.param_count)
    at, products_at = views(net, unsure), views(net, lost)

    def watch(layer: int, dy: np.ndarray) -> None:
        if (name := f"{net.names[layer]}.bias") in names:
            at[name][...] = limits[name] * np.abs(dy).sum(axis=batchnorm.axes(dy))
        if isinstance(own := net.layers[layer], nets.Conv2d):
            products_at[f"{net.names[layer]}.weight"][...] = one_after_another(own, entering[layer], dy, precision)

    entering = reference.activations(x, places)
    shares = losses.shares(net.loss, y, len(x), weights)
    loss, correct, gradient = reference.gradients(x, y, watch, entering, places, shares)
    return replace(
        step, loss=loss, correct=correct, gradient=gradient, uncertainty=unsure if names else None, product_errors=lost,
        buffers=reference.moved_buffers(entering), buffer_scales=buffer_scales(net, entering),
    )  # fmt: skip


def buffer_bounds(net: nets.Net, size: int, precision: Precision) -> dict[str, float]:
    """Bounds of the running statistics after a batch of this size, by name, from the roundings up to their layer."""
    out = {}
    for place in buffer_slices(net):
        length = roundings(net, place.layer) + size * math.prod(net.shapes[place.layer][1:]) + 8
        out[place.name] = distance_bound(precision, length, products(net, place.layer, precision))
    return out


def buffer_scales(net: nets.Net, entering: Sequence[np.ndarray]) -> np.ndarray:
    """Scales (buffer_count,) of errors in the running statistics after a batch: for a mean, momentum times the root
    mean square of the numbers; for a variance, this times twice the deviation.
    """
    flat = np.zeros(net.buffer_count)
    at = buffer_views(net, flat)
    for i, layer in enumerate(net.layers):
        if layer.normalizes:
            x, share = entering[i], layer.momentum  # type: ignore[attr-defined]
            size = np.sqrt(np.mean(np.square(x), axis=batchnorm.axes(x)))
            at[f"{net.names[i]}.running_mean"][...] = share * size
            at[f"{net.names[i]}.running_var"][...] = 2 * share * size * x.std(batchnorm.axes(x))
    return flat
