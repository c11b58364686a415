"""Tensor cores on a GPU: what the emulator takes for their arithmetic is theirs, to the bit, and every level of
`warpladder gemm` on them is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="CUDA's libraries are not installed: scripts/setup test nvrtc")
pytest.importorskip("cuda.core", reason="CUDA's libraries are not installed: scripts/setup test nvrtc")

import hopper_samples

from warpladder.appendix.gemm.climb import prove_everywhere
from warpladder.appendix.gemm.proof import KINDS, prove
from warpladder.appendix.gemm.tensor import TENSOR_LEVELS
from warpladder.appendix.gemm.tensor_level import TensorLevel
from warpladder.device import Device, emulator, gpu
from warpladder.device.emulator import EmulatedDevice
from warpladder.device.gpu.device import GpuDevice

if gpu.why_not() is not None:
    pytest.skip(str(gpu.why_not()), allow_module_level=True)

STEPS = Path(__file__).parents[1] / "device" / "emulator" / "correct" / "tensor.cu"
levels = pytest.mark.parametrize("level", TENSOR_LEVELS, ids=lambda level: level.name)


@pytest.fixture(scope="module")
def device() -> Iterator[GpuDevice]:
    with_gpu = GpuDevice()
    yield with_gpu
    with_gpu.close()


def step(device: Device, kind: int, a: np.ndarray, b: np.ndarray, d: np.ndarray) -> np.ndarray:
    """d += a b by one step of a tensor core, of words as a fragment has them."""
    out = device.array(d)
    device.kernel(STEPS, f"step<{kind}>").bind(1, 32, device.array(a), device.array(b), out).send()
    return out.download()


def words(rng: np.random.Generator, kind: int, rows: int, spread: int) -> np.ndarray:
    """Rows of eight words: pairs in half or bf16, or floats; exponents lie `spread` apart, some numbers are 0."""
    x = np.ldexp(
        rng.standard_normal((rows, 8 if kind == 2 else 16)),
        rng.integers(-spread, spread + 1, (rows, 8 if kind == 2 else 16)),
    )
    x[rng.random(x.shape) < 0.1] = 0
    single = np.ascontiguousarray(x, np.float32)
    if kind == 0:
        return single.astype(np.float16).view(np.uint32)
    return single.view(np.uint32) if kind == 2 else (single.view(np.uint32) >> 16).astype(np.uint16).view(np.uint32)


@pytest.mark.skipif(emulator.why_not() is not None, reason=str(emulator.why_not()))
@pytest.mark.parametrize("kind", [0, 1, 2], ids=["half", "bf16", "tf32"])
def test_the_emulators_steps_are_hoppers_to_the_bit(kind: int, device: GpuDevice) -> None:
    if device.capability != (9, 0):
        pytest.skip("the emulator has Hopper's tensor cores")
    emulated = EmulatedDevice()
    for trial in range(200):
        rng = np.random.default_rng([kind, trial])
        a, b = words(rng, kind, 16, trial % 13), words(rng, kind, 8, trial % 13)
        d = np.ldexp(rng.standard_normal((16, 8)), rng.integers(-20, 21, (16, 8)) * (trial % 2)).astype(np.float32)
        np.testing.assert_array_equal(
            step(device, kind, a, b, d).view(np.uint32), step(emulated, kind, a, b, d).view(np.uint32), f"trial {trial}"
        )


@pytest.mark.skipif(emulator.why_not() is not None, reason=str(emulator.why_not()))
@pytest.mark.parametrize("kind", [0, 1, 2], ids=["half", "bf16", "tf32"])
def test_the_emulators_warpgroups_are_hoppers_to_the_bit(kind: int, device: GpuDevice) -> None:
    if device.capability != (9, 0):
        pytest.skip("wgmma is Hopper's alone")
    emulated = EmulatedDevice()
    for spread in range(13):
        asked = hopper_samples.factors(kind, spread)
        got, wanted = (hopper_samples.multiplied(each, kind, *asked).view(np.uint32) for each in (device, emulated))
        np.testing.assert_array_equal(got, wanted, f"exponents {spread} apart")


@pytest.mark.parametrize("run", hopper_samples.CASES, ids=lambda run: run.__name__)
def test_tiles_barriers_and_warpgroups_do_on_the_gpu_what_they_do_in_the_emulator(
    run: Callable[[Any], None], device: GpuDevice
) -> None:
    if device.capability != (9, 0):
        pytest.skip("wgmma is Hopper's alone")
    run(SimpleNamespace(device=device, put=device.array))


@levels
def test_every_level_passes_the_proof(level: TensorLevel, device: GpuDevice) -> None:
    if reason := level.lacks(device, 1, 1):
        pytest.skip(reason)
    prove_everywhere(device, level)
    for size in ((19, 11, 1), (257, 129, 33), (1000, 999, 1001)):
        for kind in KINDS:
            prove(device, level, *size, kind=kind)
