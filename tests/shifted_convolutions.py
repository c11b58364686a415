"""Convolutions of few outputs behind an enlargement, whose products come first and shifts afterwards, asked for one by one: y, dx, dw and db."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernel_tools import Runs
from tensor_convolutions import Asked, Numbers, conv, drawn
from warpgroup_convolutions import EditedWarpgroups, Unwritten
from warpgroup_convolutions import prove as prove_by
from warpladder.device import Device
from warpladder.nets import MaxPool2d, MSELoss, Net, ReLU, Upsample2d
from warpladder.ops.conv2d import shifted
from warpladder.ops.kernels import Launches, OnDevice
from warpladder.tolerance import bound

PRECISIONS = ("fp32", "bf16", "fp16")

#: The autoencoder narrow and small: a layer by warpgroup products, one of these that is enlarged, and the last one, whose products are shifted.
NARROW = Net(
    "narrow", (3, 12, 8),
    (
        conv(64, 3, padding=1), ReLU(), MaxPool2d(2), conv(64, 3, padding=1), ReLU(), MaxPool2d(2),
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
    owner : what takes scratch memory.
    """

    def __init__(
        self, device: Device, asked: Asked, numbers: Numbers, bias: np.ndarray | None = None, below: bool = False,
        owner: type[OnDevice] = Unwritten,
    ) -> None:  # fmt: skip
        x, w, dy = numbers
        n, o = dy.shape[:2]
        nan: Any = lambda shape: device.array(np.full(shape, np.nan, np.float32))  # noqa: E731
        self.x, self.w, self.dy = (device.array(each) for each in numbers)
        self.y, self.dx, self.dw, self.db = nan(dy.shape), nan(x.shape), nan(w.shape), nan((o,))
        self.sums = dy.astype(float).sum((0, 2, 3)), np.abs(dy).astype(float).sum((0, 2, 3)), bound("fp32", dy.size // o)
        made = shifted.ShiftedConvolution(owner(device, 256), x.shape[1:], dy.shape[1:], n, asked.precision, trains=True)
        added = device.array(np.zeros(o, np.float32) if bias is None else bias)
        self.steps: dict[str, Launches] = {
            "prepare": [made.pack(self.w)],
            "forward": made.forward(n, self.x, added, self.y),
            "backward": made.backward(n, self.x, self.dy, self.dw, self.db, self.dx, below),
        }

    def send(self) -> dict[str, np.ndarray]:
        """y, dx and dw; raises where db is not the sum of dy."""
        for launches in self.steps.values():
            for launch in launches:
                launch.send()
        wanted, sizes, most = self.sums
        errors = np.abs(self.db.download() - wanted) / sizes
        assert (errors <= most).all(), f"db is wrong at {errors}"
        return {"y": self.y.download(), "dx": self.dx.download(), "dw": self.dw.download()}


def prove(device: Device, asked: Asked, seed: int = 0) -> float:
    """The largest error of y, dx and dw; raises where one is beyond its precision's bound, or sums are not kept in fp32."""
    return prove_by(device, asked, seed, Bound)


def kernel_runs() -> Runs:
    """A case for tests/kernel_cases.py: none of a table's segment is as wide as these products want."""
    yield "64 channels of 4x5 in bf16", _launched


def _launched(device: Device) -> set[str]:
    """Proven; then with scratch memory that nobody has written, so that reading it is seen."""
    asked = Asked(conv(3, 3, padding=1), (64, 4, 5), 2, "bf16", enlarged=True)
    prove(device, asked)
    layer = Bound(device, asked, drawn(asked), owner=OnDevice)
    layer.send()
    return {launch.name.partition("<")[0] for launches in layer.steps.values() for launch in launches}
