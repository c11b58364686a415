"""A net as JSON, and back: checkpoints, results and worker processes carry nets in this form."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..errors import NetError
from ..errors.arguments import listed, shown
from ..files.python import OURS, home
from . import CrossEntropyLoss, Layer, Loss, MSELoss, Net

LOSSES: dict[str, type[Loss]] = {kind.__name__: kind for kind in (CrossEntropyLoss, MSELoss)}


def net_to_json(net: Net) -> dict[str, Any]:
    """Description of a net that `json` can write: {"name", "in_shape", "layers", "loss"}."""
    layers = [
        {"type": type(layer).__name__, **_from(layer), **asdict(layer)}  # type: ignore[call-overload]
        for layer in net.layers
    ]
    return {"name": net.name, "in_shape": list(net.in_shape), "layers": layers, "loss": type(net.loss).__name__}


def net_from_json(value: Any) -> Net:
    """Net of a description by `net_to_json`; `NetError` if it is malformed or its chain of layers cannot work."""
    if not isinstance(value, dict) or value.keys() != {"name", "in_shape", "layers", "loss"}:
        raise NetError("a net's description wants name, in_shape, layers and loss")
    name, in_shape, layers, loss = value["name"], value["in_shape"], value["layers"], value["loss"]
    if not isinstance(name, str) or not isinstance(in_shape, list) or not isinstance(layers, list):
        raise NetError("a net's description wants a name, and lists for in_shape and layers")
    if not isinstance(loss, str) or loss not in LOSSES:
        raise NetError(f"there is no loss {shown(loss)}; there are {', '.join(LOSSES)}")
    return Net(name, tuple(in_shape), tuple(map(_layer, range(len(layers)), layers)), LOSSES[loss]())


def _from(layer: Layer) -> dict[str, str]:
    """Origin of a layer that is not one of warpladder's: its file or module."""
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
