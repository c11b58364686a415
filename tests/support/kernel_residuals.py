"""Residual connections as kernels: alone bit by bit against the formulas, for they copy and add; and a sum with the
layers after it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from kernel_norms import AFTER
from kernel_tools import Runs, nan, send, untouched

from warpladder.device import Device
from warpladder.nets import Branch, Layer, ReLU, Shape, Shortcut, Sum
from warpladder.ops.activation import reference as activations
from warpladder.ops.engine.base import Buffers
from warpladder.ops.engine.chain import subgraph, whole
from warpladder.ops.engine.segments import Operands, Segment
from warpladder.ops.relu import reference as relu
from warpladder.ops.residual import reference

#: By kind: a layer with the shape of what enters it, samples and threads of a block; odd sizes.
RESIDUALS: dict[type[Layer], list[tuple[Layer, Shape, int, int]]] = {
    Branch: [(Branch(), (3, 5, 7), 4, 64), (Branch(), (1,), 33, 32)],
    Shortcut: [(Shortcut(channels=2, height=7, width=3), (5, 4, 3), 3, 96), (Shortcut(channels=9), (17,), 1, 256)],
    Sum: [(Sum(), (3, 5, 7), 4, 1024), (Sum(), (19,), 2, 32)],
}


def residual_cases(key: tuple[type[Layer], ...], kind: type[Segment]) -> Runs:
    if len(key) > 1:
        layers = tuple(AFTER[each] for each in key)
        for _, shape, n, block in RESIDUALS[Sum]:
            for in_place in (False, True):
                name = f"{' + '.join(map(str, layers))} on {shape}, {n} samples{', dx is dy' if in_place else ''}"
                yield name, lambda device, a=(kind, layers, shape, n, block, in_place): _ended(device, *a)  # type: ignore[misc]
        return
    for layer, shape, n, block in RESIDUALS[key[0]]:
        for is_whole in (True, False) if isinstance(layer, Branch) else (True,):
            name = f"{layer} on {shape}, {n} samples, block {block}{'' if is_whole else ', of a net that is cut'}"
            yield name, lambda device, a=(kind, layer, shape, n, block, is_whole): _step(device, *a)  # type: ignore[misc]


def _step(
    device: Device, kind: type[Segment], layer: Any, shape: Shape, n: int, block: int, is_whole: bool
) -> set[str]:
    rng, capacity, out = np.random.default_rng(n), n + 2, layer.out_shape(shape)

    def drawn(size: Shape) -> np.ndarray:
        array = nan(capacity, *size)
        array[:n] = rng.normal(size=(n, *size))
        return array

    host = {"x": drawn(shape), "dy": drawn(out), "y": nan(capacity, *out), "dx": nan(capacity, *shape)}
    if not isinstance(layer, Branch):
        host["skip"] = drawn(out)
    if not isinstance(layer, Sum) and is_whole:
        host["dskip"] = drawn(shape)
    arrays = {name: device.array(array, name) for name, array in host.items()}
    part = whole(n)
    segment = kind(device, subgraph((layer,), shape, capacity, device.limits), Operands(Buffers(**arrays)), block)
    launched = send(segment.forward(part)) | send(segment.backward(part))
    wanted = {
        "y": reference.forward(layer, host["x"], host.get("skip")),
        "dx": reference.backward(layer, host["dy"], host.get("dskip")),
    }
    for name, want in wanted.items():
        found = arrays[name].download()
        assert np.array_equal(found[:n], want[:n]), name
        untouched(found, n, name)
    idle = kind(
        device, subgraph((layer,), shape, capacity, device.limits), Operands(Buffers(arrays["x"], arrays["y"])), block
    )
    assert idle.backward(part) == []
    return launched


def _ended(
    device: Device, kind: type[Segment], layers: tuple[Layer, ...], shape: Shape, n: int, block: int, in_place: bool
) -> set[str]:
    """A sum with the layers after it: y, and the gradient of both summands in dy and, if it is another array, dx."""
    rng, capacity, after = (
        np.random.default_rng(n),
        n + 2,
        next((e for e in layers if not isinstance(e, Sum | Branch)), None),
    )
    host = {name: nan(capacity, *shape) for name in ("x", "y", "dx", "dy", "skip", "dskip")}
    for name in ("x", "skip", "dy", "dskip"):
        host[name][:n] = rng.normal(size=(n, *shape))
    arrays = {name: device.array(array, name) for name, array in host.items()}
    buffers = Buffers(**arrays | ({"dx": arrays["dy"]} if in_place else {}))
    segment = kind(device, subgraph(layers, shape, capacity, device.limits), Operands(buffers), block)
    launched = send(segment.forward(whole(n))) | send(segment.backward(whole(n)))
    v, dy = (host["x"] + host["skip"])[:n], host["dy"][:n]
    dy = dy + host["dskip"][:n] if isinstance(layers[-1], Branch) else dy
    y, g = v, dy
    if after is not None:
        of: Any = relu if isinstance(after, ReLU) else activations
        y, (g,) = (
            of.forward(after, v.astype(float), None, None),
            of.backward(after, v.astype(float), None, dy.astype(float)),
        )
    for name, want in [("y", y), ("dy", g), *([] if in_place else [("dx", g)])]:
        found = arrays[name].download()
        assert np.abs(found[:n] - want).max() <= 4e-6 * max(1.0, np.abs(want).max()), name
        untouched(found, n, name)
    return launched
