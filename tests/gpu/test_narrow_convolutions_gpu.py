"""Convolutions of few channels on a GPU's tensor cores: right by float64, and the emulator's bits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="CUDA's libraries are not installed: scripts/setup test nvrtc")
pytest.importorskip("cuda.core", reason="CUDA's libraries are not installed: scripts/setup test nvrtc")

from narrow_convolutions import PRECISIONS, SHAPES, computed, prove, spread
from tensor_convolutions import KINDS, Asked, conv, drawn

from warpladder.config import TrainConfig
from warpladder.device import emulator, gpu
from warpladder.device.emulator import EmulatedDevice
from warpladder.device.gpu.device import GpuDevice
from warpladder.ladder import find
from warpladder.nets import cnn
from warpladder.ops.conv2d.tensor.formats import FORMATS
from warpladder.proof import verify

if gpu.why_not() is not None:
    pytest.skip(str(gpu.why_not()), allow_module_level=True)

#: cnn's second layer as it is, beside the small ones.
SECOND = (conv(32, 3), (16, 26, 26), 64)


@pytest.fixture(scope="module")
def device() -> Iterator[GpuDevice]:
    with_gpu = GpuDevice()
    if with_gpu.capability < (8, 0):
        pytest.skip(f"{with_gpu.name} has no mma of 16 halves")
    yield with_gpu
    with_gpu.close()


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_y_dx_dw_and_db(device: GpuDevice, kind: str, precision: str) -> None:
    if precision == "bf16" and kind not in ("normal", "positive"):
        pytest.skip("bf16 has no scales")
    for layer, image, n in (*SHAPES.values(), SECOND):
        for pool in (False, True):
            prove(device, Asked(layer, image, n, precision, kind, 1), pool)


@pytest.mark.parametrize("precision", FORMATS)
def test_cnn_is_proven(precision: str) -> None:
    rung = find("tensor", precision=precision)
    verdict = verify(rung.build, cnn(), TrainConfig(batch_size=64, momentum=0.9), precision=rung.precision)
    if precision != "fp32" and not verdict.judged:
        pytest.skip(verdict.reason)
    assert verdict.passed, verdict.reason


@pytest.mark.skipif(emulator.why_not() is not None, reason=str(emulator.why_not()))
@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_bits_are_the_emulators(device: GpuDevice, precision: str) -> None:
    emulated = EmulatedDevice()
    emulated.limits = device.limits  # so that sums are cut alike
    asked = Asked(*SHAPES["cnn's"], precision)
    x, w, dy = drawn(asked)
    given, argmax, _ = spread(dy, 0)
    found, wanted = (computed(each, asked, (x, w, dy), True, gradient=(given, argmax)) for each in (device, emulated))
    for name in ("y", "dx", "dw", "db", "pooled", "argmax"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name), err_msg=name)
