"""Convolutions of few outputs behind an upsampling, whose products come first and shifts afterwards, asked for one by
one: y, dx, dw and db.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from kernel_tools import Runs
from tensor_convolutions import Asked, Numbers, conv, drawn
from warpgroup_convolutions import EditedWarpgroups, Unwritten
from warpgroup_convolutions import prove as prove_by

from warpladder.device import Device
from warpladder.nets import MaxPool2d, MSELoss, Net, ReLU, Upsample2d
from warpladder.ops.conv2d.gradients import Gradients
from warpladder.ops.conv2d.tensor.shifted import shifted
from warpladder.ops.conv2d.tensor.warpgroups.images import GradientBelow, PackedImages
from warpladder.ops.engine.kernels import Launches, OnDevice
from warpladder.proof.tolerance import bound

PRECISIONS = ("fp32", "bf16", "fp16")

#: The autoencoder narrow, small and short: its upsampled layer by warpgroup products, whose gradient comes packed, and
#: the last one, whose products are shifted.
NARROW = Net(
    "narrow", (3, 8, 4),
    (
        conv(64, 3, padding=1), ReLU(), MaxPool2d(2), MaxPool2d(2),
        Upsample2d(scale_factor=2), conv(64, 3, padding=1), ReLU(), Upsample2d(scale_factor=2), conv(3, 3, padding=1),
    ),
    MSELoss(),
)  # fmt: skip


class EditedShifts(EditedWarpgroups):
    """The emulator, where these kernels, or their headers, read otherwise."""

    paths = (shifted.SOURCE, shifted.GRADIENT, shifted.PACK)
    headers = ("shifted.cuh", "halves.cuh", "tensor_panels.cuh")


class Bound:
    """The launches of one layer on a device, and its arrays, full of NaN where nothing was computed.

    below : whether x is the output of a ReLU, whose gradient dx shall be.
    classes : how the convolution below packs its gradient, for `send_packed`; 0 where dx is an array.
    owner : what takes scratch memory.
    """

    def __init__(
        self, device: Device, asked: Asked, numbers: Numbers, bias: np.ndarray | None = None, below: bool = False,
        classes: int = 0, owner: type[OnDevice] = Unwritten,
    ) -> None:  # fmt: skip
        x, w, dy = numbers
        n, o = dy.shape[:2]
        nan: Any = lambda shape: device.array(np.full(shape, np.nan, np.float32))  # noqa: E731
        self.x, self.w, self.dy = (device.array(each) for each in numbers)
        self.y, self.dx, self.dw, self.db = nan(dy.shape), nan(x.shape), nan(w.shape), nan((o,))
        taker, (c, h, wide) = owner(device, 256), x.shape[1:]
        self.given: GradientBelow | None = None
        if classes:
            image = (c, h // 2, wide // 2) if classes > 1 else (c, h, wide)
            self.given = GradientBelow(PackedImages(taker, image, n, asked.precision, classes), taker.scratch((n, c)))
        made = shifted.ShiftedConvolution(
            taker, (c, h, wide), dy.shape[1:], n, asked.precision, trains=True, below=self.given
        )
        added = device.array(np.zeros(o, np.float32) if bias is None else bias)
        self.steps: dict[str, Launches] = {
            "prepare": [made.pack(self.w)],
            "forward": made.forward(n, self.x, added, self.y),
            "backward": made.backward(n, self.x, self.dy, Gradients(self.dw, self.db), self.dx, below),
        }

    def send(self) -> dict[str, np.ndarray]:
        """y, dx, dw and db."""
        for launches in self.steps.values():
            for launch in launches:
                launch.send()
        return {"y": self.y.download(), "dx": self.dx.download(), "dw": self.dw.download(), "db": self.db.download()}


def halves_of(images: PackedImages) -> list[np.ndarray]:
    """High halves, low ones and inverse scales, so far as there are any."""
    found = images.halves.high, images.halves.low, images.halves.inverse
    return [array.download() for array in found if array is not None]


def prove_packed(device: Device, asked: Asked, classes: int, below: bool = True) -> None:
    """Raises where dx as the convolution below takes it is not to the bit what it would pack of the array, or its sums
    are not those of the array.
    """
    numbers = drawn(asked)
    plain, made = (
        Bound(device, asked, numbers, below=below),
        Bound(device, asked, numbers, below=below, classes=classes),
    )
    dx, dw, others = plain.send()["dx"], plain.dw.download(), made.send()
    assert made.given is not None and np.isnan(others["dx"]).all()
    np.testing.assert_array_equal(others["dw"], dw, err_msg="dw is wrong beside dx packed")
    wanted = PackedImages(OnDevice(device, 256), made.given.images.image, len(dx), asked.precision, classes)
    wanted.pack(len(dx), plain.dx).send()
    for got, honest in zip(halves_of(made.given.images), halves_of(wanted), strict=True):
        np.testing.assert_array_equal(got, honest, err_msg="dx packed is wrong")
    sizes, sums = np.abs(dx).astype(float).sum((2, 3)), dx.astype(float).sum((2, 3))
    errors = np.abs(made.given.sums.download() - sums)
    assert (errors <= sizes * bound("fp32", dx[0, 0].size)).all(), f"sums of dx are wrong by {errors.max()}"


def prove(device: Device, asked: Asked, seed: int = 0) -> float:
    """The largest error of y, dx and dw; raises where one is beyond its precision's bound, or sums are not kept in
    fp32.
    """
    return prove_by(device, asked, seed, Bound)


def kernel_runs() -> Runs:
    """A case for tests/support/kernel_cases.py: none of a table's segment is as wide as these products want."""
    yield "64 channels of 4x5 in bf16", _launched


def _launched(device: Device) -> set[str]:
    """Proven; then with scratch memory that nobody has written, so that reading it is seen."""
    asked = Asked(conv(3, 3, padding=1), (64, 4, 5), 2, "bf16", upsampled=True)
    prove(device, asked)
    layer = Bound(device, asked, drawn(asked), owner=OnDevice)
    layer.send()
    prove_packed(device, asked, classes=1)
    return {launch.name.partition("<")[0] for launches in layer.steps.values() for launch in launches}
