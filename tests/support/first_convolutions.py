"""A net's first convolution on tensor cores, asked for alone: y behind ReLU and pool, who won, y packed, dw and db,
against float64.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from kernel_tools import Runs, nan, send, untouched
from references import conv2d
from tensor_convolutions import Edited
from tensor_tools import placed
from warpgroup_convolutions import Unwritten, in_bf16

from warpladder.appendix.gemm.formats import held
from warpladder.appendix.gemm.proof import judged
from warpladder.device import Device
from warpladder.machine.precision import named
from warpladder.nets import Conv2d, CrossEntropyLoss, Flatten, Linear, MaxPool2d, Net, ReLU
from warpladder.ops.conv2d.gradients import Gradients
from warpladder.ops.conv2d.problem import ConvWindow, FusedConv
from warpladder.ops.conv2d.tensor.first import first
from warpladder.ops.conv2d.tensor.formats import HALF_FORMATS
from warpladder.proof.tolerance import bound

PRECISIONS = tuple(HALF_FORMATS)

#: What x, the weights and dy are drawn as. In "far apart" images and outputs are up to 2^60 times as large as others;
#: in "steep" so are the gradients of an output in one image.
KINDS = ("normal", "positive", "huge", "tiny", "far apart", "steep")

#: A first layer that these kernels take, of pictures with an odd row that the pool leaves out; a pool's windows are
#: four in a row.
NET = Net(
    "first", (3, 7, 8),
    (Conv2d(out_channels=32, kernel_size=3, padding=1), ReLU(), MaxPool2d(2), Flatten(), Linear(out_features=3)),
    CrossEntropyLoss(),
)  # fmt: skip

#: Steps of the tensor cores, one after another, whose sums stay there: 32 terms of y, four pixels of 16 windows of dw.
#: db's are none of theirs.
CUTS = {"y": 2, "dw": 4, "db": 0}

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Asked:
    """n pictures (c, h, w), and outputs of a window of k x k with padding.

    offset : floats from a 16-byte boundary to each array's first number.
    """

    picture: tuple[int, int, int]
    outputs: int
    n: int
    k: int = 3
    padding: int = 1
    precision: str = "fp32"
    kind: str = "normal"
    offset: int = 0

    @property
    def written(self) -> tuple[int, int, int]:
        """(outputs, rows, columns) before the pool."""
        _, h, w = self.picture
        return self.outputs, h + 2 * self.padding - self.k + 1, w + 2 * self.padding - self.k + 1

    @property
    def pooled(self) -> tuple[int, int, int]:
        o, high, wide = self.written
        return o, high // 2, wide // 2


#: Pictures of colours with an odd row and column that no window of the pool has, several in a tile; windows that fill
#: no 16, of sums of 32 terms; more windows than a tile has, and outputs of three warps; every size beside the largest
#: block.
SHAPES = (Asked((3, 7, 9), 32, 3), Asked((2, 8, 7), 48, 2, k=4, padding=2), Asked((1, 35, 20), 144, 1))


def drawn(asked: Asked, seed: int = 0) -> Arrays:
    """x, w, b, and dy with the argmax index, the pool's; float32 and uint8. Where no pixel was taken, 4, dy is not 0
    all the same.
    """
    rng, (c, h, w) = np.random.default_rng(seed), asked.picture
    sizes = {
        "x": (asked.n, c, h, w),
        "w": (asked.outputs, c, asked.k, asked.k),
        "b": (asked.outputs,),
        "dy": (asked.n, *asked.pooled),
    }
    found = {
        name: rng.random(size) + 0.5 if asked.kind == "positive" else rng.normal(size=size)
        for name, size in sizes.items()
    }
    if asked.kind == "far apart":
        images, outputs = (
            np.exp2(rng.integers(-30, 31, (asked.n, 1, 1, 1))),
            np.exp2(rng.integers(-30, 31, asked.outputs)),
        )
        found |= {
            "x": found["x"] * images,
            "dy": found["dy"] * images,
            "w": found["w"] * outputs[:, None, None, None],
            "b": found["b"] * outputs,
        }
    if asked.kind == "steep":
        found["dy"] = found["dy"] * np.exp2(rng.integers(-30, 31, (asked.n, asked.outputs, 1, 1)))
    scale = {"huge": (2.0**100, 2.0**10), "tiny": (2.0**-100, 2.0**-10)}.get(asked.kind, (1.0, 1.0))
    for name, by in zip(("x", "w", "b", "dy"), (*scale, scale[0] * scale[1], scale[1]), strict=True):
        found[name] = (found[name] * by).astype(np.float32)
    return found | {"argmax": rng.integers(0, 5, sizes["dy"]).astype(np.uint8)}


def convolved(device: Device, asked: Asked, numbers: Arrays) -> Arrays:
    """y and who won of the forward pass; dw and db from the drawn dy and argmaxes. Raises where y packed is not y
    rounded, or more images were written.
    """
    owner, n, kind = Unwritten(device, 256), asked.n, named(asked.precision)
    at = {name: placed(device, numbers[name], asked.offset) for name in ("x", "w", "b", "dy")}
    y, argmax = (
        placed(device, nan(n + 1, *asked.pooled), asked.offset),
        device.array(np.full((n + 1, *asked.pooled), 9, np.uint8)),
    )
    packed = (
        device.array(np.full((n + 1, *asked.pooled[1:], asked.outputs), 0xFFFF, np.uint16))
        if kind.name == "bf16"
        else None
    )
    dw, db = device.array(nan(*numbers["w"].shape)), device.array(nan(asked.outputs))
    layer = FusedConv(asked.picture, asked.written, ConvWindow(asked.k, 1, asked.padding), relu=True, pool=True)
    send(
        first.FirstConvolution(owner, layer, asked.precision).launches(n, at["x"], at["w"], at["b"], y, argmax, packed)
    )
    won = device.array(numbers["argmax"])
    send(first.FirstGradient(owner, layer, n, asked.precision).launches(n, at["x"], at["dy"], won, Gradients(dw, db)))
    found = {"y": y.download(), "argmax": argmax.download(), "dw": dw.download(), "db": db.download()}
    untouched(found["y"], n, "y")
    assert (found["argmax"][n:] == 9).all(), "argmaxes of more images were written"
    if packed is not None:
        np.testing.assert_array_equal(
            packed.download()[:n], in_bf16(found["y"][:n]), err_msg="y packed is wrong at some pixel"
        )
    return {name: array[:n] if name in ("y", "argmax") else array for name, array in found.items()}


def windows_of(y: np.ndarray) -> np.ndarray:
    """(n, o, rows, columns, 4): the four pixels of each of the pool's windows, in the order of its places; y (n, o, 2
    rows or one more, ...).
    """
    n, o, high, wide = y.shape
    y = y[:, :, : high // 2 * 2, : wide // 2 * 2].reshape(n, o, high // 2, 2, wide // 2, 2)
    return y.transpose(0, 1, 2, 4, 3, 5).reshape(n, o, high // 2, wide // 2, 4)


def truth(asked: Asked, x: np.ndarray, w: np.ndarray, b: np.ndarray, dy: np.ndarray, argmax: np.ndarray) -> Arrays:
    """ "four", y's four pixels of each window before ReLU and pool, dw and db, in float64."""
    full = np.zeros((asked.n, *asked.written))
    for e in range(4):
        rows, columns = asked.pooled[1:]
        full[:, :, e // 2 : 2 * rows : 2, e % 2 : 2 * columns : 2] = np.where(argmax == e, dy, 0)
    x, w = x.astype(float), w.astype(float)
    _, dw, db = conv2d.backward(x, w, full, 1, asked.padding)
    return {"four": windows_of(conv2d.forward(x, w, b.astype(float), 1, asked.padding)), "dw": dw, "db": db}


def prove(device: Device, asked: Asked, seed: int = 0) -> float:
    """The largest error of y, dw and db; raises where one is beyond its precision's bound, sums are not kept in fp32,
    or another pixel won.
    """
    numbers, kind = drawn(asked, seed), named(asked.precision)
    x, w, b, dy, won = (numbers[name] for name in ("x", "w", "b", "dy", "argmax"))
    found, sizes = convolved(device, asked, numbers), truth(asked, abs(x), abs(w), abs(b), abs(dy), won)
    size = {"y": sizes["four"].max(-1), "dw": sizes["dw"], "db": sizes["db"]}
    lengths = {"y": asked.picture[0] * asked.k**2 + 1, "dw": dy[:, 0].size, "db": dy[:, 0].size}
    as_multiplied = kind if kind.name != "tf32" else named("fp16")  # a half with a scale: ties go to the even number
    factors = tuple(held(each, as_multiplied) for each in (x, w, dy))
    worst = 0.0
    for rounded in (False, True) if kind.coarse else (False,):
        x, w, dy = factors if rounded else (x, w, dy)
        wanted = truth(asked, x, w, b, dy, won)
        for name, got in found.items():
            if name == "argmax" or (rounded and name == "db"):
                continue
            length, where = (
                lengths[name],
                f"{name} of {asked} is wrong at {got.shape}" + (", of rounded factors" if rounded else ""),
            )
            assert np.isfinite(got).all(), f"{where}: some numbers were never written, or are not finite"
            of, cuts = ("fp32", CUTS[name]) if rounded else (kind, 0)
            limits = bound(of, length, cuts=cuts), bound(of, 16 * length, products=1 if rounded else 16, cuts=4 * cuts)
            if name == "db":  # of the gradients as they are, in every precision
                limits = bound("fp32", length), bound("fp32", 16 * length)
            best = wanted["four"].max(-1).clip(min=0) if name == "y" else wanted[name]
            some = size[name] > 0
            assert not got[~some].any(), f"{where}: there is nothing to add up"
            error = judged(got[some][None], best[some][None], size[name][some][None], *limits, where)
            worst = max(worst, 0.0 if rounded else error)
            if name == "y":
                place = found["argmax"]
                assert ((place < 4) == (got > 0)).all() and (place <= 4).all(), (
                    f"{where}: a pixel won that is not above 0, or none did where y is"
                )
                chosen = np.take_along_axis(wanted["four"], np.minimum(place, 3)[..., None].astype(int), -1)[..., 0]
                assert not ((place < 4) & ~(chosen >= best - 2 * limits[1] * size[name])).any(), (
                    f"{where}: another pixel of the window is larger"
                )
    return worst


def kernel_runs() -> Runs:
    """Cases for tests/support/kernel_cases.py: no table's case has a first layer as wide as these kernels want."""
    for asked in (SHAPES[0], replace(SHAPES[1], precision="bf16"), replace(SHAPES[2], precision="fp16", offset=1)):
        what = "x".join(map(str, asked.picture))

        def run(device: Device, asked: Asked = asked) -> set[str]:
            prove(device, asked)
            return {"convolve_first", "correlate_first", "finish_weights"}

        yield f"{asked.outputs} outputs of {what}, in {asked.precision}", run


class EditedFirst(Edited):
    """The emulator, where the kernels of first convolutions, or their headers, read otherwise."""

    paths: ClassVar[tuple[Path, ...]] = (first.FORWARD, first.WEIGHTS)
    headers: ClassVar[tuple[str, ...]] = ("tensor_panels.cuh", "halves.cuh", "pooled.cuh")
