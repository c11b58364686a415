"""Correct kernels (correct/*.cu): what they must compute, whoever runs them, and in whatever order.

Run as a script it sends all of them in one mode, in every order, and prints what is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hopper_samples
import numpy as np
import tensor_step

from warpladder.device import Array
from warpladder.device.emulator import EmulatedDevice

FOLDER = Path(__file__).parent / "correct"
ORDERS = (("forward", 0), ("reverse", 0), ("random", 1), ("random", 2))

RNG = np.random.default_rng(3)
X = RNG.standard_normal(4096).astype(np.float32)
I = RNG.integers(0, 8, 4096).astype(np.int32)
B = RNG.integers(0, 16, 4096).astype(np.int32)

CASES: list[Callable[[Bench], None]] = [*hopper_samples.CASES]


class Bench:
    """A device, and short names for what a case does with it."""

    def __init__(self, device: EmulatedDevice) -> None:
        self.device = device

    def put(self, host: np.ndarray) -> Array:
        return self.device.array(np.ascontiguousarray(host))

    def zeros(self, *shape: int, dtype: Any = np.float32) -> Array:
        return self.device.zeros(shape, dtype)

    def send(self, file: str, kernel: str, grid: Any, block: Any, *arguments: Any, **how: Any) -> None:
        self.device.kernel(FOLDER / f"{file}.cu", kernel).bind(grid, block, *arguments, **how).send()


def case(function: Callable[[Bench], None]) -> Callable[[Bench], None]:
    CASES.append(function)
    return function


def close(found: Array, wanted: Any) -> None:
    np.testing.assert_allclose(found.download(), wanted, rtol=1e-5, atol=1e-5)


def equal(found: Array, wanted: Any) -> None:
    np.testing.assert_array_equal(found.download(), wanted)


@case
def matmul(b: Bench) -> None:
    m, n, k = 37, 21, 50
    left, right, out = X[: m * k].reshape(m, k), X[-k * n :].reshape(k, n), b.device.empty((m, n))
    b.send("block", "matmul", (2, 3), (16, 16), b.put(left), b.put(right), out, m, n, k)
    close(out, left @ right)


@case
def double_buffer(b: Bench) -> None:
    out = b.device.empty((128,))
    b.send("block", "double_buffer", 1, 128, b.put(X[:640]), out, 5)
    close(out, X[:640].reshape(5, 128)[:, ::-1].sum(0))


@case
def warp_exchange(b: Bench) -> None:
    out = b.device.empty((384,))
    b.send("block", "warp_exchange", 3, 128, b.put(X[:384]), out)
    equal(out, (2 * X[:384].reshape(-1, 32)[:, ::-1])[:, np.arange(32) ^ 1].reshape(-1))


@case
def half_warps(b: Bench) -> None:
    out = b.device.empty((64,))
    b.send("block", "half_warps", 1, 32, b.put(X[:32]), out)
    lanes = np.arange(32)
    close(out, np.concatenate([X[lanes ^ 15], np.where(lanes < 16, X[:16].sum(), X[:32])]))


@case
def carved(b: Bench) -> None:
    out = b.device.empty((100,))
    b.send("block", "carved", 1, 100, b.put(X[:100]), out, 100, shared=100 * 16)
    close(out, 1.5 * X[:100][::-1])


@case
def declarations(b: Bench) -> None:
    out = b.device.empty((64,))
    b.send("block", "declarations", 1, 64, b.put(X[:64]), out)
    best = int(X[:64].argmax())
    close(out, np.full(64, X[best] + best + best % 2))


@case
def votes(b: Bench) -> None:
    out, x = b.device.empty((4 * 96,), np.int32), I[:96]
    b.send("block", "votes", 1, 96, b.put(x), out)
    equal(out, np.tile([(x > 3).sum(), (x >= 0).all(), (x > 6).any(), (x > 5).sum()], 96))


@case
def locked(b: Bench) -> None:
    out = b.device.empty((1,), np.int32)
    b.send("block", "locked", 1, 256, out)
    equal(out, [8])


@case
def structs(b: Bench) -> None:
    out = b.device.empty((64,))
    b.send("block", "structs", 1, 64, b.put(X[:64]), out)
    close(out, X[:64][::-1] + np.arange(64)[::-1] % 2)


@case
def bytes_of_threads(b: Bench) -> None:
    x, out, colours = I[:64].astype(np.uint8), b.device.empty((64,), np.uint8), b.device.empty((64, 3), np.uint8)
    b.send("block", "bytes", 1, 64, b.put(x), out, colours)
    equal(out, 2 * x[::-1] + 2)
    equal(colours, np.stack([x, 0 * x, 0 * x + 1], 1))


@case
def handshake(b: Bench) -> None:
    out = b.device.empty((1,))
    b.send("block", "handshake", 1, 64, b.put(X[:1]), out, b.zeros(1, dtype=np.int32))
    equal(out, X[:1])


@case
def specialised(b: Bench) -> None:
    out = b.device.empty((2, 5))
    b.send("block", "specialised", 2, 96, b.put(X[:5]), out, 5)
    equal(out, np.stack([X[:5], X[:5]]))


@case
def two_flags(b: Bench) -> None:
    out = b.device.empty((1,))
    b.send("block", "two_flags", 1, 96, b.put(X[:2]), out)
    equal(out, X[:1] + X[1:2])


@case
def mirror_by_hand(b: Bench) -> None:
    x = I[:256].astype(np.float32)
    held = b.put(x)
    b.send("grid", "mirror_by_hand", 4, 64, held, b.zeros(1, dtype=np.int32), 256, cooperative=True)
    equal(held, 2 * (x + x[::-1]))


@case
def shuffles(b: Bench) -> None:
    out, x, lanes = b.device.empty((8, 32)), X[:32], np.arange(32)
    b.send("warps", "shuffles", 1, 32, b.put(x), out)
    sources = [
        (lanes + 5) % 32, np.where(lanes < 3, lanes, lanes - 3), np.where(lanes + 7 > 31, lanes, lanes + 7), lanes ^ 21,
        lanes // 8 * 8 + 2, np.where(lanes % 8 == 0, lanes, lanes - 1), np.where(lanes % 4 == 3, lanes, lanes + 1), lanes ^ 1,
    ]  # fmt: skip
    equal(out, x[np.array(sources)])


@case
def ballots(b: Bench) -> None:
    out, x = b.device.empty((10, 32), np.uint32), I[:32]
    b.send("warps", "ballots", 1, 32, b.put(x), out)

    def mask(which: np.ndarray) -> int:
        return sum(1 << int(lane) for lane in np.flatnonzero(which))

    same = [mask(x == v) for v in x]
    totals = [mask(x > 3), 0, 1, 0, 0xFFFFFFFF, 1, x.sum(), x.min() - 4, x.max(), np.bitwise_xor.reduce(x * 77)]
    wanted = np.repeat(np.array(totals, np.int64)[:, None], 32, 1).astype(np.uint32)
    wanted[3] = same
    equal(out, wanted)


@case
def ragged(b: Bench) -> None:
    out, x = b.zeros(40, dtype=np.int32), I[:40]
    b.send("warps", "ragged", 1, 40, b.put(x), out, 36)
    even = x[:36] % 2 == 0
    equal(out, [*[even[:32].sum()] * 32, *[even[32:].sum()] * 4, 0, 0, 0, 0])


@case
def aggregated(b: Bench) -> None:
    bins, x = b.zeros(8, dtype=np.int32), I[:1000]
    b.send("warps", "aggregated", 4, 256, b.put(x), bins, 1000)
    equal(bins, np.bincount(x, minlength=8))


@case
def opportunistic(b: Bench) -> None:
    counter, place = b.zeros(1, dtype=np.int32), b.device.empty((256,), np.int32)
    b.send("warps", "opportunistic", 4, 64, counter, place)
    np.testing.assert_array_equal(np.sort(place.download()), np.arange(256))


@case
def last_block(b: Bench) -> None:
    ticket, total = b.zeros(1, dtype=np.uint32), b.device.empty((1,))
    part = b.device.empty((20,))
    for _ in range(2):  # the ticket is left as it was found
        b.send("grid", "last_block", 20, 64, b.put(X[:1280]), part, ticket, total)
        close(total, [X[:1280].sum()])
    b.send("grid", "last_block_of_all", 12, 32, b.put(X[:384]), b.device.empty((384,)), ticket, total)
    close(total, [2 * X[:384].sum()])


@case
def chained_scan(b: Bench) -> None:
    out, x = b.device.empty((1024,), np.int32), I[:1024]
    b.send(
        "grid",
        "chained_scan",
        16,
        64,
        b.put(x),
        out,
        b.zeros(1, dtype=np.uint32),
        b.device.empty((16,), np.int32),
        b.zeros(16, dtype=np.int32),
    )
    equal(out, np.cumsum(x))


@case
def chained_by_acquire(b: Bench) -> None:
    out, x = b.device.empty((64,), np.int32), I[:64]
    state = b.zeros(1, dtype=np.uint32), b.device.empty((64,), np.int32), b.zeros(64, dtype=np.uint32)
    b.send("grid", "chained_by_acquire", 64, 32, b.put(x), out, *state)
    equal(out, np.cumsum(x))


@case
def spin_lock(b: Bench) -> None:
    count = b.zeros(1, dtype=np.int32)
    b.send("grid", "spin_lock", 40, 32, b.zeros(1, dtype=np.int32), count)
    equal(count, [sum(range(40))])


@case
def histogram(b: Bench) -> None:
    bins = b.zeros(16, dtype=np.int32)
    b.send("grid", "histogram", 5, 64, b.put(B), bins, len(B))
    equal(bins, np.bincount(B, minlength=16))


@case
def normalise(b: Bench) -> None:
    x = np.abs(X[:1000]) + 1
    held, part = b.put(x), b.device.empty((6,))
    b.send("grid", "normalise", 6, 64, held, part, 1000, cooperative=True)
    close(held, x / x.sum())
    close(part, np.full(6, x.sum()))


@case
def neighbours_by_grid(b: Bench) -> None:
    out = b.device.empty((128,))
    b.send("grid", "neighbours_by_grid", 4, 32, b.put(X[:128]), out, cooperative=True, cluster=2)
    equal(out, 2 * X[:128].reshape(2, 2, 32)[:, ::-1].ravel())


@case
def cluster_sum(b: Bench) -> None:
    out, x = b.device.empty((256,)), X[:256]
    b.send("grid", "cluster_sum", 8, 32, b.put(x), out, shared=128, cluster=4)
    close(out, np.repeat(x.reshape(2, 4, 32).sum(1) + 6000, 4, 0).reshape(-1))


@case
def halves(b: Bench) -> None:
    special = [0.0, -0.0, 1e-8, 3e-8, 6e-5, 65504, 65519, 65520, 1e9, -np.inf, 2049, 2051, 1.0009765, 0.333]
    x = np.concatenate([X[:50], np.array(special, np.float32)]).astype(np.float32)
    half, brain, back = b.device.empty((64,), np.uint16), b.device.empty((64,), np.uint16), b.device.empty((64, 2))
    b.send("arithmetic", "halves", 2, 32, b.put(x), half, brain, back)
    with np.errstate(over="ignore"):
        equal(half, x.astype(np.float16).view(np.uint16))
    bits = x.view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    equal(brain, rounded)
    with np.errstate(over="ignore"):
        equal(
            back,
            np.stack([x.astype(np.float16).astype(np.float32), (rounded.astype(np.uint32) << 16).view(np.float32)], 1),
        )


@case
def vectors(b: Bench) -> None:
    x, out = X[:128].reshape(32, 4), b.device.empty((32,))
    b.send("arithmetic", "vectors", 1, 32, b.put(x), out)
    close(out, x[:, 0] + x[:, 2] + 4 * (x[:, 1] + x[:, 3]))


@case
def functions(b: Bench) -> None:
    x, t, out = X[:32], np.arange(32), b.device.empty((32, 16))
    b.send("arithmetic", "functions", 1, 32, b.put(x), out)
    with np.errstate(divide="ignore"):
        leading = np.where(t == 0, 32, 31 - np.floor(np.log2(np.maximum(t, 1))))
    reversed_bits = [int(f"{i:032b}"[::-1], 2) >> 24 for i in t]
    columns = [
        np.exp(x), 1 / np.sqrt(np.abs(x) + 1), np.maximum(x, 0), np.minimum(x, np.float32(0.25)), x / 3, np.clip(x, 0, 1), x, np.rint(x * np.float32(2.5)),
        [bin(i).count("1") for i in t], leading, reversed_bits, np.tanh(x), np.zeros(32), t // 2, x, np.ones(32),
    ]  # fmt: skip
    close(out, np.stack([np.asarray(c, np.float32) for c in columns], 1))


@case
def scaled(b: Bench) -> None:
    for dtype, name in ((np.float32, "float"), (np.float64, "double"), (np.int32, "int")):
        x, out = (100 * X[:96]).astype(dtype), b.device.empty((96,), dtype)
        b.send("arithmetic", f"scaled<{name}, 3>", 1, 32, b.put(x), out, dtype(3))
        close(out, 3 * x)


@case
def atomics(b: Bench) -> None:
    i, u = b.put(np.array([0, 0, -5, 5, 0, 33, 0], np.int32)), b.put(np.array([0, 0xFFFFFFFF, 5, 3, 3], np.uint32))
    l, f, d = b.zeros(2, dtype=np.uint64), b.zeros(2), b.zeros(1, dtype=np.float64)
    b.send("arithmetic", "atomics", 1, 64, i, u, l, f, d)
    found = i.download()
    assert list(found[:5]) == [2016, -2016, 63, 0, 7]
    assert found[5] in range(33, 65)
    assert found[6] == 64
    equal(u, [0xFFFFFFFF, 0, 5, (3 + 64) % 10, (3 - 64) % 10])
    equal(l, [64 << 40, 189])
    equal(f, [64, 32])
    equal(d, [16])


@case
def mixed(b: Bench) -> None:
    seen, i, s, l = (b.zeros(1, dtype=kind) for kind in (np.int32, np.int32, np.uint16, np.uint64))
    b.send("arithmetic", "mixed", 1, 40, seen, i, s, l)
    assert [int(a.download()[0]) for a in (seen, i, s, l)] == [1, 40, 5, 7]


@case
def tensor_cores(b: Bench) -> None:
    a, c = X[: 16 * 32].reshape(16, 32), b.device.empty((16, 8))
    w = X[-8 * 32 :].reshape(8, 32)

    def brain(x: np.ndarray) -> np.ndarray:
        bits = x.view(np.uint32).astype(np.uint64)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)

    def value(x: np.ndarray) -> np.ndarray:
        return (x.astype(np.uint32) << 16).view(np.float32)

    b.send("arithmetic", "bf16_product", 1, 32, b.put(brain(a)), b.put(brain(w)), c, 32)
    close(c, value(brain(a)) @ value(brain(w)).T)
    h, v = a[:, :16].astype(np.float16), w[:, :16].astype(np.float16)
    b.send("arithmetic", "half_product", 1, 32, b.put(h.view(np.uint16)), b.put(v.view(np.uint16)), c)
    close(c, h.astype(np.float32) @ v.astype(np.float32).T + 1)
    b.send("arithmetic", "tf32_product", 1, 32, b.put(a[:, :8]), b.put(w[:, :8]), c)
    np.testing.assert_allclose(c.download(), a[:, :8] @ w[:, :8].T, atol=8 * 2**-10 * np.abs(a).max() * np.abs(w).max())


@case
def ring(b: Bench) -> None:
    for steps in (1, 2, 7):
        x, out = X[: steps * 256], b.device.empty((64,))
        b.send("tensor", "ring", 1, 64, b.put(x), out, steps)
        close(out, x.reshape(steps, 256)[:, ::-1][:, :64].sum(0))


@case
def pieces(b: Bench) -> None:
    for n in (256, 77, 3, 0):
        x, out = X[:256], b.device.empty((320,))
        b.send("tensor", "pieces", 1, 64, b.put(x), out, n)
        wanted = np.where(np.arange(256) < n, x, 0)
        equal(out, np.concatenate([wanted[::-1], wanted[:64]]))


@case
def fragments(b: Bench) -> None:
    x, out = np.arange(256, dtype=np.uint16) * 257, b.device.empty((11, 32), np.uint32)
    b.send("tensor", "fragments", 1, 32, b.put(x), out)
    matrices = x.reshape(4, 8, 8).astype(np.uint32)
    lanes = np.arange(32)
    row, column = lanes // 4, 2 * (lanes % 4)
    straight = [m[row, column] | m[row, column + 1] << 16 for m in matrices]
    turned = [m[column, row] | m[column + 1, row] << 16 for m in matrices]
    equal(out, np.stack([straight[0], *turned[:2], *straight, *turned]))


@case
def packed(b: Bench) -> None:
    x = np.concatenate([X[:60], np.array([0.0, 65519.0, -3e-8, 1e-30], np.float32)])
    brain, half, back = b.device.empty((32,), np.uint32), b.device.empty((32,), np.uint32), b.device.empty((64,))
    b.send("tensor", "packed", 1, 32, b.put(x), brain, half, back)
    bits = x.view(np.uint32).astype(np.uint64)
    equal(brain, ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16).view(np.uint32))
    equal(half, x.astype(np.float16).view(np.uint32))
    equal(back, x.astype(np.float16).astype(np.float32))


#: How the fragments of `step` are stored, by its template argument: numbers in a word, and the lowest exponent of the
#: format.
KINDS = ((2, -14), (2, -126), (1, -126))


def step(b: Bench, kind: int, a: np.ndarray, w: np.ndarray, d: np.ndarray) -> Array:
    """d + a w' by one step of a tensor core."""
    out = b.put(d)
    b.send("tensor", f"step<{kind}>", 1, 32, *(b.put(tensor_step.words(x, kind)) for x in (a, w)), out)
    return out


@case
def steps_are_cut_off(b: Bench) -> None:
    for kind, (side, lowest) in enumerate(KINDS):
        for trial, spread in enumerate((0, 3, 12, 12)):
            a, w, d = tensor_step.drawn(kind, trial, spread)
            equal(step(b, kind, a, w, d), tensor_step.added(d, a, w, lowest))
            assert a.shape[1] == 8 * side


@case
def rows_of_zeros_add_nothing(b: Bench) -> None:
    """But -0 becomes 0, and zero times infinity is not a number."""
    for kind, (_, lowest) in enumerate(KINDS):
        a, w, d = tensor_step.drawn(kind, 5, 3)
        a[::3], w[1::4], d[0], d[1], d[3] = 0, 0, -0.0, -0.0, 1e-40
        for left, right in ((a, w), (0 * a, w), (a, 0 * w)):
            bits = tensor_step.added(d, left, right, lowest).view(np.uint32)
            np.testing.assert_array_equal(step(b, kind, left, right, d).download().view(np.uint32), bits)
        w[0, 0] = np.inf
        for left in (a, 0 * a):
            found = step(b, kind, left, w, d).download()
            assert np.isnan(found[::3, 0]).all() and np.isfinite(found[:, 1:]).all()


def every_order(mode: str, run: Callable[[Bench], None]) -> None:
    """A case in a mode, in all orders; raises what is wrong."""
    for order, seed in ORDERS[:: 2 if mode == "asan" else 1]:
        run(Bench(EmulatedDevice(mode=mode, order=order, seed=seed)))


if __name__ == "__main__":
    for run in CASES:
        every_order(sys.argv[1], run)
        print(run.__name__, flush=True)
