"""Proofs of planted trainers and of their honest twins on every kind of net, at batches of one to all samples.

    python tests/support/sweep_planted.py                        # a line for each proof that is not as it should be
    python tests/support/sweep_planted.py --nets cnn,dropped --batches 6,full --kinds lies
    python tests/support/sweep_planted.py --share 3/40 --seed 7  # every fortieth proof, from number 3 on

It exits with 1 if an honest trainer was refused, or one with a fault was not.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

if __name__ == "__main__":  # before NumPy is loaded
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from planted import HONEST, PLANTED_CALLS, PLANTED_OPERATIONS
from planted_layers import LAYERS, PERSISTENT
from regime_liars import FORMS, REGIME_LIARS
from sweep_proofs import numbers, share

import warpladder.proof
from warpladder import ladder, nets
from warpladder.config import TrainConfig
from warpladder.nets import (
    GELU,
    AvgPool2d,
    Conv2d,
    CrossEntropyLoss,
    Dropout,
    Flatten,
    Linear,
    MSELoss,
    Net,
    ReLU,
    Sigmoid,
    SiLU,
    Tanh,
)
from warpladder.proof import Verdict, verify
from warpladder.proof.cases import Cases


def narrow(net: Net, channels: int) -> Net:
    """A net with at most so many channels in each hidden convolution."""
    *inner, last = net.layers
    cut = (replace(l, out_channels=min(l.out_channels, channels)) if isinstance(l, Conv2d) else l for l in inner)
    return Net(f"narrow {net.name}", net.in_shape, (*cut, last), net.loss)


#: Small forms of the nets of the ladder, and nets of the other layers.
NETS = {
    "softmax": nets.softmax((1, 6, 6), 5),
    "mlp": nets.mlp((1, 6, 6), 5, (24,)),
    "mlp10": nets.mlp10((1, 6, 6), 5),
    "deep": nets.mlp((1, 6, 6), 5, (16, 12, 10)),
    "cnn": narrow(nets.cnn((1, 8, 8), 5), 6),
    "autoencoder": narrow(nets.autoencoder((2, 8, 8)), 6),
    "curves": Net(
        "curves",
        (1, 7, 7),
        (
            Conv2d(out_channels=4, kernel_size=3), GELU(), AvgPool2d(2, 1), Flatten(), Linear(out_features=8), Sigmoid(),
            Linear(out_features=8), Tanh(), Linear(out_features=8), SiLU(), Linear(out_features=5),
        ),
        CrossEntropyLoss(),
    ),
    "dropped": Net(
        "dropped",
        (12,),
        (Linear(out_features=16), Dropout(0.3), ReLU(), Linear(out_features=8), Dropout(0.2), Linear(out_features=5)),
        CrossEntropyLoss(),
    ),
    "targets": Net("targets", (9,), (Linear(out_features=12), Tanh(), Linear(out_features=3)), MSELoss()),
}  # fmt: skip
BATCHES = (1, 2, 6, 33, None)
STEPS = 16  # of a long call
MANY_STEPS = 1024  # for faults that only long calls or many samples show
#: Parts of the names of faults of several steps in a call, of which an epoch of one step has nothing.
OF_STEPS = (
    "OfALongCall", "InLongCalls", "ForALongCall", "InLongCalls", "LogsTheLossOfTheFirstStep", "EpochsOfOneCall", "WrapsEpochs", "WrapsSeeds",
    "WrapsSteps", "IsAnUpdateLate-100", "KeepsItsFirstEpochsLength", "TrainsOneStepOfManyEpochs",
    "HasOneOrderForManyEpochs", "SkipsInLateEpochs", "KeepsABatchBehind", "StopsGathering", "KeepsTheFirstRate",
    "LosesTheLastFullBatch", "LosesUnshuffledSteps", "TakesOrdersAsConsecutive", "LosesAStepOfLaterCalls",
    "LosesTheEndOfLongEpochs",
)  # fmt: skip
#: Of partial batches, and of more than this number of samples in a batch.
OF_SIZE = {
    "DropsThePartialBatchOfALongCall": 1, "SkipsTheLastOfManySamples": 4, "ReadsOneSampleTwice": 1,
    "LosesTheLossOfATile": 6, "HalvesEvenBatches": 1, "CountsEqualSamplesOnce": 1,
    "CountsEqualNeighboursOnce": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Proof:
    """A trainer on a net at a batch size, and True if it must pass."""

    net: str
    batch: int | None
    name: str
    build: Any
    settings: dict[str, Any]
    must_pass: bool

    def __str__(self) -> str:
        return f"{self.net}, batch {self.batch or 'full'}, {self.name}"


def proofs(names: list[str], batches: tuple[int | None, ...], kinds: list[str]) -> Iterator[Proof]:
    """All proofs on these nets, ordered so that those with the same cases follow each other."""
    for name in names:
        net = NETS[name]
        for batch in batches:
            found = [p for p in _of_net(name, net, batch) if ("twins" if p.must_pass else "lies") in kinds]
            yield from sorted(found, key=lambda proof: str(proof.settings))


def _of_net(name: str, net: Net, batch: int | None) -> Iterator[Proof]:
    for liar in (*REGIME_LIARS, *PLANTED_CALLS):
        if liar.loss in (None, type(net.loss)) and is_built(liar.lie, net, liar.settings):
            yield Proof(name, batch, f"twin of {liar}", liar.twin, liar.settings, True)
            if not is_harmless(str(liar), net, batch):
                yield Proof(name, batch, str(liar), liar.lie, liar.settings, False)
    chains = ladder.find("persistent:device=emulated").unsupported(net, TrainConfig(batch_size=batch)) is None
    for fault in (*PLANTED_OPERATIONS, *LAYERS, *(PERSISTENT if chains else ())):
        if fault.applies(net):
            yield Proof(name, batch, f"twin of {fault}", fault.twin, fault.settings, True)
            if not is_harmless(str(fault), net, batch):
                yield Proof(name, batch, str(fault), fault.lie, fault.settings, False)
    for each, (build, loss) in HONEST.items():
        if loss in (None, type(net.loss)) and is_built(build, net, {}):
            yield Proof(name, batch, each, build, {}, True)


def is_built(build: Any, net: Net, settings: dict[str, Any]) -> bool:
    """True if the rung that a trainer wraps trains this net."""
    rung = ladder.find(FORMS[getattr(build, "form", "numpy")])
    return rung.unsupported(net, TrainConfig(batch_size=1, **settings)) is None


def is_harmless(name: str, net: Net, batch: int | None) -> bool:
    """True if a fault makes no difference on a net at a batch size."""
    kind, layers = name.split("-")[0], {type(layer) for layer in net.layers}
    return (
        (batch is None and any(part in name for part in OF_STEPS))
        or (batch is not None and batch <= OF_SIZE.get(kind, 0))
        or (kind == "DeafReLU" and ReLU not in layers)
    )


class Shared:
    """The latest cases, made once for all trainers that are judged by them."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.key: tuple[Any, ...] | None = None
        self.cases: Cases | None = None

    def make(self, net: Net, config: TrainConfig, rng: Any, data: Any, *how: Any) -> Cases:
        key = net, config, how
        if key != self.key:
            self.key = None
            self.cases = Cases(net, config, rng, data, *how)
            self.key = key
        assert self.cases is not None
        return self.cases

    def verdict(self, proof: Proof) -> Verdict:
        config = TrainConfig(batch_size=proof.batch, **proof.settings)
        proofs: Any = warpladder.proof
        before, proofs.Cases = proofs.Cases, self.make
        try:
            reach = MANY_STEPS if proof.name.endswith(("65536", "OfManyEpochsOut-50")) else STEPS
            verdict = verify(proof.build, NETS[proof.net], config, seed=self.seed, reach=reach)
        finally:
            proofs.Cases = before
        if verdict.reason.startswith("data"):  # it has written into them
            self.key = None
        return verdict


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", default=",".join(NETS))
    parser.add_argument(
        "--batches", type=numbers, default=BATCHES, help="with commas between them; full is all samples"
    )
    parser.add_argument("--kinds", default="lies,twins")
    parser.add_argument("--names", default="", help="part of the names of trainers")
    parser.add_argument("--share", type=share, default=(0, 1), metavar="K/N", help="every N-th proof, from number K on")
    parser.add_argument("--seed", type=int, default=0, help="of the proofs")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    k, n = given.share
    every = list(proofs(given.nets.split(","), given.batches, given.kinds.split(",")))
    every = [proof for proof in every if given.names in proof.name][k::n]
    shared, counts, wrong = Shared(given.seed), Counter[str](), 0
    row, began = "", time.perf_counter()
    for proof in every:
        here = f"{proof.net}, batch {proof.batch or 'full'}"
        if row and here != row:
            print(f"{row}: {time.perf_counter() - began:.0f} s, {dict(counts)} so far", flush=True)
        row = here
        verdict = shared.verdict(proof)
        crashed = verdict.reason.startswith("crash") and "Refuses" not in proof.name
        good = verdict.judged and verdict.passed is proof.must_pass and not crashed
        what = "passed" if verdict.passed else "refused" if verdict.judged else "not judged"
        counts[f"{'honest' if proof.must_pass else 'faulty'} {what}"] += 1
        if not good:
            wrong += 1
            print(f"WRONG: {proof}: {what}: {verdict.reason}", flush=True)
    print(f"{counts.total()} proofs, {wrong} not as they should be: {dict(counts)}")
    return 1 if wrong or not counts else 0


if __name__ == "__main__":
    sys.exit(main())
