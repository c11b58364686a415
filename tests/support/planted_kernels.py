"""Planted faults in the text of the package's CUDA kernels, each with an honest other text in the same place.

    python tests/support/planted_kernels.py                               # on the emulator, batches of 1, 6, 13 and all
    python tests/support/planted_kernels.py --device gpu --seeds 0,1,2    # on the GPU of this machine
    python tests/support/planted_kernels.py --names Bias,Tail --batches 6,full

A rung of CUDA kernels trains with one text edited: with the fault the proof must refuse it, with the other text (sums
in another order, double inside, Kahan) it must pass. It exits with 1 if a proof is not as it should be. A text that no
compiled kernel has is an error: a fault that changes nothing would seem to pass. On a GPU a fault is counted as without
effect if it changes no bit of the weights: this GPU launches other kernels there.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from unittest import mock

import numpy as np
from edits import edited, occurrences

from warpladder import ladder
from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.device import Device
from warpladder.device import source as sources
from warpladder.device.emulator import EmulatedDevice
from warpladder.nets import (
    BatchNorm2d,
    Conv2d,
    CrossEntropyLoss,
    Dropout,
    Flatten,
    Linear,
    MaxPool2d,
    MSELoss,
    Net,
    ReLU,
    Upsample2d,
)
from warpladder.nets.params import initial
from warpladder.optimizers import SGD, Adam, AdamW, Optimizer
from warpladder.proof import Verdict, verify
from warpladder.trainers.base import State, Trainer
from warpladder.trainers.kernelwise import where

Build = Callable[[Net, TrainConfig, State], Trainer]

SAMPLES, EPOCHS = 93, 3  # of the training that shows if a fault has an effect
MOMENTUM = SGD(0.01, momentum=0.9)
LABELS = CrossEntropyLoss()

#: By name: a net, and the optimizer that it is trained with. `wide` has sums of 150 terms, so that rungs split them.
NETS: dict[str, tuple[Net, Optimizer]] = {
    "wide": (
        Net("wide", (150,), (
            Linear(out_features=70), ReLU(), Linear(out_features=37), ReLU(), Linear(out_features=5),
        ), LABELS),
        MOMENTUM,
    ),
    "adamw": (Net("adamw", (30,), (Linear(out_features=41), ReLU(), Linear(out_features=3)), MSELoss()), AdamW(1e-3)),
    "many": (Net("many", (9,), (Linear(out_features=70),), LABELS), MOMENTUM),
    "conv": (
        Net("conv", (3, 9, 8), (
            Conv2d(out_channels=6, kernel_size=3, padding=1), ReLU(),
            Conv2d(out_channels=5, kernel_size=3, stride=2, padding=1), ReLU(), MaxPool2d(2), Flatten(),
            Linear(out_features=5),
        ), LABELS),
        Adam(1e-3),
    ),
    "coder": (
        Net("coder", (2, 6, 6), (
            Conv2d(out_channels=5, kernel_size=3, padding=1), ReLU(), MaxPool2d(2), Upsample2d(scale_factor=2),
            Conv2d(out_channels=2, kernel_size=3, padding=1),
        ), MSELoss()),
        MOMENTUM,
    ),
    "masked": (
        Net("masked", (12,), (Linear(out_features=20), ReLU(), Dropout(0.3), Linear(out_features=4)), LABELS),
        MOMENTUM,
    ),
    "norm": (
        Net("norm", (2, 6, 7), (
            Conv2d(out_channels=3, kernel_size=3), BatchNorm2d(), ReLU(), Flatten(), Linear(out_features=3),
        ), LABELS),
        MOMENTUM,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class PlantedKernel:
    """A fault of one text of a kernel, and an honest other text.

    rung : that trains, by its name and options. net : key of `NETS`. before : the kernel's own text. wrong, right :
    take its place. least : smallest batch at which the fault makes a difference. full : False if it makes none at one
    step an epoch. is_race : True if a GPU may compute right numbers all the same.
    """

    name: str
    rung: str
    net: str
    before: str
    wrong: str
    right: str
    least: int = 1
    full: bool = True
    is_race: bool = False

    def __str__(self) -> str:
        return f"{self.name}-{self.rung.partition(chr(58))[0]}-{self.net}"


def editing(honest: type[Device]) -> type[Any]:
    """A type of devices on which `before` reads `after` in all kernels; `places` counts the texts that it has met."""

    class Editing(honest):  # type: ignore[misc, valid-type]
        before, after, places = "", "", 0

        def kernel(self, path: Any, name: str) -> Any:
            source = sources.read(path)
            if self.before and (here := occurrences(source.text, self.before)):
                type(self).places += here
                source = replace(source, text=edited(source.text, self.before, self.after))
            return super().kernel(source, name)

    return Editing


@cache
def device_type(name: str) -> type[Device]:
    """Type of the device "emulated" or "gpu"."""
    if name == "emulated":
        return EmulatedDevice
    from warpladder.device.gpu import GpuDevice

    return GpuDevice


def verdict_of(
    planted: PlantedKernel, after: str, batch: int | None, seed: int | None = None, device: str = "emulated"
) -> Verdict:
    """Verdict on the planted kernel's rung with `after` in place of its text."""
    net, optimizer = NETS[planted.net]
    build, here = builder(planted, after, device)
    verdict = verify(build, net, TrainConfig(batch_size=batch, optimizer=optimizer), seed=seed, reach=4)
    assert here.places, f"no kernel of {planted} has the text {planted.before!r}"
    return verdict


def builder(planted: PlantedKernel, after: str, device: str) -> tuple[Build, Any]:
    """Builder of the planted kernel's rung with `after` in place of its text, and the type of its devices."""
    here = type("EditingHere", (editing(device_type(device)),), {"before": planted.before, "after": after})
    own, rung = here(), ladder.find(planted.rung)

    def build(net: Net, config: TrainConfig, state: State) -> Trainer:
        with mock.patch.object(where, "open_device", lambda _: own):
            return rung.build(net, config, state)

    return build, here


def has_effect(planted: PlantedKernel, batch: int | None, device: str) -> bool:
    """True if weights differ by a bit after EPOCHS with the fault: a device may launch other kernels than the faulty
    one, by the clock or by its number of multiprocessors.
    """
    net, optimizer = NETS[planted.net]
    config, random = TrainConfig(batch_size=batch, optimizer=optimizer), np.random.default_rng(0)
    x = random.integers(0, 4, (SAMPLES, *net.in_shape)).astype(np.uint8)  # pools have ties
    is_labelled = net.loss is LABELS
    y = (
        random.integers(0, net.out_shape[0], SAMPLES)
        if is_labelled
        else random.random((SAMPLES, math.prod(net.out_shape)))
    )
    data = Dataset("drawn", x, y.astype(np.int32 if is_labelled else np.float32), x[:1], None, 0.5)
    ends = []
    for after in (planted.before, planted.wrong):
        with builder(planted, after, device)[0](net, config, State(initial(net, 0))) as trainer:
            trainer.load(data)
            trainer.run_epochs([Order(0, epoch, SAMPLES) for epoch in range(EPOCHS)])
            ends.append(trainer.state().params.tobytes())
    return ends[0] != ends[1]


def is_harmless(planted: PlantedKernel, batch: int | None, device: str = "emulated") -> bool:
    """True if a fault makes no difference at a batch size, or not for certain on a GPU."""
    if planted.is_race and device == "gpu":
        return True
    return not planted.full if batch is None else batch < planted.least


def main() -> int:
    from planted_tiles import PLANTED

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("emulated", "gpu"), default="emulated")
    parser.add_argument("--names", default="", help="parts of names of faults, with commas between them")
    parser.add_argument("--batches", default="1,6,13,full", help="with commas between them; full is all samples")
    parser.add_argument("--seeds", default="0", help="of the proofs, with commas between them")
    given = parser.parse_args()
    batches = [None if each == "full" else int(each) for each in given.batches.split(",")]
    counts, wrong, began = Counter[str](), 0, time.process_time()
    for planted in PLANTED:
        if not any(part in str(planted) for part in given.names.split(",")):
            continue
        for batch in batches:
            if batch == 1 and planted.net == "norm":
                continue  # no statistics of one sample
            for seed in map(int, given.seeds.split(",")):
                for kind, after in (("faulty", planted.wrong), ("honest", planted.right)):
                    if kind == "faulty" and is_harmless(planted, batch, given.device):
                        continue
                    verdict = verdict_of(planted, after, batch, seed, given.device)
                    good = verdict.judged and verdict.passed is (kind == "honest")
                    what = "passed" if verdict.passed else "refused" if verdict.judged else "not judged"
                    if given.device == "gpu" and kind == "faulty" and verdict.passed:
                        good = not has_effect(planted, batch, given.device)
                        what = "without effect here" if good else what
                    counts[f"{kind} {what}"] += 1
                    if not good:
                        wrong += 1
                        where_ = f"batch {batch or 'full'}, seed {seed}"
                        print(f"WRONG: {kind} {planted}, {where_}: {what}: {verdict.reason}", flush=True)
    seconds = time.process_time() - began
    print(f"{counts.total()} proofs on {given.device}, {wrong} not as they should be: {dict(counts)}; {seconds:.0f} s")
    return 1 if wrong or not counts else 0


if __name__ == "__main__":
    sys.exit(main())
