"""`Cases`: reference cases of a proof, and settings at which faults show."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cache, cached_property

import numpy as np
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from ..config import TrainConfig
from ..data.dataset import Dataset
from ..data.order import Order
from ..machine.precision import Precision, named
from ..nets import Conv2d, ElementLoss, HuberLoss, L1Loss, Net
from ..nets.params import param_slices, views
from ..ops.tables.reference import switches
from .bounds import step_bounds
from .case_maker import BATCH_FLOPS, FULL, CaseMaker, NoReferenceStep
from .extremes import make_extremes
from .history import ReferenceHistory, make_history
from .kinks import always_rounds
from .normalised.whole_batches import cancelled_biases, rest_of
from .places import LEAST_SHARE, in_epoch, rests, same_batch
from .pools import make_pools
from .reference_cases import ReferenceCase, ReferenceStep
from .samples import DatasetSamples, Noise, Quarters, SampleSource, outputs_of, tied_start

LAST = 2**32 - 1000  # epoch of a case, at most
FAR = 70_001  # samples of the far case, at least: more than 16 bits can count
FAR_BYTES = 1 << 26  # bytes of its pixels, at most
FAR_ACTIVATIONS = 1 << 30  # bytes of activations and their gradients of a full batch there, at most
# samples in a batch whose updates are checked at zero weights: of more, with all classes alike, the sums nearly cancel
AT_ZERO = 16
# terms of an output's bias there, one for each sample and pixel: targets of four levels give terms that round alike
TERMS_AT_ZERO = 1 << 10
REPEATS = 8  # samples for each one that a batch has twice
TIES = 8  # samples whose logits all tie, at least
LEVELS = 4.0  # of each number of exact samples: of few numbers there are fewer different samples than a batch has
INK = 0.1  # share of numbers other than zero where no other samples are fit
STORED_POWERS = 17, 24  # powers of two by which floats are stored larger than a net sees them
VISIBLE = 1 / 16  # share of an update that a visible setting changes
# settings of optimizers that may be too small to show, and the value at which each has no effect
SMALL = {"weight_decay": 0.0, "eps": 1e-30}
HIGH_RATE = 2.0**40  # rate at which an update is looked for: at a low one a sum with the weight rounds it away
WEAK = 17, 20  # powers of two by which an update is smaller than its tensor at a low rate
REACHED, FAR_LIMIT = (5, 12), 64.0  # limits of a norm: below it by 2^-5 to 2^-12 of it, and times it
CLEAR = 8.0  # bounds of a gradient by which it must be below, unless that is more than 2^-5
LEAST_RATE = 64.0  # rate at which updates are compared; or a higher power of two, at which they outweigh the weights


def one_thread() -> AbstractContextManager[object]:
    """Context in which BLAS has one thread: several threads would only wait for each other in small products."""
    return _thread_pools().limit(limits=1, user_api="blas")


@cache
def _thread_pools() -> ThreadpoolController:
    """Thread pools of this process, with NumPy's; a search for them takes milliseconds."""
    return ThreadpoolController()


def ends_on_grid(net: Net) -> bool:
    """True if exact data leave few different numbers to be squared: only layers with kinks follow the last sum.

    A long sum of few different numbers rounds in one direction repeatedly, so that its error grows with its
    length, not with its root.
    """
    last = max((place.layer for place in param_slices(net)), default=-1)
    return isinstance(net.loss, ElementLoss) and any(switches(layer) for layer in net.layers[last + 1 :])


class Cases:
    """Data, states and true results with which a trainer is proven.

    exact : two full batches and a partial one, computed without rounding before the last kink; as `stored` if
        convolutions are transformed or a layer before this kink always rounds.
    zeros : a few samples at a state of zeros, at which all logits tie and no unit is active.
    ties : full batches at weights of zero and some equal logits, checked only by their logs: sums cancel,
        and equal terms round alike, so that a long sum is inaccurate in every program.
    floats : float32 samples in the stored order, two batches, from update 0 on; the other cases are within a run.
    stored : one more than a batch of random bytes, or samples of the data set as they are; some occur twice.
    far : as many samples as the data set has, and more than 2^16: the step with the last of them, a
        random one, and the last step of the epoch.
    single : a data set of one sample; None if no sample can judge a trainer.
    sized : exactly as many samples as the data set has, if `far` has more, in the order of an epoch of the run: a
        random step, and the last one; or None.
    pools : float32 samples and random bytes with known outputs at the state `predicted`.
    source, screened, clear : source of unchanged samples, all sources of samples that need screening, and those of
        bytes and of floats that need little.
    name : name of the real data set, or "".
    seconds : time to make the cases.

    Parameters
    ----------
    net, config
    rng : numpy.random.Generator
    data : Dataset or None
    precision : str or Precision
        Precision of the trainer's products.
    transforms : bool
        True if the trainer may compute convolutions by Winograd's or Fourier's algorithm.
    """

    def __init__(
        self, net: Net, config: TrainConfig, rng: np.random.Generator, data: Dataset | None,
        precision: str | Precision = "fp32", transforms: bool = False,
    ) -> None:  # fmt: skip
        began = time.perf_counter()
        self.net, self.config, self.rng, self.precision = net, config, rng, named(precision)
        weighted = data is not None and data.train_weight is not None
        self.maker = make = CaseMaker(net, config, rng, precision, weighted)
        outputs = outputs_of(net, data)
        self.batch = b = config.batch_size or FULL
        self.name = "" if data is None else data.name
        part, rest = rest_of(net, b, (b * 3 // 5 | 1) if b > 2 else b - 1), rest_of(net, b, 1)
        usual = (2 if make.distinct >= b else 1) * b + part
        bytes_like: SampleSource = Noise(net, np.uint8, outputs) if data is None else DatasetSamples(net, data)
        quarters: list[SampleSource] = [Quarters(net, np.uint8, data, outputs=outputs)]
        if data is not None:  # hardly scaled samples are nearly all cut to the highest level: like terms round alike
            quarters.append(Quarters(net, np.uint8, outputs=outputs))
        far = self._order(self._far(data), least=2**16)
        screened: list[SampleSource] = [bytes_like, Noise(net, np.uint8, outputs), *quarters]
        exact = screened if transforms and any(isinstance(layer, Conv2d) for layer in net.layers) else quarters
        noise = Noise(net, np.float32, outputs, int(rng.integers(*STORED_POWERS)))
        floats: list[SampleSource] = [noise, Quarters(net, np.float32, outputs=outputs)]
        if always_rounds(net):
            screened, floats = screened[:2], floats[:1]
            exact = screened
        cuts = isinstance(net.loss, L1Loss | HuberLoss)  # slopes to a few sizes
        is_alike = cuts or ends_on_grid(net) or math.prod(net.in_shape) < math.log(far.n, LEVELS)
        long = screened if config.batch_size is None and is_alike else exact

        self.exact = make.case("exact", self._order(usual), [*exact, *(() if exact is screened else screened)])
        few = max(rest, min(b, AT_ZERO, TERMS_AT_ZERO // math.prod(net.out_shape[1:])))
        blank = [*quarters, Quarters(net, np.uint8, ink=INK, outputs=outputs)]
        self.zeros = make.at_zero(self._order, few, rest, blank)
        tied = self._order(b * -(-TIES // b))
        start, labelled = tied_start(net, rng, quarters)
        every = range(config.steps(tied.n))
        self.ties = make.case("ties", tied, labelled, steps=every, start=start, updates=False)
        is_cut = config.batch_size is not None
        self.floats = make.case("floats", self._order(2 * b if is_cut else b + rest, shuffle=False), floats, fresh=True)
        some = min(make.distinct, max(1, b - b // REPEATS - 1))
        self.stored = make.case("stored", self._order(b + rest if is_cut else usual), screened, distinct=some)
        self.far = make.case("far", far, long, steps=self._last_steps(far))
        is_known = data is None or far.n == len(data.train_x)
        self.sized = None if is_known else self._sized(len(data.train_x), long)  # type: ignore[union-attr]
        self.single = None if net.normalizes else self._one_step("single", self._order(1), floats, 0)
        self.source, self.screened, self.clear = bytes_like, screened, (exact, floats)
        self.predicted, self.pools = make_pools(make, (noise, bytes_like), 2 * b + 3)
        self.seconds = time.perf_counter() - began

    def _sized(self, n: int, sources: Sequence[SampleSource]) -> ReferenceCase | None:
        """Case of an epoch of the run: a random step, and the last one, whose batch may be partial. In a net that
        normalises the last one alone; None if no samples are fit to judge it.
        """
        config, steps = self.config, self.config.steps(n)
        epoch = min(self.epoch_with_loss(int(self.rng.integers(max(1, config.epochs)))), 2**32 - 2)
        drawn = int(self.rng.integers(steps))
        order = Order(config.seed % 2**32, epoch, n, config.shuffle)
        if self.net.normalizes:
            batch = config.batch(n)
            enough = min(batch, n - (steps - 1) * batch) >= rest_of(self.net, batch, 1)
            return self._one_step("sized", order, sources, steps - 1) if enough else None
        return self.maker.case("sized", order, sources, steps=sorted({drawn, steps - 1}))

    def _one_step(self, name: str, order: Order, sources: Sequence[SampleSource], step: int) -> ReferenceCase | None:
        """Case of one step; None if no samples can judge a trainer."""
        try:
            return self.maker.case(name, order, sources, steps=[step])
        except NoReferenceStep:
            return None

    def _order(self, n: int, shuffle: bool = True, least: int = 1) -> Order:
        """Order whose first batch differs from the stored one; without shuffling, an order whose first batch shuffling
        would change. A full batch is equal in all orders. least : number of its epoch, at least.
        """
        full = self.config.batch(n) == n
        for _ in range(64):
            seed, number = int(self.rng.integers(2**32)), int(np.exp(self.rng.uniform(*np.log((least, LAST)))))
            order = Order(seed, self._with_loss(number), n)
            if not full and not same_batch(order, replace(order, shuffle=False), self.config.batch(n)):
                break
        return replace(order, shuffle=shuffle)

    def epoch_with_loss(self, epoch: int) -> int:
        """Nearest epoch whose losses are computed: `epoch` or an earlier one, if there is one."""
        every = self.config.loss_every
        return max(every, (epoch + 1) // every * every) - 1

    def _with_loss(self, number: int) -> int:
        """Epoch whose losses are computed; a larger `number`, from 1 on, gives a later epoch."""
        every = self.config.loss_every
        return number if every == 1 else every * min(number, (2**32 - 100) // every) - 1

    def without_loss(self, case: ReferenceCase) -> ReferenceCase:
        """Case in the next epoch, whose losses are not computed; only if `loss_every` omits any."""
        epoch = case.order.epoch + 1
        return case.at(in_epoch(case.order, epoch) if self.net.is_random else replace(case.order, epoch=epoch))

    def _far(self, data: Dataset | None) -> int:
        """Number of samples of the far case."""
        bytes_each = math.prod(self.net.in_shape) * (1 if data is None else data.train_x.itemsize)
        count = min(FAR, FAR_BYTES // bytes_each)
        if data is not None:
            count = len(data.train_x) if self.config.batch_size is None else max(count, len(data.train_x))
        if self.config.batch_size is None:
            count = min(count, FAR_ACTIVATIONS // (8 * sum(map(math.prod, self.net.shapes))))
        if self.net.normalizes and self.config.batch_size is None:  # each sample of a batch is its own
            count = min(count, max(self.batch, int(BATCH_FLOPS / self.net.train_flops / 8)))
        left = count % self.batch
        return max(self.batch, count + max(0, rest_of(self.net, self.batch, left) - left))

    def _last_steps(self, order: Order) -> list[int]:
        """Numbers of the step with the last stored sample, of a random step, and of the last step of the epoch."""
        position = order.position(order.n - 1)
        last = self.config.steps(order.n) - 1
        drawn = int(self.rng.integers(last + 1))
        return sorted({min(position // self.config.batch(order.n), last), drawn, last})

    @cached_property
    def history(self) -> ReferenceHistory:
        """History of more than a hundred steps with their true losses and last weights, made at first use."""
        with one_thread():
            return make_history(self.maker, self.source)

    @cached_property
    def rests(self) -> tuple[ReferenceCase, ...]:
        """Cases of an epoch whose last batch has another size than those of the other cases; made at first use."""
        config, b = self.config, self.batch
        if config.batch_size is None or config.drop_last or self.net.normalizes:
            return ()
        seen = {step.size for case in self for step in case.steps}
        with one_thread():
            found = (
                self._one_step("rest", self._order(b + size), self.clear[number % 2], 1)
                for number, size in enumerate(rests(b, seen, self.rng))
            )
            return tuple(case for case in found if case is not None)

    @cached_property
    def extremes(self) -> tuple[ReferenceCase, ...]:
        """Cases at extremes, from the last weights of the history, made at first use."""
        with one_thread():
            return make_extremes(self.maker, self.screened, self.history.end)

    def __iter__(self) -> Iterator[ReferenceCase]:
        every = (self.exact, self.zeros, self.ties, self.floats, self.stored, self.far, self.sized, self.single)
        return iter([case for case in every if case is not None])

    def strong(self, steps: Iterable[ReferenceStep]) -> TrainConfig:
        """Settings with a rate, a power of two, at which each tensor's update exceeds its norm in these steps."""
        rate, high = LEAST_RATE, self.config.but(learning_rate=HIGH_RATE)
        for step in steps:
            before = step.params
            weights = views(self.net, before)
            for name, update in views(self.net, step.after(high)[0] - before).items():
                if name not in cancelled_biases(self.net) and np.any(update):
                    rate = max(rate, HIGH_RATE * float(np.linalg.norm(weights[name]) / np.linalg.norm(update)))
        return self.config.but(learning_rate=2.0 ** math.ceil(math.log2(rate)))

    @cached_property
    def strongest(self) -> TrainConfig:
        """Settings of `strong` for the steps of all cases."""
        return self.strong(step for case in self for step in case.steps)

    def late(self) -> ReferenceCase:
        """Copy of the exact case with each step at a time of its own: with a constant rate up to 2^24 updates."""
        return self.exact.after(self.maker.moments.of_each(self.exact.order.n, len(self.exact.steps)))

    def ended(self) -> tuple[TrainConfig, ReferenceCase] | None:
        """Settings for steps after the run's end, and the exact case there; None if all rates are equal.

        If the schedule leaves no rate there, the settings are the run's: then weights must stay.
        """
        if self.config.schedule.steady:
            return None
        first = self.maker.moments.after_the_end(self.exact.order.n)
        case = self.exact.after(range(first, first + len(self.exact.steps)))
        share = case.steps[-1].rate(self.config.but(learning_rate=1.0))
        return (self.strong(case.steps) if share >= LEAST_SHARE else self.config), case

    def visible(self, case: ReferenceCase) -> TrainConfig | None:
        """Settings of `strong`, with clipping and small settings raised until the first step of a case shows them; None
        if none is in use.
        """
        small = [name for name in SMALL if getattr(self.config.optimizer, name, 0)]
        if self.config.clip_value is None and self.config.clip_norm is None and not small:
            return None
        config, step = self.strong(case.steps), case.steps[0]
        if config.clip_value is not None:
            sizes = [float(np.sqrt(np.mean(g**2))) for g in views(self.net, step.gradient).values()]
            sizes = [size for size in sizes if size > 0] or [config.clip_value]
            config = config.but(clip_value=float(np.median(sizes)))
        if config.clip_norm is not None:
            config = config.but(clip_norm=float(np.linalg.norm(step.gradient)) / 2 or config.clip_norm)
        if "weight_decay" in small:
            share = float(np.linalg.norm(step.gradient) / np.linalg.norm(step.state.params))
            decay: float = config.optimizer.weight_decay  # type: ignore[attr-defined]
            config = config.but(weight_decay=max(decay, share / 4))
        for name in small:
            config = _raised(config, name, step)
        return config

    @property
    def clipped(self) -> TrainConfig | None:
        """Settings of the history whose gradients are clipped; None without clipping."""
        if (seen := self.visible(self.exact)) is None or seen.clip_value is seen.clip_norm is None:
            return None
        return self.history.config.but(clip_value=seen.clip_value, clip_norm=seen.clip_norm)

    def around_norm(self, case: ReferenceCase) -> list[TrainConfig]:
        """Settings of `strong` that clip the first step's norm a little, and not at all; none without clipping."""
        if self.config.clip_norm is None:
            return []
        step, config = case.steps[0], self.strong(case.steps)
        norm = float(np.linalg.norm(step.gradient))
        clear = CLEAR * max(step_bounds(self.net, step.size, self.precision, self.config).values())
        gap = max(2.0 ** -self.rng.uniform(*REACHED), min(clear, 2.0 ** -REACHED[0]))
        return [config.but(clip_norm=share * norm) for share in (1 - gap, FAR_LIMIT)] if norm > 0 else []

    def weak(self, case: ReferenceCase) -> TrainConfig:
        """Settings with a rate at which the first step's update of a tensor is 2^-17 to 2^-20 of it."""
        step, high = case.steps[0], self.config.but(learning_rate=HIGH_RATE)
        weights, updates = (views(self.net, a) for a in (step.params, step.after(high)[0] - step.params))
        ratios = [
            HIGH_RATE * float(np.linalg.norm(weights[name]) / np.linalg.norm(update))
            for name, update in updates.items()
            if np.any(update) and np.any(weights[name]) and name not in cancelled_biases(self.net)
        ]
        rate = self.rng.choice(ratios or [1.0]) * 2.0 ** -self.rng.uniform(*WEAK)
        return self.config.but(learning_rate=float(rate))


def _raised(config: TrainConfig, name: str, step: ReferenceStep) -> TrainConfig:
    """Settings with one of SMALL so large that a step's update shows it; unchanged if none does."""
    raised = config
    without = step.after(config.but(**{name: SMALL[name]}))[0]
    least = VISIBLE * np.linalg.norm(without - step.params)
    for _ in range(50):
        if np.linalg.norm(step.after(raised)[0] - without) >= least:
            return raised
        raised = raised.but(**{name: 4 * getattr(raised.optimizer, name)})
    return config
