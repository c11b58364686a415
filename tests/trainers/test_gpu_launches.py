"""Every launch of the five nets, compiled for GPUs that are not here and held to their limits."""

from __future__ import annotations

import pytest

pytest.importorskip("cuda.bindings", reason="NVRTC is not installed: scripts/setup test nvrtc")
pytest.importorskip("cuda.core", reason="NVRTC is not installed: scripts/setup test nvrtc")

from strategies import case

from warpladder.config import TrainConfig
from warpladder.device.gpu.offline import OfflineDevice
from warpladder.nets import ZOO, Net
from warpladder.ops.engine.segments import KernelTable
from warpladder.ops.tables import naive, resident
from warpladder.trainers.kernelwise.trainer import KernelTrainer

pytestmark = pytest.mark.nvrtc


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
@pytest.mark.parametrize("feed", ["sync", "streamed", "resident"])
@pytest.mark.parametrize("table", [naive.TABLE, resident.TABLE], ids=["naive", "resident"])
@pytest.mark.parametrize("net", [make() for make in ZOO], ids=lambda net: net.name)
def test_every_launch_passes_the_checks(net: Net, table: KernelTable, feed: str, arch: str) -> None:
    device = OfflineDevice(arch)
    config = TrainConfig(batch_size=7)
    drawn = case(net, config, seed=1, samples=17)
    with KernelTrainer(net, config, drawn.state, device, table, feed) as trainer:
        trainer.load(drawn.dataset)
        for step in range(3):
            for part in trainer._slices(trainer._size(step)):
                assert trainer.program(part)
    assert all(kernel.resources.registers for kernel in device.kernels.values())
