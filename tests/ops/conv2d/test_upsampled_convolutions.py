"""Convolutions after an upsampling as transposed implicit GEMMs: y, dx, dw and db against float64."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from implicit_convolutions import EditedImplicit
from references import conv2d
from tensor_convolutions import conv
from tensor_tools import placed

from warpladder.appendix.gemm.proof import judged
from warpladder.device import Device
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.errors import WarpladderError
from warpladder.machine.precision import named
from warpladder.nets import Conv2d, Layer, ReLU, Shape, Upsample2d
from warpladder.ops.conv2d.tensor import segment as segments
from warpladder.ops.conv2d.tensor.implicit.upsampled import Upsampled
from warpladder.ops.conv2d.tensor.segment import TensorConv2d
from warpladder.ops.engine.base import Buffers
from warpladder.ops.engine.chain import subgraph, whole
from warpladder.ops.engine.segments import Operands
from warpladder.proof.tolerance import bound

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
slow, nightly = pytest.mark.slow, pytest.mark.nightly

#: Factor of the upsampling, layer, its images before the upsampling and their number.
SHAPES: dict[str, tuple[int, Conv2d, Shape, int]] = {
    "threes": (2, conv(20, 3, padding=1), (33, 5, 4), 3),
    "colours": (2, conv(3, 3, padding=1), (17, 4, 5), 5),
    "fives": (2, conv(9, 5, padding=2), (24, 3, 6), 2),
    "pixel": (2, conv(12, 1), (7, 4, 3), 3),
    "by three": (3, conv(18, 3, padding=1), (16, 3, 4), 2),
    "no padding": (2, conv(16, 3), (16, 5, 5), 2),
    "even": (4, conv(8, 2, padding=1), (5, 3, 2), 2),
}
PRECISIONS = ("fp32", "bf16", "fp16")


@pytest.fixture(scope="module")
def device() -> EmulatedDevice:
    return EmulatedDevice()


def prove(device: Device, name: str, precision: str, relu: bool = False, offset: int = 0) -> None:
    """Raises where a number of y, dx, dw or db is beyond its precision's bound."""
    factor, layer, shape, n = SHAPES[name]
    upsample, rng = Upsample2d(scale_factor=factor), np.random.default_rng(0)
    layers: tuple[Layer, ...] = (upsample, layer, ReLU()) if relu else (upsample, layer)
    large = upsample.out_shape(shape)
    x = rng.normal(size=(n, *shape)).astype(np.float32)
    w, b = rng.normal(size=layer.param_shapes(large)["weight"]).astype(np.float32), np.zeros(layer.out_channels)
    dy = rng.normal(size=(n, *layer.out_shape(large))).astype(np.float32)

    host = {"x": x, "w": w, "b": b.astype(np.float32), "dy": dy}
    host |= {to: np.full(like.shape, np.nan, np.float32) for to, like in (("y", dy), ("dx", x), ("dw", w), ("db", b))}
    arrays = {key: placed(device, array, 0 if key == "dy" else offset) for key, array in host.items()}
    buffers = Buffers(**arrays)
    operands = Operands(buffers, (buffers.w, buffers.b), (buffers.dw, buffers.db))
    nodes = replace(subgraph(layers, shape, n, device.limits), precision=precision)
    with mock.patch.object(segments, "choose", lambda problem: Upsampled if Upsampled.supports(problem) else None):
        segment = TensorConv2d(device, nodes, operands, 256)
    for step in (segment.prepare, segment.forward, segment.backward):
        for launch in step(whole(n)):
            launch.send()
    found = {key: arrays[key].download() for key in ("y", "dx", "dw", "db")}

    def wanted(x: np.ndarray, w: np.ndarray, dy: np.ndarray) -> dict[str, np.ndarray]:
        seen = x.repeat(factor, axis=2).repeat(factor, axis=3)
        y = conv2d.forward(seen, w, b, 1, layer.padding)
        dseen, dw, db = conv2d.backward(seen, w, dy, 1, layer.padding)
        dx = dseen.reshape(*x.shape[:3], factor, x.shape[3], factor).sum(axis=(3, 5))
        return {"y": y, "dx": dx, "dw": dw, "db": db}

    truths = x.astype(float), w.astype(float), dy.astype(float)
    if relu:
        positive = found["y"] > 0
        assert not np.signbit(found["y"]).any()
        truths = *truths[:2], truths[2] * positive
    true, sizes = wanted(*truths), wanted(*map(abs, truths))
    if relu:
        true["y"] = np.maximum(true["y"], 0)
    side = layer.kernel_size + factor - 1
    lengths = {"y": side**2 * shape[0], "dx": side**2 * layer.out_channels, "dw": dy[:, 0].size, "db": dy[:, 0].size}
    for key, got in found.items():
        assert np.isfinite(got).all(), f"{key} was never written, or is not finite"
        some, limit = sizes[key] > 0, bound(named(precision if key != "db" else "fp32"), lengths[key])
        judged(got[some][None], true[key][some][None], sizes[key][some][None], limit, 4 * limit, f"{key} is wrong")


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        pytest.param(
            name, precision, marks=[] if (name, precision) in (("threes", "fp32"), ("colours", "bf16")) else slow
        )
        for name in SHAPES
        for precision in PRECISIONS
    ],
)
def test_every_factor_window_and_count_of_channels(device: EmulatedDevice, name: str, precision: str) -> None:
    prove(device, name, precision, offset=1)


@pytest.mark.parametrize("name", ["colours", pytest.param("by three", marks=slow)])
def test_a_relu_masks_what_comes_back(device: EmulatedDevice, name: str) -> None:
    prove(device, name, "fp32", relu=True)


@pytest.mark.parametrize("name", [pytest.param("threes", marks=slow), pytest.param("colours", marks=nightly)])
def test_the_checker_finds_nothing(name: str) -> None:
    checked = EmulatedDevice("check", collect=True)
    prove(checked, name, "fp32", relu=True)
    assert checked.reports == []


@pytest.mark.parametrize(
    "edit",
    [
        ("channel * to.outputs + output : output * to.channels + channel", "output * to.channels + channel : 0"),
        ("place / k, place % k, k, FOLD", "place % k, place / k, k, FOLD"),
    ],
    ids=["weights of another channel", "rows and columns exchanged"],
)
def test_liars_are_refused(device: EmulatedDevice, edit: tuple[str, str]) -> None:
    with pytest.raises((WarpladderError, AssertionError), match=r"is wrong|never written"):
        prove(EditedImplicit(device, edit), "threes", "fp32")  # type: ignore[arg-type]
