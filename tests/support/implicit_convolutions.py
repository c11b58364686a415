"""Convolutions as implicit GEMMs on tensor cores, asked for one by one: y with what follows it, dx, dw and db."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np
from kernel_tools import Runs
from narrow_convolutions import Found, prove_relus_and_zeros, spread
from narrow_convolutions import prove as prove_by
from narrow_convolutions import prove_any_order as prove_any_order_by
from tensor_convolutions import Asked, Edited, Numbers, conv, drawn
from tensor_tools import placed
from warpgroup_convolutions import Unwritten

from warpladder.device import Array, Device
from warpladder.device.emulator import EmulatedDevice
from warpladder.nets import Conv2d, Shape
from warpladder.ops.conv2d.gradients import Gradients
from warpladder.ops.conv2d.problem import ConvWindow
from warpladder.ops.conv2d.tensor.implicit import implicit
from warpladder.ops.conv2d.tensor.implicit.plan import ImplicitShape

#: tf32 is not among them: it asks for fp16's kernels.
PRECISIONS = ("fp32", "bf16", "fp16")

#: By what a test is called: the layer, its images and their number.
SHAPES: dict[str, tuple[Conv2d, Shape, int]] = {
    "strided": (conv(40, 3, 2, 1), (33, 9, 8), 3),
    "few": (conv(5, 3, padding=1), (3, 6, 7), 7),
    "long": (conv(17, 5, 1, 2), (6, 7, 9), 2),
    "gaps": (conv(20, 2, 3), (12, 8, 11), 4),
    "fours": (conv(33, 4, 4, 1), (24, 9, 9), 3),
    "pixel": (conv(24, 1), (40, 6, 5), 2),
    "sevens": (conv(9, 7, 3, 3), (9, 14, 13), 2),
    "wide": (conv(130, 3, 2, 0), (100, 7, 9), 2),
    "padded": (conv(12, 4, 3, 2), (2, 9, 10), 3),
    "elevens": (conv(20, 11, 1, 5), (36, 5, 12), 2),
    "elevens, strided": (conv(17, 11, 2, 4), (40, 13, 11), 2),
}
#: Layers of enough channels for warpgroup products, likewise.
WIDE_SHAPES: dict[str, tuple[Conv2d, Shape, int]] = {
    "strided": (conv(40, 3, 2, 1), (33, 9, 8), 3),
    "fives": (conv(70, 5, 1, 2), (30, 8, 9), 3),
    "pixel": (conv(130, 1), (64, 5, 6), 3),
    "sevens": (conv(66, 7, 3, 3), (24, 14, 13), 2),
    "planes": (conv(48, 3, 1, 1), (100, 6, 7), 5),
}


@contextmanager
def passes(kind: type[implicit.ImplicitPass]) -> Iterator[None]:
    """Context in which y and dx of every implicit GEMM are by one kind of launcher."""
    with mock.patch.object(implicit, "conv_pass", kind):
        yield


class EditedImplicit(Edited):
    """The emulator, where the kernels of implicit GEMMs, or their headers, read otherwise."""

    paths = (implicit.SOURCE, implicit.WIDE, implicit.PACK, implicit.WEIGHTS)
    headers = (
        "tap.cuh",
        "flat.cuh",
        "out.cuh",
        "implicit.cuh",
        "channels.cuh",
        "narrow.cuh",
        "halves.cuh",
        "tensor_panels.cuh",
    )


def computed(
    device: Device, asked: Asked, numbers: Numbers, pool: bool = False, bias: np.ndarray | None = None, fused_relu: bool = False,
    below: bool = False, gradient: tuple[np.ndarray, np.ndarray] | None = None,
) -> Found:  # fmt: skip
    """y, dx, dw and db, all full of NaN before, as narrow_convolutions.computed has it."""
    x, w, dy = numbers
    n, o, high, wide = dy.shape
    made: dict[bool, tuple[Array, Array | None]] = {}
    given, argmaxes = (dy, None) if gradient is None else gradient
    at = {name: placed(device, array, asked.offset) for name, array in (("x", x), ("w", w), ("dy", given))}
    added = None if bias is None else placed(device, bias, asked.offset)
    nan = {name: np.full(shape, np.nan, np.float32) for name, shape in (("dx", x.shape), ("dw", w.shape), ("db", (o,)))}
    back = {name: placed(device, array, asked.offset) for name, array in nan.items()}
    window = ConvWindow(asked.layer.kernel_size, asked.layer.stride, asked.layer.padding)
    for windowed in {False, pool}:
        shape = ImplicitShape(x.shape[1:], dy.shape[1:], window, pool=windowed)
        layer = implicit.ImplicitConvolution(
            Unwritten(device, 256), shape, n, asked.precision, trains=True, has_dx=True
        )
        size = (n, o, high // 2, wide // 2) if windowed else dy.shape
        y = placed(device, np.full(size, np.nan, np.float32), asked.offset)
        argmax = device.array(np.full(size, 9, np.uint8)) if windowed else None
        calls = [layer.pack(at["w"]), *layer.forward(n, at["x"], added, y, fused_relu or windowed, argmax)]
        if windowed == pool:
            won = None if argmaxes is None else device.array(argmaxes)
            other = (implicit.STORED, None) if won is None else (implicit.POOLED, won)
            to, mask = Gradients(back["dw"], back["db"]), at["x"] if below else None
            calls += layer.backward(n, at["x"], at["dy"], other, to, back["dx"], mask)
        for call in calls:
            call.send()
        made[windowed] = y, argmax
    found = {name: array.download() for name, array in back.items()}
    pooled, argmax = made[True] if pool else (None, None)
    return Found(
        y=made[False][0].download(), dx=found["dx"], dw=found["dw"], db=found["db"], pooled=None if pooled is None else pooled.download(),
        argmax=None if argmax is None else argmax.download(),
    )  # fmt: skip


def prove(device: Device, asked: Asked, pool: bool = False, seed: int = 0) -> float:
    """The largest error of y, dx, dw and db; raises as narrow_convolutions.prove does."""
    return prove_by(device, asked, pool, seed, computed)


def prove_not_finite(device: Device, asked: Asked) -> None:
    """Raises if ReLUs are not to the bit, zeros do not stay zeros, or infinity and NaN are not seen where they are
    read, and nowhere else.
    """
    x, w, dy, given, argmax = prove_relus_and_zeros(device, asked, computed)
    for wrong in (np.inf, np.nan):
        bad = x.copy()
        bad[2, 5, 3, 3] = wrong
        found = computed(device, asked, (bad, w, dy), True, gradient=(given, argmax))
        assert not np.isfinite(np.delete(found.y[2, :, 2, 2], 2, 0)).any() and np.isfinite(found.y[:2]).all()


def prove_any_order(device: Device, asked: Asked) -> None:
    """Raises if another order of threads gives other bits."""
    prove_any_order_by(device, asked, computed)


def prove_checked(asked: Asked) -> None:
    """Raises if the checker reports anything, with a pool or without."""
    checked = EmulatedDevice("check", collect=True)
    x, w, dy = drawn(asked)
    given, argmax, _ = spread(dy, 0)
    for pool in (True, False):
        computed(checked, asked, (x, w, dy), pool, gradient=(given, argmax) if pool else None)
    assert checked.reports == []


def kernel_runs() -> Runs:
    """Cases for tests/support/kernel_cases.py."""
    for name, precision, wide in (("strided", "fp32", False), ("few", "bf16", False), ("strided", "bf16", True)):

        def run(device: Device, name: str = name, precision: str = precision, wide: bool = wide) -> set[str]:
            with passes(implicit.WidePass if wide else implicit.ImplicitPass):
                prove(device, Asked(*SHAPES[name], precision), pool=True)
            product = "convolve_wide" if wide else "convolve_implicit"
            return {"pack_implicit", product, "correlate_implicit", "finish_weights"}

        layer, image, _ = SHAPES[name]
        how = " by warpgroups" if wide else ""
        size = "x".join(map(str, image))
        yield f"{layer.out_channels} outputs of {size}, stride {layer.stride}, in {precision}{how}", run
