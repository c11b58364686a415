"""Batches of more than 2^31 numbers on a GPU: places in them need 64 bits. Nine gigabytes an array, 40 at most for one
test.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from references import conv2d, linear, maxpool2d, relu, upsample2d
from segments_here import for_layers

from warpladder.device import Array, Device, gpu
from warpladder.nets import Conv2d, Layer, Linear, MaxPool2d, ReLU, Shape, Upsample2d
from warpladder.ops.engine.base import Buffers
from warpladder.ops.engine.chain import whole
from warpladder.ops.tables.naive import TABLE
from warpladder.proof.tolerance import bound

if gpu.why_not() is not None:
    pytest.skip(str(gpu.why_not()), allow_module_level=True)

SAMPLES = 140_000  # of 16,384 numbers: 2.3e9
ROOM = 40e9  # bytes
EDGE = 3  # samples at either end that hold something; the others are zeros


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    device = gpu.GpuDevice()
    if device.free_memory() < ROOM:
        pytest.skip(f"this takes {ROOM / 1e9:.0f} GB, and {device.name} has {device.free_memory() / 1e9:.0f} GB free")
    yield device
    device.close()


def ends(device: Device, n: int, shape: Shape, seed: int) -> tuple[Array, np.ndarray]:
    """An array (n, *shape) of zeros but for its first and last samples, and those samples."""
    on_device = device.zeros((n, *shape))
    values = np.random.default_rng(seed).normal(size=(2 * EDGE, *shape)).astype(np.float32)
    on_device[:EDGE].upload(values[:EDGE])
    on_device[n - EDGE :].upload(values[EDGE:])
    return on_device, values


def at_the_ends(a: Array) -> np.ndarray:
    return np.concatenate([a[:EDGE].download(), a[len(a) - EDGE :].download()]).astype(float)


def close(found: np.ndarray, wanted: np.ndarray, length: int) -> None:
    error = np.linalg.norm(found - wanted)
    assert error <= bound("float32", length) * np.linalg.norm(wanted), error


def check(device: Device, layer: Layer, in_shape: Shape, n: int) -> None:
    """Both passes against the reference, at the batch's ends; gradients of weights add up all of it."""
    out_shape, shapes = layer.out_shape(in_shape), layer.param_shapes(in_shape)
    on_x, x = ends(device, n, in_shape, 1)
    on_dy, dy = ends(device, n, out_shape, 2)
    if isinstance(layer, ReLU):
        buffers = Buffers(on_x, on_x, on_dy, on_dy)
    else:
        host = [np.random.default_rng(3).normal(size=shape).astype(np.float32) for shape in shapes.values()]
        weights = [*map(device.array, host), *(device.empty(a.shape) for a in host)]
        buffers = Buffers(on_x, device.empty((n, *out_shape)), device.empty((n, *in_shape)), on_dy, *weights)
    op, part = for_layers(TABLE.segments[type(layer),], device, (layer,), buffers), whole(n)
    for launch in [*op.forward(part), *op.backward(part)]:
        launch.send()
    y, dx = at_the_ends(buffers.y), at_the_ends(buffers.dx)
    x, dy = x.astype(float), dy.astype(float)
    if isinstance(layer, ReLU):
        assert np.array_equal(y, relu.forward(x))
        assert np.array_equal(dx, relu.backward(x, dy))
    elif isinstance(layer, MaxPool2d):
        assert np.array_equal(y, maxpool2d.forward(x, layer.kernel_size, layer.kernel_size))
        assert np.array_equal(dx, maxpool2d.backward(x, layer.kernel_size, layer.kernel_size, dy))
    elif isinstance(layer, Upsample2d):
        assert np.array_equal(y, upsample2d.forward(x, layer.scale_factor))
        close(dx, upsample2d.backward(layer.scale_factor, dy), layer.scale_factor**2)
    else:
        w, b = (a.astype(float) for a in host)
        if isinstance(layer, Conv2d):
            wanted_y, wanted = conv2d.forward(x, w, b, 1, layer.padding), conv2d.backward(x, w, dy, 1, layer.padding)
        else:
            wanted_y, wanted = linear.forward(x, w, b), linear.backward(x, w, dy)
        close(y, wanted_y, x[0].size)
        close(dx, wanted[0], dy[0].size)
        close(buffers.dw.download(), wanted[1], 2 * EDGE * dy[0].size)
        close(buffers.db.download(), wanted[2], 2 * EDGE * dy[0].size)


@pytest.mark.parametrize(
    ("layer", "in_shape"),
    [
        (ReLU(), (16_384,)),
        (Linear(out_features=3), (16_384,)),
        (Conv2d(out_channels=1, kernel_size=3, padding=1), (1, 128, 128)),
        (MaxPool2d(2), (1, 128, 128)),
        (Upsample2d(scale_factor=2), (1, 64, 64)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Layer) else "",
)
def test_more_numbers_than_32_bits_count(device: Device, layer: Layer, in_shape: Shape) -> None:
    check(device, layer, in_shape, SAMPLES)
