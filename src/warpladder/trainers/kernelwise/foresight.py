"""Which kernels a trainer will ask for, found out before the first is compiled: a twin of it does the work where
nothing runs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...device.scout import Scout

if TYPE_CHECKING:
    from ...data.dataset import Dataset
    from .trainer import KernelTrainer

#: Kernels by file and name, in the order in which they are asked for first.
Kernels = list[tuple[Path, str]]


def of_training(trainer: KernelTrainer, dataset: Dataset) -> Kernels:
    """The kernels of loading a training set, of an epoch of it, which loading asks for, and of its test part's
    predictions.
    """

    def work(twin: KernelTrainer) -> None:
        twin.tuned = trainer.tuned
        twin.load(dataset)
        rest = (
            len(dataset.test_x) % twin.PREDICTED
        )  # the last samples, which may be other work than as many as go at a time
        twin.predict(dataset.test_x[: twin.PREDICTED + rest], dataset.scale)

    return _asked(trainer, work)


def of_predicting(trainer: KernelTrainer, x: np.ndarray, scale: float) -> Kernels:
    """The kernels of predicting samples."""
    return _asked(trainer, lambda twin: twin.predict(x, scale))


def _asked(trainer: KernelTrainer, work: Callable[[KernelTrainer], object]) -> Kernels:
    """The kernels that a twin of a trainer asks for at some work.

    Whatever goes wrong goes wrong again in earnest, and is told there; until then this is as far as can be foreseen.
    """
    scout = Scout(trainer.device)
    with warnings.catch_warnings(), suppress(Exception):
        warnings.simplefilter("ignore")
        work(trainer.twin(scout))
    return list(scout.asked)
