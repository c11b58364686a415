"""Net as JSON, and back: the form of nets in checkpoints, results and worker processes."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from ..errors import NetError
from ..errors.arguments import listed, meant, shown
from ..files.python import OURS, home
from . import LOSSES, Layer, Loss, Net


def net_to_json(net: Net) -> dict[str, Any]:
    """Description of a net as JSON objects, {"name", "in_shape", "layers", "loss"}; the loss is its name or, with
    settings, a dict like the layers'.
    """
    layers = [
        {"type": type(layer).__name__, **_from(layer), **asdict(layer)}  # type: ignore[call-overload]
        for layer in net.layers
    ]
    return {"name": net.name, "in_shape": list(net.in_shape), "layers": layers, "loss": _loss_to_json(net.loss)}


def net_from_json(value: Any) -> Net:
    """Net of a description by `net_to_json`. Raises `NetError` if it is malformed or its layers do not fit."""
    if not isinstance(value, dict) or value.keys() != {"name", "in_shape", "layers", "loss"}:
        raise NetError("a net's description wants name, in_shape, layers and loss")
    name, in_shape, layers, loss = value["name"], value["in_shape"], value["layers"], value["loss"]
    if not isinstance(name, str) or not isinstance(in_shape, list) or not isinstance(layers, list):
        raise NetError("a net's description wants a name, and lists for in_shape and layers")
    return Net(name, tuple(in_shape), tuple(map(_layer, range(len(layers)), layers)), loss_of(loss))


def _loss_to_json(loss: Loss) -> str | dict[str, Any]:
    settings = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(loss).items()}
    name = type(loss).__name__
    return name if loss == LOSSES[name]() else {"type": name, **settings}


def loss_of(value: Any) -> Loss:
    """Loss of this name, or of a dict with "type" and settings. Raises `NetError` for an unknown loss."""
    kind, settings = (value.get("type"), value) if isinstance(value, dict) else (value, {})
    if not isinstance(kind, str) or kind not in LOSSES:
        raise NetError(
            f"there is no loss {shown(kind)}{meant(kind, LOSSES, before=' (', after=')')}; there are "
            f"{', '.join(LOSSES)}"
        )
    return made_loss(kind, {key: given for key, given in settings.items() if key != "type"})


def made_loss(kind: str, settings: dict[str, Any]) -> Loss:
    """Loss of this name with settings. Raises `NetError` that names an unknown setting."""
    known = [each.name for each in fields(LOSSES[kind])]
    for name in settings:
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has no settings"
            raise NetError(f"loss: {kind} has no {name!r}{meant(name, known, before=' (', after=')')}: {has}")
    return LOSSES[kind](**settings)


def _from(layer: Layer) -> dict[str, str]:
    """Origin of a layer that is not warpladder's: its file or module."""
    return {} if type(layer).__module__.startswith(OURS) else {"from": home(type(layer))}


def _layer(index: int, value: Any) -> Layer:
    kind = value.get("type") if isinstance(value, dict) else None
    if isinstance(kind, str) and kind not in Layer.known and isinstance(value.get("from"), str):
        raise NetError(
            f"layer {index}: {kind:.80} is not one of warpladder's layers but comes from {value['from']:.80}: "
            "import that first, or name the Python file of the net, as --net FILE.py"
        )
    if not isinstance(kind, str) or kind not in Layer.known:
        raise NetError(f"layer {index}: there is no layer type {shown(kind)}; there are {', '.join(Layer.known)}")
    arguments = {key: argument for key, argument in value.items() if key not in ("type", "from")}
    try:
        return Layer.known[kind](**arguments)
    except TypeError:
        raise NetError(f"layer {index}: {kind} does not take {(listed(arguments) or 'nothing')!r}") from None
