"""Proofs over nets, data sets, batch sizes, seeds and rungs: no honest rung is refused, and every liar is caught.

    # a line for each proof that is not as it should be
    python tests/support/sweep_proofs.py --seeds 20 --rungs numpy,native
    python tests/support/sweep_proofs.py --liars --batches 64,1000,full --nets mlp --jobs 8
    # as scripts/nightly does: what takes seconds, with seeds of its own,
    python tests/support/sweep_proofs.py --rows light --seeds 2 --first-seed 14
    # and one of the rows that take minutes each
    python tests/support/sweep_proofs.py --rows heavy --turn 7 --seeds 1

It exits with 1 where a proof is not as it should be. MNIST's shapes are images made here, unless --data-dir has MNIST
itself.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":  # before NumPy is loaded: one thread for each of the sweeps that run side by side
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from large_batches import BATCHES, LARGE, SMALL
from liars import LIARS, Liar, SharesItsParameters
from loss_liars import LOSS_LIARS
from wrong_steps import WRONG_STEPS

from warpladder import ladder, nets
from warpladder.config import RECIPES, TrainConfig
from warpladder.data import load
from warpladder.data.dataset import Dataset
from warpladder.nets import Conv2d, MSELoss, Net
from warpladder.proof import Verdict, verify
from warpladder.proof.case_maker import NoReferenceStep
from warpladder.proof.cases import Cases

NETS = ("softmax", "mlp", "mlp10", "cnn", "autoencoder")
#: Liars for whom a batch of one sample is like any other: there is no partial batch, and a sum is a mean.
OF_BATCHES = {
    "ReportsASummedLoss", "ReportsFullBatches", "SkipsTheLastPartialBatch", "SumsOverTheBatch", "TrainsOn40Percent", "WrongInTheLastPartialBatch",
    "WrongOnABatchOfOne", "Raises", "PredictsWholeBatchesOnly",
}  # fmt: skip
#: Liars for whom an epoch of one step is like any other.
OF_EPOCHS = {"ChangesTheRateEachEpoch", "CountsRunsAsSteps", "IgnoresWarmup", "KeepsItsFirstEpochsLength"}
SHARES = 4  # of a row's liars, at most, that are proven side by side: for each its cases are made anew
NARROW = 8  # channels of the autoencoder above batches of SMALL samples
# FLOPs of a training step from where on a row is heavy: the proofs of its two rungs take from ten seconds to half an
# hour of a core
HEAVY = 3e9


def images(samples: int = 60_000) -> Dataset:
    """As many samples as MNIST has and of its shape: blots of ink in a blank frame, with ten labels."""
    rng = np.random.default_rng(5)
    x = np.zeros((samples, 1, 28, 28), np.uint8)
    x[:, :, 4:24, 4:24] = np.maximum(rng.integers(-400, 256, (samples, 1, 20, 20)), 0)
    y = rng.integers(0, 10, samples).astype(np.int32)
    return Dataset("blots", x, y, x[:100], y[:100], 1 / 255)


def sized(name: str, data: Dataset, batch: int | None) -> tuple[Net, TrainConfig]:
    """A net of the ladder for these samples, with the settings of its report and this batch size."""
    net = getattr(nets, name)(data.in_shape)
    if name == "autoencoder" and (batch is None or batch > SMALL):
        layers = (
            dataclasses.replace(l, out_channels=min(l.out_channels, NARROW)) if isinstance(l, Conv2d) else l
            for l in net.layers
        )
        net = Net("narrow autoencoder", net.in_shape, tuple(layers), net.loss)
    return net, RECIPES[name].but(batch_size=batch)


class Shared:
    """One task's proofs: the cases are made once for all who are judged by them."""

    def __init__(self, net: Net, config: TrainConfig, data: Dataset, seed: int) -> None:
        self.net, self.config, self.data, self.seed = net, config, data, seed
        self.cases: dict[TrainConfig, Cases | NoReferenceStep] = {}

    def make(
        self, net: Net, config: TrainConfig, rng: np.random.Generator, data: Dataset | None, *how: object
    ) -> Cases:
        if config not in self.cases:
            try:
                self.cases[config] = Cases(net, config, rng, data)
            except NoReferenceStep as error:
                self.cases[config] = error
        cases = self.cases[config]
        if isinstance(cases, NoReferenceStep):
            raise cases
        return cases

    def verdict(self, build: Callable, **settings: Any) -> Verdict:
        module = sys.modules["warpladder.proof"]
        before = vars(module)["Cases"]
        vars(module)["Cases"] = self.make
        try:
            return verify(build, self.net, self.config.but(**settings), seed=self.seed, dataset=self.data)
        finally:
            vars(module)["Cases"] = before

    def caught(self, liar: Liar) -> Verdict:
        SharesItsParameters.shared.clear()
        verdict = self.verdict(liar.build, **liar.settings)
        if "data" in liar.caught_by:
            self.cases.clear()  # the liar has written into them
        return verdict


def honest(shared: Shared, names: list[str]) -> Iterator[tuple[str, bool, Verdict]]:
    for name in names:
        rung = ladder.find(name)
        if rung.unsupported(shared.net, shared.config) is None:
            verdict = shared.verdict(rung.build)
            yield name, verdict.passed, verdict


def harmless(name: str, shared: Shared) -> bool:
    """Whether a liar's fault makes no difference on this data set at this batch size, or one that only luck shows."""
    batch = shared.config.batch_size or len(shared.data.train_x)
    return (
        (name == "CountsIn16Bits" and len(shared.data.train_x) <= 1 << 16)
        or (name in OF_BATCHES and batch == 1)
        or (name in OF_EPOCHS and shared.config.batch_size is None)
        or (name == "OpenAtZero" and batch <= 2)  # of so few units hardly one is at zero
        # images are alike: one of ten thousand in place of another moves a gradient by 1.0e-4 of it, and the bound is
        # 1.3e-4
        or (
            name == "SwapsASample"
            and isinstance(shared.net.loss, MSELoss)
            and min(batch, len(shared.data.train_x)) >= 10_000
        )
    )


def lying(shared: Shared, liars: tuple[Liar, ...]) -> Iterator[tuple[str, bool, Verdict]]:
    for liar in liars:
        if liar.applies(shared.net, shared.config.but(**liar.settings)) and not harmless(str(liar), shared):
            verdict = shared.caught(liar)
            crashed = verdict.reason.startswith("crash") and "crash" not in liar.caught_by
            yield str(liar), verdict.judged and not verdict.passed and not crashed, verdict


class Row(NamedTuple):
    """A net on a data set at a batch size."""

    data: str
    net: str
    batch: int | None

    def __str__(self) -> str:
        return f"{self.data}, {self.net}, batch {self.batch or 'full'}"

    def heavy(self, folder: Path | None) -> bool:
        data = loaded(self.data, folder)
        net, config = sized(self.net, data, self.batch)
        return net.train_flops * config.batch(len(data.train_x)) >= HEAVY


class Part(NamedTuple):
    """Proofs of a row with one seed: of some rungs, or of every `of`-th liar from number `first` on."""

    row: Row
    seed: int
    who: str  # rungs with commas between them, or what sort of liars
    data_dir: Path | None
    first: int = 0
    of: int = 1


class Found(NamedTuple):
    """What a part of the sweep found: its proofs, those not as they should be, how close one came to its bound, and its
    seconds.
    """

    row: Row
    proofs: int
    wrong: list[str]
    closest: float
    seconds: float


@cache
def loaded(name: str, folder: Path | None) -> Dataset:
    return load("digits") if name == "digits" else load("mnist", data_dir=folder) if folder else images()


def swept(part: Part) -> Found:
    row, began = part.row, time.perf_counter()
    data = loaded(row.data, part.data_dir)
    shared = Shared(*sized(row.net, data, row.batch), data, part.seed)
    sorts = {"liars": (*LIARS, *WRONG_STEPS, *LOSS_LIARS, *LARGE), "large": LARGE}
    liars = sorts.get(part.who, ())[part.first :: part.of]
    found = list(lying(shared, liars) if part.who in sorts else honest(shared, part.who.split(",")))
    wrong = [f"{row}, seed {part.seed}, {who}: {verdict.reason}" for who, good, verdict in found if not good]
    closest = max((verdict.error / verdict.bound for _, _, verdict in found if verdict.passed), default=0.0)
    return Found(row, len(found), wrong, closest, time.perf_counter() - began)


def processors() -> list[int]:
    """Numbers of the processors that this process may be kept on; none where the system cannot say."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def alone(places: multiprocessing.Queue[int]) -> None:
    """Keeps this process, one of several, on one processor: what trains with threads would otherwise take them all."""
    os.sched_setaffinity(0, {places.get()})


def numbers(text: str) -> tuple[int | None, ...]:
    return tuple(None if word == "full" else int(word) for word in text.split(","))


def share(text: str) -> tuple[int, int]:
    k, n = text.split("/")
    if not 0 <= int(k) < int(n):
        raise ValueError(text)
    return int(k), int(n)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", default=",".join(NETS))
    parser.add_argument("--data", default="digits,mnist")
    parser.add_argument("--data-dir", type=Path, help="folder with MNIST's files")
    parser.add_argument(
        "--batches", type=numbers, default=BATCHES, help="with commas between them; full is a full batch"
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument(
        "--rows", choices=("all", "light", "heavy"), default="all", help="by what a training step of them takes"
    )
    parser.add_argument("--turn", type=int, help="of these rows one alone, number TURN modulo how many there are")
    parser.add_argument("--rungs", default="numpy,native")
    parser.add_argument("--liars", action="store_true", help="liars in place of rungs")
    parser.add_argument("--large", action="store_true", help="the liars of large batches alone")
    parser.add_argument(
        "--share",
        type=share,
        default=(0, 1),
        metavar="K/N",
        help="every N-th liar alone, from number K on, counted from 0",
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side, with a processor each")
    given = parser.parse_args()

    who = "large" if given.large else "liars" if given.liars else given.rungs
    rows = [
        Row(data, net, batch)
        for data in given.data.split(",")
        for net in given.nets.split(",")
        for batch in given.batches
    ]
    if given.rows != "all":
        rows = [row for row in rows if row.heavy(given.data_dir) == (given.rows == "heavy")]
    if given.turn is not None:
        rows = [rows[given.turn % len(rows)]] if rows else []
    if not rows:
        parser.error(f"there are no {given.rows} rows among these nets, data sets and batches")
    if given.large and all(row.batch is not None and row.batch <= SMALL for row in rows):
        print(
            f"{', '.join(map(str, rows))}: liars of large batches are honest with {SMALL} samples and fewer, so there is nothing to prove"
        )
        return 0
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    shares = min(given.jobs, SHARES) if given.liars or given.large else 1
    k, n = given.share
    parts = [
        Part(row, seed, who, given.data_dir, k + n * first, n * shares)
        for row in rows
        for seed in seeds
        for first in range(shares)
    ]
    todo, proofs = Counter(part.row for part in parts), dict.fromkeys(rows, 0)
    seconds, closest = dict.fromkeys(rows, 0.0), dict.fromkeys(rows, 0.0)
    made = wrong = 0
    context = multiprocessing.get_context("spawn")
    places = context.Queue()
    for _, processor in zip(range(given.jobs), itertools.cycle(processors())):
        places.put(processor)
    shared = given.jobs > 1 and processors()
    with context.Pool(given.jobs, alone if shared else None, (places,) if shared else ()) as pool:
        for found in pool.imap_unordered(swept, parts):
            for text in found.wrong:
                print(f"WRONG: {text}", flush=True)
            row, made, wrong = found.row, made + found.proofs, wrong + len(found.wrong)
            proofs[row] += found.proofs
            seconds[row] += found.seconds
            closest[row] = max(closest[row], found.closest)
            todo[row] -= 1
            if not todo[row]:
                print(
                    f"{row}: {proofs[row]} proofs, closest to a bound {closest[row]:.2f} of it, {seconds[row]:.1f} s",
                    flush=True,
                )
    print(f"{made} proofs, {wrong} not as they should be")
    return 1 if wrong or not made else 0


if __name__ == "__main__":
    sys.exit(main())
