"""A net as JSON, and back."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..errors import NetError
from ..nets import Conv2d, CrossEntropyLoss, Flatten, Layer, Linear, MaxPool2d, MSELoss, Net, ReLU, Upsample2d

LAYERS: dict[str, type[Layer]] = {kind.__name__: kind for kind in (Linear, Conv2d, ReLU, MaxPool2d, Upsample2d, Flatten)}
LOSSES: dict[str, type[CrossEntropyLoss] | type[MSELoss]] = {kind.__name__: kind for kind in (CrossEntropyLoss, MSELoss)}


def net_to_json(net: Net) -> dict[str, Any]:
    """Everything that makes a net, as what `json` can write: {"name", "in_shape", "layers", "loss"}."""
    layers = [{"type": type(layer).__name__, **asdict(layer)} for layer in net.layers]  # type: ignore[call-overload]
    return {"name": net.name, "in_shape": list(net.in_shape), "layers": layers, "loss": type(net.loss).__name__}


def net_from_json(value: Any) -> Net:
    """The net that `net_to_json` described.

    Raises
    ------
    NetError
        Where the description is not one, or describes a chain that cannot work.
    """
    if not isinstance(value, dict) or value.keys() != {"name", "in_shape", "layers", "loss"}:
        raise NetError("a net's description wants name, in_shape, layers and loss")
    name, in_shape, layers, loss = value["name"], value["in_shape"], value["layers"], value["loss"]
    if not isinstance(name, str) or not isinstance(in_shape, list) or not isinstance(layers, list):
        raise NetError("a net's description wants a name, and lists for in_shape and layers")
    if not isinstance(loss, str) or loss not in LOSSES:
        raise NetError(f"there is no loss {loss!r:.80}; there are {', '.join(LOSSES)}")
    return Net(name, tuple(in_shape), tuple(map(_layer, range(len(layers)), layers)), LOSSES[loss]())


def _layer(index: int, value: Any) -> Layer:
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in LAYERS:
        raise NetError(f"layer {index}: there is no layer type {kind!r:.80}; there are {', '.join(LAYERS)}")
    arguments = {key: argument for key, argument in value.items() if key != "type"}
    try:
        return LAYERS[kind](**arguments)
    except TypeError:
        raise NetError(f"layer {index}: {kind} does not take {', '.join(arguments) or 'nothing'!r:.80}") from None
