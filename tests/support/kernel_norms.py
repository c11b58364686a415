"""Batch normalisation as kernels, against the float64 reference: a training step of a batch, then a prediction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from kernel_tools import Runs, nan, send, untouched

from warpladder.config import TrainConfig
from warpladder.device import Device
from warpladder.nets import BatchNorm1d, BatchNorm2d, Layer, Shape
from warpladder.ops.batchnorm import reference
from warpladder.ops.engine.base import Buffers
from warpladder.ops.engine.chain import subgraph, whole
from warpladder.ops.engine.segments import Operands, Segment

#: By kind: layers, the shape of a sample, samples and threads of a block; odd sizes, and one image alone.
NORMS: dict[type[Layer], list[tuple[Any, Shape, int, int]]] = {
    BatchNorm1d: [
        (BatchNorm1d(momentum=0.3), (7,), 5, 32), (BatchNorm1d(eps=0.1, affine=False), (1,), 33, 96),
    ],
    BatchNorm2d: [
        (BatchNorm2d(eps=1e-3), (3, 5, 7), 4, 64), (BatchNorm2d(affine=False), (2, 1, 3), 1, 256),
        (BatchNorm2d(momentum=1.0), (5, 4, 1), 2, 1024),
    ],
}  # fmt: skip
TOLERANCE = 4e-6  # of float32 numbers about 1, whose sums are float64


def norm_cases(key: tuple[type[Layer], ...], kind: type[Segment]) -> Runs:
    for position, (layer, shape, n, block) in enumerate(NORMS[key[0]]):
        for want_dx in (True, False)[: 1 + position % 2]:
            name = f"{layer} on {shape}, {n} samples, block {block}{'' if want_dx else ', no dx'}"
            yield name, lambda device, a=(kind, layer, shape, n, block, want_dx): _step(device, *a)  # type: ignore[misc]


def _step(device: Device, kind: type[Segment], layer: Any, shape: Shape, n: int, block: int, want_dx: bool) -> set[str]:
    rng, capacity, channels = np.random.default_rng(n), n + 2, shape[0]
    x, dy = (rng.normal(0.5, 1, (n, *shape)).astype(np.float32) for _ in range(2))
    w, b, mean = (rng.normal(1, 0.3, channels).astype(np.float32) for _ in range(3))
    var = rng.uniform(0.5, 2, channels).astype(np.float32)
    host = {"x": nan(capacity, *shape), "dy": nan(capacity, *shape)}
    host["x"][:n], host["dy"][:n] = x, dy
    host |= {"y": nan(capacity, *shape), "dx": nan(capacity, *shape), "mean": mean, "var": var}
    if layer.affine:
        host |= {"w": w, "b": b, "dw": nan(channels), "db": nan(channels)}
    arrays = {name: device.array(array, name) for name, array in host.items()}
    buffers = Buffers(**{**arrays, "dx": arrays["dx"] if want_dx else None})
    part, nodes = whole(n), subgraph((layer,), shape, capacity, device.limits)
    segment = kind(device, replace(nodes, config=TrainConfig()), Operands(buffers), block)
    launched = send(segment.forward(part)) | send(segment.backward(part))
    wide: list[Any] = [each.astype(float) if layer.affine else None for each in (w, b)]
    moved = reference.moved(layer, x.astype(float), mean.astype(float), var.astype(float))
    gradients = reference.backward(layer, x.astype(float), wide[0], dy.astype(float))
    wanted = {"y": reference.forward(layer, x.astype(float), *wide), "mean": moved[0], "var": moved[1]}
    wanted |= dict(zip(("dx", "dw", "db"), gradients, strict=False))
    found = {name: arrays[name].download() for name in wanted}
    for name, want in wanted.items():
        if name == "dx" and not want_dx:
            continue
        got = found[name][:n] if name in ("y", "dx") else found[name]
        assert np.abs(got - want).max() <= TOLERANCE * max(1.0, np.abs(want).max()), name
    untouched(found["y"], n, "y")
    untouched(found["dx"], n if want_dx else 0, "dx")
    predicting = kind(device, nodes, Operands(buffers), block)
    launched |= send(predicting.forward(part))
    held = (found[name].astype(float) for name in ("mean", "var"))
    want = reference.predict(layer, x.astype(float), *wide, *held)
    assert np.abs(arrays["y"].download()[:n] - want).max() <= TOLERANCE * np.abs(want).max()
    assert np.array_equal(arrays["mean"].download(), found["mean"])
    return launched
