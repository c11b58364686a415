"""What NVIDIA's compute-sanitizer looks at on a GPU (gpu/small_steps.py): a step of it reaches each file of kernels
that a rung can launch on Hopper.
"""

from __future__ import annotations

from importlib import util
from pathlib import Path
from types import ModuleType

import pytest
from clockwork import Clockwork
from strategies import case

import warpladder
from warpladder.config import TrainConfig
from warpladder.device import KernelSource
from warpladder.ladder import LADDER
from warpladder.trainers.kernelwise import where

PACKAGE = Path(warpladder.__file__).parent

#: Files that no small step launches, and why.
ELSEWHERE = {
    "ops/linear/tensor/product.cu": "GPUs before Hopper have it; warpgroups.cu takes its place",
    "ops/accumulate/naive.cu": "batches that the memory has no room for: tests/gpu/test_large_batches.py",
    "ops/cross_entropy/library.cu": "the library rung's, which needs cuDNN",
    "ops/conv2d/bias.cu": "the library rung's",
}


@pytest.fixture
def small_steps() -> ModuleType:
    spec = util.spec_from_file_location("small_steps", Path(__file__).parents[1] / "gpu" / "small_steps.py")
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_every_file_of_kernels_is_reached(small_steps: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    device = Clockwork(lambda launch: 1e-5, hardware=None, multiprocessors=132)
    device.capability = (9, 0)
    asked, reached = device.kernel, set()

    def kernel(path: Path | str | KernelSource, name: str) -> object:
        if isinstance(path, Path):  # else assembled: its templates are no .cu files
            reached.add(path.relative_to(PACKAGE).as_posix())
        return asked(path, name)

    monkeypatch.setattr(device, "kernel", kernel)
    monkeypatch.setattr(where, "open_device", lambda name: device)
    for rung in (
        variant
        for each in LADDER
        if each.has("device") and each.name != "library"
        for variant in small_steps.variants(each)
    ):
        for _, arguments in small_steps.work(rung):
            batch, samples = arguments.get("batch", 5), arguments.get("samples", 13)
            config = TrainConfig(batch_size=batch, optimizer=arguments.get("optimizer", small_steps.NESTEROV))
            config = config.but(**{arguments.get("clip", "clip_value"): 1.0})
            drawn = case(arguments["net"], config, seed=1, samples=samples)
            with rung.build(arguments["net"], config, drawn.state) as trainer:
                trainer.load(drawn.dataset)
                trainer.predict(drawn.dataset.train_x, drawn.dataset.scale)
    files = {file.relative_to(PACKAGE).as_posix() for file in PACKAGE.rglob("*.cu") if file.parent.name != "gemm"}
    assert files - reached == set(ELSEWHERE)
