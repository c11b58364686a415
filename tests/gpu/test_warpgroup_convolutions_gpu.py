"""Convolutions by warpgroup products on a GPU: right by float64, and the emulator's bits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="CUDA's libraries are not installed: scripts/setup test nvrtc")
pytest.importorskip("cuda.core", reason="CUDA's libraries are not installed: scripts/setup test nvrtc")

from tensor_convolutions import Asked, conv, drawn
from warpgroup_convolutions import PRECISIONS, Bound, prove
from warpladder import emulator, gpu
from warpladder.emulator import EmulatedDevice
from warpladder.gpu.device import GpuDevice
from warpladder.ops.conv2d.warpgroups import HOPPER

pytestmark = pytest.mark.skipif(gpu.why_not() is not None, reason=str(gpu.why_not()))


@pytest.fixture(scope="module")
def device() -> Iterator[GpuDevice]:
    with_gpu = GpuDevice()
    if with_gpu.capability != HOPPER:
        pytest.skip(f"{with_gpu.name} has no wgmma")
    yield with_gpu
    with_gpu.close()


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("kind", ["normal", "positive", "huge", "tiny", "far apart"])
def test_y_dx_and_dw(device: GpuDevice, kind: str, precision: str) -> None:
    for o, image, n in ((64, (64, 8, 8), 2), (64, (128, 5, 11), 3), (192, (64, 9, 8), 3), (64, (64, 9, 34), 2), (128, (256, 16, 16), 12)):
        prove(device, Asked(conv(o, 3, padding=1), image, n, precision, kind))


@pytest.mark.skipif(emulator.why_not() is not None, reason=str(emulator.why_not()))
@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_bits_are_the_emulators(device: GpuDevice, precision: str) -> None:
    asked = Asked(conv(64, 3, padding=1), (128, 5, 11), 3, precision)
    emulated = EmulatedDevice()
    emulated.limits = device.limits  # so that sums are cut alike
    found, wanted = (Bound(each, asked, drawn(asked)).send() for each in (device, emulated))
    for name, got in found.items():
        np.testing.assert_array_equal(got.view(np.uint32), wanted[name].view(np.uint32), err_msg=name)
