"""A net's first convolution on a GPU's tensor cores: right by float64 at the autoencoder's size too, in nets proven,
the emulator's bits, and timed.

python -m pytest -q -s tests/gpu/test_first_convolution_gpu.py     also prints the times
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="CUDA's libraries are not installed: scripts/setup test nvrtc")
pytest.importorskip("cuda.core", reason="CUDA's libraries are not installed: scripts/setup test nvrtc")

from first_convolutions import KINDS, NET, PRECISIONS, SHAPES, Asked, convolved, drawn, prove

from warpladder.appendix.gemm.climb import timed
from warpladder.config import TrainConfig
from warpladder.device import Launch, emulator, gpu
from warpladder.device.emulator import EmulatedDevice
from warpladder.device.gpu.device import GpuDevice
from warpladder.ladder import find
from warpladder.machine.peaks import HOPPER
from warpladder.ops.conv2d.gradients import Gradients
from warpladder.ops.conv2d.problem import ConvWindow, FusedConv
from warpladder.ops.conv2d.tensor.first import first
from warpladder.ops.engine.kernels import OnDevice
from warpladder.proof import verify

if gpu.why_not() is not None:
    pytest.skip(str(gpu.why_not()), allow_module_level=True)

#: The autoencoder's first layer, with more pictures than an H200 has multiprocessors.
WIDE = Asked((3, 32, 32), 256, 139)


@pytest.fixture(scope="module")
def device() -> Iterator[GpuDevice]:
    with_gpu = GpuDevice()
    yield with_gpu
    with_gpu.close()


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_y_and_dw(device: GpuDevice, kind: str, precision: str) -> None:
    for asked in SHAPES:
        for offset in (0, 1):
            prove(device, replace(asked, precision=precision, kind=kind, offset=offset))
    if kind in ("normal", "steep"):
        prove(device, replace(WIDE, precision=precision, kind=kind))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_net_is_proven(precision: str) -> None:
    rung = find("tensor", precision=precision)
    verdict = verify(rung.build, NET, TrainConfig(batch_size=264, momentum=0.9), precision=rung.precision)
    if precision != "fp32" and not verdict.judged:
        pytest.skip(verdict.reason)
    assert verdict.passed, verdict.reason


@pytest.mark.skipif(emulator.why_not() is not None, reason=str(emulator.why_not()))
@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_bits_are_the_emulators(device: GpuDevice, precision: str) -> None:
    if device.capability != HOPPER:
        pytest.skip(f"the emulator cuts off as Hopper does, and {device.name} may do otherwise")
    emulated = EmulatedDevice()
    emulated.limits = device.limits  # so that sums are cut alike
    for shape in SHAPES:
        asked = replace(shape, precision=precision)
        found, wanted = (convolved(each, asked, drawn(asked)) for each in (device, emulated))
        for name, got in found.items():
            np.testing.assert_array_equal(got.view(np.uint8), wanted[name].view(np.uint8), err_msg=f"{name} of {asked}")


@pytest.mark.parametrize("precision", PRECISIONS)
def test_times(device: GpuDevice, precision: str) -> None:
    """Of the autoencoder's first layer at batch 256, launch by launch: beside what y and dy take to pass through
    memory, than which nothing can be faster.
    """
    n, (o, high, wide) = 256, WIDE.pooled
    x, w, b = (
        device.array(np.ones((n, *WIDE.picture), np.float32)),
        device.array(np.ones((o, 3, 3, 3), np.float32)),
        device.zeros((o,)),
    )
    y, argmax, packed = (
        device.zeros((n, o, high, wide)),
        device.zeros((n, o, high, wide), np.uint8),
        device.zeros((n, high, wide, o), np.uint16),
    )
    owner = OnDevice(device, 256)
    conv = FusedConv(WIDE.picture, WIDE.written, ConvWindow(3, 1, 1), relu=True, pool=True)
    forward = first.FirstConvolution(owner, conv, precision).launches(
        n, x, w, b, y, argmax, packed if precision == "bf16" else None
    )
    backward = first.FirstGradient(owner, conv, n, precision).launches(
        n, x, y, argmax, Gradients(device.zeros(w.shape), device.zeros((o,)))
    )
    assert device.limits.bandwidth is not None
    floor = (y.nbytes + argmax.nbytes) / device.limits.bandwidth
    for launch in (*forward, *backward):
        assert isinstance(launch, Launch)
        seconds = float(np.median(timed(device, [launch])))
        print(
            f"{precision}: {launch.name} grid {launch.grid}: {1e6 * seconds:.1f} us; y or dy through memory {1e6 * floor:.1f} us"
        )
        assert launch.name.startswith("finish") or seconds >= floor / 2, (
            "half of them may still be in the second-level cache"
        )
