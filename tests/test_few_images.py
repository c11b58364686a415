"""The weight gradient of a first layer for an image or a few, in one launch: as the kernels that leave parts have it, and what is wrong with it is found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from narrow_convolutions import spread
from tensor_convolutions import Asked, Edited, conv, drawn, truth
from tensor_tools import placed
from warpgroup_convolutions import Unwritten
from warpladder.device import Device, Limits
from warpladder.emulator import EmulatedDevice, why_not
from warpladder.ops.conv2d.few import IMAGES, FewImagesGradient
from warpladder.ops.conv2d.gradients import Gradients
from warpladder.tolerance import bound

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

#: The layer, its images and their number: the autoencoder's window; odd rows and columns, and an odd output; more windows than threads; no padding.
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
    given, winner, spread_out = spread(dy, 2)
    layer = FewImagesGradient(Unwritten(device, 256), x.shape[1:], dy.shape[1:], asked.layer.kernel_size, asked.layer.padding)
    dw, db = (placed(device, np.full(shape, np.nan, np.float32), offset) for shape in (w.shape, (len(w),)))
    for launch in layer.launches(
        asked.n, placed(device, x, offset), placed(device, given, offset), device.array(winner), Gradients(dw, db)
    ):
        launch.send()
    numbers = x, w, spread_out
    wanted, sizes = truth(asked, numbers)["dw"], truth(asked, tuple(map(abs, numbers)))["dw"]  # type: ignore[arg-type]
    most = bound("fp32", given.size // given.shape[1])
    error, of_bias = abs(dw.download() - wanted), abs(db.download() - spread_out.astype(float).sum((0, 2, 3)))
    assert (error <= most * sizes).all(), f"dw of {asked} is wrong"
    assert (of_bias <= most * abs(spread_out).astype(float).sum((0, 2, 3))).all(), f"db of {asked} is wrong"


@pytest.mark.parametrize("asked", SHAPES, ids=lambda asked: "x".join(map(str, asked.in_shape)))
def test_sums_are_complete(asked: Asked) -> None:
    device = EmulatedDevice()
    for offset in (0, 1):
        prove(device, asked, offset)
        prove(device, asked, offset, "far apart")


def test_who_takes_it() -> None:
    """An image or a few that have room, with few terms and no stride."""
    limits = Limits("some GPU")
    assert FewImagesGradient.takes((3, 32, 32), 3, 1, 1, 4, limits)
    assert not FewImagesGradient.takes((3, 32, 32), 3, 1, 1, 5, limits) and not FewImagesGradient.takes((3, 32, 32), 3, 2, 1, 1, limits)
    assert not FewImagesGradient.takes((4, 32, 32), 3, 1, 1, 1, limits) and not FewImagesGradient.takes((3, 64, 64), 3, 1, 1, 1, limits)


@pytest.mark.slow
def test_the_checker_finds_nothing() -> None:
    checked = EmulatedDevice("check", collect=True)
    for asked in SHAPES:
        prove(checked, asked, 1)
    assert checked.reports == []


LIARS = {
    "a winner's row for its column": ("won[e] / 2) * wide", "won[e] % 2) * wide"),
    "nobody counts as a winner": ("if (won[e] >= 4) continue;", "won[e] %= 4;"),
    "a warp left out": ("warp = 0; warp < THREADS / 32; ++warp) all", "warp = 1; warp < THREADS / 32; ++warp) all"),
    "the first image alone": ("sample < n; ++sample", "sample < 1; ++sample"),
    "the first windows alone": ("window0 < windows; window0", "window0 < min(windows, THREADS); window0"),
    "an image one line further": ("row = line - channel * high - padding", "row = line - channel * high - padding + 1"),
    "the bias of both outputs": ("sum[e * (WEIGHTS + 1) + WEIGHTS] += gradient[e];", "sum[WEIGHTS] += gradient[e];"),
}


@pytest.mark.parametrize("liar", LIARS)
def test_liars_are_refused(liar: str) -> None:
    with pytest.raises(AssertionError, match="is wrong"):
        for asked in SHAPES:
            prove(EditedImages(EmulatedDevice(), LIARS[liar]), asked)  # type: ignore[arg-type]
