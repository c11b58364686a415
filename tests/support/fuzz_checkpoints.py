"""Checkpoints that are nearly right: damage to what they say, under a checksum that fits, so that it reaches deep."""

from __future__ import annotations

import json
import random
from copy import deepcopy
from typing import Any

import numpy as np
from checkpoints import adam, finished
from runs import AUTOENCODER, CONFIG, MLP, data
from safetensors import SafetensorError
from safetensors.numpy import load, save

from warpladder.checkpoint import Checkpoint, EpochLog, EpochSums, Score, codec, decode, encode
from warpladder.nets import Net
from warpladder.nets.params import initial, views
from warpladder.train.restore import to_state
from warpladder.train.start import data_mark

_EDGES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 2**31, 2**63, 10**400, 0.5, -0.0, 1e308, float("nan"), float("inf"), "", "nan", "0x1p+5000",
    "Linear", "MSELoss", "SGD", "Cosine", "\ud800", "a\nb", [], {}, [1, 4, 4], [[]], {"type": "Flatten"}, {"type": "Linear", "out_features": 10**30},
)  # fmt: skip


def seeds() -> list[bytes]:
    """Of a run within an epoch, of a finished one, and of one that has just begun and has a tuner's plan."""
    noise = data_mark(data())

    def momentum(net: Net) -> dict[str, np.ndarray]:
        return views(net, np.linspace(-1, 1, net.param_count, dtype=np.float32))

    def at(net: Net, **place: Any) -> bytes:
        logs = tuple(
            EpochLog(epoch, 1.5 / epoch, 0.5, 1.25, 0.5, 0.01) for epoch in range(1, place.get("epoch", 0) + 1)
        )
        return encode(
            Checkpoint(
                net, place.pop("config", CONFIG), noise, "numpy", views(net, initial(net, 1)), history=logs, **place
            )
        )

    return [
        at(MLP, slots={"momentum_buffer": momentum(MLP)}, epoch=1, step=3, sums=EpochSums(20.25, 9, 24, 0.01)),
        at(MLP, config=CONFIG.but(momentum=0.0, nesterov=False), epoch=3, finished=True, test=Score(0.75, 0.5)),
        at(AUTOENCODER, slots={"momentum_buffer": momentum(AUTOENCODER)}, tuned=finished().tuned),
        encode(adam(MLP)),
    ]


def parse(content: bytes) -> None:
    """What was read is of one piece, can be trained on, and can be written and read again."""
    checkpoint = decode(content)
    state = to_state(checkpoint)
    assert tuple(state.slots) == checkpoint.config.optimizer.slots and state.step == checkpoint.made
    for array in (state.params, *state.slots.values()):
        assert array.shape == (checkpoint.net.param_count,) and array.dtype == np.float32 and np.isfinite(array).all()
    assert 0 <= checkpoint.epoch <= checkpoint.config.epochs and len(checkpoint.history) == checkpoint.epoch
    again = encode(checkpoint)
    assert encode(decode(again)) == again


def damage(content: bytes, rng: random.Random) -> bytes:
    """More often than not the bytes' damage is undone where that is possible, and the document's or the
    tensors' put in its place.
    """
    if rng.random() < 0.3:
        return content
    valid = rng.choice(VALID) if rng.random() < 0.9 else content
    try:
        tensors, document = load(valid), _document(valid)
    except (SafetensorError, ValueError, KeyError, TypeError, OverflowError, MemoryError):
        return content
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        _damage_node(document, rng)
    if rng.random() < 0.3:
        _damage_tensor(tensors, rng)
    if isinstance(document, dict) and rng.random() < 0.9:
        document["sha256"] = codec._digest(document, tensors)
    return save(tensors, {codec.KEY: json.dumps(document)})


def _document(content: bytes) -> Any:
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return json.loads(header["__metadata__"][codec.KEY])


def _damage_node(node: Any, rng: random.Random) -> None:
    """One value somewhere below `node` replaced, dropped, doubled, or moved by a little."""
    key: Any
    while isinstance(node, (dict, list)) and node:
        key = rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
        inner = node[key]
        if not isinstance(inner, (dict, list)) or not inner or rng.random() < 0.2:
            break
        node = inner
    else:
        return
    kind = rng.randrange(6)
    if kind == 0:
        del node[key]
    elif kind == 1 and isinstance(node, list):
        node.insert(key, deepcopy(inner))
    elif kind == 1 and isinstance(node, dict):
        node[str(rng.choice(_EDGES[-8:]))[:9]] = deepcopy(inner)
    elif kind < 4 and isinstance(inner, (int, float)):
        node[key] = inner + rng.choice((-1, 1))
    else:
        node[key] = deepcopy(rng.choice(_EDGES))


def _damage_tensor(tensors: dict[str, np.ndarray], rng: random.Random) -> None:
    if not tensors:
        return
    name = rng.choice(sorted(tensors))
    kind = rng.randrange(6)
    tensor = tensors[name]
    if kind == 0:
        del tensors[name]
    elif kind == 1:
        tensors[rng.choice(("", "velocity.", "momentum_buffer.velocity.", "exp_avg_sq.0.weight", "9.weight"))] = (
            tensors.pop(name)
        )
    elif kind == 2:
        tensors[name] = tensor.reshape(-1)
    elif kind == 3 and tensor.size:
        tensors[name] = tensor.copy()
        tensors[name].flat[0] = rng.choice((np.nan, np.inf, -np.inf, 1e38, 1e-45))
    elif kind == 4:
        tensors[name] = np.zeros_like(tensor, rng.choice((np.float64, np.float16, np.int32)))
    else:
        tensors[name] = tensor[:0]


VALID = seeds()
