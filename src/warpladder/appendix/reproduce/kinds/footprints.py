"""Experiments that measure the memory of a training process and its GPU, stage by stage: interpreter, libraries, GPU
context, samples. Each rung trains in a new process.

The process stops after each stage; meanwhile the GPU's driver reports its free memory. A new process is needed because
loaded libraries and contexts stay in memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ....checkpoint import net_from_json, net_to_json
from ....config import TrainConfig
from ....errors import ResultsError
from ....ladder import find
from ..experiments import Bench, Found, TrainingTask, canonical, keep, no_measure, read_stored
from ..results import Value

#: Stages of a process: the memory of each contains the memory of those before.
STAGES = ("interpreter", "built", "trained")


@dataclass(frozen=True)
class Footprints(TrainingTask):
    """Experiment that measures the memory of a training process, and of the GPU, for several rungs."""

    kind: ClassVar[str] = "footprints"
    has_times: ClassVar[bool] = False

    def measure(self, name: str, bench: Bench) -> None:
        data = self.dataset(bench)
        net = bench.net(self.net, data)
        weights: dict[str, ProcessMemory] = {}
        reasons: dict[str, str] = {}
        for at, rung in enumerate(map(find, self.rungs)):
            bench.say(f"measuring the memory of {rung.name}", at, len(self.rungs))
            if reason := rung.unsupported(net, self.config):
                reasons[rung.name] = reason
                bench.watcher.news(f"{rung.name}: not here: {reason}")
                continue
            order = {
                "rung": rung.name,
                "net": net_to_json(net),
                "config": self.config.as_dict(),
                "shape": list(data.train_x.shape),
            }
            try:
                weights[rung.name] = measure_memory(order, _gpu_memory())
            except ResultsError as error:
                reasons[rung.name] = str(error)
                bench.watcher.news(f"{rung.name}: {error}")
                continue
            found = MeasuredMemory({rung.name: weights[rung.name]}, {})
            line = ", ".join(
                f"{what} {each.here / 1e6:.4g} MB"
                for what in MEASURES[:4]
                if (each := found.value(rung.name, what)) and each.here
            )
            bench.watcher.news(f"{rung.name}: {line}")
        content = {"weights": {each: asdict(weight) for each, weight in weights.items()}, "reasons": reasons}
        keep(content, name, bench.folder)

    def check_measure(self, measure: str) -> None:
        if measure not in MEASURES and not measure.startswith("held:"):
            raise no_measure(measure, (*MEASURES, "held:COMPONENT"))

    def found(self, name: str, folder: Path) -> MeasuredMemory | None:
        return read_stored(MeasuredMemory, name, folder)


def _gpu_memory() -> Callable[[], int] | None:
    """Function that returns the free bytes of the GPU's memory; None without a GPU."""
    from ....trainers.kernelwise.where import open_device, why_not

    return None if why_not(None) else open_device(None).free_memory


@dataclass(frozen=True)
class ProcessMemory:
    """Memory of one training process, by stage, in bytes.

    host : resident bytes. gpu : bytes of GPU memory that it takes from the driver; None without a GPU.
    held : bytes that the trainer reports after a step, by component. before : their sum before the samples were loaded.
    """

    host: dict[str, int]
    gpu: dict[str, int] | None
    held: dict[str, int]
    before: int


def measure_memory(order: dict[str, Any], free: Callable[[], int] | None) -> ProcessMemory:
    """Train a step in a new process, and measure its memory at each of `STAGES`.

    order : the rung's name, net, settings, and the shape of the training set. free : function that returns the free
    bytes of GPU memory.

    Raises
    ------
    ResultsError
        The process ended early; the message is the last line of its error.
    """
    package = str(Path(__file__).parents[4])
    # the process measures itself before any import: this is the interpreter alone
    begin = (
        f"import sys; sys.path.insert(0, {package!r}); r = [l for l in open('/proc/self/status') if "
        "l.startswith('VmRSS')]"
    )
    command = [sys.executable, "-c", f"{begin}; from {__name__} import child; child(int(r[0].split()[1]) * 1024)"]
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    host: dict[str, int] = {}
    gpu: dict[str, int] = {}
    message: dict[str, Any] = {}
    before = free() if free else 0
    with subprocess.Popen(command, text=True, **pipes) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
            for line in process.stdout:
                message |= json.loads(line)
                host[message["stage"]] = message["host"]
                gpu[message["stage"]] = before - free() if free else 0
                process.stdin.write("go on\n")
                process.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass  # the process ended early: its error has the reason
        finally:
            _, words = process.communicate()
    if tuple(host) != STAGES:
        raise ResultsError((words.strip().splitlines() or [f"the process ended with {process.returncode}"])[-1][:200])
    return ProcessMemory(host, gpu if free else None, message["held"], message["before"])


def child(interpreter: int) -> None:
    """Train a step as a line of standard input describes, and wait for another line at each stage.

    interpreter : resident bytes of the process before any import.
    """
    from ....data import arrays
    from ....data.order import Order
    from ....nets import CrossEntropyLoss
    from ....timing.profile import resident
    from ....trainers.base import State

    order = json.loads(sys.stdin.readline())
    net, config = net_from_json(order["net"]), TrainConfig.from_dict(order["config"])
    shape = order["shape"]
    x = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    y = np.zeros(len(x), np.int32) if isinstance(net.loss, CrossEntropyLoss) else None
    data = arrays(x, y, x[:1], None if y is None else y[:1])
    own = x.nbytes + (0 if y is None else y.nbytes)

    def stage(name: str, host: int, **more: Any) -> None:
        print(json.dumps({"stage": name, "host": host, **more}), flush=True)
        sys.stdin.readline()

    stage("interpreter", interpreter)
    with find(order["rung"]).build(net, config, State.drawn(net, config)) as trainer:
        stage("built", resident() - own, before=sum(trainer.memory().values()))
        trainer.load(data)
        for epoch in (0, 1):
            trainer.run(Order(config.seed, epoch, len(x), config.shuffle), 0, 1)
        stage("trained", resident(), held=trainer.memory())


#: Measures in bytes: host memory without the trainer's and in total, GPU memory alike, and the trainer's own.
MEASURES = ("host_framework", "host_bytes", "gpu_framework", "gpu_bytes", "host_interpreter", "held")


@dataclass(frozen=True)
class MeasuredMemory(Found):
    """Memory of each rung's process, and reasons for rungs without, by the rung's name."""

    weights: dict[str, ProcessMemory]
    reasons: dict[str, str]

    def value(self, rung: str, measure: str) -> Value | None:
        """Bytes of memory of a rung's process.

        "host_interpreter" before anything is imported; "host_framework" of interpreter and libraries, after a trainer
        is built without samples, less the trainer's own bytes; "host_bytes" after two steps, in total. "gpu_framework"
        is the GPU memory of context, code and libraries: all that the process takes from the driver, "gpu_bytes", less
        the bytes that the trainer reports, "held" and "held:COMPONENT".
        """
        if measure not in MEASURES and not measure.startswith("held:"):
            raise no_measure(measure, (*MEASURES, "held:COMPONENT"))
        found = self.weights.get(canonical(rung))
        if found is None:
            return None
        on_gpu = found.gpu is not None and found.gpu["built"] > 0
        held = sum(found.held.values())
        figures: dict[str, int | None] = {
            "host_interpreter": found.host["interpreter"],
            "host_framework": found.host["built"] - (0 if on_gpu else found.before),
            "host_bytes": found.host["trained"],
            "gpu_framework": found.gpu["trained"] - held if found.gpu is not None and on_gpu else None,
            "gpu_bytes": found.gpu["trained"] if found.gpu is not None and on_gpu else None,
            "held": held,
        }
        figure = found.held.get(measure.removeprefix("held:")) if measure.startswith("held:") else figures[measure]
        return None if figure is None else Value(here=float(figure))

    def reason(self, rung: str) -> str:
        return self.reasons.get(canonical(rung), "")

    def name_of(self, rung: str) -> str:
        return canonical(rung)
