"""Proofs over nets, data sets, batch sizes, seeds and rungs: no honest rung is refused, and every liar is caught.

    python tests/sweep_proofs.py --seeds 20 --rungs numpy,native            # a line for each proof that is not as it should be
    python tests/sweep_proofs.py --liars --batches 64,1000,full --nets mlp

It exits with 1 where a proof is not as it should be. MNIST's shapes are images made here, unless --data-dir has MNIST itself.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

if __name__ == "__main__":  # before NumPy is loaded: one thread for each of the sweeps that run side by side
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from large_batches import BATCHES, LARGE, SMALL
from liars import LIARS, Liar, SharesItsParameters
from warpladder import ladder, nets
from warpladder.config import RECIPES, TrainConfig
from warpladder.data import load
from warpladder.data.dataset import Dataset
from warpladder.nets import Conv2d, Net
from warpladder.verify import Verdict, verify
from warpladder.verify.cases import Cases
from warpladder.verify.maker import NoSpecimen

NETS = ("softmax", "mlp", "mlp10", "cnn", "autoencoder")
NARROW = 8  # channels of the autoencoder above batches of SMALL samples


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
        layers = (dataclasses.replace(l, out_channels=min(l.out_channels, NARROW)) if isinstance(l, Conv2d) else l for l in net.layers)
        net = Net("narrow autoencoder", net.in_shape, tuple(layers), net.loss)
    return net, RECIPES[name].but(batch_size=batch)


class Shared:
    """One task's proofs: the cases are made once for all who are judged by them."""

    def __init__(self, net: Net, config: TrainConfig, data: Dataset, seed: int) -> None:
        self.net, self.config, self.data, self.seed = net, config, data, seed
        self.cases: dict[TrainConfig, Cases | NoSpecimen] = {}

    def make(self, net: Net, config: TrainConfig, rng: np.random.Generator, data: Dataset | None, *how: object) -> Cases:
        if config not in self.cases:
            try:
                self.cases[config] = Cases(net, config, rng, data)
            except NoSpecimen as error:
                self.cases[config] = error
        cases = self.cases[config]
        if isinstance(cases, NoSpecimen):
            raise cases
        return cases

    def verdict(self, build: Callable, **settings: float | bool) -> Verdict:
        module = sys.modules["warpladder.verify"]
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


def lying(shared: Shared, liars: tuple[Liar, ...]) -> Iterator[tuple[str, bool, Verdict]]:
    for liar in liars:
        if liar.applies(shared.net, shared.config.but(**liar.settings)):
            verdict = shared.caught(liar)
            yield str(liar), verdict.judged and not verdict.passed and verdict.reason.startswith(liar.caught_by), verdict


def numbers(text: str) -> tuple[int | None, ...]:
    return tuple(None if word == "full" else int(word) for word in text.split(","))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", default=",".join(NETS))
    parser.add_argument("--data", default="digits,mnist")
    parser.add_argument("--data-dir", type=Path, help="folder with MNIST's files")
    parser.add_argument("--batches", type=numbers, default=BATCHES, help="with commas between them; full is a full batch")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--rungs", default="numpy,native")
    parser.add_argument("--liars", action="store_true", help="liars in place of rungs")
    parser.add_argument("--large", action="store_true", help="the liars of large batches alone")
    given = parser.parse_args()

    liars = LARGE if given.large else (*LIARS, *LARGE)
    work = partial(lying, liars=liars) if given.liars or given.large else partial(honest, names=given.rungs.split(","))
    made = wrong = 0
    for data_name in given.data.split(","):
        data = load("digits") if data_name == "digits" else load("mnist", data_dir=given.data_dir) if given.data_dir else images()
        for name in given.nets.split(","):
            for batch in given.batches:
                began, here, closest = time.perf_counter(), 0, 0.0
                for seed in range(given.first_seed, given.first_seed + given.seeds):
                    for who, good, verdict in work(Shared(*sized(name, data, batch), data, seed)):
                        here, wrong = here + 1, wrong + (not good)
                        closest = max(closest, verdict.error / verdict.bound if verdict.passed else 0.0)
                        if not good:
                            print(f"WRONG: {data.name}, {name}, batch {batch}, seed {seed}, {who}: {verdict.reason}", flush=True)
                made += here
                what = f"{here} proofs, closest to a bound {closest:.2f} of it, {time.perf_counter() - began:.1f} s"
                print(f"{data.name}, {name}, batch {batch or 'full'}: {what}", flush=True)
    print(f"{made} proofs, {wrong} not as they should be")
    return 1 if wrong or not made else 0


if __name__ == "__main__":
    sys.exit(main())
