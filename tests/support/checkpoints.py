"""Checkpoints for the tests: small ones, taken apart, changed and put together with a right checksum."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import numpy as np
from runs import CNN, CONFIG, MLP
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from warpladder.checkpoint import Checkpoint, DataMark, EpochLog, EpochSums, Score
from warpladder.checkpoint.plan import NetPlan, OpPlan, ProductPlan
from warpladder.config import TrainConfig
from warpladder.nets import Net
from warpladder.nets.params import initial, views
from warpladder.optimizers import Adam
from warpladder.optimizers.schedules import Cosine

Tensors = dict[str, np.ndarray]


def example(net: Net = CNN, momentum: float = 0.9, **changes: Any) -> Checkpoint:
    """In the second epoch of three, after three of seven steps."""
    flat = initial(net, 1)
    config = CONFIG.but(momentum=momentum, nesterov=momentum > 0)
    mark = DataMark("noise", 53, 1 / 255, {"train_x": "uint8 53x1x4x4 crc32 01234567"})
    history = (EpochLog(1, 1.25, 0.5, None, None, 0.125),)
    slots = {"momentum_buffer": views(net, flat * 2)} if momentum else {}
    made = Checkpoint(net, config, mark, "numpy", views(net, flat), slots, 1, 3, EpochSums(7.3, 9, 24, 0.1), history)
    return replace(made, **changes)


def adam(net: Net = CNN, **changes: Any) -> Checkpoint:
    """The same place in a run with Adam, whose rate falls along a cosine."""
    flat = initial(net, 1)
    config = TrainConfig(
        epochs=3, batch_size=8, optimizer=Adam(0.01, betas=(0.8, 0.99)), schedule=Cosine(warmup=1), seed=5, log_every=4
    )
    slots = {"exp_avg": views(net, flat * 2), "exp_avg_sq": views(net, flat**2)}
    return example(net, config=config, slots=slots, **changes)


def former(document: dict[str, Any], tensors: Tensors) -> bytes:
    """The file of a run with SGD in the form that it had before there were other optimizers."""
    settings = dict(document["config"])
    schedule, optimizer = settings.pop("schedule"), settings.pop("optimizer")
    assert schedule["name"] == "Constant" and optimizer.pop("name") == "SGD"
    renamed = {name.replace("momentum_buffer.", "velocity."): array for name, array in tensors.items()}
    return together(document | {"format": 1, "config": settings | optimizer}, renamed)


def finished(net: Net = MLP, momentum: float = 0.0) -> Checkpoint:
    """After the last epoch."""
    history = tuple(EpochLog(epoch, 1 / epoch, 0.5, 0.25, 0.125, 0.1) for epoch in (1, 2, 3))
    product = ProductPlan(2, "GemmConv2d", "dw", 8, (64, 64, 16, 8, 8, 3), 128, 4)
    tuned = NetPlan("NVIDIA H200, compute capability 9.0", (OpPlan(2, "GemmConv2d", 8),), (product,))
    return example(
        net,
        momentum,
        tuned=tuned,
        epoch=3,
        step=0,
        sums=EpochSums(),
        history=history,
        finished=True,
        test=Score(0.1, 0.9),
    )


def apart(content: bytes) -> tuple[dict[str, Any], Tensors]:
    """The JSON document and the tensors of a checkpoint file."""
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return json.loads(header["__metadata__"]["warpladder"]), load_tensors(content)


def together(document: Any, tensors: Tensors) -> bytes:
    """A checkpoint file with a right checksum: sha256 of the other fields as sorted, compact JSON, then of the tensors
    by name.
    """
    if isinstance(document, dict):
        rest = {key: value for key, value in document.items() if key != "sha256"}
        digest = hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode())
        for name in sorted(tensors):
            digest.update(tensors[name].tobytes())
        document = rest | {"sha256": digest.hexdigest()}
    return save_tensors(tensors, {"warpladder": json.dumps(document)})
