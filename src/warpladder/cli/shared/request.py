"""Requests from a command's options: for a data set, or for a training run."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import click

from ...config import TrainConfig, recipe
from ...config.spelling import OWN
from ...nets import is_net_file

if TYPE_CHECKING:
    from ...checkpoint import DataMark
    from ...data.dataset import Dataset
    from ...train.request import DataRequest, RunRequest
    from ...train.resolve import ResolvedTask

#: Options of rungs that apply to all named rungs that have them.
SHARED = ("threads", "device", "block_size")

#: Options that select a data set, its part and its folder.
DATA = (
    "data_name",
    "data_dir",
    "shape",
    "limit",
    "validation",
    "label",
    "target",
    "test",
    "drop",
    "category",
    "scale_features",
)

#: Options that are settings of training.
SETTINGS = (*(field.name for field in fields(TrainConfig)), *OWN)


def run_request(net_name: str, options: dict[str, Any], **more: Any) -> RunRequest:
    """Request for a run: net, data, settings and shared options of rungs; `more` are further fields."""
    from ...train.request import RunRequest

    settings = {name: options[name] for name in SETTINGS if options.get(name) is not None}
    shared = {name: options.get(name) for name in SHARED}
    more = {"hidden": options.get("hidden"), "loss": options.get("loss")} | more
    return RunRequest(net_name, data_request(options), settings=settings, rung_options=shared, **more)


def data_request(options: dict[str, Any]) -> DataRequest:
    """Request for a data set: its name, part and folder."""
    from ...train.request import DataRequest

    given = {name: options[name] for name in DATA[1:-1] if options.get(name) not in (None, ())}
    return DataRequest(options["data_name"], given | ({"standardize": True} if options.get("scale_features") else {}))


def load_requested(options: dict[str, Any], mark: DataMark | None = None, seed: int = 0) -> Dataset:
    """Data set that the options name.

    mark, seed : training data of a net and its seed: the set is standardised or encoded alike. A table other than
    the training table is all test part.
    """
    from ...train.resolve import resolve_data
    from ...train.start import data_mark

    request = data_request(options)
    if mark is None or mark.table is None:
        return resolve_data(request, options.get("seed") or 0, mark is not None and bool(mark.mean))
    request = replace(request, options={**request.options, "encoding": mark.table, "label": None, "target": ()})
    found = resolve_data(request, seed)
    if data_mark(found).parts["train_x"] == mark.parts.get("train_x"):
        return found
    return resolve_data(replace(request, options={**request.options, "whole": True}), seed)


def report_defaults(net_name: str, task: ResolvedTask, options: dict[str, Any]) -> None:
    """Print settings on stderr that neither the options nor a recipe define.

    On images a net from a file has no recipe; an optimizer other than the recipe's has its own learning rate.
    """
    config, in_shape = task.config, task.net.in_shape
    written = (options.get("optimizer") or "").replace(":", "=").replace("-", "_").split("=")
    given = {*(name for name in SETTINGS if options.get(name) is not None), *written}
    taken: dict[str, Any] = {}
    if is_net_file(net_name) and len(in_shape) > 1:
        taken = {"epochs": config.epochs, "batch_size": config.batch_size}
    if taken or type(config.optimizer) is not type(recipe(net_name, options["data_name"], in_shape).optimizer):
        taken["learning_rate"] = config.learning_rate
    defaults = [f"--{name.replace('_', '-')} {value}" for name, value in taken.items() if name not in given]
    if defaults:
        click.echo(f"{net_name} is trained with {', '.join(defaults)}, by default", err=True)
