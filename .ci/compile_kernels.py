"""Compile every kernel for every architecture that it declares, without a GPU, and fail on errors, spills and unexpected local memory.

Instances of templates are those that the rungs ask for on the five networks, and those that a file declares:
// instance: tiled<16, true>. A kernel that may take local memory says why: // local memory: kernel: reason.
"""

import importlib
import pkgutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np

import warpladder
from warpladder import params, rungs
from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.device import Resources, Source
from warpladder.device import source as sources
from warpladder.device.signature import templates
from warpladder.device.source import HEADERS
from warpladder.errors import WarpladderError
from warpladder.gpu.cache import compiled
from warpladder.gpu.offline import LIMITS, OfflineDevice
from warpladder.gpu.program import plain
from warpladder.nets import ZOO, CrossEntropyLoss, Net
from warpladder.rungs.base import Rung
from warpladder.trainers.base import State
from warpladder.trainers.kernelwise import where
from warpladder.trainers.kernelwise.trainer import KernelTrainer

PACKAGE = Path(warpladder.__file__).parent
BATCHES = (64, 7)


def kernel_rungs() -> list[Rung]:
    """Every rung that trains by kernels, whether it stands in the ladder yet or not."""
    modules = [importlib.import_module(f"warpladder.rungs.{module.name}") for module in pkgutil.iter_modules(rungs.__path__)]
    return [module.RUNG for module in modules if hasattr(module, "RUNG") and "device" in module.RUNG.options]


def dataset(net: Net, samples: int) -> Dataset:
    images = np.zeros((samples, *net.in_shape), np.uint8)
    labels = np.zeros(samples, np.int32) if isinstance(net.loss, CrossEntropyLoss) else None
    return Dataset("zeros", images, labels, images[:1], None if labels is None else labels[:1], 1 / 255)


def bind(rung: Rung, net: Net, device: OfflineDevice) -> int:
    """Prepare a rung's training steps, whole and partial batches, on a device that is not here; how many launches passed its checks."""
    launches = 0
    with mock.patch.object(where, "open_device", lambda name: device):
        for batch in BATCHES:
            state = State(params.initial(net, 0), np.zeros(net.param_count, np.float32))
            with rung.build(net, TrainConfig(batch_size=batch), state) as trainer:
                if not isinstance(trainer, KernelTrainer):
                    continue
                trainer.load(dataset(net, 2 * batch + 1))
                for step in range(3):
                    launches += sum(len(trainer.program(part)) for part in trainer._slices(trainer._size(step)))
    return launches


def faults(source: Source, name: str, arch: str, taken: Resources) -> Iterator[str]:
    expected = source.local_memory.get(name.partition("<")[0])
    spilled = taken.spill_loads + taken.spill_stores
    if (spilled or taken.local) and not expected:
        yield f"{source.path}: {name} for {arch} takes {taken.local} bytes of local memory, {spilled} bytes of them spilled registers"


def main() -> int:
    began = time.perf_counter()
    wrong: list[str] = []
    worst: dict[tuple[Path, str], Resources] = {}
    instances: dict[Path, set[str]] = {}

    for arch in LIMITS:
        device = OfflineDevice(arch)
        for rung in kernel_rungs():
            for make in ZOO:
                try:
                    bind(rung, make(), device)
                except WarpladderError as error:
                    wrong.append(f"{rung.name} on {make().name} for {arch}: {error}")
        for path, name in device.kernels:
            instances.setdefault(path, set()).add(name)

    included: set[Path] = set()
    files = sorted(PACKAGE.rglob("*.cu"))
    for path in files:
        source = sources.read(path)
        included |= set(source.headers)
        wanted = {*source.instances, *(name for name in instances.get(path, ()) if "<" in name)}
        for template in sorted(templates(source) - {name.partition("<")[0] for name in wanted}):
            wrong.append(f"{path}: no rung asks for an instance of {template}; declare one: // instance: {template}<...>")
        for arch in source.archs:
            for group in (plain(source), *((name,) for name in sorted(wanted))):
                try:
                    found = compiled(source, group, arch).resources if group else {}
                except WarpladderError as error:
                    wrong.append(f"{error} (for {arch})")
                    continue
                for name, taken in found.items():
                    wrong += faults(source, name, arch, taken)
                    before = worst.get((path, name))
                    worst[path, name] = taken if before is None or taken.registers > before.registers else before

    for header in sorted(set(HEADERS.glob("*.cuh")) - included):
        wrong.append(f"{header}: no kernel includes it")
    for (path, name), taken in sorted(worst.items()):
        print(f"{path.relative_to(PACKAGE)}: {name}: {taken.registers} registers, {taken.static_shared} bytes of shared memory")
    print(f"{len(worst)} kernels of {len(files)} files, compiled in {time.perf_counter() - began:.1f} s")
    for line in dict.fromkeys(wrong):
        print(f"WRONG: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
