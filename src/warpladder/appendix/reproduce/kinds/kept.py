"""Weights that a training has stored, for the experiments that begin with them."""

from __future__ import annotations

from pathlib import Path

from ....errors import ResultsError
from ....results.stored import reading
from ..experiments import Lacking, canonical, file_of
from .trained import Trainings
from .trainings import checkpoint_of


def kept_by(training: str, folder: Path) -> Path | str:
    """The file of the weights that a training keeps of a rung's first seed; or why there is none, where that will not
    change here.

    Parameters
    ----------
    training : str
        "TRAINING/RUNG".
    folder : Path
        Where experiments are kept.

    Raises
    ------
    ResultsError
        The training has not come so far: it may still.
    """
    name, _, rung = training.partition("/")
    rung, stored = canonical(rung), file_of(name, folder)
    if stored.exists():
        trainings = Trainings.load(stored)
        runs = trainings.find(rung)
        if runs and (place := checkpoint_of(folder, name, rung, runs[0].seed)).exists():
            return place
        if not runs and rung in trainings.reasons:
            return f"{name} has no weights of {rung}: {trainings.reasons[rung]}"
    raise ResultsError(f"there are no weights of {rung} yet: the experiment {name!r} makes them")


def absent(path: Path) -> Lacking | None:
    """The reason that a file keeps of why an experiment cannot be made; None if there is no file, or none with a
    reason.
    """
    if not path.exists():
        return None
    with reading(path) as tree:
        if not isinstance(tree, dict):
            raise ResultsError("is damaged: it wants an object")
    return Lacking(str(tree["absent"]), whole=True) if "absent" in tree else None
