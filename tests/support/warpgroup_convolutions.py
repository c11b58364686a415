"""Convolutions by warpgroup products (wgmma), asked for one by one: y with what follows it, dx and dw, against float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Protocol

import numpy as np
from kernel_tools import Runs, send
from tensor_convolutions import Asked, Edited, Numbers, conv, drawn, rounded, truth

from warpladder.appendix.gemm.formats import held
from warpladder.appendix.gemm.proof import DEPTH as MMA
from warpladder.appendix.gemm.proof import judged
from warpladder.device import Array, Device
from warpladder.machine.precision import named
from warpladder.nets import Conv2d, CrossEntropyLoss, Flatten, Linear, MaxPool2d, MSELoss, Net, ReLU, Upsample2d
from warpladder.ops.conv2d.few_inputs.few_inputs import FewConvolution
from warpladder.ops.conv2d.gradients import Gradients
from warpladder.ops.conv2d.problem import ConvWindow, FusedConv
from warpladder.ops.conv2d.tensor.formats import HALF_FORMATS
from warpladder.ops.conv2d.tensor.warpgroups import warpgroups
from warpladder.ops.conv2d.tensor.warpgroups.images import CHANNELS, PACK
from warpladder.ops.engine.kernels import Launches, OnDevice, ceil_div
from warpladder.proof.tolerance import bound

#: tf32 is not among them: it asks for fp16's kernels.
PRECISIONS = tuple(precision for precision in HALF_FORMATS if precision != "tf32")
#: As what factors are rounded, where it is not the precision's own format: halves round to the even neighbour where
#: tf32 goes away from 0.
MULTIPLIED = {"tf32": "fp16"}

#: A layer with a pool and an upsampled one, behind a first layer of few inputs; the two before the last pack y in bf16.
NET = Net(
    "warpgroups", (1, 10, 12),
    (
        conv(64, 3, padding=1), ReLU(), MaxPool2d(2), conv(64, 3, padding=1), ReLU(), MaxPool2d(2), Upsample2d(scale_factor=2),
        conv(64, 3, padding=1), ReLU(), Flatten(), Linear(out_features=3),
    ),
    CrossEntropyLoss(),
)  # fmt: skip
#: The autoencoder with 64 channels throughout, of pictures that have as many: all of its layers take warpgroup
#: products, two of them upsampled.
CODER = Net(
    "coder", (64, 4, 4),
    (
        conv(64, 3, padding=1), ReLU(), MaxPool2d(2), conv(64, 3, padding=1), ReLU(), MaxPool2d(2), conv(64, 3, padding=1), ReLU(),
        Upsample2d(scale_factor=2), conv(64, 3, padding=1), ReLU(), Upsample2d(scale_factor=2), conv(64, 3, padding=1),
    ),
    MSELoss(),
)  # fmt: skip


class EditedWarpgroups(Edited):
    """The emulator, where the kernels of convolutions by warpgroup products, or their headers, read otherwise."""

    paths = (warpgroups.SOURCE, PACK, warpgroups.WEIGHTS)
    headers: ClassVar[tuple[str, ...]] = ("squares.cuh", "staged.cuh", "halves.cuh", "tensor_panels.cuh")


class Unwritten(OnDevice):
    """Scratch memory full of NaN, in whatever format it is read."""

    def scratch(self, shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
        found = super().scratch(shape, dtype)
        self.device.fill(found, 0xFF)
        return found


def in_bf16(y: np.ndarray) -> np.ndarray:
    """Images (n, channels, rows, columns) as a layer of warpgroup products reads them in bf16: (n, rows, columns,
    channels) uint16.
    """
    return (held(y, named("bf16")).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).transpose(0, 2, 3, 1)


class Sent(Protocol):
    """Launches of one layer that can be sent."""

    def send(self) -> dict[str, np.ndarray]:
        """y, dx and dw."""


class Bound:
    """The launches of one layer on a device, and its arrays, full of NaN where nothing was computed.

    after : what is done with y (`products.AFTER`).
    below : whether x is the output of a ReLU, whose gradient dx shall be.
    packs : whether y is packed as well, in bf16, for a layer behind.
    owner : what takes scratch memory.
    given : in place of dy what backward is given: the gradient, the output of a ReLU or None, and the places that a
    pool's gradient goes back to or None.
    """

    def __init__(
        self, device: Device, asked: Asked, numbers: Numbers, after: str = "PLAIN", bias: np.ndarray | None = None, below: bool = False,
        packs: bool = False, owner: type[OnDevice] = Unwritten, given: tuple[np.ndarray | None, ...] = (),
    ) -> None:  # fmt: skip
        x, w, dy = numbers
        n, o, h, wide = dy.shape
        nan: Any = lambda shape: device.array(np.full(shape, np.nan, np.float32))  # noqa: E731
        self.x, self.w = device.array(x), device.array(w)
        pooled = after == "POOL"
        self.y, self.dx, self.dw, self.db = (
            nan((n, o, h // 2, wide // 2) if pooled else dy.shape),
            nan(x.shape),
            nan(w.shape),
            nan((o,)),
        )
        self.packed = device.array(np.full((n, *self.y.shape[2:], o), 0xFFFF, np.uint16)) if packs else None
        self.argmax = device.array(np.full(self.y.shape, 9, np.uint8)) if pooled else None
        made = warpgroups.WarpgroupConvolution(
            owner(device, 256), x.shape[1:], dy.shape[1:], n, asked.precision, trains=True, has_dx=True
        )
        added = None if bias is None else device.array(bias)
        gradient, relu_output, argmax = (
            None if each is None else device.array(each) for each in given or (dy, None, None)
        )
        assert gradient is not None
        self.steps: dict[str, Launches] = {
            "prepare": [made.weights.pack(self.w)],
            "forward": made.forward(
                n, self.x, warpgroups.Outputs(self.y, added, after, self.argmax, packed=self.packed)
            ),
            "backward": made.backward(
                n, gradient, relu_output, argmax, Gradients(self.dw, self.db), self.dx, self.x if below else None
            ),
        }

    def send(self) -> dict[str, np.ndarray]:
        """y, dx, dw and db; raises where y in bf16 for the layer behind is not y rounded."""
        for launches in self.steps.values():
            for launch in launches:
                launch.send()
        if self.packed is not None:
            np.testing.assert_array_equal(
                self.packed.download(), in_bf16(self.y.download()), err_msg="y packed is wrong at some pixel"
            )
        return {"y": self.y.download(), "dx": self.dx.download(), "dw": self.dw.download(), "db": self.db.download()}


def prove(
    device: Device, asked: Asked, seed: int = 0, bound_to: Callable[[Device, Asked, Numbers], Sent] | None = None
) -> float:
    """The largest error of the three; raises where one is beyond its precision's bound, or sums are not kept in fp32.

    bound_to : what makes the launches; `Bound` if not given.
    """
    numbers = drawn(asked, seed)
    found, wanted, sizes = (
        (bound_to or Bound)(device, asked, numbers).send(),
        truth(asked, numbers),
        truth(asked, tuple(map(abs, numbers))),  # type: ignore[arg-type]
    )
    lengths = {"y": asked.terms[0], "dx": asked.terms[1], "dw": numbers[2].size // len(numbers[1])}
    kind, worst, dy = named(asked.precision), 0.0, numbers[2].astype(float)
    error, size = abs(found.pop("db") - dy.sum((0, 2, 3))), abs(dy).sum((0, 2, 3))
    assert (error <= bound("fp32", dy.size // dy.shape[1]) * size).all(), f"db of {asked} is wrong at {error}"
    of_rounded = (
        rounded(replace(asked, precision=MULTIPLIED.get(asked.precision, asked.precision)), numbers)
        if kind.coarse
        else None
    )
    for name, got in found.items():
        where, length = f"{name} of {asked} is wrong at {got.shape}", lengths[name]
        assert np.isfinite(got).all(), f"{asked}: some numbers of {name} were never written, or are not finite"
        some = sizes[name] > 0
        assert not got[~some].any(), f"{where}: there is nothing to add up"
        got, size = got[some][None], sizes[name][some][None]
        worst = max(
            worst,
            judged(
                got, wanted[name][some][None], size, bound(kind, length), bound(kind, 16 * length, products=16), where
            ),
        )
        if (
            of_rounded is not None
            # the sums alone, of the very numbers that were multiplied; as halves they leave the tensor cores after nine
            # pieces at most
        ):
            halves = HALF_FORMATS[asked.precision].has_scales
            cuts = ceil_div(min(length, 9 * CHANNELS) if halves else length, MMA // 2)
            limits = bound("fp32", length, cuts=cuts), bound("fp32", 16 * length, cuts=4 * cuts)
            judged(got, of_rounded[name][some][None], size, *limits, f"{where}, of rounded factors")
    return worst


def between(of: Asked, pools: bool) -> tuple[Numbers, tuple[np.ndarray | None, ...]]:
    """Numbers whose dy is the gradient behind a pool, or a ReLU, and what `Bound` is given in its place: the gradient
    before it, y or None, argmaxes or None.
    """
    x, w, dy = drawn(of)
    rng, (n, o, high, wide) = np.random.default_rng(4), dy.shape
    if not pools:
        y = rng.normal(size=dy.shape).astype(np.float32)
        return (x, w, np.where(y > 0, dy, 0)), (dy, y, None)
    gradient, argmax = (
        dy[:, :, : high // 2, : wide // 2].copy(),
        rng.integers(0, 5, (n, o, high // 2, wide // 2)).astype(np.uint8),
    )
    spread = np.zeros_like(dy)
    for place in range(4):
        rows, columns = slice(place // 2, high // 2 * 2, 2), slice(place % 2, wide // 2 * 2, 2)
        spread[:, :, rows, columns] = np.where(argmax == place, gradient, 0)
    return (x, w, spread), (gradient, None, argmax)


def prove_between(device: Device, asked: Asked, pools: bool) -> None:
    """A gradient that is packed with the pool, or the ReLU, before it: dx, dw and db have the bits of one that was
    spread over the windows, or set to 0, before.
    """
    numbers, given = between(asked, pools)
    wanted, found = Bound(device, asked, numbers).send(), Bound(device, asked, numbers, given=given).send()
    for name in ("dx", "dw", "db"):
        np.testing.assert_array_equal(
            found[name], wanted[name], err_msg=f"{name} of {asked}, {'pool' if pools else 'ReLU'}"
        )


def prove_first_layer(device: Device, fused_relu: bool, pool: bool) -> set[str]:
    """A first layer of few inputs that packs y: its floats are to the bit those without, packed are the same rounded,
    and nothing is beyond the images in use.

    The names of the kernels that were launched.
    """
    rng, n, o, (h, w) = np.random.default_rng(0), 3, 64, (7, 6)
    x, weights, bias = (rng.normal(size=size).astype(np.float32) for size in ((n + 1, 3, h, w), (o, 3, 3, 3), o))
    high, wide = (h // 2, w // 2) if pool else (h, w)
    few = FewConvolution(
        OnDevice(device, 256), FusedConv((3, h, w), (o, h, w), ConvWindow(3, 1, 1), relu=fused_relu, pool=pool)
    )
    given = device.array(x), device.array(weights), device.array(bias)
    packed, found = device.array(np.full((n + 1, high, wide, o), 0xFFFF, np.uint16)), []
    names: set[str] = set()
    for to in (None, packed):
        y, argmax = (
            device.array(np.full((n + 1, o, high, wide), np.nan, np.float32)),
            device.zeros((n + 1, o, high, wide), np.uint8),
        )
        names |= send(few.launches(n, *given, y, argmax if pool else None, to))
        found.append((y.download(), argmax.download()))
    for plain, with_packed in zip(*found, strict=True):
        np.testing.assert_array_equal(plain, with_packed)
    np.testing.assert_array_equal(packed.download()[:n], in_bf16(found[0][0][:n]))
    assert (packed.download()[n:] == 0xFFFF).all()
    return names


def kernel_runs() -> Runs:
    """Cases for tests/support/kernel_cases.py, with scales and without: no case of a table's segment is as wide as
    these products want.
    """
    layer = Conv2d(out_channels=64, kernel_size=3, padding=1)
    for asked in (
        *(Asked(layer, (64, 8, 8), 1, precision) for precision in ("fp32", "bf16")),
        Asked(layer, (64, 4, 5), 1, "bf16", upsampled=True),
    ):
        what = "x".join(map(str, asked.in_shape)) + (" upsampled" if asked.upsampled else "")
        yield f"64 channels of {what}, in {asked.precision}", lambda device, asked=asked: _launched(device, asked)  # type: ignore[misc]
    yield "64 channels packed by a first layer", lambda device: prove_first_layer(device, fused_relu=True, pool=True)


def _launched(device: Device, asked: Asked) -> set[str]:
    prove(device, asked)
    layer = Bound(device, asked, drawn(asked), packs=asked.precision == "bf16")
    layer.send()
    if asked.precision == "bf16" and not asked.upsampled:
        prove_between(device, asked, pools=True)
    return {launch.name.partition("<")[0] for launches in layer.steps.values() for launch in launches}
