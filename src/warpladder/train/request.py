"""`RunRequest`: what a caller requests, before any name is looked up."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..config import TrainConfig
from ..data.dataset import Dataset
from ..nets import Loss, Net
from ..rungs.base import Rung

#: Weights of a new run: a file's name, or arrays by name.
Weights = str | os.PathLike[str] | Mapping[str, Any]


@dataclass(frozen=True)
class DataRequest:
    """A data set by its name, with the options of `data.load`; the seed is that of the run's settings."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RunRequest:
    """Request for a training run. None stands for a default.

    net : a net, the name of one, or the name of a file with one. data : a data set, or the name of one.
    config : settings; by default those of the net's recipe, or of the resumed checkpoint.
    settings : values in place of those of `config`, by the names of the command line's options: batch_size may be
    "full", optimizer and schedule are texts.
    rung : a rung, or the name of one; by default "auto", or the rung of the resumed checkpoint.
    rung_options : options of rungs by name, for a rung that has them and whose name does not set them.
    hidden : widths of the net's hidden Linear layers, as `nets.with_hidden` takes them.
    loss : loss in place of the net's, or its text, as "huber:delta=0.5".
    resume : checkpoint file of the run to continue. weights : weights to begin a new run with.
    """

    net: Net | str
    data: Dataset | DataRequest | str
    config: TrainConfig | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    rung: Rung | str | None = None
    rung_options: Mapping[str, Any] = field(default_factory=dict)
    hidden: int | tuple[int, ...] | None = None
    loss: Loss | str | None = None
    resume: str | os.PathLike[str] | None = None
    weights: Weights | None = None
