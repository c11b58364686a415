"""Convolutions by warpgroup products (wgmma), asked for one by one: y with what follows it, dx and dw, against float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernel_tools import Runs
from tensor_convolutions import Asked, Edited, Numbers, drawn, truth
from warpladder.device import Device
from warpladder.gemm.formats import held
from warpladder.gemm.proof import DEPTH as MMA
from warpladder.gemm.proof import judged
from warpladder.nets import Conv2d
from warpladder.ops.conv2d import warpgroups
from warpladder.ops.conv2d.gradients import finish
from warpladder.ops.conv2d.warpgroups import CHANNELS
from warpladder.ops.kernels import Launches, OnDevice, ceil_div
from warpladder.precision import named
from warpladder.tolerance import bound

PRECISIONS = tuple(warpgroups.FORMATS)


class EditedWarpgroups(Edited):
    """The emulator, where the kernels of convolutions by warpgroup products, or their headers, read otherwise."""

    paths = (warpgroups.SOURCE, warpgroups.PACK, warpgroups.WEIGHTS)
    headers = ("squares.cuh", "tensor_panels.cuh")


class Bound:
    """The launches of one layer on a device, and its arrays, full of NaN where nothing was computed.

    after, below : what `warpgroups.convolve` does with y, and with dx.
    """

    def __init__(
        self, device: Device, asked: Asked, numbers: Numbers, after: str = "PLAIN", bias: np.ndarray | None = None, below: bool = False
    ) -> None:
        self.device, (x, w, dy), n = device, numbers, asked.n
        owner, (o, c, h, wide) = OnDevice(device, 256), (*w.shape[:2], *x.shape[2:])
        nan: Any = lambda shape: device.array(np.full(shape, np.nan, np.float32))  # noqa: E731
        self.x, self.w, self.dy = (device.array(each) for each in numbers)
        pooled = after == "POOL"
        self.y, self.dx, self.dw, self.db = nan((n, o, h // 2, wide // 2) if pooled else dy.shape), nan(x.shape), nan(w.shape), nan((o,))
        self.winner = device.array(np.full(self.y.shape, 9, np.uint8)) if pooled else None
        images = warpgroups.PackedImages(owner, (c, h, wide), n, asked.precision)
        gradient = warpgroups.PackedImages(owner, (o, h, wide), n, asked.precision)
        weights = warpgroups.PackedWeights(owner, o, c, asked.precision, both=True)
        assert weights.backward is not None
        parts = nan((warpgroups.correlation(n, gradient, images).parts, o, 9 * c))
        added = None if bias is None else device.array(bias)
        self.steps: dict[str, Launches] = {
            "pack w": [weights.pack(self.w)],
            "pack x": [images.pack(n, self.x)],
            "y": [warpgroups.convolve(n, images, weights.forward, added, self.y, after, self.winner)],
            "pack dy": [gradient.pack(n, self.dy)],
            "dx": [warpgroups.convolve(n, gradient, weights.backward, None, self.dx, below=self.x if below else None)],
            "dw": [
                *warpgroups.correlate(n, gradient, images, parts),
                finish(device, parts, self.dw, parts.shape[0], device.zeros((1, o)), self.db, 1, (o, c, 3, 1)),
            ],
        }

    def send(self) -> dict[str, np.ndarray]:
        """y, dx and dw."""
        for launches in self.steps.values():
            for launch in launches:
                launch.send()
        return {"y": self.y.download(), "dx": self.dx.download(), "dw": self.dw.download()}


def prove(device: Device, asked: Asked, seed: int = 0) -> float:
    """The largest error of the three; raises where one is beyond its precision's bound, or sums are not kept in fp32."""
    numbers = drawn(asked, seed)
    found, wanted, sizes = Bound(device, asked, numbers).send(), truth(asked, numbers), truth(asked, tuple(map(abs, numbers)))  # type: ignore[arg-type]
    lengths = {"y": 9 * asked.in_shape[0], "dx": 9 * len(numbers[1]), "dw": numbers[2].size // len(numbers[1])}
    kind, worst = named(asked.precision), 0.0
    rounded = truth(asked, tuple(held(array, kind) for array in numbers)) if kind.coarse else None  # type: ignore[arg-type]
    for name, got in found.items():
        where, length = f"{name} of {asked} is wrong at {got.shape}", lengths[name]
        assert np.isfinite(got).all(), f"{asked}: some numbers of {name} were never written, or are not finite"
        some = sizes[name] > 0
        assert not got[~some].any(), f"{where}: there is nothing to add up"
        got, size = got[some][None], sizes[name][some][None]
        worst = max(worst, judged(got, wanted[name][some][None], size, bound(kind, length), bound(kind, 16 * length, products=16), where))
        if (
            rounded is not None
        ):  # the sums alone, of the very numbers that were multiplied; they stay in the tensor cores, of fp16 for nine pieces at most
            cuts = ceil_div(min(length, 9 * CHANNELS) if kind.name == "fp16" else length, MMA // 2)
            limits = bound("fp32", length, cuts=cuts), bound("fp32", 16 * length, cuts=4 * cuts)
            judged(got, rounded[name][some][None], size, *limits, f"{where}, of rounded factors")
    return worst


def kernel_runs() -> Runs:
    """Cases for tests/kernel_cases.py, with scales and without: no case of a table's segment is as wide as these products want."""
    for precision in ("fp32", "bf16"):
        yield f"64 to 64 channels, 8 x 8 pixels, in {precision}", lambda device, precision=precision: _launched(device, precision)  # type: ignore[misc]


def _launched(device: Device, precision: str) -> set[str]:
    asked = Asked(Conv2d(out_channels=64, kernel_size=3, padding=1), (64, 8, 8), 1, precision)
    prove(device, asked)
    steps = Bound(device, asked, drawn(asked)).steps.values()
    return {launch.name.partition("<")[0] for launches in steps for launch in launches}
