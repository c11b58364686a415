"""Compile every kernel for every architecture that it declares, without a GPU, and fail on errors, spills and
unexpected local memory.

Instances of templates are those that the rungs ask for on the five networks, and those that a file declares:
// instance: tiled<16, true>. A kernel that may take local memory says why: // local memory: kernel: reason.
"""

import importlib
import pkgutil
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import numpy as np

import warpladder
from warpladder import rungs
from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.device import Resources
from warpladder.device import source as sources
from warpladder.device.declarations import templates
from warpladder.device.gpu.cache import compiled
from warpladder.device.gpu.compile import compile
from warpladder.device.gpu.offline import LIMITS, OfflineDevice, OfflineLaunch
from warpladder.device.gpu.program import plain
from warpladder.device.source import HEADERS
from warpladder.errors import KernelError, WarpladderError
from warpladder.machine import facts as machine
from warpladder.machine.peaks import Peaks
from warpladder.nets import (
    GELU,
    ZOO,
    BCEWithLogitsLoss,
    Conv2d,
    CrossEntropyLoss,
    Dropout,
    Flatten,
    Layer,
    Linear,
    Loss,
    MaxPool2d,
    MSELoss,
    Net,
    ReLU,
    SiLU,
    Tanh,
    Upsample2d,
    params,
)
from warpladder.rungs.base import Rung
from warpladder.trainers.base import State
from warpladder.trainers.kernelwise import where
from warpladder.trainers.kernelwise.trainer import KernelTrainer
from warpladder.trainers.persistent.trainer import PersistentTrainer

PACKAGE = Path(warpladder.__file__).parent
BATCH = 64


def kernel_rungs() -> list[Rung]:
    """Every rung that trains by kernels, whether it stands in the ladder yet or not."""
    modules = [
        importlib.import_module(f"warpladder.rungs.{module.name}") for module in pkgutil.iter_modules(rungs.__path__)
    ]
    return [module.RUNG for module in modules if hasattr(module, "RUNG") and module.RUNG.has("device")]


def small_chain(*widths: int, between: tuple[Layer, ...] = (ReLU(),), loss: Loss | None = None) -> Net:
    """Net of linear layers, for which the graph rung assembles kernels; by default with labels."""
    loss = loss or CrossEntropyLoss()
    last = Linear(out_features=widths[-1])
    layers = [layer for width in widths[1:-1] for layer in (Linear(out_features=width), *between)]
    return Net(f"{'-'.join(map(str, widths))}, {loss}", widths[:1], (*layers, last), loss)


#: Small chains: all weights at once in shared memory, in turn, widths that four does not divide; functions and losses.
CHAINS = (
    small_chain(54, 128, 64, 7),
    small_chain(96, *[128] * 6, 10),
    small_chain(37, 101, 50, 31),
    small_chain(54, 128, 64, 200, between=(GELU(), Dropout(0.2)), loss=CrossEntropyLoss(label_smoothing=0.1)),
    small_chain(13, 256, 256, 1, between=(ReLU(), Dropout(0.2))),
    small_chain(30, 100, 50, 30, between=(SiLU(), Tanh()), loss=BCEWithLogitsLoss()),
)

#: Convolutions of large windows, whose rows of taps come one after the other, and of an upsampled image.
WINDOWS = Net(
    "windows", (24, 16, 16),
    (
        Conv2d(out_channels=40, kernel_size=7, padding=3), ReLU(), Conv2d(out_channels=33, kernel_size=11, padding=5),
        Upsample2d(scale_factor=2), Conv2d(out_channels=5, kernel_size=5, padding=2), Flatten(),
        Linear(out_features=10),
    ),
    CrossEntropyLoss(),
)  # fmt: skip
#: A convolution of many channels, by warpgroup products on Hopper.
BROAD = Net(
    "broad", (3, 12, 12),
    (
        Conv2d(out_channels=64, kernel_size=3, padding=1), ReLU(), Conv2d(out_channels=128, kernel_size=5, padding=2),
        ReLU(), MaxPool2d(2), Flatten(), Linear(out_features=10),
    ),
    CrossEntropyLoss(),
)  # fmt: skip
#: First convolutions by samples: a stride and a border, pools before and after activations, odd images.
FRONT = Net(
    "front", (3, 21, 19),
    (
        Conv2d(out_channels=5, kernel_size=5, stride=2, padding=2), Tanh(),
        Conv2d(out_channels=9, kernel_size=4, padding=1), MaxPool2d(2), ReLU(),
        Conv2d(out_channels=6, kernel_size=3, stride=2, padding=1, bias=False), Flatten(), Linear(out_features=10),
    ),
    CrossEntropyLoss(),
)  # fmt: skip
OTHERS = {
    "graph": (*CHAINS, FRONT),
    "tensor": (WINDOWS, BROAD),
    "persistent": (small_chain(1000, 250, 16), small_chain(784, 512, 512, 10)),
}

#: Narrow chains for large batches, of bytes and of floats: most inputs, most outputs, tiles of each shape.
MANY = 2_000
NARROW = (
    (small_chain(784, 10, 10), np.uint8),
    (small_chain(784, 32, 10), np.uint8),
    (small_chain(1000, 20, 5, between=(SiLU(), Dropout(0.2))), np.uint8),
    (small_chain(54, 64, 30, 7, between=(GELU(),), loss=CrossEntropyLoss(label_smoothing=0.1)), np.float32),
    (small_chain(60, 9, 60, loss=MSELoss()), np.float32),
)


def dataset(net: Net, samples: int, kind: type) -> Dataset:
    images: np.ndarray = np.zeros((samples, *net.in_shape), kind)
    labels = np.zeros(samples, np.int32) if isinstance(net.loss, CrossEntropyLoss) else None
    return Dataset("zeros", images, labels, images[:1], None if labels is None else labels[:1], 1 / 255)


def bind(rung: Rung, net: Net, device: OfflineDevice, batch: int = BATCH, kind: type = np.uint8) -> None:
    """Prepare a rung's training steps, of a whole batch and of a last one of 1, on a device that is not here: every
    launch is checked.
    """
    packing = mock.patch.object(OfflineLaunch, "send", lambda self, stream=None: None)
    with packing, mock.patch.object(where, "open_device", lambda name: device):
        state = State(params.initial(net, 0))
        with rung.build(net, TrainConfig(batch_size=batch), state) as trainer:
            trainer.load(dataset(net, 2 * batch + 1, kind))
            if isinstance(trainer, KernelTrainer) and not isinstance(
                trainer, PersistentTrainer
            ):  # that is whole by now
                for step in range(3):
                    for part in trainer._slices(trainer._size(step)):
                        trainer.program(part)


#: By file and kernel.
Taken = dict[tuple[Path, str], Resources]


def refuses(rung: Rung, net: Net, arch: str) -> bool:
    """Whether a rung says that it cannot train a net on a GPU of this architecture."""
    peaks = Peaks((int(arch[3:-1]), int(arch[-1])), LIMITS[arch].multiprocessors, 1e9)
    with mock.patch.object(where, "why_not", lambda name: None), mock.patch.object(where, "peaks", lambda name: peaks):
        return rung.unsupported(net, TrainConfig()) is not None


def asked_for(arch: str) -> tuple[Taken, list[str]]:
    """The kernels that the rungs use on a GPU of this architecture, and what is wrong with them."""
    device, wrong = OfflineDevice(arch), []
    for rung in kernel_rungs():
        others = ((net, BATCH, np.uint8) for net in (*(make() for make in ZOO), *OTHERS.get(rung.name, ())))
        many = ((net, MANY, kind) for net, kind in NARROW if rung.name == "tensor")
        for net, batch, kind in (*others, *many):
            try:
                if not refuses(rung, net, arch):
                    bind(rung, net, device, batch, kind)
            except Exception as error:
                wrong.append(f"{rung.name} on {net.name} for {arch}: {type(error).__name__}: {error}")
    return {key: kernel.resources for key, kernel in device.kernels.items()}, wrong


def declared(path: Path, arch: str) -> tuple[Taken, list[str]]:
    """The kernels of a file that are no templates, and the instances that it declares."""
    source, wrong = sources.read(path), []
    taken: Taken = {}
    for group in (plain(source), *((name,) for name in source.instances)):
        try:
            found = compiled(source, group, arch).resources if group else {}
        except WarpladderError as error:
            wrong.append(f"{error} (for {arch})")
        else:
            taken |= {(path, name): resources for name, resources in found.items()}
    return taken, wrong


def local_memory(path: Path, name: str, arch: str, taken: Resources) -> Iterator[str]:
    """A line where a kernel takes local memory and its file does not state why; an assembled kernel has no file, and its
    reason is in a header next to it.
    """
    spilled = taken.spill_loads + taken.spill_stores
    files = [path] if path.exists() else sorted(path.parent.glob("*.cuh"))
    reasons = {kernel for file in files for kernel in sources.read(file).local_memory}
    if (spilled or taken.local) and name.partition("<")[0] not in reasons:
        spills = f", of it spilled registers ({spilled} bytes of loads and stores)" if spilled else ""
        yield f"{path}: {name} for {arch} takes {taken.local} bytes of local memory{spills}; avoid it, or say why: // local memory: kernel: reason"


def alone(header: Path) -> list[str]:
    """What is wrong with a header that no kernel of the package includes: it is there for users' kernels, and has to
    compile.
    """
    with TemporaryDirectory() as folder:
        probe = Path(folder) / "probe.cu"
        probe.write_text(f'#include "{header.name}"\nextern "C" __global__ void probe(int* x) {{ *x = 1; }}\n')
        try:
            for arch in ("sm_80", "sm_90", "sm_100"):
                compile(sources.read(probe), ("probe",), arch)
        except KernelError as error:
            return [f"{header}: {error}"]
    return []


def main() -> int:
    began = time.perf_counter()
    files = sorted(PACKAGE.rglob("*.cu"))
    work = [(path, arch) for path in files for arch in sources.read(path).archs]
    with ProcessPoolExecutor(machine.cores()) as pool:
        used = zip(LIMITS, pool.map(asked_for, LIMITS), strict=True)
        others = zip([arch for _, arch in work], pool.map(declared, *zip(*work, strict=True)), strict=True)
        answers = [*used, *others]

    wrong = [line for _, (_, lines) in answers for line in lines]
    most: Taken = {}
    for arch, (found, _) in answers:
        for (path, name), taken in found.items():
            wrong += local_memory(path, name, arch, taken)
            before = most.get((path, name))
            most[path, name] = taken if before is None or taken.registers > before.registers else before
    for path in files:
        for template in sorted(
            set(templates(sources.read(path))) - {name.partition("<")[0] for file, name in most if file == path}
        ):
            wrong.append(
                f"{path}: no rung asks for an instance of {template}; declare one: // instance: {template}<...>"
            )
    included = {header for path in files for header in sources.read(path).headers}
    for header in sorted(set(HEADERS.glob("*.cuh")) - included):
        wrong += alone(header)

    for (path, name), taken in sorted(most.items()):
        print(
            f"{path.relative_to(PACKAGE)}: {name}: {taken.registers} registers, {taken.static_shared} bytes of shared memory"
        )
    print(f"{len(most)} kernels of {len(files)} files, compiled in {time.perf_counter() - began:.1f} s")
    for line in dict.fromkeys(wrong):
        print(f"WRONG: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
