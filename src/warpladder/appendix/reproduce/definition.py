"""Definition of a report, from its TOML file in `reports/`: experiments, tables and pictures.

docs/reproduce.md explains how to write this file.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from ...errors import ConfigError, ResultsError, WarpladderError
from ...errors.arguments import shown
from ...files.whole import read_whole
from ...nets import named
from ...results.reader import DIRECTION, read
from .experiments import Experiment, TrainingTask
from .expressions import Expression, expressions
from .kinds.climbs import Climb
from .kinds.facts import Facts
from .kinds.footprints import Footprints
from .kinds.launches import Launching
from .kinds.operations import Operations
from .kinds.photos import Pictures
from .kinds.profiles import Profiling
from .kinds.submissions import Submission
from .kinds.svms import Svm
from .kinds.trainings import Train
from .kinds.turns import Turns
from .of_machine import MACHINE
from .results import Section
from .shorthand import expanded

#: Kinds of experiments, in the order of measurement.
KINDS: tuple[type[Experiment], ...] = (
    Climb,
    Turns,
    Train,
    Profiling,
    Launching,
    Facts,
    Operations,
    Footprints,
    Submission,
    Svm,
    Pictures,
)

#: Names of the reports.
NAMES = ("s1", "s2", "s3", "s4", "s5")


@dataclass(frozen=True)
class Definition:
    """Definition of a report to reproduce: its experiments, nets, tables and pictures.

    experiments : experiments by name, in the order of measurement. nets : the report's own nets by name, as tables of a
    net's file.
    headline : figure that represents the report on the page of all reports: title of a table, first text of a row, head
    of a column.
    quick : True if experiments are shortened. skipped : names of experiments that a quick reproduction leaves out.
    path : path of the report's file, empty if warpladder includes it.
    figures : figures that texts and claims use, by name: "EXPERIMENT/RUNG MEASURE", alternatives with | between them.
    """

    name: str
    title: str
    about: str
    experiments: dict[str, Experiment]
    nets: dict[str, dict[str, Any]]
    sections: tuple[Section, ...]
    headline: tuple[str, ...] = ()
    quick: bool = False
    skipped: tuple[str, ...] = ()
    figures: dict[str, str] = field(default_factory=dict)
    path: str = ""

    @property
    def source(self) -> str:
        """Name of the report on the command line: its name, or the path of its file."""
        return self.path or self.name


@dataclass(frozen=True)
class _Head:
    title: str
    about: str
    sections: tuple[Section, ...]
    nets: dict[str, Any] = field(default_factory=dict)
    headline: tuple[str, ...] = ()
    figures: dict[str, str] = field(default_factory=dict)


def definition(name: str, *, quick: bool = False) -> Definition:
    """Read the file of a report that warpladder includes, or of a user's report.

    Parameters
    ----------
    name : str
        One of `NAMES`, or the path of a file that ends in .toml; its name is then the report's.
    quick : bool
        True if each experiment takes the shorter settings of its table `quick`.

    Raises
    ------
    ConfigError
        The report does not exist, or its file has an error.
    """
    if name in NAMES:
        return parse((files(__package__) / "reports" / f"{name}.toml").read_text(encoding="utf-8"), name, quick=quick)
    if not name.endswith(".toml"):
        raise ConfigError(
            f"there is no report {shown(name)}; there are {', '.join(NAMES)}, and a file of your own: FILE.toml, which "
            "'warpladder reproduce --template FILE.toml' begins"
        )
    path = Path(name)
    if path.stem in NAMES:
        raise ConfigError(f"{name}: a report called {path.stem} comes with warpladder: give the file another name")
    try:
        text = read_whole(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        raise ConfigError(f"{name}: {reason}") from None
    return replace(parse(text, name, quick=quick), name=path.stem, path=name)


def template() -> str:
    """Text of a small report's file that runs on any machine, as a template."""
    return (files(__package__) / "reports" / "template.toml").read_text(encoding="utf-8")


def parse(text: str, name: str, *, quick: bool = False) -> Definition:
    """Definition of a report from the text of its file.

    Raises
    ------
    ConfigError
        The file has an error; the message is one line with its place.
    """
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name}: is not TOML: {error}") from None
    experiments: dict[str, Experiment] = {}
    skipped: list[str] = []
    try:
        tree = expanded(_without_nan(tree))
        for kind in KINDS:
            for called, keys in tree.pop(kind.kind, {}).items():
                if called in experiments:
                    raise ConfigError(f"two experiments are called {called!r}")
                cut = keys.pop("quick", {})
                if quick and cut.pop("skip", False):
                    skipped.append(called)
                    continue
                whole = read(kind, keys, called, DIRECTION)
                if quick and cut:
                    keys |= {
                        key: keys.get(key, {}) | value if key == "settings" else value for key, value in cut.items()
                    }
                    if isinstance(whole, TrainingTask):
                        keys["full"] = whole.size
                experiments[called] = read(kind, keys, called, DIRECTION) if quick else whole
        head: _Head = read(_Head, tree, "", DIRECTION)
        _check_texts(head, [*experiments, *skipped, MACHINE])
        for called, each in experiments.items():
            _check_settings(called, each, head.nets)
    except (ResultsError, ConfigError) as error:
        raise ConfigError(f"{name}: {error}") from None
    except (AttributeError, KeyError, TypeError) as error:  # a list where a table must be, or the other way round
        raise ConfigError(f"{name}: a table has another form than docs/reproduce.md states: {error}") from None
    return Definition(
        name, head.title, head.about, experiments, head.nets, head.sections, head.headline, quick, tuple(skipped),
        head.figures,
    )  # fmt: skip


def _check_texts(head: _Head, experiments: Sequence[str]) -> None:
    """Raise `ConfigError` if a text or a claim uses an undefined figure."""
    for name, text in head.figures.items():
        for place in text.split(" | "):
            experiment, slash, _ = place.strip().partition("/")
            if not slash or " " not in place.strip() or experiment not in experiments:
                raise ConfigError(f"figure {shown(name)}: wants EXPERIMENT/RUNG MEASURE, got {shown(place)}")
    for section in head.sections:
        for finding in section.findings:
            expressions(finding if isinstance(finding, str) else finding.text, head.figures)
            if not isinstance(finding, str):
                Expression(finding.when, head.figures)
        for diagram in section.diagrams:
            for box in diagram.boxes:
                expressions(box.text, head.figures)
        for claim in section.claims:
            if claim.figure:
                Expression(claim.figure, head.figures)


def _check_settings(called: str, experiment: Experiment, nets: Container[str]) -> None:
    """Raise `ConfigError` if an experiment's net, a rung or a setting is unknown: before anything is measured."""
    try:
        if (net := getattr(experiment, "net", None)) is not None and net not in nets:
            named(net, (3, 32, 32))
        if isinstance(experiment, TrainingTask):
            experiment.check_settings()
    except WarpladderError as error:
        raise ConfigError(f"{called}: {error}") from None


def _without_nan(value: Any) -> Any:
    """Tree with None for nan: TOML has nan and JSON does not; nan in a report's file is an absent figure."""
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value
