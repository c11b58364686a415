"""Nets and configurations of the tensor rung's tests."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st
from strategies import ZOO, Case, case, configs, flat_layers

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.data.order import Order
from warpladder.device import Device
from warpladder.nets import Conv2d, CrossEntropyLoss, Flatten, Linear, MaxPool2d, MSELoss, Net, ReLU, Upsample2d
from warpladder.ops.tables.tensor import TABLE
from warpladder.trainers.base import State
from warpladder.trainers.graphed import GraphedTrainer

CNN = ZOO[3]

#: Every kind of segment with a convolution: strides, an upsampling by 3, one in front of a pool, a pool that is no
#: part of the op, few inputs and outputs.
MIXED = Net(
    "mixed", (3, 7, 8),
    (
        Conv2d(out_channels=5, kernel_size=3, stride=2, padding=2), Upsample2d(scale_factor=3), Conv2d(out_channels=9, kernel_size=2), ReLU(),
        MaxPool2d(3, 2), Conv2d(out_channels=37, kernel_size=1), ReLU(), MaxPool2d(2), Flatten(), Linear(out_features=4),
    ),
    CrossEntropyLoss(),
)  # fmt: skip

#: Widths of 1, of no multiple of anything, and above a tile; ReLU first, twice, and last.
DEEP = Net(
    "deep", (97,), (Linear(out_features=131), ReLU(), Linear(out_features=1), Linear(out_features=70), ReLU(), Linear(out_features=2)), CrossEntropyLoss()
)  # fmt: skip

CODER = Net(
    "coder", (1, 5, 9), (nets.Flatten(), Linear(out_features=33), ReLU(), Linear(out_features=45), ReLU()), MSELoss()
)

NETS = (nets.softmax((1, 8, 8)), nets.mlp((1, 8, 8)), nets.mlp10((1, 8, 8)), DEEP, CODER)

MLP = NETS[1]

#: For gradients of any size: linear layers, and convolutions with the window, the stride and the upsampling of the
#: package's nets.
LINE = Net("line", (40,), (Linear(out_features=70), ReLU(), Linear(out_features=40)), MSELoss())


@st.composite
def chains(draw: st.DrawFn) -> Case:
    """Up to six layers of Linear and ReLU under either loss, wider than a tile now and then, with settings and some
    samples.
    """
    layers = [draw(flat_layers()) for _ in range(draw(st.integers(0, 5)))]
    if draw(st.booleans()):
        layers.insert(draw(st.integers(0, len(layers))), Linear(out_features=draw(st.integers(60, 140))))
    inputs, loss = draw(st.integers(1, 90)), MSELoss() if draw(st.booleans()) else CrossEntropyLoss()
    last = Linear(out_features=inputs if isinstance(loss, MSELoss) else draw(st.integers(2, 12)))
    net = Net("drawn", (inputs,), (*layers, last), loss)
    return case(
        net, draw(configs()), draw(st.integers(0, 2**16)), draw(st.integers(1, 11)), as_bytes=draw(st.booleans())
    )


def on(device: Device, precision: str = "fp32") -> Callable[[Net, TrainConfig, State], GraphedTrainer]:
    return lambda net, config, state: GraphedTrainer(net, config, state, device, TABLE, precision=precision)


def trained(drawn: Case, device: Device, precision: str, cuts: tuple[int, ...] = ()) -> tuple[bytes, list[float]]:
    """State and losses after two epochs; cuts: the steps at which the first one is interrupted."""
    losses: list[float] = []
    with GraphedTrainer(drawn.net, drawn.config, drawn.state, device, TABLE, precision=precision) as trainer:
        trainer.load(drawn.dataset)
        for epoch, at in enumerate((cuts, ())):
            order = Order(1, epoch, len(drawn.dataset.train_x))
            steps = drawn.config.steps(order.n)
            for first, last in zip((0, *at), (*at, steps), strict=True):
                losses += trainer.run(order, first, last).loss.tolist()
        return trainer.state().bits(), losses
