"""Convolutions of few pixels on tensor cores, asked for one by one: y with what follows it, dx, dw and db, against
float64.
"""

from __future__ import annotations

from dataclasses import replace

import narrow_convolutions
import numpy as np
import warpgroup_convolutions
from kernel_tools import Runs
from narrow_convolutions import Found
from tensor_convolutions import Asked, Edited, Numbers, conv
from tensor_tools import placed
from warpgroup_convolutions import Unwritten

from warpladder.device import Device
from warpladder.nets import Conv2d, Layer, MaxPool2d, ReLU, Shape, Upsample2d
from warpladder.ops.conv2d.tensor.few_pixels import few_pixels
from warpladder.ops.conv2d.tensor.few_pixels.few_pixels import FewPixels
from warpladder.ops.conv2d.tensor.segment import TensorConv2d
from warpladder.ops.engine.base import Buffers
from warpladder.ops.engine.chain import Slice, subgraph
from warpladder.ops.engine.segments import Operands

#: tf32 is not among them: it asks for fp16's kernels.
PRECISIONS = ("fp32", "bf16", "fp16")

#: By what a test is called: the layer, its images and their number, and whether these are upsampled. No tile divides
#: the images, no fragment the outputs; "crowded" has more tiles than a cluster has blocks.
SHAPES: dict[str, tuple[Conv2d, Shape, int, bool]] = {
    "one": (conv(40, 3, padding=1), (48, 8, 8), 1, False),
    "odd": (conv(37, 3, padding=1), (16, 7, 11), 2, False),
    "many channels": (conv(9, 3, padding=1), (272, 5, 6), 1, False),
    "crowded": (conv(9, 3, padding=1), (16, 12, 13), 4, False),
    "upsampled": (conv(20, 3, padding=1), (48, 5, 9), 2, True),
    "last": (conv(3, 3, padding=1), (144, 8, 8), 1, True),
}


class EditedFewPixels(Edited):
    """The emulator, where the kernels of convolutions of few pixels, or their headers, read otherwise."""

    paths = (few_pixels.SOURCE, few_pixels.WEIGHTS)
    headers = ("few_pixels.cuh", "narrow.cuh", "halves.cuh", "tensor_panels.cuh")


def named(name: str, precision: str = "fp32", kind: str = "normal", offset: int = 0) -> Asked:
    """One of SHAPES, asked for."""
    layer, image, n, upsampled = SHAPES[name]
    return Asked(layer, image, n, precision, kind, offset, upsampled=upsampled)


class Segment(TensorConv2d, Unwritten):
    """With scratch memory full of NaN."""


class Bound:
    """A layer's segment on a device, and its arrays, full of NaN where nothing was computed.

    follows : ReLU, or ReLU and a 2 x 2 pool behind it; dy is then the pool's gradient.
    below, cut : whether x is the output of a ReLU, whose gradient dx shall be; whether whoever made dy has cut it by
    y's ReLU.
    argmax : with a pool, what dy's numbers go back to, instead of what the way forward has found.
    """

    def __init__(
        self, device: Device, asked: Asked, numbers: Numbers, follows: tuple[Layer, ...] = (), bias: np.ndarray | None = None, below: bool = False,
        cut: bool = False, argmax: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        x, w, dy = numbers
        layers = ((Upsample2d(scale_factor=2),) if asked.upsampled else ()) + (asked.layer, *follows)
        host = {"x": x, "w": w, "dy": dy, "b": np.zeros(len(w), np.float32) if bias is None else bias}
        host |= {
            name: np.full(like.shape, np.nan, np.float32)
            for name, like in (("y", dy), ("dx", x), ("dw", w), ("db", w[:, 0, 0, 0]))
        }
        # dy begins on a boundary of 16 bytes: where a ReLU's gradient is still to be made, the kernel for that reads
        # four numbers at a time, as on every rung.
        self.at = {name: placed(device, array, 0 if name == "dy" else asked.offset) for name, array in host.items()}
        buffers = Buffers(**self.at)
        nodes = replace(subgraph(layers, asked.in_shape, asked.n, device.limits), precision=asked.precision)
        operands = Operands(buffers, (buffers.w, buffers.b), (buffers.dw, buffers.db), masks_dx=below, dy_is_masked=cut)
        self.segment = Segment(device, nodes, operands, 256)
        assert isinstance(self.segment.algorithm, FewPixels), (
            f"{asked} is computed by {type(self.segment.algorithm).__name__}"
        )
        self.n, self.argmax = asked.n, argmax

    def send(self) -> dict[str, np.ndarray]:
        """y, dx, dw and db."""
        part = Slice(self.n, self.n)
        for launch in [*self.segment.prepare(part), *self.segment.forward(part)]:
            launch.send()
        found = {} if self.segment.algorithm.argmax is None else {"argmax": self.segment.algorithm.argmax.download()}
        if self.argmax is not None and self.segment.algorithm.argmax is not None:
            self.segment.algorithm.argmax.upload(self.argmax)
        for launch in self.segment.backward(part):
            launch.send()
        return found | {name: self.at[name].download() for name in ("y", "dx", "dw", "db")}


def computed(
    device: Device, asked: Asked, numbers: Numbers, pool: bool = False, bias: np.ndarray | None = None, fused_relu: bool = False,
    below: bool = False, gradient: tuple[np.ndarray, np.ndarray] | None = None,
) -> Found:  # fmt: skip
    """y, dx, dw and db, as narrow_convolutions has it: y without a pool, with one also the pool's output and argmaxes,
    and what its gradient gives.
    """
    follows: tuple[Layer, ...] = (ReLU(),) if fused_relu else ()
    plain = Bound(device, asked, numbers, follows, bias, below, cut=True).send()
    if not pool:
        return Found(plain["y"], plain["dx"], plain["dw"], plain["db"])
    assert gradient is not None
    given, argmax = gradient
    found = Bound(device, asked, (*numbers[:2], given), (ReLU(), MaxPool2d(2)), bias, below, argmax=argmax).send()
    return Found(plain["y"], found["dx"], found["dw"], found["db"], found["y"], found["argmax"])


def prove(device: Device, asked: Asked, pool: bool = False, seed: int = 0) -> float:
    """The largest error of y, dx, dw and db; raises where one is beyond its precision's bound, sums are not kept in
    fp32, or the pool is not that of y.
    """
    if asked.upsampled:
        return warpgroup_convolutions.prove(device, asked, seed, Bound)
    return narrow_convolutions.prove(device, asked, pool, seed, computed)


def kernel_runs() -> Runs:
    """Cases for tests/support/kernel_cases.py: few of a table's cases have as many channels as these kernels want."""
    for name, precision, pool in (("odd", "fp32", True), ("upsampled", "bf16", False)):

        def run(device: Device, name: str = name, precision: str = precision, pool: bool = pool) -> set[str]:
            prove(device, named(name, precision), pool)
            return {"convolve_few_pixels", "correlate_few_pixels"}

        layer, image, n, _ = SHAPES[name]
        yield f"{n} of {layer.out_channels} outputs of {'x'.join(map(str, image))}, {name}, in {precision}", run
