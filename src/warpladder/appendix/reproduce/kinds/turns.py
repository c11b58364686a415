"""Experiments that time programs with different settings in turns: in each round every program trains all epochs once.

A climb times its rungs in turns too, but with one setting for all of them.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar

from ....config import TrainConfig
from ....data.order import Order
from ....errors import ConfigError, WarpladderError
from ....errors.arguments import shown
from ....ladder import find
from ....timing.task import train_in_calls
from ....train import score
from ....trainers.base import State, Trainer
from ..experiments import Bench, Found, TrainingTask, canonical, keep, no_measure, read_stored
from ..results import Value

#: Measures: an epoch's seconds, median and mean over the rounds; median of all epochs' seconds; accuracy after round 1.
MEASURES = ("epoch_seconds", "later_seconds", "total_seconds", "test_accuracy")


@dataclass(frozen=True)
class Turns(TrainingTask):
    """Experiment that times programs in turns.

    programs : settings of each program by name, with "rung". rounds : number of timed rounds.
    """

    kind: ClassVar[str] = "turns"
    rungs: tuple[str, ...] = ()
    programs: dict[str, dict[str, bool | int | float | str]] = field(default_factory=dict)
    rounds: int = 5

    def measure(self, name: str, bench: Bench) -> None:
        data = self.dataset(bench)
        net = bench.net(self.net, data)
        reasons: dict[str, str] = {}
        seconds: dict[str, list[float]] = {}
        accuracy: dict[str, float | None] = {}
        with ExitStack() as stack:
            trainers: dict[str, tuple[Trainer, Any]] = {}
            for called, own in self.programs.items():
                rung, config = find(str(own["rung"])), self._config_of(own)
                bench.say(f"starting {called}", 0, self.rounds)
                try:
                    if reason := rung.unsupported(net, config):
                        raise WarpladderError(reason)
                    trainer = stack.enter_context(rung.build(net, config, State.drawn(net, config)))
                    trainer.load(data)
                except WarpladderError as error:
                    reasons[called] = str(error)
                    bench.watcher.news(f"{called}: not here: {error}")
                    continue
                trainers[called], seconds[called] = (trainer, config), []
            steps = self.config.steps(len(data.train_x))
            for number in range(self.rounds + (self.rounds > 1)):  # the first of several rounds warms up
                bench.say("programs take turns", number, self.rounds + 1)
                for called, (trainer, config) in trainers.items():
                    first = number * config.epochs
                    orders = [
                        Order(config.seed, epoch, len(data.train_x), config.shuffle)
                        for epoch in range(first, first + config.epochs)
                    ]
                    start = perf_counter()
                    train_in_calls(trainer, config, orders, steps)
                    trainer.state()
                    seconds[called].append(perf_counter() - start)
                    if number == 0 and data.test_y is not None:
                        accuracy[called] = score(trainer, data.test_x, data.test_y, data.scale).accuracy
        counted = {called: tuple(all_rounds[self.rounds > 1 :]) for called, all_rounds in seconds.items()}
        taken = TakenTurns(counted, accuracy, reasons, self.config.epochs, len(data.train_x))
        keep(asdict(taken), name, bench.folder)
        for called in seconds:
            value = self._figures(taken).value(called, "epoch_seconds")
            bench.watcher.news(f"{called}: {1e3 * (value.here or 0) if value else 0:.3g} ms an epoch")

    def check_settings(self) -> None:
        super().check_settings()
        for called, own in self.programs.items():
            if "rung" not in own:
                raise ConfigError(f'program {shown(called)} names no rung: rung = "numpy", say')
            find(str(own["rung"]))
            self._config_of(own)

    def _config_of(self, own: Mapping[str, Any]) -> TrainConfig:
        """Settings of a program: those of all, with its own."""
        return self.config.but(**{key: value for key, value in own.items() if key != "rung"})

    def check(self, rung: str, measure: str) -> None:
        if rung not in self.programs:
            raise ConfigError(f"there is no program {shown(rung)} among {', '.join(self.programs)}")
        self.check_measure(measure)

    def check_measure(self, measure: str) -> None:
        if measure not in MEASURES:
            raise no_measure(measure, MEASURES)

    def found(self, name: str, folder: Path) -> TurnsFound | None:
        taken = read_stored(TakenTurns, name, folder)
        return None if taken is None else self._figures(taken)

    def _figures(self, taken: TakenTurns) -> TurnsFound:
        return TurnsFound(taken, self.full, {called: str(own["rung"]) for called, own in self.programs.items()})

    def summary(self) -> str:
        return f"{self.kind}: {self.net} on {self.data}, {', '.join(self.programs)}"


@dataclass(frozen=True)
class TakenTurns:
    """Seconds of all epochs in each round, and test accuracy after the first round, by program; reasons for programs
    without times; epochs of a round, and number of training samples.
    """

    seconds: dict[str, tuple[float, ...]]
    accuracy: dict[str, float | None]
    reasons: dict[str, str]
    epochs: int
    samples: int


@dataclass(frozen=True)
class TurnsFound(Found):
    """Figures of programs that were timed in turns. full : see `TrainingTask.full`. rungs : rung of each program."""

    taken: TakenTurns
    full: dict[str, int]
    rungs: dict[str, str]

    def value(self, rung: str, measure: str) -> Value | None:
        if measure not in MEASURES:
            raise no_measure(measure, MEASURES)
        taken, seconds = self.taken, self.taken.seconds.get(rung, ())
        if measure == "test_accuracy":
            accuracy = taken.accuracy.get(rung)
            return None if accuracy is None else Value(here=accuracy)
        if not seconds:
            return None
        epochs = self.full.get("epochs", taken.epochs) if measure == "total_seconds" else 1
        factor = epochs / taken.epochs * self.full.get("samples", taken.samples) / taken.samples
        middle = statistics.mean if measure == "later_seconds" else statistics.median
        return Value(
            here=factor * middle(seconds), least=factor * min(seconds), most=factor * max(seconds),
            scaled=bool(self.full),
        )  # fmt: skip

    def reason(self, rung: str) -> str:
        return self.taken.reasons.get(rung, "")

    def name_of(self, rung: str) -> str:
        return canonical(self.rungs.get(rung, ""))
