"""Experiments without a clock: arithmetic, memory and traffic of a training step, and the launches of a rung's kernels.

Nothing is trained, and no GPU is needed: the kernels are bound to a device that only records launches.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ....config import TrainConfig
from ....data import arrays
from ....device import Launch
from ....device.dry_run import IdleStream, RecordingDevice
from ....device.limits import Limits
from ....errors import ConfigError
from ....errors.arguments import shown
from ....machine.peaks import Peaks
from ....nets import Net, Shape
from ....timing.profile import floor, transfers
from ....train.resolve import resolve_config
from ....trainers.base import State
from ....trainers.kernelwise.trainer import KernelTrainer
from ..experiments import Bench, Experiment, Found, keep, no_measure, read_stored
from ..results import Value

#: Rungs whose launches can be counted: they tune nothing, so that their launches are the same on every GPU.
RUNGS = ("naive", "tiled")


@dataclass(frozen=True)
class DataSheet:
    """Data sheet of a GPU. capability : major and minor compute capability. clock_mhz : highest clock."""

    capability: tuple[int, int]
    multiprocessors: int
    clock_mhz: float


@dataclass(frozen=True)
class Facts(Experiment):
    """Experiment that counts FLOPs, bytes and launches of a training step.

    net : net of the package's zoo, or of the report's file. in_shape, classes : shape and number of classes of its
    samples.
    batch : samples of a step.
    rungs : rungs of `RUNGS` whose launches are counted.
    gpus : data sheets by name of the GPUs whose peaks are needed.
    """

    kind: ClassVar[str] = "facts"
    has_times: ClassVar[bool] = False
    net: str
    batch: int
    in_shape: tuple[int, ...] = (1, 28, 28)
    classes: int = 10
    rungs: tuple[str, ...] = ()
    gpus: dict[str, DataSheet] = field(default_factory=dict)

    def measure(self, name: str, bench: Bench) -> None:
        net = bench.net_for(self.net, self.in_shape, self.classes)
        config = resolve_config(self.net, settings={"batch_size": self.batch})
        counted = Counted(
            flops={key: each.flops for key, each in floors(net, config, self.batch).items()},
            least={key: each.bytes for key, each in floors(net, config, self.batch).items()},
            tensors=tensors(net, self.batch),
            peaks={f"{gpu}:{kind}": peak for gpu, sheet in self.gpus.items() for kind, peak in _peaks(sheet).items()},
            rungs={rung: bound(rung, net, config, self.batch) for rung in self.rungs},
        )
        keep(asdict(counted), name, bench.folder)

    def found(self, name: str, folder: Path) -> FactsFound | None:
        counted = read_stored(Counted, name, folder)
        return None if counted is None else FactsFound(counted)

    def check(self, rung: str, measure: str) -> None:
        what = measure.partition(":")[0]
        if what not in MEASURES:
            raise no_measure(measure, MEASURES)
        if (what in LAUNCHED) != bool(rung) or (rung and rung not in self.rungs):
            raise ConfigError(
                f"{measure} of {rung or 'no rung'}: launches are counted of {', '.join(self.rungs) or 'none'}, "
                "all else of no rung"
            )


@dataclass(frozen=True)
class CountedLaunch:
    """Launch of a kernel: its part of the step, as "forward 1", its kernel, number of blocks, and threads of a
    block.
    """

    part: str
    kernel: str
    blocks: int
    block: int


@dataclass(frozen=True)
class CountedRung:
    """Launches, memory and transfers of a rung.

    memory, transfers : bytes by name, as in `Trainer.memory` and profiles.
    """

    launches: tuple[CountedLaunch, ...]
    memory: dict[str, int]
    transfers: dict[str, int]


@dataclass(frozen=True)
class Counted:
    """Counts of a training step.

    flops, least : FLOPs, and smallest bytes of memory traffic, by part: "feed", "forward 1", "loss", "backward 1",
    "update".
    tensors : bytes as float32, by name: "input", "1" for the output of layer 1, "1.weight", "labels".
    peaks : FLOP/s by GPU and precision.
    """

    flops: dict[str, int]
    least: dict[str, int]
    tensors: dict[str, int]
    peaks: dict[str, float]
    rungs: dict[str, CountedRung]


def floors(net: Net, config: TrainConfig, batch: int) -> dict[str, floor.Floor]:
    """Floor (FLOPs and bytes) of each part of a step, layer by layer."""
    computing = [i for i in range(len(net.layers)) if type(net.layers[i]).__name__ != "Flatten"]
    return (
        {"feed": floor.feed(net, batch, 1)}
        | {f"forward {i}": floor.forward(net, range(i, i + 1), batch) for i in computing}
        | {"loss": floor.loss(net, batch)}
        | {
            f"backward {i}": floor.backward(net, range(i, i + 1), batch)
            for i in reversed(computing)
            if i >= net.first_trained
        }
        | {"update": floor.update(net, config)}
    )


def tensors(net: Net, batch: int) -> dict[str, int]:
    """Bytes of each tensor of a step as float32."""
    number = floor.FLOAT
    out = {"input": number * batch * math.prod(net.in_shape), "labels": floor.LABEL * batch, "loss": number}
    for i, layer in enumerate(net.layers):
        out[str(i)] = number * batch * math.prod(net.shapes[i + 1])
        out |= {f"{i}.{name}": number * math.prod(shape) for name, shape in layer.param_shapes(net.shapes[i]).items()}
    return out | {"parameters": number * net.param_count}


class Noting(RecordingDevice):
    """Device that computes nothing: it has the limits of a usual GPU, and records launches."""

    def __init__(self) -> None:
        self.name, self.limits, self.hardware = "no GPU", Limits("no GPU"), None
        self.stream = IdleStream()
        self.held, self.requested = {}, {}

    def free_memory(self) -> int:
        return 1 << 50


def bound(name: str, net: Net, config: TrainConfig, batch: int) -> CountedRung:
    """Launches of a rung's full step, its memory, and its transfers between host and device."""
    from ....ops.tables import naive, tiled

    tables = {"naive": (naive.TABLE, "sync"), "tiled": (tiled.TABLE, "resident")}
    if name not in tables:
        raise ConfigError(f"launches are counted of {', '.join(RUNGS)}, not of {shown(name)}")
    table, feed = tables[name]
    data = _samples(net.in_shape, batch, net.out_shape)
    with KernelTrainer(net, config, State(np.zeros(net.param_count, np.float32)), Noting(), table, feed) as trainer:
        trainer.load(data)
        launches = [
            CountedLaunch(
                f"{stage.phase} {','.join(map(str, stage.layers))}".strip(),
                call.name,
                math.prod(call.grid),
                math.prod(call.block),
            )
            for stage in trainer.stages(trainer.parts()[0])
            for call in stage.launches
            if isinstance(call, Launch)
        ]
        return CountedRung(tuple(launches), trainer.memory(), transfers(trainer, net, data, batch))


def _samples(shape: Shape, count: int, out: Shape) -> Any:
    x = np.zeros((count, *shape), np.uint8)
    return arrays(x, np.arange(count, dtype=np.int32) % out[0], x[:1], np.zeros(1, np.int32))


def _peaks(sheet: DataSheet) -> dict[str, float]:
    peaks = Peaks(sheet.capability, sheet.multiprocessors, 1e6 * sheet.clock_mhz)
    return {kind: peaks.of(kind) for kind in ("fp32", "tf32", "fp16") if peaks.lacks(kind) is None}


#: Counted measures: of a step, and of a rung's launches.
LAUNCHED = ("threads", "blocks", "block", "launches", "memory", "transfers")
MEASURES = ("flops", "least", "bytes", "floats", "peak", "least_seconds", *LAUNCHED)


@dataclass(frozen=True)
class FactsFound(Found):
    """Figures counted for a training step."""

    counted: Counted

    def value(self, rung: str, measure: str) -> Value | None:
        """Figure of a step; names with + between them are summed.

        "flops:forward 1", or "flops" for all but the feed; "least:PART" bytes; "bytes:TENSOR"; "floats:16x16" bytes of
        16 x 16 float32; "peak:GPU:PRECISION", and "least_seconds:GPU:PRECISION" of a step at that peak. Of a rung:
        "threads:PART" and "blocks:PART" of its largest launch, "block:PART" the threads of one block there, "launches",
        "memory:COMPONENT", "transfers:WHAT".
        """
        what, _, rest = measure.partition(":")
        names = [name for name in rest.split("+") if name]
        counted = self.counted
        if what in LAUNCHED:
            found = counted.rungs.get(rung)
            return None if found is None else _of_rung(found, what, names)
        if what == "floats":
            return Value(here=float(floor.FLOAT * math.prod(map(int, rest.split("x")))))
        if what in ("peak", "least_seconds"):
            peak = counted.peaks.get(rest)
            return None if peak is None else Value(here=peak if what == "peak" else _all(counted.flops, []) / peak)
        known = {"flops": counted.flops, "least": counted.least, "bytes": counted.tensors}.get(what)
        if known is None:
            raise no_measure(measure, MEASURES)
        return Value(here=_all(known, names))

    def name_of(self, rung: str) -> str:
        return ""


def _of_rung(found: CountedRung, what: str, names: list[str]) -> Value | None:
    if what in ("memory", "transfers"):
        return Value(here=_all(getattr(found, what), names)) if getattr(found, what) else None
    chosen = [each for each in found.launches if not names or each.part in names or each.kernel in names]
    if what == "launches":
        return Value(here=float(len(chosen)))
    if not chosen:
        raise ConfigError(
            f"there is no launch for {'+'.join(names)!r}; there are {', '.join(each.part for each in found.launches)}"
        )
    largest = max(chosen, key=lambda each: each.blocks * each.block)
    return Value(
        here=float({"threads": largest.blocks * largest.block, "blocks": largest.blocks, "block": largest.block}[what])
    )


def _all(known: dict[str, int], names: list[str]) -> float:
    """Sum over the named parts, or over all parts but the feed."""
    if missing := [name for name in names if name not in known]:
        raise ConfigError(f"nothing is called {shown(missing[0])}; there are {', '.join(known)}")
    return float(
        sum(known[name] for name in names) if names else sum(size for name, size in known.items() if name != "feed")
    )
