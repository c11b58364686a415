"""Convolutions of few pixels on tensor cores, asked for one by one: y with what follows it, dx, dw and db, against float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import warpgroup_convolutions
from narrow_convolutions import windows
from tensor_convolutions import Asked, Edited, Numbers, conv, drawn
from tensor_tools import placed
from warpgroup_convolutions import Unwritten
from warpladder.config import TrainConfig
from warpladder.device import Device
from warpladder.nets import Conv2d, Layer, MaxPool2d, ReLU, Shape, Upsample2d
from warpladder.ops.base import Buffers
from warpladder.ops.chain import Slice, subgraph
from warpladder.ops.conv2d import few_pixels
from warpladder.ops.conv2d.tensor import TensorConv2d
from warpladder.ops.conv2d.tensor_ways import FewPixels
from warpladder.ops.kernels import KernelUpdate
from warpladder.ops.segments import Operands

#: tf32 is not among them: it asks for fp16's kernels.
PRECISIONS = ("fp32", "bf16", "fp16")

#: By what a test is called: the layer, its images and their number, and whether these are enlarged. No tile divides the images, no fragment the outputs.
SHAPES: dict[str, tuple[Conv2d, Shape, int, bool]] = {
    "one": (conv(40, 3, padding=1), (48, 8, 8), 1, False),
    "odd": (conv(37, 3, padding=1), (16, 7, 11), 2, False),
    "many channels": (conv(9, 3, padding=1), (272, 5, 6), 1, False),
    "enlarged": (conv(20, 3, padding=1), (48, 5, 9), 2, True),
    "last": (conv(3, 3, padding=1), (144, 8, 8), 1, True),
}


class EditedFewPixels(Edited):
    """The emulator, where the kernels of convolutions of few pixels, or their headers, read otherwise."""

    paths = (few_pixels.SOURCE, few_pixels.WEIGHTS)
    headers = ("few_pixels.cuh", "narrow.cuh", "tensor_pixels.cuh", "tensor_panels.cuh")


def named(name: str, precision: str = "fp32", kind: str = "normal", offset: int = 0) -> Asked:
    """One of SHAPES, asked for."""
    layer, image, n, enlarged = SHAPES[name]
    return Asked(layer, image, n, precision, kind, offset, enlarged=enlarged)


class Bound:
    """A layer's segment on a device, and its arrays, full of NaN where nothing was computed.

    follows : ReLU, or ReLU and a 2 x 2 pool behind it.
    below, cut : whether x is the output of a ReLU, whose gradient dx shall be; whether whoever made dy has cut it by y's ReLU.
    winner : with a pool, what dy's numbers go back to, instead of what the way forward has found.
    update : the optimizer's step, where the segment makes it itself.
    """

    def __init__(
        self, device: Device, asked: Asked, numbers: Numbers, follows: tuple[Layer, ...] = (), bias: np.ndarray | None = None, below: bool = False,
        cut: bool = False, winner: np.ndarray | None = None, config: TrainConfig | None = None, update: KernelUpdate | None = None,
        buffers: Buffers | None = None,
    ) -> None:  # fmt: skip
        x, w, dy = numbers
        layers = ((Upsample2d(scale_factor=2),) if asked.enlarged else ()) + (asked.layer, *follows)
        n, o, high, wide = dy.shape
        size = (n, o, high // 2, wide // 2) if len(follows) == 2 and winner is None else dy.shape
        host = {"x": x, "w": w, "dy": dy, "b": np.zeros(o, np.float32) if bias is None else bias}
        host |= {name: np.full(shape, np.nan, np.float32) for name, shape in (("y", size), ("dx", x.shape), ("dw", w.shape), ("db", (o,)))}
        self.at = {name: placed(device, array, asked.offset) for name, array in host.items()}
        buffers = buffers or Buffers(**self.at)
        nodes = replace(subgraph(layers, asked.in_shape, n, device.limits), precision=asked.precision, config=config)
        operands = Operands(
            buffers, (buffers.w, buffers.b), (buffers.dw, buffers.db), update=update, x_rectified=below, dy_rectified=cut
        )
        self.segment = Segment(device, nodes, operands, 256)
        assert isinstance(self.segment.way, FewPixels), f"{asked} is computed by {type(self.segment.way).__name__}"
        self.n, self.winner, self.device = n, winner, device

    def send(self) -> dict[str, np.ndarray]:
        """y, dx, dw and db."""
        part = Slice(self.n, self.n)
        for launch in [*self.segment.prepare(part), *self.segment.forward(part)]:
            launch.send()
        if self.winner is not None:
            assert self.segment.way.winner is not None
            self.segment.way.winner.upload(self.winner)
        for launch in self.segment.backward(part):
            launch.send()
        return {name: self.at[name].download() for name in ("y", "dx", "dw", "db")}


class Segment(TensorConv2d, Unwritten):
    """With scratch memory full of NaN."""


def prove(device: Device, asked: Asked, seed: int = 0) -> float:
    """The largest error of y, dx, dw and db; raises where one is beyond its precision's bound, or sums are not kept in fp32."""
    return warpgroup_convolutions.prove(device, asked, seed, Bound)


def pooled_gradient(dy: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A pool's gradient (n, o, h / 2, w / 2) and winners drawn for it, 4 for nobody among them."""
    gradient = np.ascontiguousarray(windows(dy)[..., 0])
    return gradient, np.random.default_rng(seed).integers(0, 5, gradient.shape).astype(np.uint8)


__all__ = ["PRECISIONS", "SHAPES", "Bound", "EditedFewPixels", "drawn", "named", "pooled_gradient", "prove"]
