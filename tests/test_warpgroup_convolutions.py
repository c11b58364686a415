"""Convolutions by warpgroup products (wgmma), on the emulator: right for every shape that they take; what is a little wrong is found."""

from __future__ import annotations

import numpy as np
import pytest

from tensor_convolutions import Asked, conv
from warpgroup_convolutions import PRECISIONS, prove
from warpladder.device import Limits
from warpladder.emulator import EmulatedDevice, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

#: Outputs, input (channels, rows, columns), images: one square; several of an image, ragged; more images than a tile, outputs and channels that fill no tile.
SHAPES = ((64, (64, 8, 8), 2), (64, (128, 5, 11), 3), (192, (64, 9, 8), 3))


@pytest.fixture(scope="module")
def device() -> EmulatedDevice:
    return EmulatedDevice()


def asked(shape: int, precision: str, kind: str = "normal") -> Asked:
    o, image, n = SHAPES[shape]
    return Asked(conv(o, 3, padding=1), image, n, precision, kind)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("shape", range(len(SHAPES)))
@pytest.mark.parametrize("processors", [1, 132])
def test_y_dx_and_dw(shape: int, precision: str, processors: int) -> None:
    """With one multiprocessor a block makes several tiles, all sums of dw in one part; with 132 every square is a part."""
    device = EmulatedDevice()
    device.limits = Limits(device.limits.device, multiprocessors=processors)
    prove(device, asked(shape, precision))
