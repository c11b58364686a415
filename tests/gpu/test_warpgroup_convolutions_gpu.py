"""Convolutions by warpgroup products on a GPU: right by float64, and the emulator's bits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="CUDA's libraries are not installed: scripts/setup test nvrtc")
pytest.importorskip("cuda.core", reason="CUDA's libraries are not installed: scripts/setup test nvrtc")

from tensor_convolutions import Asked, conv, drawn
from warpgroup_convolutions import CODER, NET, PRECISIONS, Bound, prove, prove_between, prove_first_layer

from warpladder.config import TrainConfig
from warpladder.device import emulator, gpu
from warpladder.device.emulator import EmulatedDevice
from warpladder.device.gpu.device import GpuDevice
from warpladder.ladder import find
from warpladder.machine.peaks import HOPPER
from warpladder.nets import Net
from warpladder.ops.conv2d.tensor.formats import FORMATS
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
def test_y_dx_and_dw(device: GpuDevice, kind: str, precision: str) -> None:
    for o, image, n in (
        (64, (64, 8, 8), 2),
        (64, (64, 7, 12), 1),
        (64, (128, 5, 11), 3),
        (192, (64, 9, 8), 3),
        (64, (64, 9, 34), 2),
        (128, (256, 16, 16), 12),
    ):
        prove(device, Asked(conv(o, 3, padding=1), image, n, precision, kind))
    for o, image, n in ((64, (128, 3, 5), 3), (192, (64, 9, 7), 1), (256, (128, 8, 8), 12)):
        prove(device, Asked(conv(o, 3, padding=1), image, n, precision, kind, upsampled=True))


@pytest.mark.parametrize("precision", FORMATS)
@pytest.mark.parametrize("net", [NET, CODER], ids=lambda net: net.name)
def test_nets_of_them_are_proven(net: Net, precision: str) -> None:
    """By the precision's bounds; a batch has tiles enough for an H200, and the last one is a partial one."""
    rung = find("tensor", precision=precision)
    verdict = verify(rung.build, net, TrainConfig(batch_size=264, momentum=0.9), precision=rung.precision)
    if precision != "fp32" and not verdict.judged:
        pytest.skip(verdict.reason)
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("pools", [True, False])
def test_what_stands_before_the_gradient_is_packed_with_it(device: GpuDevice, pools: bool, precision: str) -> None:
    for image in ((64, 7, 12), (128, 5, 11), (256, 16, 16)):
        prove_between(device, Asked(conv(128, 3, padding=1), image, 5, precision), pools)


@pytest.mark.parametrize(("fused_relu", "pool"), [(True, True), (True, False), (False, False)])
def test_a_first_layer_packs_what_a_layer_of_them_reads(device: GpuDevice, fused_relu: bool, pool: bool) -> None:
    prove_first_layer(device, fused_relu, pool)


@pytest.mark.skipif(emulator.why_not() is not None, reason=str(emulator.why_not()))
@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_bits_are_the_emulators(device: GpuDevice, precision: str) -> None:
    emulated = EmulatedDevice()
    emulated.limits = device.limits  # so that sums are cut alike
    for upsampled in (False, True):
        asked = Asked(conv(64, 3, padding=1), (128, 5, 11), 3, precision, upsampled=upsampled)
        found, wanted = (Bound(each, asked, drawn(asked)).send() for each in (device, emulated))
        for name, got in found.items():
            np.testing.assert_array_equal(
                got.view(np.uint32), wanted[name].view(np.uint32), err_msg=f"{name}, upsampled: {upsampled}"
            )
