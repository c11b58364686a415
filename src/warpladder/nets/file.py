"""A net from a file of a user's: TOML that lists layers, or Python that makes a `Net`."""

from __future__ import annotations

import inspect
import os
import re
import tomllib
from collections.abc import Iterable
from dataclasses import MISSING, fields
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import NetError
from ..files.python import call, run_file
from . import ZOO, Layer, Loss, Net, Shape, is_named
from .describe import LOSSES

ENDINGS = (".toml", ".py")

MOST = 10**12  # parameters: 4 TB of them

#: What PyTorch's layers are told and ours infer.
_INFERRED = ("in_channels", "in_features", "num_features")


def load_net(path: str | os.PathLike[str], in_shape: Shape | None = None, classes: int = 10) -> Net:
    """Read a net from a file.

    Parameters
    ----------
    path : path
        A `.toml` file with `loss`, a list of `layers` and, where they are stated, `name` and `in_shape`; or a `.py`
        file that defines `net`, a `Net` or a function of in_shape (and classes, if it takes a second argument) that
        returns one, or such a function under the name `build`. docs/own-net.md has both.
    in_shape : tuple of int or None
        Shape of one sample, for a file that leaves it out; a file that states it keeps its own.
    classes : int
        For a function that asks for it.

    Returns
    -------
    Net

    Raises
    ------
    NetError
        One line with the file, the place in it and what is wrong.
    """
    name = os.fspath(path)
    ending = Path(path).suffix
    if ending not in ENDINGS:
        raise NetError(f"{name}: a net is read from a .toml or a .py file")
    net = _from_toml(path, in_shape) if ending == ".toml" else _from_python(path, in_shape, classes)
    if net.param_count > MOST:
        raise NetError(
            f"{name}: the net has {net.param_count:,} parameters, and no memory holds more than {MOST:,}: look for a size that is mistyped"
        )
    if not re.fullmatch(r"\w[\w .+-]{0,79}", net.name):
        raise NetError(
            f"{name}: the name {net.name!r:.80} will not do, since files are called after it: take letters, digits, - and _"
        )
    if any(make.__name__ == net.name for make in ZOO) and not is_named(net):
        raise NetError(
            f"{name}: the name {net.name!r} is that of another net, which 'warpladder nets' shows: give this one its own name"
        )
    return net


def _from_toml(path: str | os.PathLike[str], in_shape: Shape | None) -> Net:
    name = os.fspath(path)
    try:
        told = tomllib.loads(Path(path).expanduser().read_bytes().decode("utf-8-sig").replace("\r\n", "\n"))
    except OSError as error:
        raise NetError(f"{name}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise NetError(f"{name}, line {line}: is not UTF-8 text: save the file as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise NetError(f"{name}: is not TOML: {error}") from None
    try:
        return net_of(told, Path(path).stem, in_shape)
    except NetError as error:
        raise NetError(f"{name}: {error}") from None


def net_of(told: dict[str, Any], stem: str, in_shape: Shape | None = None) -> Net:
    """The net that a TOML table tells of; it is called `stem` where the table has no name. `NetError` says what is
    wrong with it.
    """
    _only_known(told, ("name", "in_shape", "loss", "layers"), "a net has no {!r}")
    label = told.get("name", stem)
    if not isinstance(label, str):
        raise NetError(f"name wants text in quotes, got {label!r:.80}")
    if "in_shape" in told:
        stated = told["in_shape"]
        if not isinstance(stated, list) or not all(
            isinstance(size, int) and not isinstance(size, bool) for size in stated
        ):
            raise NetError(f"in_shape wants a list of whole numbers, as [1, 28, 28], got {stated!r:.80}")
        in_shape = tuple(stated)
    if in_shape is None:
        raise NetError(
            "in_shape, the shape of one sample, is neither in the file nor given: add in_shape = [1, 28, 28] to it, say, or give it (--shape 1x28x28)"
        )
    layers = told.get("layers")
    if isinstance(layers, dict):
        raise NetError("layers wants a list: write [[layers]], with two brackets, before each layer")
    if not isinstance(layers, list) or not layers:
        raise NetError("there are no layers: write [[layers]] and a type for each, as docs/own-net.md shows")
    return Net(label, in_shape, tuple(_layer(index, layer) for index, layer in enumerate(layers)), _loss(told))


def _loss(told: dict[str, Any]) -> Loss:
    if "loss" not in told:
        raise NetError(
            'there is no loss: add loss = "CrossEntropyLoss", or "MSELoss" for a net that reproduces its input, above the first [[layers]]'
        )
    kind = told["loss"]
    if not isinstance(kind, str) or kind not in LOSSES:
        raise NetError(f"there is no loss {kind!r:.80}{_meant(kind, LOSSES)}: there are {', '.join(LOSSES)}")
    return LOSSES[kind]()


def _layer(index: int, told: Any) -> Layer:
    if isinstance(told, dict) and "loss" in told and "type" in told:
        raise NetError(f"layer {index}: loss stands within the layer: put it above the first [[layers]]")
    kind = told.get("type") if isinstance(told, dict) else None
    if kind is None:
        raise NetError(f'layer {index}: has no type: add, for example, type = "Linear"')
    if not isinstance(kind, str) or kind not in Layer.known:
        raise NetError(
            f"layer {index}: there is no layer {kind!r:.80}{_meant(kind, Layer.known)}: there are {', '.join(Layer.known)}"
        )
    settings = {key: value for key, value in told.items() if key != "type"}
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


def _only_known(told: Iterable[str], known: tuple[str, ...], complaint: str) -> None:
    for key in told:
        if key not in known:
            raise NetError(f"{complaint.format(key)}{_meant(key, known)}: it has {', '.join(known) or 'no settings'}")


def _meant(word: object, known: Iterable[str]) -> str:
    """A question in brackets, where a known name is close to the word, capitals aside."""
    by_lower = {name.lower(): name for name in known}
    close = get_close_matches(str(word).lower(), by_lower, 1, 0.65)
    return f" (did you mean {by_lower[close[0]]!r}?)" if close else ""


def _from_python(path: str | os.PathLike[str], in_shape: Shape | None, classes: int) -> Net:
    name = os.fspath(path)
    module = run_file(path, NetError)
    key = next((key for key in ("net", "build") if hasattr(module, key)), None)
    if key is None:
        raise NetError(
            f"{name}: defines no net: name a warpladder.Net, or a function of in_shape that returns one, 'net'"
        )
    made = getattr(module, key)
    if callable(made) and not isinstance(made, Net):
        if in_shape is None:
            raise NetError(f"{name}: {key} is a function of in_shape, the shape of one sample, which is not given")
        arguments = (in_shape, classes)[: _arguments(made)]
        made = call(module, name, NetError, partial(made, *arguments))
    if not isinstance(made, Net):
        what = "None: does it return the net?" if made is None else f"{made!r:.60} of type {type(made).__name__}"
        raise NetError(
            f"{name}: {key} wants to be a warpladder.Net, or a function of in_shape that returns one, and is {what}"
        )
    return made


def _arguments(function: Any) -> int:
    """1 for a function of in_shape, 2 for one of in_shape and classes."""
    try:
        inspect.signature(function).bind(None, None)
    except (TypeError, ValueError):
        return 1
    return 2
