"""Definition of a report, from its TOML file in `reports/`: experiments, tables and pictures.

docs/reproduce.md explains how such a file is written.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from ...errors import ConfigError, ResultsError
from ...results.reader import DIRECTION, read
from .experiments import Experiment, TrainingTask
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
from .results import Section

#: Kinds of experiments, in the order in which they are made.
KINDS: tuple[type[Experiment], ...] = (
    Climb,
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
    """A report.

    experiments : by name, in the order in which they are made. nets : its own, by name, as tables of a net's file.
    headline : the figure that stands for the report on the page of all reports, as the title of a table, a row's first
    text and a column's head.
    quick : True if experiments are cut. skipped : names of experiments that a first look leaves out.
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


@dataclass(frozen=True)
class _Head:
    title: str
    about: str
    sections: tuple[Section, ...]
    nets: dict[str, Any] = field(default_factory=dict)
    headline: tuple[str, ...] = ()


def definition(name: str, *, quick: bool = False) -> Definition:
    """Read the file of a report that comes with warpladder.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    quick : bool
        True if each experiment is cut to the settings of its table `quick`.

    Raises
    ------
    ConfigError
        There is no such report.
    """
    if name not in NAMES:
        raise ConfigError(f"there is no report {name!r:.40}; there are {', '.join(NAMES)}")
    return parse((files(__package__) / "reports" / f"{name}.toml").read_text(encoding="utf-8"), name, quick=quick)


def parse(text: str, name: str, *, quick: bool = False) -> Definition:
    """Definition of a report from the text of its file.

    Raises
    ------
    ConfigError
        One line with the place in the file and what is wrong there.
    """
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name}: is not TOML: {error}") from None
    tree = _without_nan(tree)
    experiments: dict[str, Experiment] = {}
    skipped: list[str] = []
    try:
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
    except (ResultsError, ConfigError) as error:
        raise ConfigError(f"{name}: {error}") from None
    return Definition(
        name, head.title, head.about, experiments, head.nets, head.sections, head.headline, quick, tuple(skipped)
    )


def _without_nan(value: Any) -> Any:
    """The same tree with None for nan, which TOML has and JSON does not: the report states no figure."""
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value
