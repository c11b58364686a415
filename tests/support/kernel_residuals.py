"""Residual connections as kernels, bit by bit against the formulas: they copy and add."""

from __future__ import annotations

from typing import Any

import numpy as np
from kernel_tools import Runs, nan, send, untouched

from warpladder.device import Device
from warpladder.nets import Branch, Layer, Shape, Shortcut, Sum
from warpladder.ops.engine.base import Buffers
from warpladder.ops.engine.chain import subgraph, whole
from warpladder.ops.engine.segments import Operands, Segment
from warpladder.ops.residual import reference

#: By kind: a layer with the shape of what enters it, samples and threads of a block; odd sizes.
RESIDUALS: dict[type[Layer], list[tuple[Layer, Shape, int, int]]] = {
    Branch: [(Branch(), (3, 5, 7), 4, 64), (Branch(), (1,), 33, 32)],
    Shortcut: [(Shortcut(channels=2, height=7, width=3), (5, 4, 3), 3, 96), (Shortcut(channels=9), (17,), 1, 256)],
    Sum: [(Sum(), (3, 5, 7), 4, 1024), (Sum(), (19,), 2, 32)],
}


def residual_cases(key: tuple[type[Layer], ...], kind: type[Segment]) -> Runs:
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
