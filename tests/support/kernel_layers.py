"""Layers as kernels, alone or several in one pass, against the float64 reference."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, count, cycle
from typing import Any

import numpy as np
from kernel_tools import BATCHES, BLOCKS, Runs, close, nan, send, untouched
from magnitudes import backward_scale, chain, distance, forward_scale
from segments_here import for_layers

from warpladder.device import Device, Limits
from warpladder.errors import NetError
from warpladder.nets import (
    GELU,
    AdaptiveAvgPool2d,
    AvgPool2d,
    Conv2d,
    Dropout,
    Layer,
    LeakyReLU,
    Linear,
    MaxPool2d,
    ReLU,
    Shape,
    Sigmoid,
    SiLU,
    Tanh,
    Upsample2d,
)
from warpladder.ops.engine.base import Buffers
from warpladder.ops.engine.chain import subgraph, whole
from warpladder.ops.engine.segments import Segment
from warpladder.ops.tables.reference import backward as _backward
from warpladder.ops.tables.reference import forward as _forward
from warpladder.proof.tolerance import bound

#: For each kind of layer, some with the shape of what enters them: odd sizes, windows that overlap or leave pixels out,
#: one pixel.
LAYERS: dict[type[Layer], list[tuple[Layer, Shape]]] = {
    Linear: [
        (Linear(out_features=1), (1,)), (Linear(out_features=3), (13,)), (Linear(out_features=17), (3,)),
        (Linear(out_features=33), (131,)), (Linear(out_features=2), (1031,)),
    ],
    Conv2d: [
        (Conv2d(out_channels=1, kernel_size=1), (1, 1, 1)), (Conv2d(out_channels=3, kernel_size=3), (2, 7, 5)),
        (Conv2d(out_channels=2, kernel_size=3, padding=1), (3, 5, 8)), (Conv2d(out_channels=4, kernel_size=3, stride=2, padding=2), (3, 6, 9)),
        (Conv2d(out_channels=2, kernel_size=2, stride=3, padding=1), (2, 8, 5)),
        (Conv2d(out_channels=17, kernel_size=5, padding=2), (5, 11, 9)),
        (Conv2d(out_channels=2, kernel_size=5, stride=4, padding=2), (1, 11, 10)),
    ],
    ReLU: [(ReLU(), (19,)), (ReLU(), (3, 5, 7))],
    Tanh: [(Tanh(), (3, 5, 7))], Sigmoid: [(Sigmoid(), (19,))], SiLU: [(SiLU(), (3, 5, 7))],
    LeakyReLU: [(LeakyReLU(0.2), (19,))], GELU: [(GELU(), (19,)), (GELU(approximate="tanh"), (3, 5, 7))],
    Dropout: [(Dropout(0.5), (3, 5, 7))],  # without a key, as in predictions
    MaxPool2d: [(MaxPool2d(2), (2, 7, 5)), (MaxPool2d(3, 1), (2, 5, 6)), (MaxPool2d(2, 3), (3, 8, 9)), (MaxPool2d(17, 1), (1, 17, 18))],
    AvgPool2d: [(AvgPool2d(2), (2, 7, 5)), (AvgPool2d(6, 1), (2, 7, 9)), (AvgPool2d(3, 1), (2, 5, 6)), (AvgPool2d(2, 3), (3, 8, 9))],
    AdaptiveAvgPool2d: [(AdaptiveAvgPool2d(1), (3, 5, 7))],
    Upsample2d: [(Upsample2d(scale_factor=2), (3, 4, 5)), (Upsample2d(scale_factor=3), (1, 2, 3))],
}  # fmt: skip


def layer_cases(key: tuple[type[Layer], ...], op: type[Segment]) -> Runs:
    sizes, blocks = cycle(BATCHES), cycle(BLOCKS)
    for position, (layers, in_shape) in enumerate(chains(key, op)):
        heavy = np.prod(in_shape) * np.prod(layers[0].out_shape(in_shape)) > 10**5
        for want_dx in (True, position % 2 == 1):
            (capacity, n), block = next(sizes), next(blocks)
            if heavy:
                capacity, n = min(capacity, 7), min(n, 6)
            name = f"{layers} on {in_shape}, {n} of {capacity}, block {block}{'' if want_dx else ', no dx'}"
            yield name, lambda device, a=(op, layers, in_shape, capacity, n, want_dx, block): _layers(device, *a)  # type: ignore[misc]
    if key == (ReLU,):
        yield "in place", lambda device: _layers(device, op, (ReLU(),), (3, 5, 7), 5, 3, True, 96, in_place=True)


def chains(key: tuple[type[Layer], ...], op: type[Segment]) -> Iterator[tuple[tuple[Layer, ...], Shape]]:
    """Layers of these types that the segment takes, one after another, and the shape that enters the first: one chain
    for each first layer.
    """
    for position, (first, in_shape) in enumerate(LAYERS[key[0]]):
        found: list[tuple[Layer, ...]] = [(first,)]
        for kind in key[1:]:
            found = [
                (*layers, layer) for layers in found for layer, _ in LAYERS[kind] if _fits((*layers, layer), in_shape)
            ]
        found = [layers for layers in found if op.takes(subgraph(layers, in_shape, 1, Limits("any")))]
        if found:
            yield found[position % len(found)], in_shape


def shapes_of(layers: tuple[Layer, ...], in_shape: Shape) -> tuple[Shape, ...]:
    """What enters each layer, and last what leaves."""
    return tuple(accumulate(layers, lambda shape, layer: layer.out_shape(shape), initial=in_shape))


def _fits(layers: tuple[Layer, ...], in_shape: Shape) -> bool:
    try:
        return bool(shapes_of(layers, in_shape))
    except NetError:
        return False


def _layers(
    device: Device, op: type[Segment], layers: tuple[Layer, ...], in_shape: Shape, capacity: int, n: int, want_dx: bool, block: int, in_place: bool = False
) -> set[str]:  # fmt: skip
    shapes = shapes_of(layers, in_shape)
    limit = bound("float32", chain(layers, shapes, n))
    trained = next(
        (layer.param_shapes(shape) for layer, shape in zip(layers, shapes, strict=False) if layer.param_shapes(shape)),
        {},
    )
    for seed in count():
        random = np.random.default_rng(seed)
        x, dy, *wb = (
            random.normal(size=size).astype(np.float32)
            for size in ((n, *in_shape), (n, *shapes[-1]), *trained.values())
        )
        truth = truth_of(layers, shapes, x.astype(float), dy.astype(float), [p.astype(float) for p in wb])
        if truth["closest"] > limit:  # otherwise rounding may throw a switch
            break
    host = {
        "x": nan(capacity, *in_shape),
        "y": nan(capacity, *shapes[-1]),
        "dx": nan(capacity, *in_shape),
        "dy": nan(capacity, *shapes[-1]),
    }
    host["x"][:n], host["dy"][:n] = x, dy
    host |= dict(zip("wb", wb, strict=False)) | {f"d{name}": nan(*p.shape) for name, p in zip("wb", wb, strict=False)}
    arrays = {name: device.array(array, name) for name, array in host.items()}
    if in_place:
        arrays["y"], arrays["dx"] = arrays["x"], arrays["dy"]
    segment = for_layers(op, device, layers, Buffers(**{**arrays, "dx": arrays["dx"] if want_dx else None}), block)
    part = whole(n)
    launched = send(segment.prepare(part)) | send(segment.forward(part))
    y = arrays["y"].download()
    launched |= send(segment.backward(part))
    device.synchronize()
    close(y[:n], truth["y"], truth["y scale"], limit, "y")
    untouched(y, n, "y")
    dx = arrays["dx"].download()
    if want_dx:
        close(dx[:n], truth["dx"], truth["dx scale"], limit, "dx")
    untouched(dx, n if want_dx else 0, "dx")
    for name in ("dw", "db") if trained else ():
        close(arrays[name].download(), truth[name], truth[f"{name} scale"], limit, name)
    return launched


def truth_of(
    layers: tuple[Layer, ...], shapes: tuple[Shape, ...], x: np.ndarray, dy: np.ndarray, wb: list[np.ndarray]
) -> dict[str, Any]:
    """y, dx, dw and db in float64, the scale of each, and how close a switch is that rounding could throw."""
    values, squares, closest = [x], [x**2], np.inf
    rounded = False
    for layer, shape in zip(layers, shapes, strict=False):
        w, b = wb if layer.param_shapes(shape) else (None, None)
        if rounded:
            closest = min(closest, distance(layer, values[-1], squares[-1]).min())
        values.append(_forward(layer, values[-1], w, b))
        inherited = forward_scale(layer, values[-2], squares[-1], w if w is None else w**2, b if b is None else b**2)
        squares.append(inherited + values[-1] ** 2 if w is not None else inherited)
        rounded |= w is not None
    out: dict[str, Any] = {"y": values[-1], "y scale": np.sqrt(squares[-1]), "closest": closest}
    d, d2 = dy, dy**2
    for layer, shape, value, square in reversed(list(zip(layers, shapes, values, squares, strict=False))):
        w = wb[0] if layer.param_shapes(shape) else None
        d, *gradients = _backward(layer, value, w, d)
        d2, *scales = backward_scale(layer, value, square, w if w is None else w**2, d2)
        for name, gradient, scale in zip(("dw", "db"), gradients, scales, strict=bool(gradients)):
            out |= {name: gradient, f"{name} scale": np.sqrt(scale + gradient**2)}
        d2 = d2 + d**2 if w is not None else d2
    return out | {"dx": d, "dx scale": np.sqrt(d2)}
