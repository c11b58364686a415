"""The weight gradient of a first layer for an image or a few, in one launch, asked for by itself: dw and db, against
float64.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from kernel_tools import Runs
from narrow_convolutions import spread
from tensor_convolutions import Asked, Edited, conv, drawn, truth
from tensor_tools import placed
from warpgroup_convolutions import Unwritten

from warpladder.device import Device
from warpladder.ops.conv2d.few_inputs.few_inputs import IMAGES, FewImagesGradient
from warpladder.ops.conv2d.gradients import Gradients
from warpladder.ops.conv2d.problem import ConvWindow, FusedConv
from warpladder.proof.tolerance import bound

#: The layer, its images and their number: the autoencoder's window; odd rows and columns, and an odd output; more
#: windows than threads; no padding.
SHAPES = (
    Asked(conv(8, 3, padding=1), (3, 8, 8), 1),
    Asked(conv(5, 3, padding=1), (2, 9, 7), 3),
    Asked(conv(2, 2, padding=2), (4, 34, 36), 2),
    Asked(conv(3, 5), (1, 11, 12), 4),
)


class EditedImages(Edited):
    """The emulator, where the kernel reads otherwise."""

    paths: ClassVar[tuple[Path, ...]] = (IMAGES,)
    headers: ClassVar[tuple[str, ...]] = ()


def prove(device: Device, asked: Asked, offset: int = 0, kind: str = "normal") -> None:
    """Holds dw and db, full of NaN before, against float64."""
    x, w, dy = drawn(replace(asked, kind=kind), seed=1)
    given, argmax, spread_out = spread(dy, 2)
    window = ConvWindow(asked.layer.kernel_size, asked.layer.stride, asked.layer.padding)
    layer = FewImagesGradient(Unwritten(device, 256), FusedConv(x.shape[1:], dy.shape[1:], window, pool=True))
    dw, db = (placed(device, np.full(shape, np.nan, np.float32), offset) for shape in (w.shape, (len(w),)))
    for launch in layer.launches(
        asked.n, placed(device, x, offset), placed(device, given, offset), device.array(argmax), Gradients(dw, db)
    ):
        launch.send()
    numbers = x, w, spread_out
    wanted, sizes = truth(asked, numbers)["dw"], truth(asked, tuple(map(abs, numbers)))["dw"]  # type: ignore[arg-type]
    most = bound("fp32", given.size // given.shape[1])
    error, of_bias = abs(dw.download() - wanted), abs(db.download() - spread_out.astype(float).sum((0, 2, 3)))
    assert (error <= most * sizes).all(), f"dw of {asked} is wrong"
    assert (of_bias <= most * abs(spread_out).astype(float).sum((0, 2, 3))).all(), f"db of {asked} is wrong"


def kernel_runs() -> Runs:
    """A case for tests/support/kernel_cases.py: few of a table's cases have an image or a few."""
    asked = SHAPES[1]

    def run(device: Device) -> set[str]:
        prove(device, asked)
        return {"correlate_few_images"}

    yield f"{asked.n} of {asked.layer.out_channels} outputs of {'x'.join(map(str, asked.in_shape))}", run
