"""Experiments of a report: the measurement, its settings, and the figures found."""

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
from ...results import RungResult
from ...results.reader import read
from ...results.stored import reading
from ...timing.repeat_command import WHOLE
from ...train.resolve import resolve_config
from .results import Classified, Photo, Reproduction, Value

Kept = TypeVar("Kept")


#: Reason why a row has no figures, if its experiment gives none.
NOT_HERE, NOT_YET, NOT_QUICK = "not measured here", "not measured yet", "not measured in a first look"


def file_of(name: str, folder: Path, rung: str = "") -> Path:
    """Path of the file with the measurements of an experiment, or of one rung of it."""
    part = f".{rung.replace(':', '-').replace('/', '-')}" if rung else ""
    return folder / f"{name}{part}.json"


def keep(tree: object, name: str, folder: Path) -> None:
    """Write the measurements of an experiment as JSON, atomically: an old file is replaced only by a complete new
    one.
    """
    write_atomically(file_of(name, folder), json.dumps(tree, indent=1) + "\n")


def read_stored(kind: type[Kept], name: str, folder: Path) -> Kept | None:
    """Result of an experiment from the file that `keep` wrote, as a dataclass of `kind`; None without a file.

    Raises ResultsError: the file is damaged; the message has the file and the fault.
    """
    path = file_of(name, folder)
    if not path.exists():
        return None
    with reading(path) as tree:
        return cast(Kept, read(kind, tree, ""))


@dataclass
class Watcher:
    """Functions that report the progress of a reproduction. The default functions report nothing.

    begin : called with the name of an experiment, its number from 1, and the number of all experiments.
    progress : called with the present activity, the number of finished parts of the experiment, of all parts, and the
    estimated seconds left.
    news : called with a rung that was timed or has failed, or with a line of text.
    written : called with the results so far after new ones are written to the disk.
    """

    begin: Callable[[str, int, int], None] = lambda name, at, of: None
    progress: Callable[[str, int, int, float], None] | None = None
    news: Callable[[RungResult | str], None] = lambda news: None
    written: Callable[[Reproduction], None] = lambda found: None


@dataclass
class Bench:
    """Folder, data directory, nets and progress functions for the experiments of a reproduction.

    nets : the report's own nets by name, as tables of a net's file.
    written : called after new results are written to the disk. loading : called with each data set that was loaded
    whole.
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
        """Report the present activity, the number of finished parts, of all parts, and the estimated seconds left."""
        if self.watcher.progress:
            self.watcher.progress(doing, done, of, left)

    def data(self, name: str, limit: int | None = None, validation: int = 0, standardize: bool = False) -> Dataset:
        """Data set of this name, which stays in memory. A data set that failed to load is not tried again."""
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
                self.data(name)  # loaded whole, for its checksum
        return self.loaded[key]

    def net(self, name: str, data: Dataset) -> Net:
        """Net of this name, from the report's file or the package's zoo, for the data set's samples and classes."""
        return self.net_for(name, data.in_shape, data.classes or 10)

    def net_for(self, name: str, in_shape: Shape, classes: int) -> Net:
        """Net of this name, from the report's file or the package's zoo, for samples of a shape."""
        return net_of(self.nets[name], name, in_shape) if name in self.nets else named(name, in_shape, classes)


@dataclass(frozen=True)
class Experiment(ABC):
    """Experiment of a report. Its fields are the keys of its table in the report's file.

    Kinds of experiments are derived classes; `kind` is the name of the table with the experiments of a kind, as in
    `[climbs.mnist]`.
    """

    kind: ClassVar[str]
    has_times: ClassVar[bool] = True

    @abstractmethod
    def measure(self, name: str, bench: Bench) -> None:
        """Measure the missing figures, and write each to `bench.folder` under this name."""

    def again(self, name: str, bench: Bench, others: Callable[[], float]) -> None:
        """Repeat a disturbed experiment, and store the measurement that was disturbed less.

        others : function that returns the number of processors that other processes used during the last measurement.
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
        """Content of the experiment's stored files, by path."""
        return {path: path.read_bytes() for path in folder.glob(f"{name}.*json")}

    @abstractmethod
    def found(self, name: str, folder: Path) -> Found | None:
        """Stored figures of the experiment; None if there is no file."""

    def summary(self) -> str:
        """Line of text that describes the experiment."""
        return self.kind

    @abstractmethod
    def check(self, rung: str, measure: str) -> None:
        """Raise `ConfigError` if the experiment does not measure this rung or figure; "curve:loss" is a curve."""


def _restore(files: dict[Path, bytes]) -> None:
    for path, content in files.items():
        path.write_bytes(content)


class Found(ABC):
    """Figures of an experiment. whole : True if all of them are measured."""

    whole: bool = True

    @abstractmethod
    def value(self, rung: str, measure: str) -> Value | None:
        """Figure of a rung in base units, by the name of its measure; None if it was not measured.

        Raises
        ------
        ConfigError
            The measure is unknown.
        """

    def is_time(self, measure: str) -> bool:
        """True if a measure is a time, or computed from times, so that other processes disturb it."""
        return "seconds" in measure

    def curve(self, rung: str, measure: str) -> tuple[list[float], list[float]] | None:
        """Points (x, y) of a rung's curve, by the name of its measure; None if it was not measured."""
        raise ConfigError(f"there is no curve {measure!r} of such an experiment")

    def marks(self, rung: str, measure: str) -> tuple[str, ...]:
        """Texts next to the points of a curve; empty if the axes suffice."""
        return ()

    def photo(self, which: str) -> Photo | None:
        """Picture by its name in the experiment; None if it was not made."""
        raise ConfigError(f"there is no picture {which!r} of such an experiment")

    def classified(self, which: str) -> Classified | None:
        """Scores of each class by their name in the experiment; None if they were not measured."""
        raise ConfigError(f"there are no scores {which!r} of such an experiment")

    def reason(self, rung: str) -> str:
        """Reason why a rung was not measured, or a remark on its figures."""
        return ""

    def without(self, rung: str, measure: str) -> str:
        """Reason why this figure of a rung is missing; empty if no reason is known."""
        return self.reason(rung)

    def name_of(self, rung: str) -> str:
        """Full name of a rung, as tables show it."""
        return rung


@dataclass(frozen=True)
class Lacking(Found):
    """Experiment without figures. why : the reason, for the rows of its figures."""

    why: str
    whole: bool = False

    def value(self, rung: str, measure: str) -> Value | None:
        """None: the experiment has no figures."""
        return None

    def curve(self, rung: str, measure: str) -> tuple[list[float], list[float]] | None:
        """None: the experiment has no curves."""
        return None

    def photo(self, which: str) -> Photo | None:
        """None: the experiment has no pictures."""
        return None

    def classified(self, which: str) -> Classified | None:
        """None: the experiment has no scores."""
        return None

    def reason(self, rung: str) -> str:
        return self.why


def no_measure(measure: str, known: Any) -> ConfigError:
    """Error for an unknown measure in a report's file."""
    return ConfigError(f"there is no measure {measure!r}; there are {', '.join(known)}")


@dataclass(frozen=True)
class TrainingTask(Experiment):
    """Experiment that trains: its net, data, rungs and settings.

    net : net of the package's zoo, or of the report's file. data : name of a data set.
    rungs : names of rungs and peers, with options.
    settings : settings of `TrainConfig` that replace the net's recipe; batch_size may be "full", optimizer and schedule
    are texts as on the command line.
    limit, validation, scale : parameters of `data.load`. tests : number of first test samples; None takes all.
    full : epochs and samples of the whole experiment, if this is a shortened one; its times are scaled up to them.
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
        """Data set of the experiment; a subset is drawn with seed 0."""
        return with_tests(bench.data(self.data, self.limit, self.validation, self.scale), self.tests)

    @cached_property
    def config(self) -> TrainConfig:
        """Training settings: the net's recipe with the experiment's settings."""
        return resolve_config(self.net, settings=self.settings)

    def check_settings(self) -> None:
        """Raise `WarpladderError` if a setting or a rung is unknown."""
        self.config  # noqa: B018
        for rung in self.rungs:
            find(rung)

    def check(self, rung: str, measure: str) -> None:
        name = rung.partition("@")[0]
        if canonical(name) not in map(canonical, self.rungs):
            raise ConfigError(f"there is no rung {name!r} among {', '.join(self.rungs)}")
        self.check_measure(measure)

    @abstractmethod
    def check_measure(self, measure: str) -> None:
        """Raise `ConfigError` if the experiment has no figure or curve of this name."""

    @property
    def size(self) -> dict[str, int]:
        """Number of epochs, and number of samples of an epoch if the data set's size is known."""
        rows = WHOLE.get(self.data)
        samples = self.limit or (rows and rows - self.validation)
        return {"epochs": self.config.epochs} | ({"samples": samples} if samples else {})

    def summary(self) -> str:
        part = f", {self.limit:,} samples" if self.limit else ""
        return f"{self.kind}: {self.net} on {self.data}{part}, {', '.join(self.rungs)}"


def with_tests(data: Dataset, tests: int | None) -> Dataset:
    """Data set with its first `tests` test samples; with all of them for None."""
    if tests is None:
        return data
    return data.but(test_x=data.test_x[:tests], test_y=None if data.test_y is None else data.test_y[:tests])


def canonical(name: str) -> str:
    """Name of a rung as in results, its options in order; the text itself if the rung is unknown."""
    try:
        return find(name).name
    except RungError:
        return name
