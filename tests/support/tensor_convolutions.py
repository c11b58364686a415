"""Convolutions on tensor cores, asked for one by one: y, dx and dw in each precision, at any size of the numbers,
against float64.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from edits import edited, occurrences
from references import conv2d
from tensor_tools import placed

from warpladder.appendix.gemm.formats import held
from warpladder.appendix.gemm.proof import DEPTH as MMA
from warpladder.appendix.gemm.proof import judged
from warpladder.device import Device, KernelSource
from warpladder.device import source as sources
from warpladder.device.emulator import EmulatedDevice
from warpladder.device.emulator.kernel import EmulatedKernel
from warpladder.machine.precision import named
from warpladder.nets import Conv2d, Shape
from warpladder.ops.conv2d.problem import ConvWindow, FusedConv, Image
from warpladder.ops.conv2d.tensor.algorithm import ConvProblem, has_wgmma
from warpladder.ops.conv2d.tensor.formats import FORMATS
from warpladder.ops.conv2d.tensor.segment import TensorConv2d
from warpladder.ops.engine.base import Buffers
from warpladder.ops.engine.chain import subgraph, whole
from warpladder.ops.engine.kernels import ceil_div
from warpladder.ops.engine.segments import Operands
from warpladder.proof.tolerance import bound

PRECISIONS = tuple(FORMATS)
#: Terms of a sum that stay in the tensor cores.
DEPTH = 32

#: What x, the weights and dy are drawn as. In "far apart" images, and outputs, are 2^30 times as large as others.
KINDS = ("normal", "positive", "huge", "tiny", "far apart")


@dataclass(frozen=True)
class Asked:
    """A convolution of n images.

    offset : floats from a 16-byte boundary to each array's first number.
    upsampled : whether the images are upsampled by 2 before the window.
    """

    layer: Conv2d
    in_shape: Shape
    n: int
    precision: str = "fp32"
    kind: str = "normal"
    offset: int = 0
    upsampled: bool = False

    @property
    def read(self) -> Shape:
        """The image that the window goes over."""
        c, h, w = self.in_shape
        return (c, 2 * h, 2 * w) if self.upsampled else self.in_shape

    @property
    def terms(self) -> tuple[int, int]:
        """How many products are added up for a number of y, and for one of dx; an upsampled layer's weights are folded
        before, to 2 x 2 and 4 x 4.
        """
        window = self.layer.kernel_size**2
        y, dx = (4, 16) if self.upsampled else (window, window)
        return y * self.in_shape[0], dx * self.layer.out_channels


Numbers = tuple[np.ndarray, np.ndarray, np.ndarray]


def problem(
    device: Device, small: Image, written: Image, window: tuple[int, int, int], n: int, precision: str, upsample: int = 1
) -> ConvProblem:  # fmt: skip
    """A convolution alone on a device, for a batch of n images."""
    conv = FusedConv(small, written, ConvWindow(*window), upsample)
    return ConvProblem(conv, precision, n, device.limits, has_wgmma(device))


def drawn(asked: Asked, seed: int = 0) -> Numbers:
    """x (n, c, h, w), the weights (o, c, k, k) and dy (n, o, oh, ow), float32."""
    rng, layer = np.random.default_rng(seed), asked.layer
    shapes = (
        (asked.n, *asked.in_shape),
        layer.param_shapes(asked.in_shape)["weight"],
        (asked.n, *layer.out_shape(asked.read)),
    )
    found = [rng.random(shape) + 0.5 if asked.kind == "positive" else rng.normal(size=shape) for shape in shapes]
    if asked.kind == "far apart":
        images = np.exp2(rng.integers(-30, 31, (asked.n, 1, 1, 1)))  # of x and dy alike
        found = [
            found[0] * images,
            found[1] * np.exp2(rng.integers(-30, 31, (shapes[1][0], 1, 1, 1))),
            found[2] * images,
        ]
    scales = {"huge": (2.0**100, 2.0**10, 2.0**10), "tiny": (2.0**-100, 2.0**-10, 2.0**-10)}.get(
        asked.kind, (1.0, 1.0, 1.0)
    )
    x, w, dy = ((array * scale).astype(np.float32) for array, scale in zip(found, scales, strict=True))
    return x, w, dy


def convolved(device: Device, asked: Asked, numbers: Numbers) -> dict[str, np.ndarray]:
    """y, dx and dw by the tensor rung's segment, all full of NaN before."""
    x, w, dy = numbers
    host = {"x": x, "w": w, "dy": dy, "b": np.zeros(len(w), np.float32)}
    host |= {
        name: np.full(like.shape, np.nan, np.float32)
        for name, like in (("y", dy), ("dx", x), ("dw", w), ("db", w[:, 0, 0, 0]))
    }
    # dy begins on a boundary of 16 bytes: the kernel that sums it for the bias reads four numbers at a time, as on
    # every rung.
    arrays = {name: placed(device, array, 0 if name == "dy" else asked.offset) for name, array in host.items()}
    nodes = replace(subgraph((asked.layer,), asked.in_shape, asked.n, device.limits), precision=asked.precision)
    buffers = Buffers(**arrays)
    operands = Operands(buffers, (buffers.w, buffers.b), (buffers.dw, buffers.db))
    assert TensorConv2d.takes(nodes)
    segment = TensorConv2d(device, nodes, operands, 256)
    for step in (segment.prepare, segment.forward, segment.backward):
        for launch in step(whole(asked.n)):
            launch.send()
    return {name: arrays[name].download() for name in ("y", "dx", "dw")}


def truth(asked: Asked, numbers: Numbers) -> dict[str, np.ndarray]:
    """The same in float64."""
    x, w, dy = (array.astype(float) for array in numbers)
    layer = asked.layer
    if asked.upsampled:
        x = x.repeat(2, axis=2).repeat(2, axis=3)
    y = conv2d.forward(x, w, np.zeros(len(w)), layer.stride, layer.padding)
    dx, dw, _ = conv2d.backward(x, w, dy, layer.stride, layer.padding)
    if asked.upsampled:
        dx = dx.reshape(*dx.shape[:2], dx.shape[2] // 2, 2, dx.shape[3] // 2, 2).sum(axis=(3, 5))
    return {"y": y, "dx": dx, "dw": dw}


def folded(w: np.ndarray) -> np.ndarray:
    """The 4 x 4 weights of an upsampled layer's 3 x 3 ones: (o, c, 4, 4), each a sum of those that meet the same small
    pixel, in w's type and a fixed order.
    """
    found = np.zeros((*w.shape[:2], 4, 4), w.dtype)
    for i, j, e, f in np.ndindex(4, 4, 2, 2):
        if 0 <= 2 - i + e < 3 and 0 <= 2 - j + f < 3:
            found[:, :, i, j] += w[:, :, 2 - i + e, 2 - j + f]
    return found


def truth_of_folded(numbers: Numbers) -> dict[str, np.ndarray]:
    """y, dx and dw of an upsampled layer from x, the folded weights (o, c, 4, 4) and dy, in float64: dy meets them with
    stride 2, and x is what that gives.
    """
    x, w, dy = (array.astype(float) for array in numbers)
    w = w.transpose(1, 0, 2, 3)
    y, of_folded, _ = conv2d.backward(dy, w, x, 2, 1)
    dw = np.zeros((len(w[0]), len(w), 3, 3))
    for i, j, e, f in np.ndindex(3, 3, 2, 2):
        dw[:, :, i, j] += of_folded[:, :, 2 - i + e, 2 - j + f].T
    return {"y": y, "dx": conv2d.forward(dy, w, np.zeros(len(w)), 2, 1), "dw": dw}


def rounded(asked: Asked, numbers: Numbers) -> dict[str, np.ndarray]:
    """The truth of the very factors that are multiplied, in a precision that rounds them."""
    x, w, dy = numbers
    x, w, dy = (held(array, named(asked.precision)) for array in (x, folded(w) if asked.upsampled else w, dy))
    return truth_of_folded((x, w, dy)) if asked.upsampled else truth(asked, (x, w, dy))


def prove(device: Device, asked: Asked, seed: int = 0) -> float:
    """The largest error of the three; raises where one is beyond its precision's bound, or sums are not kept in fp32."""
    numbers = drawn(asked, seed)
    found, wanted, sizes = (
        convolved(device, asked, numbers),
        truth(asked, numbers),
        truth(asked, tuple(map(abs, numbers))),  # type: ignore[arg-type]
    )
    lengths = {"y": asked.terms[0], "dx": asked.terms[1], "dw": numbers[2].size // len(numbers[1])}
    kind, worst = named(asked.precision), 0.0
    # tf32 is multiplied as scaled halves, which round other numbers than tf32 does
    of_rounded = rounded(asked, numbers) if kind.coarse and asked.precision != "tf32" else None
    for name, got in found.items():
        assert np.isfinite(got).all(), f"{asked}: some numbers of {name} were never written, or are not finite"
        some, length, where = sizes[name] > 0, lengths[name], f"{name} of {asked} is wrong at {got.shape}"
        assert not got[~some].any(), f"{where}: there is nothing to add up"
        got, size = got[some][None], sizes[name][some][None]
        worst = max(
            worst,
            judged(
                got, wanted[name][some][None], size, bound(kind, length), bound(kind, 16 * length, products=16), where
            ),
        )
        if (
            of_rounded is not None
            # the sums alone, of the very numbers that were multiplied: few cuts add up, since sums leave the tensor
            # cores
        ):
            cuts = ceil_div(min(length, DEPTH), MMA // 2)
            limits = bound("fp32", length, cuts=cuts), bound("fp32", 16 * length, cuts=4 * cuts)
            judged(got, of_rounded[name][some][None], size, *limits, f"{where}, of rounded factors")
    return worst


class Edited:
    """The emulator, where the kernels of convolutions on tensor cores, or their headers, read otherwise."""

    paths: ClassVar[tuple[Path, ...]]
    headers: ClassVar[tuple[str, ...]]

    def __init__(self, honest: EmulatedDevice, *edits: tuple[str, str]) -> None:
        self.honest, self.sources = honest, {path: self._read(path) for path in self.paths}
        for before, after in edits:
            having = {
                path: count for path, source in self.sources.items() if (count := occurrences(source.text, before))
            }
            assert having and set(having.values()) == {1}, f"the kernels have no longer one line {before!r}"
            for path in having:
                self.sources[path] = replace(self.sources[path], text=edited(self.sources[path].text, before, after))

    def _read(self, path: Path) -> KernelSource:
        source = sources.read(path)
        text, headers = (
            source.text,
            {header.name: header.read_text().replace("#pragma once", "") for header in source.headers},
        )
        for name in self.headers:
            first, *others = re.split(rf'#include "(?:[^"]*/)?{re.escape(name)}"', text)
            text = headers.get(name, "").join([first, "".join(others)]) if others else first
        return replace(source, text=text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.honest, name)

    def kernel(self, path: Path, name: str) -> EmulatedKernel:
        return self.honest.kernel(self.sources.get(path, path), name)


def conv(outputs: int, k: int, stride: int = 1, padding: int = 0) -> Conv2d:
    return Conv2d(out_channels=outputs, kernel_size=k, stride=stride, padding=padding)


Make = Callable[..., Asked]

#: Sizes that no tile divides: thin first layers, few and many outputs, channels that fill no line of 32, and windows
#: that leave pixels out.
SHAPES: tuple[tuple[Conv2d, Shape, int], ...] = (
    (conv(17, 3), (1, 9, 11), 5),
    (conv(5, 3, padding=1), (3, 6, 7), 7),
    (conv(70, 3, padding=1), (37, 7, 6), 3),
    (conv(3, 3, padding=1), (65, 5, 9), 2),
    (conv(9, 5, 2, 2), (33, 9, 8), 3),
    (conv(20, 2, 3), (12, 8, 11), 4),
    (conv(6, 1), (40, 13, 12), 2),
    (conv(4, 11, 1, 5), (9, 6, 19), 2),
)
