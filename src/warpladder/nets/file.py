"""Net from a user's file: TOML that lists layers, or Python that defines a `Net`."""

from __future__ import annotations

import inspect
import os
import re
import tomllib
from collections.abc import Iterable
from dataclasses import MISSING, fields
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import ArgumentError, NetError
from ..errors.arguments import called_by_name, meant, shown, wanted_path
from ..files.python import call, run_file
from ..files.whole import read_whole
from . import RESIDUAL_PARTS, ZOO, Layer, Loss, Net, Residual, Shape, is_named
from .describe import loss_of
from .torch_module import net_of_module

ENDINGS = (".toml", ".py")

#: Most parameters of a net: 4 TB of them.
MOST = 10**12

#: Settings of PyTorch's layers that warpladder infers.
_INFERRED = ("in_channels", "in_features", "num_features")


@called_by_name
def load_net(path: str | os.PathLike[str], in_shape: Shape | None = None, classes: int = 10) -> Net:
    """Read a net from a file.

    Parameters
    ----------
    path : path
        A `.toml` file with `loss`, a list of `layers`, and optionally `name` and `in_shape`; or a `.py` file that
        defines `net` or `build`: a `Net`, or a function of in_shape (and classes, if it takes a second argument) that
        returns a `Net`; or `MODEL`, a `torch.nn.Sequential`, and optionally `LOSS`. docs/own-net.md has all of them.
    in_shape : tuple of int or None
        Shape of one sample, for a file without in_shape; a file's own in_shape has priority.
    classes : int
        Number of classes, for a function with a second argument.

    Returns
    -------
    Net

    Raises
    ------
    NetError
        One line with the file, the position in it and the reason.
    """
    wanted_path(path, "a .toml or .py file")
    name = os.fspath(path)
    ending = Path(path).suffix
    if ending not in ENDINGS:
        raise NetError(f"{name}: a net is read from a .toml or a .py file")
    net = _from_toml(path, in_shape) if ending == ".toml" else _from_python(path, in_shape, classes)
    if net.param_count > MOST:
        raise NetError(
            f"{name}: the net has {net.param_count:,} parameters, and no memory holds more than {MOST:,}: "
            "look for a size that is mistyped"
        )
    if not re.fullmatch(r"\w[\w .+-]{0,79}", net.name):
        raise NetError(
            f"{name}: the name {shown(net.name)} will not do, since files are called after it: "
            "take letters, digits, - and _"
        )
    if any(make.__name__ == net.name for make in ZOO) and not is_named(net):
        raise NetError(
            f"{name}: the name {net.name!r} is that of another net, which 'warpladder nets' shows: "
            "give this one its own name"
        )
    return net


def _from_toml(path: str | os.PathLike[str], in_shape: Shape | None) -> Net:
    name = os.fspath(path)
    try:
        table = tomllib.loads(read_whole(Path(path).expanduser()).decode("utf-8-sig").replace("\r\n", "\n"))
    except OSError as error:
        raise NetError(f"{name}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise NetError(f"{name}, line {line}: is not UTF-8 text: save the file as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise NetError(f"{name}: is not TOML: {error}") from None
    try:
        return net_of(table, Path(path).stem, in_shape)
    except NetError as error:
        raise NetError(f"{name}: {error}") from None


def net_of(table: dict[str, Any], stem: str, in_shape: Shape | None = None) -> Net:
    """Net of a parsed TOML file, named `stem` if the file has no name. Raises `NetError` with the reason."""
    _only_known(table, ("name", "in_shape", "loss", "layers"), "a net has no {!r}")
    label = table.get("name", stem)
    if not isinstance(label, str):
        raise NetError(f"name wants text in quotes, got {shown(label)}")
    if "in_shape" in table:
        stated = table["in_shape"]
        if not isinstance(stated, list) or not all(
            isinstance(size, int) and not isinstance(size, bool) for size in stated
        ):
            raise NetError(f"in_shape wants a list of whole numbers, as [1, 28, 28], got {shown(stated)}")
        in_shape = tuple(stated)
    if in_shape is None:
        raise NetError(
            "in_shape, the shape of one sample, is neither in the file nor given: "
            "add in_shape = [1, 28, 28] to it, say, or give it (--shape 1x28x28)"
        )
    layers = table.get("layers")
    if isinstance(layers, dict):
        raise NetError("layers wants a list: write [[layers]], with two brackets, before each layer")
    if not isinstance(layers, list) or not layers:
        raise NetError("there are no layers: write [[layers]] and a type for each, as docs/own-net.md shows")
    return Net(label, in_shape, tuple(_layer(index, layer) for index, layer in enumerate(layers)), _loss(table))


def _loss(table: dict[str, Any]) -> Loss:
    if "loss" not in table:
        raise NetError(
            'there is no loss: add loss = "CrossEntropyLoss", or "MSELoss" for targets or a net that reproduces its '
            "input, "
            "above the first [[layers]]"
        )
    return loss_of(table["loss"])


def _layer(index: int | str, table: Any) -> Layer | Residual:
    if isinstance(table, dict) and "loss" in table and "type" in table:
        raise NetError(f"layer {index}: loss stands within the layer: put it above the first [[layers]]")
    kind = table.get("type") if isinstance(table, dict) else None
    if kind is None:
        raise NetError(f'layer {index}: has no type: add, for example, type = "Linear"')
    settings = {key: value for key, value in table.items() if key != "type"}
    if kind == "Residual":
        return _residual(index, settings)
    names = [*(name for name, each in Layer.known.items() if each not in RESIDUAL_PARTS), "Residual"]
    if not isinstance(kind, str) or kind not in names:
        raise NetError(
            f"layer {index}: there is no layer {shown(kind)}{meant(kind, names, before=' (', after=')')}: there are "
            f"{', '.join(names)}"
        )
    known = {field.name: field for field in fields(Layer.known[kind])}  # type: ignore[arg-type]
    for key in settings:
        if key in _INFERRED and key not in known:
            raise NetError(f"layer {index}: {kind} infers {key} from what enters it: leave it out")
    _only_known(settings, tuple(known), f"layer {index}: {kind} has no {{!r}}")
    for key, field in known.items():
        if field.default is MISSING and key not in settings:
            raise NetError(f"layer {index}: {kind} wants {key}")
    try:
        return Layer.known[kind](**settings)
    except NetError as error:
        raise NetError(f"layer {index}: {error}") from None


def _residual(index: int | str, settings: dict[str, Any]) -> Residual:
    """Residual connection from a table with layers, and a projection: true, a table, or a list of tables."""
    _only_known(settings, ("layers", "projection"), f"layer {index}: Residual has no {{!r}}")
    inner, through = settings.get("layers"), settings.get("projection", False)
    through = [through] if isinstance(through, dict) else through
    if not isinstance(inner, list) or not inner:
        raise NetError(f'layer {index}: Residual wants layers, as layers = [{{ type = "ReLU" }}]')
    if not isinstance(through, (bool, list)):
        raise NetError(f"layer {index}: Residual wants projection = true, or a list of layers, got {shown(through)}")
    layers = [_layer(f"{index}, layers {at}", each) for at, each in enumerate(inner)]
    if isinstance(through, bool):
        return Residual(*layers, projection=through)
    chain = [_layer(f"{index}, projection {at}", each) for at, each in enumerate(through)]
    return Residual(*layers, projection=chain)


def _only_known(given: Iterable[str], known: tuple[str, ...], complaint: str) -> None:
    for key in given:
        if key not in known:
            raise NetError(
                f"{complaint.format(key)}{meant(key, known, before=' (', after=')')}: it has "
                f"{', '.join(known) or 'no settings'}"
            )


def _from_python(path: str | os.PathLike[str], in_shape: Shape | None, classes: int) -> Net:
    name = os.fspath(path)
    module = run_file(path, NetError)
    key = next((key for key in ("net", "build", "MODEL") if hasattr(module, key)), None)
    if key is None:
        other = next((key for key, value in vars(module).items() if isinstance(value, Net)), None)
        raise NetError(
            f"{name}: no net: name a warpladder.Net, or a function of in_shape that returns one, 'net', or a "
            f"torch.nn.Sequential 'MODEL'{f'; here {other!r} is a Net: call it net' if other else ''}"
        )
    if key == "MODEL":
        try:
            return net_of_module(module.MODEL, in_shape, getattr(module, "LOSS", None), Path(path).stem)
        except (NetError, ArgumentError) as error:
            raise NetError(f"{name}: MODEL: {error}") from None
    made = getattr(module, key)
    if callable(made) and not isinstance(made, Net):
        if in_shape is None:
            raise NetError(f"{name}: {key} is a function of in_shape, the shape of one sample, which is not given")
        arguments = (in_shape, classes)[: _arguments(made)]
        made = call(module, name, NetError, partial(made, *arguments))
    if not isinstance(made, Net):
        what = "None: does it return the net?" if made is None else f"{shown(made)} of type {type(made).__name__}"
        raise NetError(
            f"{name}: {key} wants to be a warpladder.Net or a function of in_shape that returns one, not {what}"
        )
    return made


def _arguments(function: Any) -> int:
    """Number of parameters of a net's function: 1 for in_shape, 2 for in_shape and classes."""
    try:
        inspect.signature(function).bind(None, None)
    except (TypeError, ValueError):
        return 1
    return 2
