"""Experiments that train to the last epoch, once for each seed: for accuracies, their spread, and curves."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from glob import escape
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar

from ....config import TrainConfig
from ....data.dataset import Dataset
from ....errors import WarpladderError
from ....ladder import find, is_peer
from ....machine.cores import limited
from ....nets import Net
from ....results import DataFacts, History, NetFacts
from ....rungs.base import Rung
from ....train import EpochLog, Run, score, train
from ....train.restore import restore
from ..experiments import Bench, Found, TrainingTask, canonical, file_of, no_measure
from ..results import Value
from .climbed import points_of, scaled
from .trained import Trained, Trainings


@dataclass(frozen=True)
class Train(TrainingTask):
    """Experiment that trains once for each rung and seed.

    seeds : seeds of the initial weights and the order of samples.
    first : True if only the first rung that can train here trains.
    keep : True if the weights are stored for other experiments; an interrupted training continues from them.
    keep_every_epoch : True if the weights of every epoch are stored too.
    times_tests : True if a pass over the test samples is timed after the training.
    initial : rule of the initial weights, as in `TrainConfig`; empty takes the data set's.
    cores : number of cores that the training and its loaders share; 0 for all of the machine.
    """

    kind: ClassVar[str] = "trainings"
    seeds: tuple[int, ...] = (0,)
    first: bool = False
    keep: bool = False
    keep_every_epoch: bool = False
    times_tests: bool = False
    initial: str = ""
    cores: int = 0

    def __post_init__(self) -> None:
        TrainConfig(initial=self.initial or None)

    def measure(self, name: str, bench: Bench) -> None:
        with limited(self.cores) if self.cores else nullcontext():
            self._train(name, bench)

    def _train(self, name: str, bench: Bench) -> None:
        data = self.dataset(bench)
        net = bench.net(self.net, data)
        path = file_of(name, bench.folder)
        found = Trainings.load(path) if path.exists() else self._none(net, data)
        have = {(run.rung, run.seed) for run in found.runs}
        rungs = [canonical(rung) for rung in self.rungs]
        if self.first:
            rungs = [next((rung for rung in rungs if not find(rung).unsupported(net, self.config)), rungs[0])]
        wanted = [(rung, seed) for seed in self.seeds for rung in rungs if (rung, seed) not in have]
        for at, (name_of, seed) in enumerate(wanted):
            rung = find(name_of)
            config = self.config.but(seed=seed, initial=self.initial or None)
            if reason := rung.unsupported(net, config):
                if name_of not in found.reasons:
                    found = replace(found, reasons={**found.reasons, name_of: reason})
                    bench.watcher.news(f"{name_of}: not here: {reason}")
                continue
            watch = _Watch(bench, f"training with {name_of}, seed {seed}", config.epochs, at, len(wanted))
            place = checkpoint_of(bench.folder, name, name_of, seed) if self.keep or self.keep_every_epoch else None
            try:
                run = train(net, data, config, rung=rung, progress=False, each_epoch=watch, **self._kept(place))
                tested = test_seconds(run, rung, data) if self.times_tests else None
            except Exception as error:  # a divergence is a result too, and a peer may fail with any error
                if not isinstance(error, WarpladderError) and (isinstance(error, OSError) or not is_peer(rung)):
                    raise
                kind = "" if isinstance(error, WarpladderError) else f"{type(error).__name__}: "
                why = f"seed {seed}: {kind}{' '.join(str(error).split())}"
                found = replace(found, reasons={**found.reasons, name_of: why})
                bench.watcher.news(f"{name_of}, {why}")
                continue
            found = replace(found, runs=(*found.runs, replace(trained(run, seed, rung.precision), test_seconds=tested)))
            found.save(path)
            bench.watcher.news(_line(found.runs[-1]))
            bench.written()
        kept = {rung: each for rung in rungs if (each := self._files(found, rung, name, bench.folder))}
        replace(found, whole=True, kept=kept).save(path)

    def _files(self, found: Trainings, rung: str, name: str, folder: Path) -> tuple[int, ...]:
        """Number and bytes of the stored weight files of a rung's first seed, with those of single epochs."""
        runs = found.find(rung)
        last = checkpoint_of(folder, name, rung, runs[0].seed) if runs else None
        if last is None or not last.exists():
            return ()
        files = [last, *last.parent.glob(f"{escape(last.stem)}-epoch-*.safetensors")]
        return len(files), sum(each.stat().st_size for each in files)

    def _kept(self, place: Path | None) -> dict[str, Any]:
        """Arguments of `train` that store the weights, and continue an interrupted run from them."""
        if place is None:
            return {}
        return {
            "checkpoint": place,
            "checkpoint_seconds": None if self.keep_every_epoch else BETWEEN,
            "keep_epochs": self.keep_every_epoch,
            "overwrite": True,
            "resume": place if place.exists() else None,
        }

    def files(self, name: str, folder: Path) -> dict[Path, bytes]:
        return super().files(name, folder) | {path: path.read_bytes() for path in folder.glob(f"{name}.*safetensors")}

    def check_measure(self, measure: str) -> None:
        known = (
            *_MEASURES,
            *KEPT,
            *(f"curve:{curve}" for curve in ("loss", "accuracy", "seconds", "valid_loss", "valid_accuracy")),
        )
        if measure not in known:
            raise no_measure(measure, known)

    def _none(self, net: Net, data: Any) -> Trainings:
        facts = NetFacts(
            net.name,
            net.in_shape,
            tuple(map(repr, net.layers)),
            type(net.loss).__name__,
            net.param_count,
            net.train_flops,
        )
        about = DataFacts(
            data.name, len(data.train_x), len(data.test_x), data.in_shape, str(data.train_x.dtype), data.classes
        )
        created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        return Trainings(
            Trainings.SCHEMA, created, facts, about, self.config.as_dict(), self.config.epochs, (), False, {}
        )

    def found(self, name: str, folder: Path) -> TrainedRuns | None:
        path = file_of(name, folder)
        return TrainedRuns(Trainings.load(path), self.full) if path.exists() else None


@dataclass
class _Watch:
    """Report of each epoch to the progress functions: the number of finished epochs and the estimated seconds left."""

    bench: Bench
    doing: str
    epochs: int
    at: int
    wanted: int
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self._say("", 0.0)

    def __call__(self, log: EpochLog) -> None:
        self.seconds += log.seconds
        self._say(f", epoch {log.epoch} of {self.epochs}", self.seconds / log.epoch * (self.epochs - log.epoch))

    def _say(self, more: str, left: float) -> None:
        self.bench.say(self.doing + more, self.at, self.wanted, left)


def test_seconds(run: Run, rung: Rung, data: Dataset) -> float:
    """Seconds of one pass over the test samples by a trainer of this rung: the second of two passes is timed."""
    with restore(run.checkpoint, rung) as trainer:
        for _ in range(2):
            start = perf_counter()
            score(trainer, data.test_x, data.test_y, data.scale)
            seconds = perf_counter() - start
    return seconds


#: Seconds between two checkpoints of a training whose weights are stored.
BETWEEN = 30.0


def checkpoint_of(folder: Path, name: str, rung: str, seed: int) -> Path:
    """Path of the weights that a training stores for a rung and seed."""
    return file_of(name, folder, f"{rung}.{seed}").with_suffix(".safetensors")


def trained(run: Run, seed: int, precision: str) -> Trained:
    """Run of `train` in the form that results store."""
    logs = run.history
    scored = any(log.valid_loss is not None for log in logs)
    rated = any(log.train_accuracy is not None for log in logs)
    history = History(
        tuple(log.train_loss for log in logs),
        tuple(log.train_accuracy for log in logs) if rated else None,
        tuple(log.seconds for log in logs),
    )
    return Trained(
        run.rung,
        seed,
        precision,
        history,
        tuple(log.valid_loss for log in logs) if scored else None,
        tuple(log.valid_accuracy for log in logs) if scored and rated else None,
        run.test_loss,
        run.test_accuracy,
    )


def _line(run: Trained) -> str:
    score = (
        f"test accuracy {run.test_accuracy:.2%}"
        if run.test_accuracy is not None
        else f"test loss {run.test_loss:.4g}"
        if run.test_loss is not None
        else ""
    )
    return f"{run.rung}, seed {run.seed}: trained in {run.seconds:.3g} s, {score}"


@dataclass(frozen=True)
class TrainedRuns(Found):
    """Figures of training runs; rungs that cannot train here have none.

    full : epochs and samples to which times are scaled up, as in `TrainingTask.full`.
    """

    trainings: Trainings
    full: dict[str, int]

    @property
    def whole(self) -> bool:  # type: ignore[override]
        """True if every possible run was made."""
        return self.trainings.whole

    def value(self, rung: str, measure: str) -> Value | None:
        """Figure of a rung: mean, minimum and maximum over the seeds."""
        if measure not in _MEASURES and measure not in KEPT:
            raise no_measure(measure, (*_MEASURES, *KEPT))
        if measure in KEPT:
            return self._of_files(canonical(rung), measure)
        found = [
            value for run in self.trainings.find(canonical(rung)) if (value := _MEASURES[measure](run)) is not None
        ]
        if not found:
            return None
        value = Value(here=sum(found) / len(found), least=min(found), most=max(found))
        factor = self._factor(measure) / (self._steps() if measure == "step_seconds" else 1)
        return value if factor == 1 else scaled(value, factor)

    def _steps(self) -> int:
        """Number of steps of an epoch."""
        batch = self.trainings.config.get("batch_size")
        return -(-self.trainings.data.train // batch) if isinstance(batch, int) else 1

    def _factor(self, measure: str) -> float:
        """Factor from a shortened experiment to the whole one for times; 1 for other measures."""
        if not self.full or measure not in ("epoch_seconds", "train_seconds", "seconds"):
            return 1.0
        rows = self.full.get("samples", self.trainings.data.train) / self.trainings.data.train
        return rows * (self.full["epochs"] / max(1, self.trainings.epochs) if measure == "train_seconds" else 1.0)

    def _of_files(self, rung: str, measure: str) -> Value | None:
        """Number of stored weight files of a rung's first seed, with those of single epochs, or their bytes."""
        kept = self.trainings.kept.get(rung)
        return None if kept is None else Value(here=float(kept[measure == "kept_bytes"]))

    def curve(self, rung: str, measure: str) -> tuple[list[float], list[float]] | None:
        """Points of a curve over the epochs of the first seed: "loss", "accuracy", "seconds", "valid_loss",
        "valid_accuracy".
        """
        runs = self.trainings.find(canonical(rung))
        if not runs:
            return None
        if measure.startswith("valid_"):
            there = [
                (float(at), value) for at, value in enumerate(getattr(runs[0], measure) or (), 1) if value is not None
            ]
            return ([x for x, _ in there], [y for _, y in there]) if there else None
        points = points_of(runs[0].history, measure, self.trainings.epochs)
        return points and (points[0], [y * self._factor(measure) for y in points[1]])

    def reason(self, rung: str) -> str:
        return self.trainings.reasons.get(canonical(rung), "")

    def name_of(self, rung: str) -> str:
        return canonical(rung)


def _last(name: str, at: int = -1) -> Any:
    def value(run: Trained) -> float | None:
        points = points_of(run.history, name, len(run.history.seconds))
        return points[1][at] if points else None

    return value


#: Measures of a training's stored weight files.
KEPT = ("kept_files", "kept_bytes")

_MEASURES: dict[str, Any] = {
    "test_accuracy": lambda run: run.test_accuracy,
    "test_loss": lambda run: run.test_loss,
    "test_seconds": lambda run: run.test_seconds,
    "train_seconds": lambda run: run.seconds,
    "epoch_seconds": lambda run: run.seconds / len(run.history.seconds) if run.history.seconds else None,
    "first_loss": _last("loss", 0),
    "last_loss": _last("loss"),
    "step_seconds": lambda run: run.seconds / len(run.history.seconds) if run.history.seconds else None,
    "last_accuracy": _last("accuracy"),
    "last_valid_accuracy": lambda run: run.valid_accuracy and run.valid_accuracy[-1],
}
