"""Batch normalisation as kernels, alone and with the layers after it, against the float64 references: a training step of
a batch, then a prediction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import numpy as np
from kernel_tools import Runs, nan, send, untouched

from warpladder.config import TrainConfig
from warpladder.device import Device
from warpladder.nets import (
    GELU,
    BatchNorm1d,
    BatchNorm2d,
    Branch,
    Layer,
    LeakyReLU,
    MaxPool2d,
    ReLU,
    Shape,
    Sigmoid,
    SiLU,
    Sum,
    Tanh,
)
from warpladder.ops.activation import reference as activations
from warpladder.ops.batchnorm import fused, pooled, reference
from warpladder.ops.engine.base import Buffers
from warpladder.ops.engine.chain import subgraph, whole
from warpladder.ops.engine.segments import Operands, Segment
from warpladder.ops.maxpool2d import reference as pools
from warpladder.ops.relu import reference as relu

#: By kind: layers, the shape of a sample, samples and threads of a block; odd sizes, and one image alone.
NORMS: dict[type[Layer], list[tuple[Any, Shape, int, int]]] = {
    BatchNorm1d: [
        (BatchNorm1d(momentum=0.3), (7,), 5, 32), (BatchNorm1d(eps=0.1, affine=False), (1,), 33, 96),
        (BatchNorm1d(), (67,), 41, 256),
    ],
    BatchNorm2d: [
        (BatchNorm2d(eps=1e-3), (3, 5, 7), 4, 64), (BatchNorm2d(affine=False), (2, 1, 3), 1, 256),
        (BatchNorm2d(momentum=1.0), (5, 4, 1), 2, 1024), (BatchNorm2d(), (17, 6, 6), 9, 256),
    ],
}  # fmt: skip
#: Divisions of a channel's numbers among blocks: one block, and the parts that there are for more numbers than these.
DIVISIONS: list[Mapping[str, int]] = [{}, {"MOST": 8, "MOST_ROWS": 4, "PART": 20, "PART_ROWS": 4, "RESIDENT": 99}]
AFTER: dict[type[Layer], Layer] = {
    ReLU: ReLU(), Tanh: Tanh(), Sigmoid: Sigmoid(), LeakyReLU: LeakyReLU(negative_slope=0.2), GELU: GELU(), SiLU: SiLU(),
    Sum: Sum(), Branch: Branch(), MaxPool2d: MaxPool2d(2),
}  # fmt: skip
TOLERANCE = 4e-6  # of numbers about 1


@dataclass(frozen=True)
class Case:
    """A normalisation with the layers after it."""

    layers: tuple[Any, ...]
    shape: Shape
    n: int
    block: int
    want_dx: bool = True
    division: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        layers, ways = (
            " + ".join(map(str, self.layers)),
            ", ".join(f"{name} {at}" for name, at in self.division.items()),
        )
        return (
            f"{layers} on {self.shape}, {self.n} samples, block {self.block}"
            f"{'' if self.want_dx else ', no dx'}{ways and ', ' + ways}"
        )


def norm_cases(key: tuple[type[Layer], ...], kind: type[Segment]) -> Runs:
    for case in _cases(key, kind):
        yield str(case), lambda device, case=case: _step(device, kind, case)  # type: ignore[misc]


def _cases(key: tuple[type[Layer], ...], kind: type[Segment]) -> list[Case]:
    """All shapes and divisions of a normalisation alone; of a longer chain one, in turn."""
    after, divisions = (
        tuple(AFTER[each] for each in key[1:]),
        DIVISIONS if issubclass(kind, fused.FusedBatchNorm) else DIVISIONS[:1],
    )
    every = [
        Case((layer, *after), shape, n, block, want_dx, division)
        for division in divisions
        for position, (layer, shape, n, block) in enumerate(NORMS[key[0]])
        for want_dx in (True, False)[: 1 + position % 2]
    ]
    dx = [case for case in every if case.want_dx]
    if kind is pooled.PooledBatchNorm:
        return [case for case in dx if min(case.shape[1:]) > 1][:: 1 if key[1] is ReLU else 2]
    return every if len(key) == 1 else [dx[sum(map(len, map(str, after))) % len(dx)]]


def reference_step(layers: tuple[Any, ...], x: np.ndarray, given: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Outputs y, gradients dx, dw and db, and g, the gradient of both summands of a Sum, in float64.

    given : w, b, skip, dy and dskip, the second gradient of a Branch; missing ones are None.
    """
    norm, after = layers[0], next((each for each in layers[1:] if not isinstance(each, Sum | Branch | MaxPool2d)), None)
    v = reference.forward(norm, x, given.get("w"), given.get("b"))
    v = v if given.get("skip") is None else v + given["skip"]
    found, dy = {"v": v, "y": v}, given["dy"]
    dy = dy if given.get("dskip") is None else dy + given["dskip"]
    of: Any = relu if isinstance(after, ReLU) else activations
    end = v if after is None else of.forward(after, v, None, None)
    if isinstance(layers[-1], MaxPool2d):
        found["y"] = pools.forward(layers[-1], end, None, None)
        (dy,) = pools.backward(layers[-1], end, None, dy)
    else:
        found["y"] = end
    if after is not None:
        (dy,) = of.backward(after, v, None, dy)
    found["g"] = dy
    gradients = reference.backward(norm, x, given.get("w"), dy)
    return found | dict(zip(("dx", "dw", "db"), gradients, strict=False))


def clear_of_kinks(layers: tuple[Any, ...], x: np.ndarray, given: dict[str, Any]) -> None:
    """Draw skip, or the normalisation's input, anew where an output of it lies at a kink."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        near = np.abs(reference_step(layers, x.astype(float), _wide(given))["v"]) < 1e-4
        if not near.any():
            return
        x[near] += rng.normal(0, 0.3, near.sum())
    raise AssertionError("these inputs stay at the kinks")


def _wide(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: None if array is None else array.astype(float) for name, array in given.items()}


def _step(device: Device, kind: type[Segment], case: Case) -> set[str]:
    layers, n, shape, rng = case.layers, case.n, case.shape, np.random.default_rng(case.n)
    capacity, channels, out = n + 2, shape[0], shape
    for layer in layers:
        out = layer.out_shape(out)
    x, dy, skip, dskip = (rng.normal(0.5, 1, (n, *size)).astype(np.float32) for size in (shape, out, shape, shape))
    w, b, mean = (rng.normal(1, 0.3, channels).astype(np.float32) for _ in range(3))
    var = rng.uniform(0.5, 2, channels).astype(np.float32)
    given: dict[str, Any] = {"dy": dy} | ({"w": w, "b": b} if layers[0].affine else {})
    given |= {"skip": skip} if any(isinstance(each, Sum) for each in layers) else {}
    given |= {"dskip": dskip} if any(isinstance(each, Branch) for each in layers) else {}
    if len(layers) > 1:
        clear_of_kinks(layers, x, given)
    host = {name: nan(capacity, *shape) for name in ("x", "y", "dx", "dy", "skip", "dskip")} | {
        "mean": mean,
        "var": var,
    }
    host |= {name: nan(capacity, *out) for name in ("y", "dy")}
    for name, array in (("x", x), ("dy", dy), ("skip", skip), ("dskip", dskip)):
        host[name][:n] = array
    if layers[0].affine:
        host |= {"w": w, "b": b, "dw": nan(channels), "db": nan(channels)}
    arrays = {name: device.array(array, name) for name, array in host.items()}
    buffers = Buffers(**{**arrays, "dx": arrays["dx"] if case.want_dx else None})
    part, nodes = whole(n), subgraph(layers, shape, capacity, device.limits)
    with mock.patch.dict(vars(fused), case.division):
        segment = kind(device, replace(nodes, config=TrainConfig()), Operands(buffers), case.block)
        launched = send(segment.forward(part)) | send(segment.backward(part))
        moved = reference.moved(layers[0], x.astype(float), mean.astype(float), var.astype(float))
        wanted = reference_step(layers, x.astype(float), _wide(given)) | {"mean": moved[0], "var": moved[1]}
        found = {name: arrays["dy" if name == "g" else name].download() for name in wanted if name != "v"}
        for name, got in found.items():
            left_out = (name == "dx" and not case.want_dx) or (name == "g" and not {"skip", "dskip"} & given.keys())
            _close(name, got[:n] if got.ndim > 1 else got, found[name] if left_out else wanted[name], left_out)
        untouched(found["y"], n, "y")
        untouched(found["dx"], n if case.want_dx else 0, "dx")
        predicting = kind(device, nodes, Operands(buffers), case.block)
        launched |= send(predicting.forward(part))
    want = _predicted(layers, x.astype(float), _wide(given), found)
    _close("prediction", arrays["y"].download()[:n], want)
    assert np.array_equal(arrays["mean"].download(), found["mean"])
    return launched


def _close(name: str, got: np.ndarray, want: np.ndarray, left_out: bool = False) -> None:
    assert left_out or np.abs(got - want).max() <= TOLERANCE * max(1.0, np.abs(want).max()), name


def _predicted(
    layers: tuple[Any, ...], x: np.ndarray, given: Mapping[str, Any], held: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Outputs by running statistics."""
    mean, var = (held[name].astype(float) for name in ("mean", "var"))
    v = reference.predict(layers[0], x, given.get("w"), given.get("b"), mean, var)
    v = v if given.get("skip") is None else v + given["skip"]
    after = next((each for each in layers[1:] if not isinstance(each, Sum | Branch | MaxPool2d)), None)
    of: Any = relu if isinstance(after, ReLU) else activations
    end: np.ndarray = v if after is None else of.forward(after, v, None, None)
    return pools.forward(layers[-1], end, None, None) if isinstance(layers[-1], MaxPool2d) else end
