"""A last convolution and the mean squared error as one segment: y's gradient, the gradients that follow from it, and
the loss, of a batch and of slices.
"""

from __future__ import annotations

import numpy as np
from kernel_layers import shapes_of, truth_of
from kernel_losses import log_of, logged
from kernel_tools import Runs, close, nan, send, untouched
from magnitudes import chain
from segments_here import step_of
from tensor_convolutions import conv

from warpladder.device import Device
from warpladder.nets import Conv2d, Layer, MSELoss, Shape, Upsample2d
from warpladder.ops.engine.base import Buffers
from warpladder.ops.engine.chain import Slice
from warpladder.ops.engine.segments import Operands, Segment
from warpladder.ops.mse import reference as mse
from warpladder.proof.tolerance import bound

#: Layers of few pixels, what enters the first, and samples of how many; by the types of the nodes.
CODERS: dict[tuple[type, ...], tuple[tuple[tuple[Layer, ...], Shape, int, int], ...]] = {
    (Conv2d, MSELoss): (((conv(16, 3, padding=1),), (16, 2, 3), 2, 3), ((conv(32, 3, padding=1),), (32, 7, 3), 1, 1)),
    (Upsample2d, Conv2d, MSELoss): (
        ((Upsample2d(scale_factor=2), conv(8, 3, padding=1)), (32, 3, 5), 2, 2),
        ((Upsample2d(scale_factor=2), conv(4, 3, padding=1)), (16, 1, 2), 3, 4),
    ),
}  # fmt: skip


def coder_cases(key: tuple[type, ...], kind: type[Segment]) -> Runs:
    for layers, in_shape, n, capacity in CODERS.get(key, ()):
        yield (
            f"{layers} on {in_shape}, {n} of {capacity}",
            lambda device, a=(kind, layers, in_shape, n, capacity): _coder(device, *a),  # type: ignore[misc]
        )


def _coder(
    device: Device, kind: type[Segment], layers: tuple[Layer, ...], in_shape: Shape, n: int, capacity: int
) -> set[str]:
    """A step of one batch, then both slices of another, which are the same samples."""
    random = np.random.default_rng(n)
    shapes = shapes_of(layers, in_shape)
    weights = layers[-1].param_shapes(shapes[-2]).values()
    x, wanted, *wb = (
        random.normal(size=size).astype(np.float32) for size in ((n, *in_shape), (n, *shapes[-1]), *weights)
    )
    host = {"x": nan(capacity, *in_shape), "dx": nan(capacity, *in_shape), "target": nan(capacity, *shapes[-1])}
    host["x"][:n], host["target"][:n] = x, wanted
    host |= dict(zip("wb", wb, strict=True)) | {f"d{name}": nan(*p.shape) for name, p in zip("wb", wb, strict=True)}
    arrays = {name: device.array(array, name) for name, array in host.items()}
    target, log = arrays.pop("target"), log_of(device)
    nodes = step_of(layers, in_shape, device.limits, capacity, capacity, gathers=False, loss=MSELoss())
    operands = Operands(
        Buffers(y=None, **arrays), (arrays["w"], arrays["b"]), (arrays["dw"], arrays["db"]), target=target, log=log
    )
    segment = kind(device, nodes, operands, 256)
    limit, launched = bound("float32", chain(layers, shapes, n)), set[str]()
    of_x = x.astype(float), [p.astype(float) for p in wb]
    y = truth_of(layers, shapes, of_x[0], np.zeros((n, *shapes[-1])), of_x[1])
    loss = mse.forward(y["y"], wanted.astype(float))
    for step, parts in enumerate(([Slice(n, n)], [Slice(n, 2 * n), Slice(n, 2 * n, n)])):
        for part in parts:
            launched |= send(segment.prepare(part)) | send(segment.forward(part)) | send(segment.backward(part))
            truth = truth_of(
                layers, shapes, of_x[0], mse.backward(y["y"], wanted.astype(float)) * (n / part.batch), of_x[1]
            )
            for name in ("dx", "dw", "db"):
                close(arrays[name].download()[: len(truth[name])], truth[name], truth[f"{name} scale"], 4 * limit, name)
            untouched(arrays["dx"].download(), n, "dx")
        logged(log, step, loss, 4 * limit * (1 + loss), 0)
    return launched
