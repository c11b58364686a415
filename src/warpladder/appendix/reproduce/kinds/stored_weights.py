"""Weights that a training experiment has stored, for the experiments that begin with them."""

from __future__ import annotations

from pathlib import Path

from ....errors import ResultsError
from ....results.stored import reading
from ..experiments import Lacking, canonical, file_of
from .trained import Trainings
from .trainings import checkpoint_of


def weights_of(training: str, folder: Path) -> Path | str:
    """Path of the weights that a training stored for a rung's first seed; or the reason why it never will.

    Parameters
    ----------
    training : str
        "TRAINING/RUNG".
    folder : Path
        Folder of the stored experiments.

    Raises
    ------
    ResultsError
        The weights are not stored yet, but the training may still make them.
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
    """Reason, from an experiment's file, why the experiment is impossible; None if the file is missing or has no
    reason.
    """
    if not path.exists():
        return None
    with reading(path) as tree:
        if not isinstance(tree, dict):
            raise ResultsError("is damaged: it wants an object")
    return Lacking(str(tree["absent"]), whole=True) if "absent" in tree else None
