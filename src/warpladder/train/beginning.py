"""Where a run begins: at fresh weights, at given ones, or at a checkpoint that belongs to it."""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..checkpoint import Checkpoint, DataMark, differences, flat_weights, load, read_weights
from ..checkpoint.content import param_shapes
from ..config import RECIPES, TrainConfig
from ..data.dataset import Dataset
from ..data.foreign import to_numpy
from ..errors import CheckpointError, ConfigError, RungError
from ..ladder import find
from ..machine.precision import named
from ..nets import Net
from ..nets.params import initial, param_slices, views
from ..rungs.base import Rung
from ..rungs.options import too_few_cores
from ..trainers.base import State, Trainer, check_fit, check_settings
from .scale import advice

DEFAULT_RUNG = "numpy"

#: Weights to begin with: a file's name, or named arrays.
Weights = str | os.PathLike[str] | Mapping[str, Any]


def begin(
    net: Net,
    data: Dataset,
    config: TrainConfig | None,
    rung: str | Rung | None,
    resume: str | os.PathLike[str] | None = None,
    weights: Weights | None = None,
) -> tuple[Checkpoint, Rung]:
    """The checkpoint that a run starts from, and the rung that trains it.

    Raises
    ------
    CheckpointError
        A file is missing, damaged, of a run that differs in more than its length, or of weights that do not fit the
        net.
    ConfigError, DataError, OutOfMemoryError, RungError
        The settings cannot be followed here; the data do not fit the net; it is too large; the rung is unknown or
        cannot train it.
    """
    if resume is not None and weights is not None:
        raise ConfigError(
            "a run goes on from a checkpoint (resume) or begins anew with its weights (from): give one of them"
        )
    check_fit(net, data.but(standard=None))  # a trainer is loaded with the data set once it is standardised
    if data.standard is None and (scale := advice(data)):
        warnings.warn(f"{data.name}: {scale}", stacklevel=3)
    here = mark(data)
    if resume is None:
        chosen = _rung(rung or DEFAULT_RUNG)
        config = config or RECIPES.get(net.name, TrainConfig())
        check_settings(net, config, len(data.train_x))
        params = _weights(net, config, weights, named(chosen.precision).element)
        start = Checkpoint(net, config, here, chosen.name, params=views(net, params))
    else:
        there = load(resume)
        chosen = _rung(rung) if rung is not None else _that_trained(there)
        config = config or there.config
        if unlike := differences(there, net, config, here):
            fits = param_shapes(net) == param_shapes(there.net)
            way_out = (
                "; its weights can begin a new run with settings of its own: --from FILE, in Python weights=FILE"
                if fits
                else ""
            )
            raise CheckpointError(f"{os.fspath(resume)!r} belongs to another run: {'; '.join(unlike)}{way_out}")
        check_settings(net, config, len(data.train_x))
        element = named(chosen.precision).element
        if there.element == "float64" != element:
            raise CheckpointError(
                f"{os.fspath(resume)!r} holds float64 numbers, which rung {chosen.name!r} would round to float32: go on on a rung in fp64, as --rung "
                f"numpy:precision=fp64, or begin a new run with its weights: --from FILE, in Python weights=FILE"
            )
        there = converted(there, element)
        finished = there.finished and there.epoch == config.epochs
        test = there.test if finished else None
        tuned = there.tuned if chosen.name == there.rung else None
        start = replace(
            there, net=net, config=config, data=here, rung=chosen.name, finished=finished, test=test, tuned=tuned
        )
    if reason := chosen.unsupported(net, config):
        raise RungError(f"rung {chosen.name!r} cannot train net {net.name!r}: {reason}")
    return start, chosen


def restore(checkpoint: Checkpoint, rung: str | Rung | None = None) -> Trainer:
    """A trainer that stands where a checkpoint does, to `predict` with or to `score`; without a name it is of the rung
    that trained.
    """
    chosen = _rung(rung) if rung is not None else _that_trained(checkpoint)
    config = checkpoint.config.but(loss_every=1)  # a rung that cannot leave losses out can predict
    if too_few_cores(checkpoint.net, config, chosen.options):  # it was trained on a larger machine
        chosen = chosen.but(threads=None)
    if reason := chosen.unsupported(checkpoint.net, config):
        others = () if rung is not None else ("native", "numpy")
        other = next((name for name in others if find(name).unsupported(checkpoint.net, config) is None), None)
        way_out = (
            f"; another rung computes the same from these weights: --rung {other}, in Python rung={other!r}"
            if other
            else ""
        )
        raise RungError(f"rung {chosen.name!r} cannot run net {checkpoint.net.name!r}: {reason}{way_out}")
    return chosen.build(checkpoint.net, config, to_state(converted(checkpoint, named(chosen.precision).element)))


def converted(checkpoint: Checkpoint, element: str) -> Checkpoint:
    """A checkpoint with parameters and slots of this type, "float32" or "float64"; itself where they are.

    Raises
    ------
    CheckpointError
        A number is too large for float32.
    """
    if checkpoint.element == element:
        return checkpoint

    def each(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        with np.errstate(over="ignore"):
            out = {name: array.astype(element) for name, array in arrays.items()}
        if not all(np.isfinite(array).all() for array in out.values()):
            raise CheckpointError(
                f"the checkpoint holds numbers beyond the range of {element}: take a rung in fp64, as --rung numpy:precision=fp64"
            )
        return out

    return replace(
        checkpoint,
        params=each(checkpoint.params),
        slots={name: each(arrays) for name, arrays in checkpoint.slots.items()},
    )


def to_state(checkpoint: Checkpoint) -> State:
    """The flat buffers that a trainer is built with."""

    def flat(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.concatenate([arrays[place.name].ravel() for place in param_slices(checkpoint.net)])

    return State(
        flat(checkpoint.params), {name: flat(arrays) for name, arrays in checkpoint.slots.items()}, checkpoint.made
    )


def mark(data: Dataset) -> DataMark:
    """What tells this data set from others: sizes, types and checksums of its parts."""
    parts = {}
    for name in ("train_x", "train_y", "valid_x", "valid_y", "test_x", "test_y"):
        array = getattr(data, name)
        if array is not None:
            parts[name] = (
                f"{array.dtype} {'x'.join(map(str, array.shape))} crc32 {zlib.crc32(array.data) if array.size else 0:08x}"
            )
    standard = data.standard
    mean, std = ((), ()) if standard is None else (standard.mean, standard.std)
    return DataMark(data.name, len(data.train_x), float(data.scale), parts, data.class_names, mean, std)


def _weights(net: Net, config: TrainConfig, given: Weights | None, dtype: str) -> np.ndarray:
    """(param_count,) of this type: drawn by the seed, the same float32 numbers for every precision, or those that are
    given.
    """
    if given is None:
        return initial(net, config.seed).astype(dtype)
    if isinstance(given, Mapping):
        return flat_weights(net, {name: to_numpy(array, str(name)) for name, array in given.items()}, dtype=dtype)
    return read_weights(given, net, dtype)


def _rung(rung: str | Rung) -> Rung:
    return rung if isinstance(rung, Rung) else find(rung)


def _that_trained(checkpoint: Checkpoint) -> Rung:
    try:
        return find(checkpoint.rung)
    except RungError:
        raise RungError(
            f"the checkpoint was trained by the rung {checkpoint.rung!r}, which is none of warpladder's: "
            "name its file, as --rung ./mine.py, or another rung, as --rung numpy"
        ) from None
