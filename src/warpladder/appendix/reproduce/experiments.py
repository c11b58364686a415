"""Experiments of a report: what to measure, how, and the figures found."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

from ...config import TrainConfig
from ...data import load as load_data
from ...data.dataset import Dataset
from ...errors import ConfigError, DataError, RungError
from ...files.atomic import write_atomically
from ...ladder import find
from ...nets import Net, Shape, named
from ...nets.file import net_of
from ...results import Machine, RungResult
from ...results.reader import read
from ...results.stored import reading
from ...timing.repeat_command import WHOLE
from ...train.resolve import resolve_config
from .results import Classified, Photo, Reproduction, Value

Kept = TypeVar("Kept")


#: Why a row has no figures, where its experiment knows no better.
NOT_HERE, NOT_YET, NOT_QUICK = "not measured here", "not measured yet", "not measured in a first look"


def file_of(name: str, folder: Path, rung: str = "") -> Path:
    """File with the measurements of an experiment of this name: all of them, or those of a rung."""
    part = f".{rung.replace(':', '-').replace('/', '-')}" if rung else ""
    return folder / f"{name}{part}.json"


def keep(tree: object, name: str, folder: Path) -> None:
    """Write what an experiment measured, as JSON: an old file stays whole until the new one is on the disk."""
    write_atomically(file_of(name, folder), json.dumps(tree, indent=1) + "\n")


def read_stored(kind: type[Kept], name: str, folder: Path) -> Kept | None:
    """Experiment's result from the file that `keep` wrote, as a dataclass of this kind; None if there is no file.
    Raises `ResultsError` with the file and its fault if the file is damaged.
    """
    path = file_of(name, folder)
    if not path.exists():
        return None
    with reading(path) as tree:
        return cast(Kept, read(kind, tree, ""))


@dataclass
class Watcher:
    """Functions that report progress while a report is reproduced. Those by default report nothing.

    begin : called with the name of an experiment, its number from 1, and how many there are.
    progress : called with what is being done, how many parts of the experiment are done, how many there are, and about
    how many seconds are left.
    news : called with a rung that was timed or lost its chance of it, or with a line of text.
    written : called with all that is known, when there is something new on the disk.
    """

    begin: Callable[[str, int, int], None] = lambda name, at, of: None
    progress: Callable[[str, int, int, float], None] | None = None
    news: Callable[[RungResult | str], None] = lambda news: None
    written: Callable[[Reproduction], None] = lambda found: None


@dataclass
class Bench:
    """Where experiments are made: their folder, where data sets are, and who watches.

    nets : the report's own nets, by name, as tables of a net's file.
    written : called when there is something new on the disk. loading : called with a data set that was loaded whole.
    """

    folder: Path
    data_dir: Path | None
    nets: dict[str, dict[str, Any]]
    watcher: Watcher
    written: Callable[[], None] = lambda: None
    loading: Callable[[str, Dataset], None] = lambda name, data: None
    loaded: dict[tuple[Any, ...], Dataset] = field(default_factory=dict)
    lacking: dict[str, DataError] = field(default_factory=dict)

    def say(self, doing: str, done: int = 0, of: int = 1, left: float = 0.0) -> None:
        """Tell the watcher what is being done, how many parts are done, how many there are, and about how many seconds
        are left.
        """
        if self.watcher.progress:
            self.watcher.progress(doing, done, of, left)

    def data(self, name: str, limit: int | None = None, validation: int = 0, standardize: bool = False) -> Dataset:
        """A data set, which stays loaded. One that cannot be had is not looked for a second time."""
        key = name, limit, validation, standardize
        if name in self.lacking:
            raise self.lacking[name]
        if key not in self.loaded:
            here = self.data_dir
            if here is not None and (here / name).is_dir():
                here = here / name
            place = None if name == "digits" else here
            try:
                self.loaded[key] = load_data(
                    name, limit=limit, validation=validation, standardize=standardize, data_dir=place
                )
            except DataError as error:
                self.lacking[name] = error
                raise
            if (limit, validation, standardize) == (None, 0, False):
                self.loading(name, self.loaded[key])
            elif (name, None, 0, False) not in self.loaded and name != "csv":
                self.data(name)  # whole, for its checksum
        return self.loaded[key]

    def net(self, name: str, data: Dataset) -> Net:
        """A net of the report's own, or of the zoo."""
        return self.net_for(name, data.in_shape, data.classes or 10)

    def net_for(self, name: str, in_shape: Shape, classes: int) -> Net:
        """A net of the report's own, or of the zoo, for samples of this shape."""
        return net_of(self.nets[name], name, in_shape) if name in self.nets else named(name, in_shape, classes)


@dataclass(frozen=True)
class Experiment(ABC):
    """One experiment of a report. Its fields are the keys of its table in the report's file.

    Kinds of experiments are derived classes; `kind` is the name of the table that holds those of a kind, as in
    `[climbs.mnist]`.
    """

    kind: ClassVar[str]
    has_times: ClassVar[bool] = True

    @abstractmethod
    def measure(self, name: str, bench: Bench) -> None:
        """Measure the missing figures, and write them to `bench.folder` as it comes, under this name."""

    def again(self, name: str, bench: Bench, others: Callable[[], float]) -> None:
        """Measure a disturbed experiment once more, and keep the measurement that was disturbed less.

        others : processors that other processes kept busy during the last measurement.
        """
        before, first = self.files(name, bench.folder), others()
        try:
            for path in before:
                path.unlink()
            self.measure(name, bench)
        except BaseException:
            _restore(before)
            raise
        if not others() < first:
            _restore(before)

    def files(self, name: str, folder: Path) -> dict[Path, bytes]:
        """Content of the files that it has written."""
        return {path: path.read_bytes() for path in folder.glob(f"{name}.*json")}

    @abstractmethod
    def found(self, name: str, folder: Path) -> Found | None:
        """Figures that are stored on the disk; None if there are none."""

    def summary(self) -> str:
        """Line that describes the measurement."""
        return self.kind

    @abstractmethod
    def check(self, rung: str, measure: str) -> None:
        """Raise `ConfigError` if it does not measure this rung or figure; "curve:loss" is a curve."""


def _restore(files: dict[Path, bytes]) -> None:
    for path, content in files.items():
        path.write_bytes(content)


class Found(ABC):
    """Figures of an experiment. whole : True if all of it was measured, as by experiments that measure everything at
    once.
    """

    whole: bool = True

    @abstractmethod
    def value(self, rung: str, measure: str) -> Value | None:
        """A figure of a rung, by the name of what is measured, in base units; None where it was not measured.

        Raises
        ------
        ConfigError
            There is no measure of this name.
        """

    def is_time(self, measure: str) -> bool:
        """True if a measure is a time or follows from times, which other processes disturb."""
        return "seconds" in measure

    def curve(self, rung: str, measure: str) -> tuple[list[float], list[float]] | None:
        """Points (x, y) of a rung, by the name of what is measured; None where there are none."""
        raise ConfigError(f"there is no curve {measure!r} of such an experiment")

    def marks(self, rung: str, measure: str) -> tuple[str, ...]:
        """Text next to each point of a curve; none where the axes are enough."""
        return ()

    def photo(self, which: str) -> Photo | None:
        """A picture, by what the experiment calls it; None where there is none."""
        raise ConfigError(f"there is no picture {which!r} of such an experiment")

    def classified(self, which: str) -> Classified | None:
        """Scores of each class, by what the experiment calls them; None where there are none."""
        raise ConfigError(f"there are no scores {which!r} of such an experiment")

    def reason(self, rung: str) -> str:
        """Reason why a rung was not measured, or a remark on its figures."""
        return ""

    def without(self, rung: str, measure: str) -> str:
        """Reason why this figure of a rung is missing; empty if there is none."""
        return self.reason(rung)

    def name_of(self, rung: str) -> str:
        """The full name of a rung, as tables show it."""
        return rung


@dataclass(frozen=True)
class Lacking(Found):
    """An experiment without figures. why : the reason, for the rows that it would have measured."""

    why: str
    whole: bool = False

    def value(self, rung: str, measure: str) -> Value | None:
        """No figure."""
        return None

    def curve(self, rung: str, measure: str) -> tuple[list[float], list[float]] | None:
        """No curve."""
        return None

    def photo(self, which: str) -> Photo | None:
        """No picture."""
        return None

    def classified(self, which: str) -> Classified | None:
        """No scores."""
        return None

    def reason(self, rung: str) -> str:
        return self.why


#: Name under which figures of the machine itself stand, as if it were an experiment.
MACHINE = "machine"


@dataclass(frozen=True)
class OfMachine(Found):
    """Figures of the machine, by the names of fields of `Machine` and, after "gpu_", of `Gpu`."""

    machine: Machine

    def value(self, rung: str, measure: str) -> Value | None:
        owner: Any = self.machine.gpu if measure.startswith("gpu_") else self.machine
        found = getattr(owner, measure.removeprefix("gpu_"), None)
        return Value(here=float(found)) if isinstance(found, (int, float)) else None

    def reason(self, rung: str) -> str:
        return "no GPU is here" if self.machine.gpu is None else ""


def no_measure(measure: str, known: Any) -> ConfigError:
    """Error of a report's file with an unknown measure."""
    return ConfigError(f"there is no measure {measure!r}; there are {', '.join(known)}")


@dataclass(frozen=True)
class TrainingTask(Experiment):
    """An experiment that trains: the net, the data, the rungs and the settings of it.

    net : of the zoo, or of the report's own nets. data : name of a data set.
    rungs : names of rungs and peers, with options.
    settings : of `TrainConfig`, in place of those of the net's recipe; batch_size may be "full", optimizer and schedule
    are texts as for the command line.
    limit, validation, scale : as for `data.load`. tests : test samples, the first so many; all where it is left out.
    full : epochs and samples of the whole experiment, where this is a first look at it; its times are scaled up to
    them.
    """

    net: str
    data: str
    rungs: tuple[str, ...]
    settings: dict[str, bool | int | float | str] = field(default_factory=dict)
    limit: int | None = None
    validation: int = 0
    scale: bool = False
    tests: int | None = None
    full: dict[str, int] = field(default_factory=dict)

    def dataset(self, bench: Bench) -> Dataset:
        """The data set, its subset chosen by seed 0."""
        return with_tests(bench.data(self.data, self.limit, self.validation, self.scale), self.tests)

    @cached_property
    def config(self) -> TrainConfig:
        """The settings."""
        return resolve_config(self.net, settings=self.settings)

    def check(self, rung: str, measure: str) -> None:
        name = rung.partition("@")[0]
        if canonical(name) not in map(canonical, self.rungs):
            raise ConfigError(f"there is no rung {name!r} among {', '.join(self.rungs)}")
        self.check_measure(measure)

    @abstractmethod
    def check_measure(self, measure: str) -> None:
        """Raise `ConfigError` where it has no such figure or curve."""

    @property
    def size(self) -> dict[str, int]:
        """Epochs, and samples of an epoch, where the data set is one whose size is known."""
        rows = WHOLE.get(self.data)
        samples = self.limit or (rows and rows - self.validation)
        return {"epochs": self.config.epochs} | ({"samples": samples} if samples else {})

    def summary(self) -> str:
        part = f", {self.limit:,} samples" if self.limit else ""
        return f"{self.kind}: {self.net} on {self.data}{part}, {', '.join(self.rungs)}"


def with_tests(data: Dataset, tests: int | None) -> Dataset:
    """A data set with the first so many of its test samples; with all of them for None."""
    if tests is None:
        return data
    return data.but(test_x=data.test_x[:tests], test_y=None if data.test_y is None else data.test_y[:tests])


def canonical(name: str) -> str:
    """A rung's name as results have it, its options in order; the name itself where there is no such rung."""
    try:
        return find(name).name
    except RungError:
        return name
