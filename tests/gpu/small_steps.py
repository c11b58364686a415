"""A few training steps of small nets, the five and one of the other layers, on every GPU rung that is ours: what
compute-sanitizer looks at.

Odd sizes, a partial last batch, and each feed. Run by scripts/test_gpu.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from strategies import case

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.ladder import LADDER
from warpladder.nets import (
    GELU,
    AdaptiveAvgPool2d,
    AvgPool2d,
    BatchNorm2d,
    Conv2d,
    CrossEntropyLoss,
    Dropout,
    Flatten,
    HuberLoss,
    Linear,
    MaxPool2d,
    MSELoss,
    Net,
    ReLU,
    Residual,
    Tanh,
    Upsample2d,
)
from warpladder.optimizers import SGD, Adam, AdamW, Optimizer, RMSprop
from warpladder.rungs.base import Rung
from warpladder.rungs.tensor import PRECISIONS
from warpladder.trainers.persistent.plan import layers

SMOOTH = (
    Conv2d(out_channels=5, kernel_size=3, bias=False), BatchNorm2d(), Tanh(), AvgPool2d(kernel_size=2), Flatten(),
    Linear(out_features=10), GELU(), Dropout(0.5), Linear(out_features=10),
)  # fmt: skip

#: Residual connections: of the image itself, and with a projection that halves it.
RESIDUAL = (
    Residual(Conv2d(out_channels=1, kernel_size=3, padding=1), BatchNorm2d()), ReLU(),
    Residual(Conv2d(out_channels=5, kernel_size=3, stride=2, padding=1), ReLU(), projection=True), Flatten(),
    Linear(out_features=10),
)  # fmt: skip

#: Average pools of large windows, sums without a BatchNorm, and one before a pool.
SUMMED = (
    Conv2d(out_channels=6, kernel_size=3, padding=1), BatchNorm2d(), ReLU(), MaxPool2d(2),
    Residual(Conv2d(out_channels=6, kernel_size=3, padding=1)), ReLU(), AdaptiveAvgPool2d(), Flatten(),
    Linear(out_features=10),
)  # fmt: skip

#: A window whose weights come by rows of taps.
LARGE = (
    Conv2d(out_channels=17, kernel_size=3, padding=1), ReLU(), Conv2d(out_channels=18, kernel_size=11, padding=5), ReLU(),
    Flatten(), Linear(out_features=10),
)  # fmt: skip

#: First convolutions by samples, with a border, a stride, a pool before its activation, and one without a bias.
STAGES = (
    Conv2d(out_channels=3, kernel_size=5, padding=2), MaxPool2d(2), ReLU(),
    Conv2d(out_channels=5, kernel_size=3, stride=2, padding=1, bias=False), Tanh(), Flatten(), Linear(out_features=10),
)  # fmt: skip

NETS = (
    nets.softmax((1, 9, 7)),
    nets.mlp((1, 9, 7)),
    nets.mlp10((1, 9, 7)),
    nets.cnn((1, 11, 10)),
    nets.autoencoder((3, 8, 8)),
    Net("smooth", (1, 9, 7), SMOOTH, CrossEntropyLoss(label_smoothing=0.1)),
    Net("residual", (1, 9, 7), RESIDUAL, CrossEntropyLoss()),
    Net("summed", (1, 14, 13), SUMMED, CrossEntropyLoss()),
    Net("stages", (1, 14, 13), STAGES, CrossEntropyLoss()),
    Net("large window", (2, 12, 13), LARGE, CrossEntropyLoss()),
    Net("huber", (6,), (Linear(out_features=5), Tanh(), Linear(out_features=6)), HuberLoss()),
)


#: An optimizer that uses all that SGD can.
NESTEROV = SGD(0.01, momentum=0.9, nesterov=True, weight_decay=1e-3)

MANY = 1_100  # samples of a full batch: thin chains have other kernels for more than 1,024

#: A chain for one pass over many samples, with all that its kernel has lines for.
TWO_LAYERS = Net("two layers", (21,), (Linear(out_features=20), ReLU(), Linear(out_features=5)), CrossEntropyLoss())
FOUR_LAYERS = Net(
    "four layers", (70,),
    (*(each for width in (90, 80, 40) for each in (Linear(out_features=width), ReLU())), Linear(out_features=7)),
    CrossEntropyLoss(),
)  # fmt: skip
TABLE = Net(
    "table", (54,), (Linear(out_features=17), GELU(), Dropout(0.2), Linear(out_features=9), ReLU(), Linear(out_features=7)),
    CrossEntropyLoss(label_smoothing=0.1),
)  # fmt: skip


def _convolution(outputs: int) -> tuple[Conv2d, ReLU]:
    return Conv2d(out_channels=outputs, kernel_size=3, padding=1), ReLU()


#: Nets whose convolutions are wide enough for products of warpgroups on Hopper, with batches that keep half of its
#: multiprocessors busy: net, batch, samples. An autoencoder, with an upsampled last layer of few outputs; and a slight
#: first layer that packs its pixels for the one behind it; and a window of 5 x 5.
WIDE: tuple[tuple[Net, int, int], ...] = (
    (
        Net(
            "wide coder",
            (3, 8, 8),
            (
                *_convolution(64), MaxPool2d(kernel_size=2), *_convolution(128), MaxPool2d(kernel_size=2), *_convolution(128),
                Upsample2d(scale_factor=2), *_convolution(64), Upsample2d(scale_factor=2), Conv2d(out_channels=3, kernel_size=3, padding=1),
            ),
            MSELoss(),
        ),
        132,
        150,
    ),
    (
        Net(
            "broad",
            (3, 12, 12),
            (*_convolution(64), Conv2d(out_channels=128, kernel_size=5, padding=2), ReLU(), MaxPool2d(2), Flatten(), Linear(out_features=10)),
            CrossEntropyLoss(),
        ),
        66,
        70,
    ),
    (Net("wide pair", (3, 32, 32), (*_convolution(64), *_convolution(128), Flatten(), Linear(out_features=10)), CrossEntropyLoss()), 9, 13),
)  # fmt: skip


def steps(
    rung: Rung, net: Net, batch: int | None = 5, samples: int = 13, optimizer: Optimizer = NESTEROV,
    clip: str = "clip_value", as_bytes: bool = True,
) -> None:  # fmt: skip
    """Train an epoch and predict, and see that numbers came out."""
    config = TrainConfig(batch_size=batch, optimizer=optimizer).but(**{clip: 1.0})
    drawn = case(net, config, seed=1, samples=samples, as_bytes=as_bytes)
    with rung.build(net, config, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        log = trainer.run(drawn.order, 0, config.steps(samples))
        out = trainer.predict(drawn.dataset.train_x, drawn.dataset.scale)
        assert np.isfinite(log.loss).all() and np.isfinite(out).all() and np.isfinite(trainer.state().params).all()


def ours(rung: Rung) -> bool:
    """Whether it launches kernels of ours on the GPU, and can here."""
    return (rung.name == "library" or rung.has("device")) and rung.unsupported(NETS[0], TrainConfig()) is None


def variants(rung: Rung) -> list[Rung]:
    """The rung, and on tensor cores, in each precision: each has instructions and kernels of its own."""
    if rung.name == "persistent":
        on_tensor_cores = rung.but(weights="global", multiply="tensor")
        return [rung, on_tensor_cores, on_tensor_cores.but(wait="grid", blocks=2)]  # several tiles for a block
    return [rung, *(rung.but(precision=precision) for precision in PRECISIONS[1:])] if rung.name == "tensor" else [rung]


def work(rung: Rung) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a rung does under the sanitizers: a line that says it, and the arguments of `steps`."""
    chains = rung.name.partition(":")[0] == "persistent"
    for net in (net for net in NETS if not chains or isinstance(layers(net), tuple)):
        yield net.name, {"net": net}
    if chains:
        yield "two layers of floats,", {"net": TWO_LAYERS, "as_bytes": False}
        yield "four layers of floats,", {"net": FOUR_LAYERS, "batch": 40, "samples": 90, "as_bytes": False}
        yield "one layer of floats,", {"net": NETS[0], "as_bytes": False}
        yield "one layer, full batch,", {"net": NETS[0], "batch": None, "samples": 100, "optimizer": Adam(0.01)}
    if rung.name.partition(":")[0] == "tensor":
        yield "autoencoder, two images at a time,", {"net": NETS[4], "batch": 2}
        for net, batch, samples in WIDE:
            yield net.name, {"net": net, "batch": batch, "samples": samples}
        yield "huber, full batch,", {"net": NETS[-1], "batch": None, "samples": MANY}
        yield (
            "smooth table, large batches of floats,",
            {"net": TABLE, "batch": MANY, "samples": MANY + 3, "as_bytes": False},
        )
    thin = nets.mlp10((1, 9, 7))
    yield "mlp10, full batch,", {"net": thin, "batch": None, "samples": MANY}
    yield "mlp10, large batches,", {"net": thin, "batch": MANY, "samples": MANY + 3}
    for optimizer in (Adam(0.01), AdamW(0.01), RMSprop(0.01)):
        yield f"mlp, {type(optimizer).__name__},", {"net": NETS[1], "optimizer": optimizer}
    if not chains:
        yield "mlp, clipped by its norm,", {"net": NETS[1], "clip": "clip_norm"}


def main(wanted: list[str]) -> None:
    """Run what is asked for, by the names of rungs or of variants; all of them where nothing is."""
    for rung in (variant for each in LADDER if ours(each) for variant in variants(each)):
        if not wanted or {rung.name, rung.name.partition(":")[0]} & set(wanted):
            for name, arguments in work(rung):
                steps(rung, **arguments)
                print(rung.name, name, "ran", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
