"""`resolve`: from a request to a frozen value with everything that a run needs.

Names are looked up and checked here, once, for training, climbs, profiles, reports and the command line.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

from ..checkpoint import Checkpoint, load
from ..config import TrainConfig, initial_for, recipe
from ..config.spelling import configured, read_loss
from ..data import Dataset, table
from ..data import load as load_data
from ..data.dataset import binary_targets
from ..data.tables.load import is_table
from ..errors import ArgumentError, ConfigError, OutOfMemoryError, RungError
from ..errors.arguments import kind_of
from ..machine.memory import memory
from ..nets import ZOO, BCEWithLogitsLoss, MSELoss, Net, Shape, is_net_file, named, with_hidden
from ..nets.file import load_net
from ..rungs.base import Rung
from ..trainers.base import check_fit
from .request import DataRequest, RunRequest
from .rung_choice import choose_rung
from .samples import of_outputs
from .scale import advice, nothing_to_learn, unseen_labels
from .start import data_mark, fresh_start, resumed_start

#: Smallest memory per parameter in bytes: initial weight, weight, gradient and momentum.
BYTES_PER_PARAMETER = 16


@dataclass(frozen=True)
class ResolvedTask:
    """Net, data set and settings that fit each other.

    data : standardised data set, as trainers take it. standardized : True if it was standardised here.
    """

    net: Net
    data: Dataset
    config: TrainConfig
    standardized: bool


@dataclass(frozen=True)
class ResolvedRun(ResolvedTask):
    """Task, the rung that trains it with its options, and the state at which training begins.

    reason : reason for this rung, as "default". start : checkpoint with new, loaded or resumed weights.
    advice : sentences for the user: samples far from 1, a warm-up longer than the run.
    """

    rung: Rung
    reason: str
    start: Checkpoint
    advice: tuple[str, ...]


def resolve(request: RunRequest) -> ResolvedRun:
    """Look up and check everything that a training run needs.

    Raises ArgumentError: an argument has the wrong type.
    Raises CheckpointError: a checkpoint or weights file is missing, damaged or unfit; or the run has other settings.
    Raises ConfigError, DataError, NetError, OutOfMemoryError, RungError: a name is unknown, the data do not fit the
    net, or the rung cannot train the net here.
    """
    if request.resume is not None and request.weights is not None:
        raise ConfigError("a run continues a checkpoint (resume) or begins with its weights (from): give one of them")
    if request.weights is not None and request.settings.get("initial") is not None:
        raise ConfigError("a run draws its weights (initial) or begins with given ones (from): give one of them")
    before = None if request.resume is None else load(request.resume)
    net, stored, config = _task_of(request, before)
    task = _checked(net, stored, config)
    choice = choose_rung(request.rung, request.rung_options, before, (net, config, task.data.train_x))
    here = data_mark(stored)
    if before is None:
        start = fresh_start(net, config, here, choice.rung, request.weights)
    else:
        assert request.resume is not None
        start = resumed_start(before, os.fspath(request.resume), net, config, here, choice.rung)
    if reason := choice.rung.unsupported(net, config) or choice.rung.unfit(task.data):
        raise RungError(f"rung {choice.rung.name!r} cannot train net {net.name!r}: {reason}")
    hints = [
        nothing_to_learn(stored, net),
        unseen_labels(stored, net),
        advice(stored) if stored.standard is None else None,
    ]
    said = [f"{stored.name}: {hint}" for hint in hints if hint]
    if config.epochs and config.schedule.warmup > config.epochs:
        said.append(
            f"the warm-up of {config.schedule.warmup:g} epochs is longer than the run of {config.epochs}: the learning "
            f"rate never comes to {config.learning_rate:g}"
        )
    return ResolvedRun(net, task.data, config, task.standardized, choice.rung, choice.reason, start, tuple(said))


def resolve_task(request: RunRequest) -> ResolvedTask:
    """Net, data and settings, looked up and checked, for several rungs. Errors as in `resolve`, without
    checkpoints'.
    """
    net, stored, config = _task_of(request, None)
    if config.early_stopping is not None:
        raise ConfigError("early_stopping ends a training early: a climb times whole epochs, leave it out")
    return _checked(net, stored, config)


def _task_of(request: RunRequest, before: Checkpoint | None) -> tuple[Net, Dataset, TrainConfig]:
    """Net, data set before standardisation, and settings of a request; `before` is the checkpoint to resume, or
    None.
    """
    name = request.net if isinstance(request.net, str) else getattr(request.net, "name", "")
    given = request.config if request.config is not None or before is None else before.config
    of_data = getattr(request.data, "name", request.data)
    seed = resolve_config(name, given, request.settings, of_data).seed
    wanted = _encoded_as(before, request.data)
    data = resolve_data(wanted, seed, standardize=before is not None and bool(before.data.mean))
    config = resolve_config(name, given, request.settings, of_data, data.in_shape)
    loss, is_named = read_loss(request.loss) if isinstance(request.loss, str) else request.loss, _is_named(request.net)
    if loss is None and before is not None and is_named:
        loss = before.net.loss
    if isinstance(loss, BCEWithLogitsLoss):
        data = binary_targets(data)
    net = resolve_net(request.net, data.in_shape, data.outputs or data.classes or 10)
    if isinstance(net.loss, BCEWithLogitsLoss) and net.out_shape == (1,):
        data = binary_targets(data)
    if data.has_targets and is_named:
        loss = loss or MSELoss()  # the named nets are classifiers
    net = net if request.hidden is None else with_hidden(net, request.hidden)
    config = _with_initial(config, net, before, request.weights is not None)
    return (net if loss is None else replace(net, loss=loss)), of_outputs(data, net), config


def _with_initial(config: TrainConfig, net: Net, before: Checkpoint | None, is_given: bool) -> TrainConfig:
    """Settings with the rule of the initial weights: that of the resumed run, or of the net's samples; none if the
    weights are given.
    """
    if is_given:
        return config.but(initial=None)
    if config.initial is not None:
        return config
    return config.but(initial=initial_for(net.in_shape) if before is None else before.config.initial)


def _encoded_as(before: Checkpoint | None, data: Any) -> Any:
    """Request for a table that names no columns, with the label and encoding of the checkpoint; any other data as it
    came.
    """
    encoding = None if before is None else before.data.table
    request = DataRequest(data) if isinstance(data, str) else data
    if encoding is None or not isinstance(request, DataRequest) or not is_table(request.name):
        return data
    if any(request.options.get(name) for name in ("label", "target", "drop", "category")):
        return data
    return replace(request, options={**request.options, "encoding": encoding})


def _is_named(net: Net | str) -> bool:
    """True for the name of a net of the package."""
    return isinstance(net, str) and not is_net_file(net)


def resolve_config(
    net: str, config: Any = None, settings: Any = None, data: Any = "", in_shape: Shape = ()
) -> TrainConfig:
    """Settings of a training: `config`, or the recipe of this net and data set; `settings` replace some values.

    in_shape : shape of a sample, once it is known.

    Raises ArgumentError: `config` is no `TrainConfig`. Raises ConfigError: a setting is unknown or impossible.
    """
    if isinstance(config, dict):
        raise ArgumentError("config wants a TrainConfig, got a dict: write wl.TrainConfig(**config)")
    if config is not None and not isinstance(config, TrainConfig):
        raise ArgumentError(f"config wants a TrainConfig, got {kind_of(config)}: write wl.TrainConfig(epochs=5)")
    return configured(recipe(net, data, in_shape) if config is None else config, settings or {})


def resolve_data(data: Any, seed: int = 0, standardize: bool = False) -> Dataset:
    """Data set, given directly or by its name; `standardize` and the seed apply to a `DataRequest`.

    Raises ArgumentError: `data` is neither a data set nor a name. Raises DataError: it is unknown, or files are
    missing.
    """
    if isinstance(data, str):
        return load_data(data)
    if isinstance(data, DataRequest):
        if is_table(data.name):
            return table(data.name, seed=seed, **_table_options(data))
        for name in ("target", "test", "drop", "category"):
            if data.options.get(name):
                raise ConfigError(f"{data.name} is no table: leave out {name}, which is for the file of a table")
        options: dict[str, Any] = {"standardize": True, **data.options} if standardize else dict(data.options)
        return load_data(data.name, seed=seed, **options)
    if not isinstance(data, Dataset):
        form = (
            "wl.data.table(frame, 'label')"
            if hasattr(data, "columns")
            else "wl.data.arrays(...), of x, y = next(iter(DataLoader(dataset, batch_size=len(dataset))))"
            if _is_of_torch(data, "torch.utils.data")
            else "wl.data.arrays(...)"
        )
        raise ArgumentError(
            f"data wants a Dataset or a name such as 'digits', got {kind_of(data)}: make one with {form}"
        )
    return data


def _is_of_torch(value: Any, module: str) -> bool:
    """True if the value's class is derived from one in this module of PyTorch, which is not imported."""
    return any(kind.__module__.startswith(module) for kind in type(value).__mro__)


def _table_options(data: DataRequest) -> dict[str, Any]:
    """Options to load the file of a table. Raises `ConfigError` for options of other data sets."""
    for name in ("data_dir", "shape"):
        if data.options.get(name) is not None:
            raise ConfigError(f"{data.name} is a table of its own: leave out {name}")
    return {name: value for name, value in data.options.items() if name != "standardize"}


def resolve_net(net: Any, in_shape: Shape, classes: int) -> Net:
    """Net, given directly, by its name or by its file's name, for samples of this shape and number of classes.

    Raises ArgumentError: `net` is neither a net nor a name. Raises NetError: it is unknown, or cannot take the samples.
    """
    if isinstance(net, str):
        return load_net(net, in_shape, classes) if is_net_file(net) else named(net, in_shape, classes)
    if not isinstance(net, Net):
        form = (
            f"call it: wl.nets.{net.__name__}({in_shape})"
            if any(net is make for make in ZOO)
            else "make one with wl.from_torch(module, in_shape=...).net"
            if _is_of_torch(net, "torch.nn")
            else "make one with wl.Net(...)"
        )
        raise ArgumentError(f"net wants a Net or a name such as 'mlp', got {kind_of(net)}: {form}")
    return net


def _checked(net: Net, stored: Dataset, config: TrainConfig) -> ResolvedTask:
    """Task, after checks that the data set fits the net, and that this machine can follow the settings."""
    check_fit(net, stored.but(standard=None), config)
    samples = len(stored.train_x)
    if config.early_stopping is not None and (stored.valid_x is None or not len(stored.valid_x)):
        part = max(1, samples // 10)
        raise ConfigError(
            f"early_stopping needs a validation part, and {stored.name} has none: split {part} samples off, as "
            f"--validation {part}, in Python validation={part} where the data are loaded"
        )
    if config.drop_last and config.batch_size is not None and config.batch_size > samples:
        raise ConfigError(
            f"drop_last leaves out every sample: batch_size is {config.batch_size} and the training set has "
            f"{samples}; take a batch of {samples} or less"
        )
    least, free = BYTES_PER_PARAMETER * net.param_count, memory()
    if free is not None and least > free:
        raise OutOfMemoryError(
            f"net {net.name!r} has {net.param_count:,} parameters, whose training takes {least / 1e9:,.1f} GB at "
            f"least, and this machine has {free / 1e9:,.1f} GB: make its layers smaller"
        )
    data = stored.standardized()
    return ResolvedTask(net, data, config, standardized=data is not stored)
