"""`Run`: what training gives back."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from ..checkpoint import Checkpoint, EpochLog, save
from ..config import TrainConfig
from ..nets import Net


@dataclass(frozen=True)
class Run:
    """A finished training run.

    Parameters
    ----------
    checkpoint : Checkpoint
        Where the run ended; everything else is a view of it.
    """

    checkpoint: Checkpoint

    @property
    def net(self) -> Net:
        """What was trained."""
        return self.checkpoint.net

    @property
    def config(self) -> TrainConfig:
        """With which settings."""
        return self.checkpoint.config

    @property
    def rung(self) -> str:
        """By which rung (the last one, where a run was resumed on another)."""
        return self.checkpoint.rung

    @property
    def history(self) -> list[EpochLog]:
        """One entry for each epoch."""
        return list(self.checkpoint.history)

    @property
    def test_loss(self) -> float | None:
        """Mean loss over the test part after the last epoch; None without one."""
        return None if self.checkpoint.test is None else self.checkpoint.test.loss

    @property
    def test_accuracy(self) -> float | None:
        """Share of the test part whose largest logit is the label's, 0 to 1; None without labels."""
        return None if self.checkpoint.test is None else self.checkpoint.test.accuracy

    @property
    def params(self) -> dict[str, np.ndarray]:
        """float32 weights under PyTorch's `state_dict` names."""
        return dict(self.checkpoint.params)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run as a checkpoint: a safetensors file that `torch` can read, and that `train(resume=path)` can go on from.

        Raises
        ------
        CheckpointError
            It could not be written.
        """
        save(path, self.checkpoint)
