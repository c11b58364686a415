"""`RunRequest`: the caller's request, before any name is looked up."""

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
    """Data set requested by name, with the options of `data.load`; its seed is the seed of the run's settings."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RunRequest:
    """Request for a training run. None stands for a default.

    net : a net, its name, or the name of its file. data : a data set, or its name.
    config : settings; by default the net's recipe, or the resumed checkpoint's.
    settings : values that replace those of `config`, by the names of the command line's options: batch_size may be
    "full", optimizer and schedule are texts.
    rung : a rung, or its name; by default "auto", or the rung of the resumed checkpoint.
    rung_options : options by name, for a rung that has them and does not set them in its name.
    hidden : widths of the net's hidden Linear layers, as for `nets.with_hidden`.
    loss : loss that replaces the net's, or its text, as "huber:delta=0.5".
    resume : checkpoint file of the run to continue. weights : initial weights of a new run.
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
