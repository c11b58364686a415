"""Which kernels a trainer will ask for, found out before the first is compiled: a twin of it is loaded where nothing runs."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from ...device.scout import Scout

if TYPE_CHECKING:
    from ...data.dataset import Dataset
    from .trainer import KernelTrainer


def foreseen(trainer: KernelTrainer, dataset: Dataset) -> list[tuple[Path, str]]:
    """The kernels, by file and name, of loading a training set and of an epoch of it, in the order in which they are asked for.

    Whatever goes wrong goes wrong again in earnest, and is told there; until then this is as far as can be foreseen.
    """
    scout = Scout(trainer.device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            twin = trainer.twin(scout)
            twin.tuned = trainer.tuned
            twin.load(dataset)
            for part in twin.parts():
                twin.program(part)
        except Exception:
            pass
    return list(scout.asked)
