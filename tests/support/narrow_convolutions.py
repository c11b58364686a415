"""Convolutions of few channels on tensor cores, asked for one by one: y with what follows it, dx, dw and db, against
float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from kernel_tools import Runs
from tensor_convolutions import Asked, Edited, Numbers, conv, drawn, truth
from tensor_tools import placed
from warpgroup_convolutions import Unwritten

from warpladder.appendix.gemm.formats import held
from warpladder.appendix.gemm.proof import DEPTH as MMA
from warpladder.appendix.gemm.proof import judged
from warpladder.device import Array, Device
from warpladder.device.emulator import EmulatedDevice
from warpladder.machine.precision import named
from warpladder.nets import Conv2d, Shape
from warpladder.ops.conv2d.gradients import Gradients
from warpladder.ops.conv2d.tensor.narrow import narrow
from warpladder.ops.conv2d.tensor.narrow.plan import NarrowShape
from warpladder.ops.engine.kernels import ceil_div
from warpladder.proof.tolerance import bound

#: tf32 is not among them: it asks for fp16's kernels.
PRECISIONS = ("fp32", "bf16", "fp16")

#: By what a test is called: the layer, its images and their number. The window reaches over the edge or not, no tile
#: divides the image, and a pool cuts off its last row or column.
SHAPES: dict[str, tuple[Conv2d, Shape, int]] = {
    "cnn's": (conv(32, 3), (16, 9, 11), 3),
    "one": (conv(32, 3, padding=1), (16, 6, 7), 1),
    "far": (conv(32, 3, padding=2), (16, 5, 4), 2),
    "few": (conv(8, 2, padding=1), (24, 6, 5), 2),
    "wide": (conv(24, 5, padding=2), (32, 7, 9), 2),
    "pixel": (conv(16, 1), (8, 8, 13), 2),
}


class EditedNarrow(Edited):
    """The emulator, where the kernels of convolutions of few channels, or their headers, read otherwise."""

    paths = (narrow.SOURCE, narrow.PACK, narrow.WEIGHTS)
    headers = ("channels.cuh", "narrow.cuh", "tensor_panels.cuh")


@dataclass(frozen=True)
class Found:
    """What the kernels gave. pooled, argmax: y after ReLU and pool, and whom the pool's gradient goes back to; None
    without a pool.
    """

    y: np.ndarray
    dx: np.ndarray
    dw: np.ndarray
    db: np.ndarray
    pooled: np.ndarray | None = None
    argmax: np.ndarray | None = None


def windows(y: np.ndarray) -> np.ndarray:
    """The 2 x 2 windows of images (.., h, w): (.., h / 2, w / 2, 4), without a last odd row or column."""
    high, wide = y.shape[-2] // 2, y.shape[-1] // 2
    cut = y[..., : 2 * high, : 2 * wide].reshape(*y.shape[:-2], high, 2, wide, 2)
    return np.moveaxis(cut, -3, -2).reshape(*y.shape[:-2], high, wide, 4)


def spread(like: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A pool's gradient cut from dy, argmaxes drawn for it, 4 for nobody among them, and dy as these two say it."""
    gradient = np.ascontiguousarray(windows(like)[..., 0])
    argmax = np.random.default_rng(seed).integers(0, 5, gradient.shape).astype(np.uint8)
    dy = np.zeros_like(like)
    for place in range(4):
        view = dy[..., place // 2 : like.shape[2] // 2 * 2 : 2, place % 2 : like.shape[3] // 2 * 2 : 2]
        view[...] = np.where(argmax == place, gradient, 0)
    return gradient, argmax, dy


def computed(
    device: Device, asked: Asked, numbers: Numbers, pool: bool = False, bias: np.ndarray | None = None, fused_relu: bool = False,
    below: bool = False, gradient: tuple[np.ndarray, np.ndarray] | None = None,
) -> Found:  # fmt: skip
    """y, dx, dw and db, all full of NaN before; gradient: with a pool, what it sends back and its argmaxes.

    below : whether x is the output of a ReLU, whose gradient dx shall be.
    """
    x, w, dy = numbers
    n, o, high, wide = dy.shape
    made: dict[bool, tuple[Array, Array | None]] = {}
    given, argmaxes = (dy, None) if gradient is None else gradient
    at = {name: placed(device, array, asked.offset) for name, array in (("x", x), ("w", w), ("dy", given))}
    added = None if bias is None else placed(device, bias, asked.offset)
    nan = {name: np.full(shape, np.nan, np.float32) for name, shape in (("dx", x.shape), ("dw", w.shape), ("db", (o,)))}
    back = {name: placed(device, array, asked.offset) for name, array in nan.items()}
    for windowed in {False, pool}:
        shape = NarrowShape(x.shape[1:], dy.shape[1:], asked.layer.kernel_size, asked.layer.padding, windowed)
        assert narrow.fits(shape, asked.layer.stride, asked.precision, device.limits), (
            f"{asked} is not for these kernels"
        )
        layer = narrow.NarrowConvolution(Unwritten(device, 256), shape, n, asked.precision, trains=True, has_dx=True)
        size = (n, o, high // 2, wide // 2) if windowed else dy.shape
        y = placed(device, np.full(size, np.nan, np.float32), asked.offset)
        argmax = device.array(np.full(size, 9, np.uint8)) if windowed else None
        calls = [layer.pack(at["w"]), *layer.forward(n, at["x"], added, y, fused_relu or windowed, argmax)]
        if windowed == pool:
            won = None if argmaxes is None else device.array(argmaxes)
            calls += layer.backward(
                n, at["x"], at["dy"], won, Gradients(back["dw"], back["db"]), back["dx"], at["x"] if below else None
            )
        for call in calls:
            call.send()
        made[windowed] = y, argmax
    found = {name: array.download() for name, array in back.items()}
    pooled, argmax = made[True] if pool else (None, None)
    return Found(
        y=made[False][0].download(), dx=found["dx"], dw=found["dw"], db=found["db"], pooled=None if pooled is None else pooled.download(),
        argmax=None if argmax is None else argmax.download(),
    )  # fmt: skip


def prove(
    device: Device, asked: Asked, pool: bool = False, seed: int = 0, by: Callable[..., Found] = computed
) -> float:
    """The largest error of y, dx, dw and db; raises where one is beyond its precision's bound, sums are not kept in
    fp32, or the pool is not that of y.

    by : what computes them; takes what `computed` takes.
    """
    x, w, dy = drawn(asked, seed)
    # a pixel may have a gradient in few channels alone: weights that are far apart by outputs would be known as exactly
    # as the largest
    if pool:
        w = drawn(replace(asked, kind="normal" if asked.kind == "far apart" else asked.kind), seed)[1]
    bias = (
        (np.random.default_rng(seed + 1).normal(size=len(w)) * np.abs(truth(asked, (x, w, dy))["y"]).mean()).astype(
            np.float32
        )
        if pool
        else None
    )
    gradient = None
    if pool:
        given, argmax, dy = spread(dy, seed)
        gradient = given, argmax
    numbers = x, w, dy
    found = by(device, asked, numbers, pool, bias, gradient=gradient)
    added = np.zeros(len(w)) if bias is None else bias.astype(float)
    wanted, sizes = truth(asked, numbers), truth(asked, tuple(map(abs, numbers)))  # type: ignore[arg-type]
    wanted["y"] += added[:, None, None]
    sizes["y"] += abs(added)[:, None, None]
    wanted["db"], sizes["db"] = dy.astype(float).sum((0, 2, 3)), abs(dy).astype(float).sum((0, 2, 3))
    count = dy.size // dy.shape[1]
    lengths = {"y": asked.terms[0] + 1, "dx": asked.terms[1], "dw": count, "db": count}
    kind, worst = named(asked.precision), 0.0
    of_rounded = truth(asked, tuple(held(array, kind) for array in numbers)) if kind.coarse else {}  # type: ignore[arg-type]
    for name, length in lengths.items():
        got, where, exact = getattr(found, name), f"{name} of {asked} is wrong, with a pool: {pool}", name == "db"
        assert np.isfinite(got).all(), f"{asked}: some numbers of {name} were never written, or are not finite"
        some, of = sizes[name] > 0, "fp32" if exact else kind
        assert not got[~some].any(), f"{where}: there is nothing to add up"
        got, size = got[some][None], sizes[name][some][None]
        products = 0 if exact else 16
        limits = bound(of, length), bound(of, 16 * length, products=products) if products else bound(of, length)
        worst = max(worst, judged(got, wanted[name][some][None], size, *limits, where))
        if (
            name in of_rounded
            # the sums alone, of the very numbers that were multiplied: few cuts add up, since sums leave after 32 terms
            # at most
        ):
            cuts = ceil_div(min(length, 32), MMA // 2)
            rounded = of_rounded[name] + (added[:, None, None] if name == "y" else 0)
            alone = bound("fp32", length, cuts=cuts), bound("fp32", 16 * length, cuts=4 * cuts)
            judged(got, rounded[some][None], size, *alone, f"{where}, of rounded factors")
    if pool:
        best, place = windows(found.y).max(-1), windows(found.y).argmax(-1)
        np.testing.assert_array_equal(
            found.pooled, np.maximum(best, 0), err_msg=f"the pool of {asked} is wrong: not the largest of y's"
        )
        np.testing.assert_array_equal(
            found.argmax, np.where(best > 0, place, 4), err_msg=f"the pool of {asked} is wrong: another argmax"
        )
    return worst


def kernel_runs() -> Runs:
    """Cases for tests/support/kernel_cases.py: no table's case has as many channels as these kernels want."""
    for name, precision in (("one", "fp32"), ("few", "bf16")):

        def run(device: Device, name: str = name, precision: str = precision) -> set[str]:
            prove(device, Asked(*SHAPES[name], precision), pool=True)
            return {"pack_narrow", "convolve_narrow", "correlate_narrow", "finish_weights"}

        layer, image, _ = SHAPES[name]
        yield f"{layer.out_channels} outputs of {'x'.join(map(str, image))}, in {precision}", run


def prove_any_order(device: Device, asked: Asked, by: Callable[..., Found] = computed) -> None:
    """Raises if another order of threads gives other bits."""
    x, w, dy = drawn(asked)
    given, argmax, _ = spread(dy, 0)
    found = [
        by(on, asked, (x, w, dy), True, gradient=(given, argmax))
        for on in (device, EmulatedDevice(order="reverse"), EmulatedDevice(order="random", seed=3))
    ]
    for name in ("y", "dx", "dw", "db", "pooled", "argmax"):
        assert len({getattr(each, name).tobytes() for each in found}) == 1, name


def prove_relus_and_zeros(device: Device, asked: Asked, by: Callable[..., Found] = computed) -> tuple[np.ndarray, ...]:
    """ReLUs to the bit, and zeros of image 1, output 2 and output 3's argmaxes, with a pool. Returns x, w, dy, the
    pool's gradient and argmaxes, with these zeros.

    by : as `prove` has it.
    """
    x, w, dy = drawn(asked)
    given, argmax, _ = spread(dy, 0)
    plain = by(device, asked, (x, w, dy), True, gradient=(given, argmax))
    relu_output = by(device, asked, (x, w, dy), True, fused_relu=True, below=True, gradient=(given, argmax))
    np.testing.assert_array_equal(relu_output.y, np.maximum(plain.y, 0))
    np.testing.assert_array_equal(relu_output.dx, np.where(x > 0, plain.dx, 0))
    x[1], w[2], argmax[:, 3] = 0, 0, 4
    found = by(device, asked, (x, w, dy), True, gradient=(given, argmax))
    assert not found.y[1].any() and not found.y[:, 2].any() and not found.dw[3].any() and found.db[3] == 0
    assert np.isfinite(found.dw).all() and found.argmax is not None and (found.argmax[:, 2] == 4).all()
    return x, w, dy, given, argmax
