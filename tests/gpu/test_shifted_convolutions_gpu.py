"""Convolutions of few outputs whose products come first and shifts afterwards, on a GPU: right by float64, and the
emulator's bits.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="CUDA's libraries are not installed: scripts/setup test nvrtc")
pytest.importorskip("cuda.core", reason="CUDA's libraries are not installed: scripts/setup test nvrtc")

from shifted_convolutions import NARROW, PRECISIONS, Bound, prove, prove_packed
from tensor_convolutions import Asked, conv, drawn

from warpladder.config import TrainConfig
from warpladder.device import emulator, gpu
from warpladder.device.emulator import EmulatedDevice
from warpladder.device.gpu.device import GpuDevice
from warpladder.ladder import find
from warpladder.machine.peaks import HOPPER
from warpladder.proof import verify

if gpu.why_not() is not None:
    pytest.skip(str(gpu.why_not()), allow_module_level=True)


@pytest.fixture(scope="module")
def device() -> Iterator[GpuDevice]:
    with_gpu = GpuDevice()
    if with_gpu.capability != HOPPER:
        pytest.skip(f"{with_gpu.name} has no wgmma")
    yield with_gpu
    with_gpu.close()


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("kind", ["normal", "positive", "huge", "tiny", "far apart"])
def test_y_dx_dw_and_db(device: GpuDevice, kind: str, precision: str) -> None:
    """Blocks have one image each, then several: a GPU has fewer multiprocessors than the last shape images."""
    for o, image, n in (
        (3, (64, 5, 3), 3),
        (4, (128, 16, 16), 3),
        (1, (64, 4, 4), 1),
        (2, (320, 3, 6), 2),
        (3, (256, 16, 16), 300),
    ):
        prove(device, Asked(conv(o, 3, padding=1), image, n, precision, kind, upsampled=True))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_dx_as_the_layer_below_packs_it(device: GpuDevice, precision: str) -> None:
    prove_packed(device, Asked(conv(3, 3, padding=1), (64, 5, 3), 3, precision, upsampled=True), classes=1, below=False)
    for o, image, n, kind in ((2, (320, 4, 6), 2, "normal"), (3, (256, 16, 16), 300, "far apart")):
        prove_packed(device, Asked(conv(o, 3, padding=1), image, n, precision, kind, upsampled=True), classes=4)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_net_of_them_is_proven(precision: str) -> None:
    """By the precision's bounds; a batch has images enough for an H200, and the last one is a partial one."""
    rung = find("tensor", precision=precision)
    verdict = verify(rung.build, NARROW, TrainConfig(batch_size=264, momentum=0.9), precision=rung.precision)
    if precision != "fp32" and not verdict.judged:
        pytest.skip(verdict.reason)
    assert verdict.passed, verdict.reason


@pytest.mark.skipif(emulator.why_not() is not None, reason=str(emulator.why_not()))
@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_bits_are_the_emulators(device: GpuDevice, precision: str) -> None:
    emulated = EmulatedDevice()
    emulated.limits = device.limits  # so that sums are cut alike
    for o, image, n in ((3, (128, 5, 3), 3), (4, (64, 16, 16), 2)):
        asked = Asked(conv(o, 3, padding=1), image, n, precision, upsampled=True)
        found, wanted = (Bound(each, asked, drawn(asked), below=True).send() for each in (device, emulated))
        for name, got in found.items():
            np.testing.assert_array_equal(
                got.view(np.uint32), wanted[name].view(np.uint32), err_msg=f"{name} of {asked}"
            )
