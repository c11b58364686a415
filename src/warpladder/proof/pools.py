"""Pools of samples whose outputs can judge a trainer.

A bound is a count of roundings, and of thousands of samples a few exceed a third of it in any program: the largest of
many errors grows with their number, and in a coarse format a bound is a few roundings of one number. So samples are
screened one by one, by the errors of honest programs, before a trainer is used at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..config import TrainConfig
from ..machine.precision import Precision
from ..nets import Net
from ..trainers.base import State
from .bounds import output_bound, output_scale
from .case_maker import STARTS, CaseMaker, NoReferenceStep
from .normalised.whole_batches import drawn_buffers
from .reference import ReferenceTrainer
from .samples import SampleSource
from .suited_samples import REDRAWS
from .verdict import distance, distances
from .witness import COARSE_RESERVE, RESERVE, nearby, predicting

ALONE = 64  # samples that are tried one by one, at most
SHARE = 0.8  # share of the samples that must be fit: with fewer the others were near a bound by chance
COARSE_SHARE = 0.25  # share in a coarse format, where half of all samples are not fit alone


@dataclass(frozen=True)
class PredictionPool:
    """Samples as they are stored, with their true outputs at a state.

    x, scale : stored samples and their scale.
    truth : the net's outputs for them, float64.
    alone : (some,) int64, samples whose outputs can be judged separately.
    """

    x: np.ndarray
    scale: float
    truth: np.ndarray
    alone: np.ndarray


def make_pools(
    maker: CaseMaker, sources: Sequence[SampleSource], most: int
) -> tuple[State, tuple[PredictionPool, ...]]:  # fmt: skip
    """State, and for each source a pool of at most `most` samples to predict at it."""
    maker.patience.begin()
    for i in range(1, STARTS):
        state = State(maker.start(i), buffers=drawn_buffers(maker.net, maker.rng, maker.precision))
        screen, found = _Screen(maker.net, maker.config, state, maker.precision), list[PredictionPool]()
        for source in sources:
            pool = _pool(maker, screen, source, min(most, maker.distinct))
            if pool is None:
                break
            found.append(pool)
        else:
            return state, tuple(found)
        maker.patience.failed()
        if maker.patience.is_over:
            break
    raise NoReferenceStep(f"no samples were found for net {maker.net.name!r} that are fit to judge its output by")


def _pool(maker: CaseMaker, screen: _Screen, source: SampleSource, count: int) -> PredictionPool | None:
    """Pool of `count` samples of a source whose outputs at a state can be judged; None if too few can."""
    held: list[np.ndarray] = []  # samples that are fit so far, their true outputs, and those of each witness
    for _ in range(REDRAWS):
        x, _ = source(maker.rng, count)
        new = [x, *screen.outputs(x, source.scale)]
        held = [np.concatenate(both) for both in zip(held, new, strict=True)] if held else new
        fit = screen.among(held[1:])
        held = [a[fit] for a in held]
        if np.count_nonzero(fit) < screen.share * len(fit):
            return None
        chosen = [a[:count] for a in held]
        if len(chosen[0]) < count or not np.any(chosen[1]) or not screen.together(chosen[1:]):
            continue
        alone = screen.alone(chosen[0], source.scale, chosen[1:])
        if len(alone):
            return PredictionPool(chosen[0], source.scale, chosen[1], alone)
        held = []
    return None


class _Screen:
    """Screen of samples by the outputs of honest programs, witnesses, at a state.

    Outputs are a list: the true ones (n, *out_shape) float64, and those of each witness. An error must fit `reserve`
    times into the bound, for a `share` of the samples.
    """

    def __init__(self, net: Net, config: TrainConfig, state: State, precision: Precision) -> None:
        self.net, self.state, self.precision = net, state, precision
        self.limit = output_bound(net, precision)
        self.reserve, self.share = (COARSE_RESERVE, COARSE_SHARE) if precision.coarse else (RESERVE, SHARE)
        self.programs = [ReferenceTrainer(net, config, state), *predicting(net, state, precision)]

    def outputs(self, x: np.ndarray, scale: float) -> list[np.ndarray]:
        return [program.predict(x, scale) for program in self.programs]

    def among(self, outputs: list[np.ndarray]) -> np.ndarray:
        """Mask (n,) of samples that can be judged among all others."""
        truth, *every = outputs
        size = np.square(output_scale(truth)).reshape(len(truth), -1).sum(axis=1)
        size = np.maximum(size, size.mean())
        off = (np.square(got - truth).reshape(len(truth), -1).sum(axis=1) for got in every)
        return np.all([np.sqrt(each) * self.reserve <= self.limit * np.sqrt(size) for each in off], axis=0)

    def together(self, outputs: list[np.ndarray]) -> bool:
        """True if all samples can be judged together."""
        truth, *every = outputs
        size = output_scale(truth)
        return all(distance(got, truth, size) * self.reserve <= self.limit for got in every)

    def alone(self, x: np.ndarray, scale: float, outputs: list[np.ndarray]) -> np.ndarray:
        """Indices (fit,) int64 of samples that can be judged by themselves, at most ALONE; none if too few can."""
        x, (truth, *every) = x[:ALONE], outputs
        size, truth = np.square(output_scale(truth)[:ALONE]), truth[:ALONE]

        def fits(got: np.ndarray) -> np.ndarray:
            return distances(np.square(got[:ALONE] - truth), size) * self.reserve <= self.limit

        found = np.all([fits(got) for got in every], axis=0)
        if np.count_nonzero(found) < self.share * len(x):
            return np.zeros(0, np.int64)
        if not self.precision.coarse:
            near = (witness.predict(x, scale) for witness in nearby(self.net, self.state, self.precision))
            found &= np.all([fits(got) for got in near], axis=0)
        return np.flatnonzero(found)
