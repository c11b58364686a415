"""Convolutions by warpgroup products (wgmma), on the emulator: right for every shape that they take; what is a little wrong is found."""

from __future__ import annotations

import pytest

from tensor_convolutions import Asked, conv
from warpgroup_convolutions import PRECISIONS, prove
from warpladder.config import TrainConfig
from warpladder.device import Limits
from warpladder.emulator import EmulatedDevice, why_not
from warpladder.ladder import find
from warpladder.nets import CrossEntropyLoss, Flatten, Linear, MaxPool2d, Net, ReLU
from warpladder.ops.conv2d.warpgroups import fits
from warpladder.verify import verify

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


#: The forms of the op: a first layer with a pool, one with a ReLU, and one without.
NET = Net(
    "warpgroups", (64, 5, 6),
    (
        conv(64, 3, padding=1), ReLU(), MaxPool2d(2), conv(64, 3, padding=1), ReLU(), conv(64, 3, padding=1), Flatten(),
        Linear(out_features=3),
    ),
    CrossEntropyLoss(),
)  # fmt: skip


@pytest.mark.parametrize("precision", [PRECISIONS[0], pytest.param(PRECISIONS[1], marks=pytest.mark.slow)])
def test_a_net_of_them_is_proven(precision: str) -> None:
    """By the precision's bounds; the last batch is a partial one."""
    rung = find("tensor", device="emulated").but(precision=precision)
    verdict = verify(rung.build, NET, TrainConfig(batch_size=3, momentum=0.9), precision=rung.precision)
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize(("capability", "found"), [((9, 0), True), ((8, 0), False), ((10, 0), False), (None, True)])
def test_who_takes_them(capability: tuple[int, int] | None, found: bool) -> None:
    device = EmulatedDevice()
    device.capability = capability
    image, written, window = (128, 16, 16), (64, 16, 16), (3, 1, 1)
    assert fits(device, image, written, window, 4, "fp32") == fits(device, image, written, window, 4, "bf16") == found
    for wrong in (
        ((96, 16, 16), written, window, 4, "fp32"), (image, (3, 16, 16), window, 4, "fp32"), (image, written, (5, 1, 2), 4, "fp32"),
        (image, written, (3, 2, 1), 4, "fp32"), (image, written, window, 4, "tf32"),
    ):  # fmt: skip
        assert not fits(device, *wrong)
    device.limits = Limits("many", multiprocessors=132)
    assert fits(device, image, written, window, 33, "fp32") == found and not fits(device, image, written, window, 32, "fp32"), (
        "half of them busy"
    )
