"""What `train` and `climb` are asked for, made into the objects they work with: names are looked up, what cannot be is
told in a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .. import ladder
from ..config import RECIPES, TrainConfig
from ..data import Dataset
from ..data import load as load_data
from ..errors import ArgumentError
from ..errors.arguments import kind_of
from ..nets import ZOO, Net, named
from ..rungs.base import Rung


def asked_data(data: Any) -> Dataset:
    """A `Dataset`: the one given, or that of a name.

    Raises
    ------
    ArgumentError
        The data is neither a data set nor text.
    DataError
        There is no data set of this name, or its files cannot be had.
    """
    if isinstance(data, str):
        return load_data(data)
    if not isinstance(data, Dataset):
        raise ArgumentError(
            f"data wants a Dataset or a name such as 'digits', got {kind_of(data)}: make one with wl.data.arrays(...)"
        )
    return data


def asked_net(net: Any, data: Dataset) -> Net:
    """A `Net`: the one given, or that of a name, for the samples and classes of the data.

    Raises
    ------
    ArgumentError
        The net is neither a `Net` nor text.
    NetError
        There is no net of this name, or it cannot take these samples.
    """
    if isinstance(net, str):
        return named(net, data.in_shape, data.classes or 10)
    if not isinstance(net, Net):
        form = (
            f"call it: wl.nets.{net.__name__}({data.in_shape})"
            if any(net is make for make in ZOO)
            else "make one with wl.Net(...)"
        )
        raise ArgumentError(f"net wants a Net or a name such as 'mlp', got {kind_of(net)}: {form}")
    return net


def asked_config(config: Any, net: Net) -> TrainConfig:
    """A `TrainConfig`: the one given, or with None the net's recipe; `ArgumentError` where it is another thing."""
    if isinstance(config, dict):
        raise ArgumentError("config wants a TrainConfig, got a dict: write wl.TrainConfig(**config)")
    if config is not None and not isinstance(config, TrainConfig):
        raise ArgumentError(
            f"config wants a TrainConfig, got {kind_of(config)}: write wl.TrainConfig(epochs=5, learning_rate=0.1)"
        )
    return config or RECIPES.get(net.name, TrainConfig())


def asked_rung(rung: Any) -> Rung:
    """A `Rung`: the one given, or that of a name.

    Raises
    ------
    ArgumentError
        The rung is neither a `Rung` nor text.
    RungError
        There is no rung or peer of this name.
    """
    if isinstance(rung, str):
        return ladder.find(rung)
    if not isinstance(rung, Rung):
        raise ArgumentError(
            f"rung wants a Rung or a name such as 'native', got {kind_of(rung)}: wl.ladder.LADDER has them"
        )
    return rung


def asked_rungs(rungs: Any) -> list[Rung]:
    """A list of `Rung`: from rungs, names, or both.

    Raises
    ------
    ArgumentError
        The rungs are no list, or something in the list is neither a rung nor text.
    RungError
        There is no rung or peer of a name.
    """
    if isinstance(rungs, (str, Rung)) or not isinstance(rungs, Iterable):
        name = rungs if isinstance(rungs, str) else getattr(rungs, "name", "numpy")
        form = ", ".join(repr(part.strip()) for part in name.split(","))
        raise ArgumentError(f"rungs wants a list of rungs or of their names, got {kind_of(rungs)}: write [{form}]")
    return [asked_rung(rung) for rung in rungs]
