"""Random nets with data, settings and a state to train from: what hypothesis draws for the tests."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.nets import (
    GELU,
    AdaptiveAvgPool2d,
    AvgPool2d,
    Conv2d,
    CrossEntropyLoss,
    Flatten,
    Layer,
    LeakyReLU,
    Linear,
    Loss,
    MaxPool2d,
    MSELoss,
    Net,
    ReLU,
    Shape,
    Sigmoid,
    SiLU,
    Tanh,
    Upsample2d,
    autoencoder,
    cnn,
    mlp,
    mlp10,
    params,
    softmax,
)
from warpladder.optimizers import SGD, Adam, AdamW
from warpladder.optimizers.schedules import Constant, Cosine, Schedule, StepDecay
from warpladder.trainers.base import State

LARGEST = 14  # pixels on a side, so that a thousand examples stay quick


#: The nets of the ladder on small images.
ZOO = (softmax((1, 8, 8)), mlp((1, 8, 8)), mlp10((1, 8, 8)), cnn((1, 8, 8)), autoencoder((1, 4, 4)))

#: The autoencoder with a sixteenth of its channels, for tests of many rungs: its layers are the same, its proof takes a
#: tenth of the time.
NARROW = Net(
    "narrow", (1, 4, 4),
    (
        Conv2d(out_channels=16, kernel_size=3, padding=1), ReLU(), MaxPool2d(2),
        Conv2d(out_channels=8, kernel_size=3, padding=1), ReLU(), MaxPool2d(2),
        Conv2d(out_channels=8, kernel_size=3, padding=1), ReLU(), Upsample2d(scale_factor=2),
        Conv2d(out_channels=16, kernel_size=3, padding=1), ReLU(), Upsample2d(scale_factor=2),
        Conv2d(out_channels=1, kernel_size=3, padding=1),
    ),
    MSELoss(),
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Everything that a step needs; `order` is the epoch that it belongs to."""

    net: Net
    config: TrainConfig
    dataset: Dataset
    state: State
    order: Order

    @property
    def steps(self) -> int:
        """Steps in the epoch."""
        return self.config.steps(len(self.dataset.train_x))


@st.composite
def nets(draw: st.DrawFn, losses: tuple[type[Loss], ...] = (CrossEntropyLoss, MSELoss)) -> Net:
    """Chains of up to nine layers of every kind, on images or flat inputs of odd sizes, under either loss."""
    side = st.integers(1, 9)
    image = st.tuples(st.integers(1, 4), side, side)
    in_shape: Shape = draw(st.one_of(image, image, st.tuples(st.integers(1, 20))))
    loss = draw(st.sampled_from(losses))()
    layers: list[Layer] = []
    shape = in_shape
    for _ in range(draw(st.integers(0, 6))):
        layer = draw(image_layers(shape) if len(shape) == 3 else flat_layers())
        layers.append(layer)
        shape = layer.out_shape(shape)
    if isinstance(loss, MSELoss) and len(shape) == 3 and shape[1:] == in_shape[1:] and draw(st.booleans()):
        padding = draw(st.integers(0, 1))
        layers.append(Conv2d(out_channels=in_shape[0], kernel_size=2 * padding + 1, padding=padding))
    else:
        if len(shape) == 3:
            layers.append(Flatten())
        layers.append(
            Linear(out_features=math.prod(in_shape) if isinstance(loss, MSELoss) else draw(st.integers(2, 7)))
        )
    if isinstance(loss, MSELoss) and draw(st.booleans()):
        layers.append(ReLU())
    return Net("drawn", in_shape, tuple(layers), loss)


def flat_layers() -> st.SearchStrategy[Layer]:
    """Layers that take (features,)."""
    return st.one_of(
        st.builds(Linear, out_features=st.integers(1, 13), bias=st.booleans()),
        st.just(ReLU()),
        st.just(Flatten()),
        activations(),
    )


def activations() -> st.SearchStrategy[Layer]:
    """Activations but ReLU."""
    approximate = st.sampled_from(["none", "tanh"])
    return st.one_of(
        st.sampled_from([Tanh(), Sigmoid(), SiLU()]), st.builds(GELU, approximate=approximate),
        st.builds(LeakyReLU, st.sampled_from([0.01, 0.5, -0.25])),
    )  # fmt: skip


@st.composite
def image_layers(draw: st.DrawFn, shape: Shape) -> Layer:
    """A layer that fits an image of this shape and leaves at most LARGEST pixels on a side."""
    least, most = min(shape[1:]), max(shape[1:])
    kinds = [Conv2d, Conv2d, ReLU, ReLU, MaxPool2d, AvgPool2d, AdaptiveAvgPool2d, Upsample2d, Flatten, GELU]
    kind = draw(st.sampled_from(kinds))
    if kind is GELU:
        return draw(activations())
    if kind is Conv2d:
        padding = draw(st.integers(0, 2 if most + 4 <= LARGEST else 0))
        kernel = draw(st.integers(1, min(4, least + 2 * padding)))
        return Conv2d(
            out_channels=draw(st.integers(1, 6)),
            kernel_size=kernel,
            stride=draw(st.integers(1, 3)),
            padding=padding,
            bias=draw(st.booleans()),
        )
    if kind in (MaxPool2d, AvgPool2d):
        kernel = draw(st.integers(1, min(4, least)))
        return kind(kernel, draw(st.one_of(st.none(), st.integers(1, 4))))
    if kind is Upsample2d:
        return Upsample2d(scale_factor=draw(st.integers(1, max(1, min(3, LARGEST // most)))))
    return kind()


OPTIMIZERS: tuple[SGD | Adam | AdamW, ...] = (
    SGD(1e-3),
    SGD(1e-3, momentum=0.9),
    SGD(1e-3, momentum=0.9, nesterov=True),
    Adam(1e-3),
    AdamW(1e-3),
)

SCHEDULES: tuple[Schedule, ...] = (Constant(), Constant(), Cosine(warmup=1), StepDecay(every=0.5, gamma=0.5))


def configs() -> st.SearchStrategy[TrainConfig]:
    """Batches of one, some and all samples; every optimizer and schedule, with and without weight decay and clipping."""

    def make(
        batch: int | None,
        optimizer: SGD | Adam | AdamW,
        schedule: Schedule,
        decay: float,
        clip: float | None,
        shuffle: bool,
        drop_last: bool,
    ) -> TrainConfig:
        return TrainConfig(
            batch_size=batch,
            optimizer=replace(optimizer, weight_decay=decay),
            schedule=schedule,
            clip_value=clip,
            shuffle=shuffle,
            drop_last=drop_last,
        )

    return st.builds(
        make, st.sampled_from([1, 2, 3, 5, 8, None]), st.sampled_from(OPTIMIZERS), st.sampled_from(SCHEDULES),
        st.sampled_from([0.0, 0.01]), st.sampled_from([None, None, 0.003]), st.booleans(), st.booleans(),
    )  # fmt: skip


@st.composite
def cases(draw: st.DrawFn, losses: tuple[type[Loss], ...] = (CrossEntropyLoss, MSELoss)) -> Case:
    """A net, settings, one to eleven samples, and a state with momentum in it."""
    net = draw(nets(losses))
    config = draw(configs())
    seed = draw(st.integers(0, 2**16))
    samples = draw(st.integers(1, 11))
    return case(net, config, seed, samples, as_bytes=draw(st.booleans()))


def case(net: Net, config: TrainConfig, seed: int, samples: int, as_bytes: bool = True) -> Case:
    """Random data and a random state for a net: biases and momentum are not zero."""
    random = np.random.default_rng(seed)
    dataset = data(net, random, samples, as_bytes)
    start = params.initial(net, seed)
    for place in params.param_slices(net):
        if len(place.shape) == 1:
            start[place.start : place.stop] = random.normal(scale=0.1, size=place.shape)
    return Case(
        net,
        config,
        dataset,
        State(start, slots(config, random, start.size), seed % 7),
        Order(seed, 0, samples, config.shuffle),
    )


def slots(config: TrainConfig, random: np.random.Generator, size: int) -> dict[str, np.ndarray]:
    """Slots of the optimizer, (size,) each, that are not zero; means of squares differ by a factor of four at most."""
    return {
        name: (
            random.uniform(1e-4, 4e-4, size)
            if name.endswith(("_sq", "square_avg"))
            else random.normal(scale=0.01, size=size)
        ).astype(np.float32)
        for name in config.optimizer.slots
    }


def data(net: Net, random: np.random.Generator, samples: int, as_bytes: bool = True) -> Dataset:
    """Random pixels, as bytes or as floats of both signs, and labels where the net wants them."""
    shape = (samples, *net.in_shape)
    x = random.integers(0, 256, shape, np.uint8) if as_bytes else random.normal(size=shape).astype(np.float32)
    y = (
        random.integers(0, net.out_shape[0], samples).astype(np.int32)
        if isinstance(net.loss, CrossEntropyLoss)
        else None
    )
    return Dataset("drawn", x, y, x, y, scale=1 / 255 if as_bytes else 0.5)
