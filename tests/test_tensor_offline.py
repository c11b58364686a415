"""The levels on tensor cores as machine code: for Ampere, Hopper and Blackwell, launched as a GPU of each would be asked to."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="NVRTC is not installed: scripts/setup test nvrtc")
pytest.importorskip("cuda.core", reason="NVRTC is not installed: scripts/setup test nvrtc")

from warpladder.device.occupancy import blocks_per_multiprocessor
from warpladder.gemm.tensor import TENSOR_LEVELS, TensorLevel
from warpladder.gpu.offline import OfflineDevice

pytestmark = pytest.mark.nvrtc


@pytest.mark.parametrize("level", TENSOR_LEVELS, ids=lambda level: level.name)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_they_compile_and_fit(arch: str, level: TensorLevel) -> None:
    device = OfflineDevice(arch)
    for m, n, k in ((256, 256, 256), (131, 77, 93)):
        a, b = (device.array(level.stored(np.zeros(shape, np.float32))) for shape in ((m, k), (k, n)))
        for launch in level.bind(device, a, b, device.empty((m, n))):
            taken = launch.kernel.resources
            assert (taken.spill_stores, taken.spill_loads, taken.local) == (0, 0, 0)
            assert blocks_per_multiprocessor(launch.block, launch.shared, taken, device.limits) >= 1
