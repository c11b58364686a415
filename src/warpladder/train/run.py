"""`Run`: the result of training, also when it is loaded from a checkpoint."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..checkpoint import EpochLog
from ..checkpoint import load as load_checkpoint
from ..config import TrainConfig
from ..errors.arguments import called_by_name, wanted_path
from ..show import as_html, as_text, number, percent
from .model import Model

ROWS = 10  # most rows of a run's table; further epochs are left out


@dataclass(frozen=True, repr=False, eq=False)
class Run(Model):
    """Training run: a `Model`, with the settings and the history of its training.

    Parameters
    ----------
    checkpoint : Checkpoint
        State at the run's end, or when it was saved; the other attributes are views of it.
    """

    def __repr__(self) -> str:
        return as_text(*self._table())

    def _repr_html_(self) -> str:
        return as_html(*self._table())

    def _table(self) -> tuple[str, tuple[str, ...], list[tuple[str, ...]]]:
        """Table of a run: title, heads, and a row for each epoch; some rows of a long run are left out."""
        history, mark = self.history, self.checkpoint.data
        test = "" if self.checkpoint.test is None else f"; test {self.checkpoint.test.described()}"
        epochs = f"{self.checkpoint.epoch} of {self.config.epochs} epoch{'s' * (self.config.epochs != 1)}"
        epochs += "" if self.best_epoch is None else f", the best of them epoch {self.best_epoch}"
        title = f"Run: net {self.net.name!r} on {mark.name!r} by the {self.rung} rung, {epochs}{test}"
        columns = {"epoch": "epoch", "loss": "train_loss", "accuracy": "train_accuracy", "valid. loss": "valid_loss"}
        columns |= {"valid. accuracy": "valid_accuracy", "seconds": "seconds"}
        heads = [head for head, name in columns.items() if any(getattr(log, name) is not None for log in history)]
        stride = -(-len(history) // ROWS)
        shown = [log for log in history if log.epoch % stride == 0 or log in (history[0], history[-1])]
        return title, tuple(heads), [tuple(_cell(head, getattr(log, columns[head])) for head in heads) for log in shown]

    @property
    def config(self) -> TrainConfig:
        """Settings of the training."""
        return self.checkpoint.config

    @property
    def rung(self) -> str:
        """Name of the rung that trained; for a resumed run the last one."""
        return self.checkpoint.rung

    @property
    def history(self) -> list[EpochLog]:
        """Losses, accuracies and seconds of each epoch."""
        return list(self.checkpoint.history)

    @property
    def best_epoch(self) -> int | None:
        """Epoch with the lowest validation loss, from 1, whose weights a finished run has; None without early
        stopping.
        """
        return self.checkpoint.best_epoch

    @property
    def test_loss(self) -> float | None:
        """Mean loss over the test part after the last epoch; None without a test part."""
        return None if self.checkpoint.test is None else self.checkpoint.test.loss

    @property
    def test_accuracy(self) -> float | None:
        """Share of the test samples, 0 to 1, with the largest logit at their label; None without labels."""
        return None if self.checkpoint.test is None else self.checkpoint.test.accuracy


def _cell(head: str, value: float | None) -> str:
    if value is None:
        return ""
    return percent(value) if "accuracy" in head else number(value)


@called_by_name
def load(path: str | os.PathLike[str]) -> Run:
    """Read a checkpoint that `run.save`, `warpladder train --checkpoint` or `Model.save` wrote.

    Parameters
    ----------
    path : path

    Returns
    -------
    Run
        Run with `predict`, `predict_proba`, `score` and the history of its training.

    Raises
    ------
    CheckpointError
        The file is missing, damaged or no checkpoint. PyTorch's weights do not include the net: see
        `Model.from_state_dict`.
    """
    wanted_path(path, "a checkpoint")
    return Run(load_checkpoint(path))
