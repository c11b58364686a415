"""The climb: rungs are proven, then timed beside each other, then made to repeat what was timed.

How a time is believed: docs/benchmarking.md.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from datetime import UTC, datetime
from time import sleep

from .. import gpu, machine
from ..config import TrainConfig
from ..data.dataset import Dataset
from ..errors import ConfigError, RungError
from ..nets import Net
from ..results import SCHEMA, DataFacts, Gpu, Machine, NetFacts, Results
from ..rungs.base import Rung
from ..trainers.base import check_fit, check_settings
from .contender import Contender
from .task import Task

SETTLE = 0.2  # seconds between two rungs: a library's idle threads may spin for a while, and would take the next rung's cores

#: Called with what is being done, how many parts of the climb are done, and how many there are.
Progress = Callable[[str, int, int], None]


def climb(
    net: Net,
    data: Dataset,
    config: TrainConfig,
    rungs: Sequence[Rung],
    *,
    epochs: int,
    repeats: int = 5,
    budget: float = 20.0,
    progress: Progress | None = None,
) -> Results:
    """Prove that rungs train a net, and measure how fast each does.

    Parameters
    ----------
    net, data, config
        What is trained, on what, and how. `config.epochs` is not looked at.
    rungs : sequence of Rung
        In the order of the ladder; peers may stand among them.
    epochs : int
        Epochs of training before the test accuracy is taken.
    repeats : int
        Timed repetitions. Rungs take turns, so that whatever disturbs the machine disturbs all of them.
    budget : float
        Seconds that one repetition of one rung may take. Where an epoch would take longer, its first
        steps are timed and the figures marked as scaled; where `epochs` of them would take more than
        30 budgets, the rung has no test accuracy.
    progress : callable or None

    Returns
    -------
    Results
        Every rung is listed: timed, or with the reason why not. What goes wrong within a rung never raises.

    Raises
    ------
    ConfigError, RungError, DataError
        Where the whole climb makes no sense.
    """
    for name, value, least in (("epochs", epochs, 0), ("repeats", repeats, 1)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ConfigError(f"{name} wants a whole number of at least {least}, got {value!r}")
    if not (math.isfinite(budget) and budget > 0):
        raise ConfigError(f"budget wants seconds above 0, got {budget!r}")
    names = [rung.name for rung in rungs]
    if not names:
        raise RungError("a climb wants at least one rung")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise RungError(f"a climb wants each rung only once, got {', '.join(twice)} twice or more")
    check_fit(net, data)
    check_settings(net, config, len(data.train_x))
    task = Task(net, data, config, epochs, repeats, budget)
    if task.steps == 0:
        raise ConfigError(f"there is no full batch of {config.batch_size} among {task.n} samples, and drop_last leaves out the rest")

    facts = Machine(**machine.facts(config.threads))
    peak = facts.fma_peak
    contenders = [Contender(rung, task) for rung in rungs]
    told = _Told(progress, len(contenders), repeats)
    with ExitStack() as stack:
        for each in contenders:
            stack.callback(each.close)
        for doing, what in (("proving", Contender.check), ("weighing", Contender.weigh), ("warming up", Contender.prepare)):
            for each in told.alive(doing, contenders):
                what(each)
        for number in range(repeats):
            for each in told.alive(f"timing, round {number + 1} of {repeats}:", contenders):
                sleep(SETTLE)
                each.repeat(number)
            peak = max(peak, machine.fma_peak(facts.threads))
        gpu_facts = Gpu(**gpu.facts()) if any(each.peak for each in contenders) else None
        for each in told.alive("doubting", contenders):
            each.believe(peak)
        for each in told.alive("repeating", contenders):
            each.replay()
    told.say("done")
    options = ("--epochs", str(epochs), "--repeats", str(repeats))
    return Results(
        schema=SCHEMA,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=shlex.join(("warpladder", "climb", net.name, "--data", data.name, "--rungs", ",".join(names), *options)),
        machine=replace(facts, fma_peak=peak, gpu=gpu_facts),
        net=NetFacts(net.name, net.in_shape, tuple(map(repr, net.layers)), type(net.loss).__name__, net.param_count, net.train_flops),
        data=DataFacts(data.name, task.n, len(data.test_x), data.in_shape, str(data.train_x.dtype), data.classes),
        config=asdict(config.but(epochs=epochs)),
        epochs=epochs,
        repeats=repeats,
        rungs=tuple(each.result() for each in contenders),
    )


class _Told:
    """Counts the parts of a climb for whoever shows its progress."""

    def __init__(self, progress: Progress | None, rungs: int, repeats: int) -> None:
        self.progress, self.done, self.phases = progress, 0, 5 + repeats
        self.total = rungs * self.phases

    def alive(self, doing: str, contenders: list[Contender]) -> Iterator[Contender]:
        """Those that are still in the climb when their turn comes."""
        for contender in contenders:
            if contender.alive:
                self.say(f"{doing} {contender.rung.name}")
                yield contender
            self.done += 1

    def say(self, what: str) -> None:
        if self.progress is not None:
            self.progress(what, self.done, self.total)
