"""Proofs of honest rungs on drawn nets, settings, data and seeds: none may be refused.

    python tests/support/hunt_refusals.py --seconds 3600               # draws 0, 1, 2, ...
    python tests/support/hunt_refusals.py --first 417 --count 1        # draw 417 again
    python tests/support/hunt_refusals.py --odd --rungs numpy,native   # data and numbers of classes that few nets have

A draw is a number: net, settings, data, rung and the proof's seed follow from it, from --rungs and --odd. A line is printed
for each refusal, and at the end the count of proofs, of refusals and of nets that offer no step to judge by, for each
rung. It exits with 1 if a rung was refused, or a proof crashed.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

if __name__ == "__main__":  # before NumPy is loaded
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from warpladder import ladder, nets
from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.errors import RungError
from warpladder.nets import (
    GELU,
    AdaptiveAvgPool2d,
    AvgPool2d,
    BatchNorm1d,
    BatchNorm2d,
    BCEWithLogitsLoss,
    Conv2d,
    CrossEntropyLoss,
    Dropout,
    Flatten,
    HuberLoss,
    L1Loss,
    Layer,
    LeakyReLU,
    Linear,
    Loss,
    MaxPool2d,
    MSELoss,
    Net,
    ReLU,
    Residual,
    Shape,
    Sigmoid,
    SiLU,
    Tanh,
    Upsample2d,
)
from warpladder.optimizers import SGD, Adam, AdamW, RMSprop
from warpladder.optimizers.schedules import Constant, Cosine, OneCycle, StepDecay
from warpladder.proof import Verdict, verify
from warpladder.rungs.base import Rung

#: Rungs, and how often each is drawn: those that an emulated device makes slow are drawn less often.
RUNGS = {
    "loops": 3, "loops:precision=fp64": 1, "numpy": 4, "numpy:precision=fp64": 2, "numpy:sums=fp64": 2, "native": 4,
    "torch": 3, "torch:precision=fp64": 1, "naive:device=emulated": 1, "tiled:device=emulated": 1,
    "gemm:device=emulated": 1, "graph:device=emulated": 1, "persistent:device=emulated": 1,
    "tensor:device=emulated": 1, "tensor:device=emulated:precision=tf32": 1, "tensor:device=emulated:precision=bf16": 1,
    "tensor:device=emulated:precision=fp16": 1, "jax": 3,
}  # fmt: skip
OPTIMIZERS = (
    SGD(1e-2), SGD(1e-2), SGD(1e-3, momentum=0.9), SGD(1e-3, momentum=0.9, nesterov=True), Adam(1e-3), AdamW(1e-3),
    RMSprop(1e-3), RMSprop(1e-3, momentum=0.9),
)  # fmt: skip
SCHEDULES = (
    Constant(), Constant(), Constant(warmup=0.5), Cosine(warmup=1), StepDecay(every=0.5, gamma=0.5), OneCycle(),
)  # fmt: skip
CURVES = (Tanh(), Sigmoid(), LeakyReLU(), LeakyReLU(0.3), GELU(), GELU(approximate="tanh"), SiLU())
LOSSES: tuple[Callable[[], Loss], ...] = (
    CrossEntropyLoss, CrossEntropyLoss, CrossEntropyLoss, MSELoss, MSELoss, L1Loss, HuberLoss, BCEWithLogitsLoss,
)  # fmt: skip
BATCHES = (1, 2, 3, 5, 8, 16, 33, 64, 100, 256, 1000, None)
LARGEST = 14  # pixels on a side
FLOPS = 3e8  # FLOPs of a training step of one batch, at most
EMULATED_FLOPS = 2e6  # of a rung on an emulated device
REPORT = 50  # proofs after which a line states how many there were


@dataclass(frozen=True)
class Draw:
    """Rung, net, settings and data of a proof."""

    number: int
    rung: Rung
    net: Net
    config: TrainConfig
    data: Dataset | None

    def __str__(self) -> str:
        net, config = self.net, self.config
        layers = " ".join(map(str, net.layers))
        data = "no data" if self.data is None else f"{len(self.data.train_x)} {self.data.train_x.dtype}"
        data += "" if self.data is None or self.data.train_weight is None else " with weights"
        kind = f"{net.in_shape} {layers} {net.loss}"
        options = (
            f"batch {config.batch_size or 'full'}, {config.optimizer}, {config.schedule}, clip {config.clip_value}"
            f" or norm {config.clip_norm}{', full batches' * config.drop_last}"
        )
        return f"draw {self.number}: {self.rung.name}, {kind}, {options}, losses every {config.loss_every}, {data}"

    def verdict(self) -> Verdict:
        rung = self.rung
        return verify(
            rung.build, self.net, self.config, seed=self.number, dataset=self.data, bitwise=not rung.deviations,
            precision=rung.precision, sums=rung.sums, transforms=rung.transforms,
        )  # fmt: skip


def drawn(number: int, rungs: dict[str, int], is_odd: bool = False) -> Draw | None:
    """Draw of this number; None if its rung cannot train its net here, or would take too long."""
    rng = np.random.default_rng([number, 39])
    names = [name for name, times in rungs.items() for _ in range(times)]
    rung = ladder.find(names[rng.integers(len(names))])
    net, config = drawn_net(rng), drawn_config(rng)
    few = np.random.default_rng([number, 41])
    net = with_other_classes(few, net) if is_odd else net
    samples = int(np.exp(rng.uniform(0, np.log(3000))))
    data = drawn_data(rng, net, samples) if rng.integers(3) else None
    net, config, data = with_seldom_settings(np.random.default_rng([number, 40]), net, config, data)
    data = odd(few, data) if is_odd and data else data
    batch = config.batch(samples if data else 97)
    if batch == 1 and net.normalizes:
        return None
    most = min(EMULATED_FLOPS if "emulated" in rung.name else FLOPS, rung.proof_flops)
    if net.train_flops * batch > most or rung.unsupported(net, config) is not None:
        return None
    return Draw(number, rung, net, config, data)


def drawn_net(rng: np.random.Generator) -> Net:
    """One of the ladder's nets on 8 x 8 pixels, or a chain of up to seven layers of every kind under every loss."""
    if not rng.integers(4):
        return getattr(nets, str(rng.choice(["softmax", "mlp", "mlp10", "cnn"])))((1, 8, 8))
    side = rng.integers(1, 10, 2).tolist()
    in_shape: Shape = (int(rng.integers(1, 5)), *side) if rng.integers(3) else (int(rng.integers(1, 40)),)
    loss = LOSSES[rng.integers(len(LOSSES))]()
    layers: list[Layer | Residual] = []
    shape = in_shape
    for _ in range(rng.integers(0, 7)):
        found = drawn_residual(rng, shape) if layers and not rng.integers(5) else [drawn_layer(rng, shape)]
        layers += found
        for layer in found:
            shape = after(layer, shape)
    is_classifier = isinstance(loss, CrossEntropyLoss)
    if not is_classifier and len(shape) == 3 and shape[1:] == in_shape[1:] and rng.integers(2):
        padding = int(rng.integers(2))
        layers.append(Conv2d(out_channels=in_shape[0], kernel_size=2 * padding + 1, padding=padding))
    else:
        if len(shape) == 3:
            layers.append(Flatten())
        learns_input = not is_classifier and rng.integers(2)  # else targets or classes
        layers.append(Linear(out_features=math.prod(in_shape) if learns_input else int(rng.integers(2, 12))))
    if isinstance(loss, MSELoss) and not rng.integers(3):
        layers.append(ReLU())
    if not rng.integers(4):
        layers = list(normalised(layers, in_shape))
    return Net("drawn", in_shape, tuple(layers), loss)


def drawn_residual(rng: np.random.Generator, shape: Shape) -> list[Layer | Residual]:
    """Residual connection over one or two trained layers, with or without a projection, and often a ReLU after it."""
    width = int(rng.integers(1, 9))

    def layer(outputs: int, kernel: int) -> Layer:
        if len(shape) == 1:
            return Linear(out_features=outputs)
        return Conv2d(out_channels=outputs, kernel_size=kernel, padding=kernel // 2)

    inner: list[Layer] = [layer(width, 3), ReLU() if rng.integers(3) else CURVES[rng.integers(len(CURVES))]]
    if rng.integers(2):
        found = Residual(*inner, layer(shape[0], 3))
    else:
        found = Residual(*inner, projection=layer(width, 1))
    return [found, ReLU()] if rng.integers(2) else [found]


def after(layer: Layer | Residual, shape: Shape) -> Shape:
    """Shape of a layer's output, also of a residual connection's."""
    return Net("part", shape, (layer,), MSELoss()).out_shape if isinstance(layer, Residual) else layer.out_shape(shape)


def normalised(layers: list[Layer | Residual], shape: Shape) -> Iterator[Layer | Residual]:
    """Layers with a normalisation after every trained one but the last."""
    last = max((i for i, layer in enumerate(layers) if isinstance(layer, Linear | Conv2d)), default=0)
    for i, layer in enumerate(layers):
        shape = after(layer, shape)
        yield layer
        if i < last and isinstance(layer, Linear | Conv2d):
            yield BatchNorm1d() if len(shape) == 1 else BatchNorm2d()


def drawn_layer(rng: np.random.Generator, shape: Shape) -> Layer:
    """Layer that fits an input of this shape, and leaves at most LARGEST pixels on a side."""
    if len(shape) == 1:
        others = ReLU(), ReLU(), Flatten(), CURVES[rng.integers(len(CURVES))], Dropout(float(rng.uniform(0.05, 0.7)))
        return (Linear(out_features=int(rng.integers(1, 70))), Linear(out_features=8), *others)[rng.integers(7)]
    least, most = min(shape[1:]), max(shape[1:])
    kind = rng.choice(["conv", "conv", "relu", "relu", "pool", "upsample", "flatten", "mean", "curve", "dropout"])
    if kind == "conv":
        padding = int(rng.integers(0, 3 if most + 4 <= LARGEST else 1))
        kernel = int(rng.integers(1, min(5, least + 2 * padding) + 1))
        channels, stride = int(rng.integers(1, 12)), int(rng.integers(1, 4))
        return Conv2d(out_channels=channels, kernel_size=kernel, stride=stride, padding=padding)
    if kind == "pool":
        kernel = int(rng.integers(1, min(4, least) + 1))
        return MaxPool2d(kernel, None if rng.integers(2) else int(rng.integers(1, 5)))
    if kind == "mean":
        kernel = int(rng.integers(1, min(4, least) + 1))
        return AdaptiveAvgPool2d(1) if not rng.integers(3) else AvgPool2d(kernel, int(rng.integers(1, 4)))
    if kind in ("curve", "dropout"):
        return CURVES[rng.integers(len(CURVES))] if kind == "curve" else Dropout(float(rng.uniform(0.05, 0.7)))
    if kind == "upsample":
        return Upsample2d(scale_factor=int(rng.integers(1, max(1, min(3, LARGEST // most)) + 1)))
    return ReLU() if kind == "relu" else Flatten()


def drawn_config(rng: np.random.Generator) -> TrainConfig:
    """Settings: each optimizer and schedule, batches of one to all samples, with and without decay and clipping."""
    optimizer = OPTIMIZERS[rng.integers(len(OPTIMIZERS))]
    if not rng.integers(3):
        optimizer = replace(optimizer, weight_decay=float(10 ** rng.uniform(-8, -1)))
    return TrainConfig(
        batch_size=BATCHES[rng.integers(len(BATCHES))], optimizer=optimizer, epochs=int(rng.integers(1, 30)),
        schedule=SCHEDULES[rng.integers(len(SCHEDULES))], shuffle=bool(rng.integers(4)),
        clip_value=None if rng.integers(4) else float(10 ** rng.uniform(-4, 1)),
        loss_every=1 if rng.integers(5) else int(rng.integers(2, 5)),
    )  # fmt: skip


def with_seldom_settings(
    rng: np.random.Generator, net: Net, config: TrainConfig, data: Dataset | None
) -> tuple[Net, TrainConfig, Dataset | None]:
    """The same, in some draws with settings of the loss, weights of samples, a clipped norm, or no partial batch."""
    loss: Loss = net.loss
    if isinstance(loss, CrossEntropyLoss) and not rng.integers(3):
        weight = tuple(np.exp2(rng.uniform(-3, 3, net.out_shape[0])).tolist()) if rng.integers(2) else None
        loss = CrossEntropyLoss(weight, float(rng.uniform(0.01, 0.4)) if rng.integers(3) else 0.0)
    elif isinstance(loss, HuberLoss):
        loss = HuberLoss(float(np.exp2(rng.uniform(-4, 3))))
    elif isinstance(loss, BCEWithLogitsLoss) and not rng.integers(3):
        loss = BCEWithLogitsLoss((float(np.exp2(rng.uniform(-3, 3))),))
    if config.clip_value is None and not rng.integers(4):
        config = config.but(clip_norm=float(10 ** rng.uniform(-3, 1)))
    config = config.but(drop_last=not rng.integers(6))
    if data is not None and not rng.integers(4):
        weights = np.exp2(rng.uniform(-4, 4, len(data.train_x))).astype(np.float32)
        data = data.but(train_weight=weights)
    return replace(net, loss=loss), config, data


def drawn_data(rng: np.random.Generator, net: Net, samples: int) -> Dataset:
    """Samples: dense bytes, sparse bytes, or normal floats."""
    shape, kind = (samples, *net.in_shape), rng.integers(3)
    if kind == 2:
        x: np.ndarray = rng.normal(size=shape).astype(np.float32)
    else:
        x = np.maximum(rng.integers(-400 if kind else 0, 256, shape), 0).astype(np.uint8)
    y: np.ndarray | None = None
    if isinstance(net.loss, CrossEntropyLoss):
        y = rng.integers(0, net.out_shape[0], samples).astype(np.int32)
    elif isinstance(net.loss, BCEWithLogitsLoss):
        if kind < 2 and math.prod(net.out_shape) == math.prod(net.in_shape) and rng.integers(2):
            return Dataset("drawn", x, None, x[:1], None, 1 / 255)
        y = rng.integers(0, 2, (samples, math.prod(net.out_shape))).astype(np.float32)
    elif math.prod(net.out_shape) != math.prod(net.in_shape):
        y = rng.normal(size=(samples, math.prod(net.out_shape))).astype(np.float32)
    return Dataset("drawn", x, y, x[:1], None if y is None else y[:1], 1.0 if kind == 2 else 1 / 255)


def with_other_classes(rng: np.random.Generator, net: Net) -> Net:
    """Net with 2 or 13 to 70 classes, if it has some."""
    layers = *net.layers[:-1], Linear(out_features=2 if rng.integers(2) else int(rng.integers(13, 71)))
    return replace(net, layers=layers) if isinstance(net.loss, CrossEntropyLoss) else net


def odd(rng: np.random.Generator, data: Dataset) -> Dataset:
    """The same samples with constant columns, one-hot ones, floats of other sizes, or all alike."""
    x, kind, columns = data.train_x.copy(), rng.integers(4), math.prod(data.train_x.shape[1:])
    flat = x.reshape(-1, columns)
    if kind == 0:
        flat[:, rng.random(columns) < 1 / 2] = rng.integers(0, 2)
    elif kind == 1:
        flat[...] = np.eye(columns)[rng.integers(0, columns, len(x))]
    elif kind == 2 and x.dtype == np.float32:
        flat *= np.exp2(rng.integers(-12, 13, columns)).astype(np.float32)
    elif kind == 3:
        flat[...] = flat[:1]
    return data.but(train_x=x)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="number of the first draw")
    parser.add_argument("--count", type=int, default=10**9, help="draws, at most")
    parser.add_argument("--seconds", type=float, default=math.inf, help="after which no other draw begins")
    parser.add_argument("--rungs", default=",".join(RUNGS), help="with commas between them")
    parser.add_argument("--odd", action="store_true", help="draw unusual data and numbers of classes")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    rungs = {name: RUNGS.get(name, 1) for name in given.rungs.split(",")}
    began, made, refused, vain = time.perf_counter(), Counter[str](), Counter[str](), Counter[str]()
    seconds, crashed = defaultdict[str, float](float), 0
    for number in range(given.first, given.first + given.count):
        if time.perf_counter() - began > given.seconds:
            break
        draw = drawn(number, rungs, given.odd)
        if draw is None:
            continue
        try:
            verdict = draw.verdict()
        except RungError:  # the rung's own refusal of this net
            continue
        except Exception:
            print(f"CRASHED {draw}\n{traceback.format_exc()}", flush=True)
            crashed += 1
            continue
        name = draw.rung.name
        made[name] += 1
        seconds[name] += verdict.seconds
        if not verdict.judged:
            vain[name] += 1
        elif not verdict.passed:
            refused[name] += 1
            print(f"REFUSED {draw}\n        {verdict.reason}", flush=True)
        if made.total() % REPORT == 0:
            print(f"{made.total()} proofs, {refused.total()} refused, up to draw {number}", flush=True)
    for name, count in made.items():
        about = f"{refused[name]} refused, {vain[name]} not judged, {seconds[name] / count:.1f} s each"
        print(f"{name}: {count} proofs, {about}")
    ends = f"{crashed} crashed; the next draw is {number + 1}"
    print(f"{made.total()} proofs, {refused.total()} refused, {vain.total()} not judged, {ends}")
    return 1 if refused or crashed or not made else 0


if __name__ == "__main__":
    sys.exit(main())
