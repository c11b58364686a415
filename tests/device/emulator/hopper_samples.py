"""Correct kernels of correct/warpgroups.cu: tiles by the copy engine, barriers that count arrivals and bytes, products
of warpgroups.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensor_step

SOURCE = Path(__file__).parent / "correct" / "warpgroups.cu"
X = np.random.default_rng(7).standard_normal(1 << 16).astype(np.float32)


def tile_of(x: np.ndarray, rows: int, row: int, column: int) -> np.ndarray:
    """What a tile of so many rows of 128 bytes holds, from a row and a column on: zeros where it lies outside of the
    matrix.
    """
    width = 128 // x.itemsize
    out = np.zeros((rows, width), x.dtype)
    for i, j in np.ndindex(rows, width):
        if 0 <= row + i < x.shape[0] and 0 <= column + j < x.shape[1]:
            out[i, j] = x[row + i, column + j]
    return out


def tiles(b: Any) -> None:
    whole = X[: 40 * 48].reshape(40, 48)
    for x in (whole, (whole.view(np.uint32) >> 16).astype(np.uint16)):
        for rows, row, piece in ((8, 0, 0), (8, 5, 1), (16, 33, 5), (16, -3, -2), (8, 40, 0)):
            column = piece * 16 // x.itemsize  # tiles begin at multiples of 16 bytes
            out = b.device.empty((rows, 128 // x.itemsize), x.dtype)
            b.device.fill(out, 0xFF)
            given = b.device.tensor_map(b.put(x), rows)
            b.device.kernel(SOURCE, f"tile<{rows}, {'float' if x.itemsize == 4 else 'unsigned short'}>").bind(
                1, 32, given, out, column, row
            ).send()
            np.testing.assert_array_equal(out.download(), tile_of(x, rows, row, column))


def tiles_of_fewer_columns(b: Any) -> None:
    x, out = X[: 8 * 32].reshape(8, 32), b.device.empty((8, 32))
    b.device.kernel(SOURCE, "tile<8, float>").bind(
        1, 32, b.device.tensor_map(b.put(x), 8, columns=21), out, 0, 0
    ).send()
    np.testing.assert_array_equal(out.download(), np.where(np.arange(32) < 21, x, 0))


def nearest_even(x: np.ndarray) -> np.ndarray:
    """Floats rounded to tf32, ties to the even one."""
    bits = x.view(np.uint32)
    return ((bits + np.uint32(0xFFF) + (bits >> 13 & np.uint32(1))) & np.uint32(0xFFFFE000)).view(np.float32)


def tiles_in_tf32(b: Any) -> None:
    x = X[: 8 * 32].copy().reshape(8, 32)
    bits = x.view(np.uint32)
    for row, low in enumerate((0x1000, 0x1001, 0x0FFF, 0x3000)):  # ties among them
        bits[row] = (bits[row] & np.uint32(0xFFFFC000)) | np.uint32(low)
    x[4, :3] = np.inf, -np.inf, 0
    out = b.device.empty((8, 32))
    b.device.kernel(SOURCE, "tile<8, float>").bind(
        1, 32, b.device.tensor_map(b.put(x), 8, to_tf32=True), out, 0, 0
    ).send()
    np.testing.assert_array_equal(out.download(), np.where(np.isfinite(x), nearest_even(x), x))


def hand_over(b: Any) -> None:
    for steps in (1, 2, 7):
        x, out = X[: steps * 32].reshape(steps, 32), b.device.empty((32,))
        b.device.kernel(SOURCE, "hand_over").bind(1, 64, b.device.tensor_map(b.put(x), 1), out, steps).send()
        np.testing.assert_allclose(out.download(), x.sum(0), rtol=1e-5, atol=1e-5)


def for_both(b: Any) -> None:
    x, out = X[: 16 * 32].reshape(16, 32), b.device.empty((2, 16, 32))
    b.device.kernel(SOURCE, "for_both").bind(2, 32, b.device.tensor_map(b.put(x), 8), out, cluster=2).send()
    np.testing.assert_array_equal(out.download(), np.stack([x, x]))


def pieces(b: Any) -> None:
    """Memory as it lies: what both blocks of a cluster get, and what one gets."""
    x, out = X[:128], b.device.empty((2, 96))
    b.device.kernel(SOURCE, "pieces").bind(2, 32, b.put(x), out, cluster=2).send()
    np.testing.assert_array_equal(
        out.download(), np.stack([np.concatenate([x[:64], x[first : first + 32]]) for first in (64, 96)])
    )


def factors(kind: int, spread: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Exact factors of `multiply` in a kind's format, as float32, a (64, k) and b (k, n); and what they are added to."""
    rng = np.random.default_rng([kind, spread])
    k, n = (32, 256) if kind == 2 else (64, 256 if kind == 1 else 128)

    def some(*shape: int) -> np.ndarray:
        x = np.ldexp(rng.standard_normal(shape), rng.integers(-spread, spread + 1, shape)).astype(np.float32)
        x[rng.random(shape) < 0.1] = 0
        return x

    a, w, d = tensor_step.held(some(64, k), kind), tensor_step.held(some(k, n), kind), some(64, n)
    a[40], w[:, 2] = 0, 0
    return a, w, d


def stored(x: np.ndarray, kind: int) -> np.ndarray:
    """Numbers of a kind's format as they lie in memory."""
    return x if kind == 2 else tensor_step.words(np.ascontiguousarray(x), kind).view(np.uint16).reshape(x.shape)


def multiplied(device: Any, kind: int, a: np.ndarray, w: np.ndarray, d: np.ndarray) -> np.ndarray:
    """d + a w by a device, with a fresh copy of d."""
    maps = (
        device.tensor_map(device.array(stored(a, kind)), 64),
        device.tensor_map(
            device.array(stored(np.ascontiguousarray(w.T) if kind == 2 else w, kind)), 256 if kind == 2 else 64
        ),
    )
    out = device.array(d)
    device.kernel(SOURCE, f"multiply<{kind}>").bind(1, 128, *maps, out, shared=8192 + 128 * d.shape[1] + 1024).send()
    return out.download()


def check_product(got: np.ndarray, kind: int, a: np.ndarray, w: np.ndarray, d: np.ndarray | None = None) -> None:
    """Compare d + a w with float64 everywhere, and at four places with the bits of a tensor core."""
    d = np.zeros(got.shape, np.float32) if d is None else d
    size = abs(d).astype(np.float64) + abs(a).astype(np.float64) @ abs(w)
    assert (abs(got - (d + a.astype(np.float64) @ w)) <= 2.0**-20 * size).all()
    depth, lowest = 8 if kind == 2 else 16, -14 if kind == 0 else -126
    for row, column in ((0, 0), (63, got.shape[1] - 1), (17, got.shape[1] // 2 + 8), (40, 9)):
        sum_ = d[row : row + 1, column : column + 1]
        for first in range(0, a.shape[1], depth):
            part = slice(first, first + depth)
            sum_ = tensor_step.added(sum_, a[row : row + 1, part], w[part, column : column + 1].T, lowest)
        assert got[row, column] == sum_[0, 0]


def warpgroups_multiply(b: Any) -> None:
    for kind in range(3):
        for spread in (0, 9):
            a, w, d = factors(kind, spread)
            check_product(multiplied(b.device, kind, a, w, d), kind, a, w, d)


def own_tile(b: Any) -> None:
    x = tensor_step.held(X[: 64 * 64].reshape(64, 64), 1)
    out = b.device.empty((64, 256))
    b.device.kernel(SOURCE, "own_tile").bind(1, 128, b.put(stored(x, 1).reshape(-1)), out).send()
    np.testing.assert_allclose(out.download(), np.tile(x @ x, 4), rtol=1e-4, atol=1e-4)


def boxes_of_pixels(b: Any) -> None:
    """Boxes that hang over every edge of images: what lies beside an image is zero, and not its neighbour."""
    x = (X[: 3 * 5 * 6 * 72].view(np.uint32) >> 16).astype(np.uint16).reshape(3, 5, 6, 72)
    padded = np.zeros((3 + 8, 5 + 16, 6 + 16, 72 + 64), np.uint16)
    padded[4:7, 8:13, 8:14, :72] = x
    given = b.put(x)
    for images, rows, columns in ((1, 2, 8), (2, 4, 2), (4, 1, 4)):
        for image, row, column, channel in ((0, 0, 0, 0), (1, -1, -1, 0), (2, 4, 5, 64), (-1, 3, -2, 8), (0, 5, 0, 0)):
            out = b.device.empty((16, 64), np.uint16)
            b.device.fill(out, 0xFF)
            made = b.device.tensor_map(given, (images, rows, columns))
            pixels = images * rows * columns
            b.device.kernel(SOURCE, f"pixels<{pixels}>").bind(1, 32, made, out, channel, column, row, image).send()
            box = padded[4 + image :, 8 + row :, 8 + column :, channel:][:images, :rows, :columns, :64]
            np.testing.assert_array_equal(out.download()[:pixels], box.reshape(pixels, 64))


def terms_go_down_both(b: Any) -> None:
    """The same bits as of the transposed factor whose terms go along its rows."""
    for kind in range(2):
        a, w, _ = factors(kind, 3)
        a, w = a[:, :32], np.ascontiguousarray(w[:32, :128])
        maps = (b.device.tensor_map(b.put(stored(np.ascontiguousarray(each), kind)), 32) for each in (a.T, w))
        out = b.device.empty((64, 128))
        b.device.kernel(SOURCE, f"multiply_down<{kind}>").bind(1, 128, *maps, out).send()
        check_product(out.download(), kind, a, w)


def products_of_64_columns(b: Any) -> None:
    """The same bits whichever way the terms go."""
    for kind in range(2):
        a, w, _ = factors(kind, 3)
        w = np.ascontiguousarray(w[:, :64])
        for way in range(3):
            given = a.T if way == 1 else a, w.T if way == 2 else w
            maps = (b.device.tensor_map(b.put(stored(np.ascontiguousarray(each), kind)), 64) for each in given)
            out = b.device.empty((64, 64))
            b.device.kernel(SOURCE, "multiply_narrow").bind(1, 128, *maps, out, way, kind).send()
            check_product(out.download(), kind, a, w)


def unswizzled(x: np.ndarray, down: bool, by_rows: bool) -> np.ndarray:
    """Numbers (rows, terms) as pieces of eight rows and eight terms, one after the other along the terms, or `by_rows`
    along the rows. In a piece the terms of a row are adjacent, or with `down` the rows of a term.
    """
    pieces = x.reshape(x.shape[0] // 8, 8, x.shape[1] // 8, 8)
    return pieces.transpose(*((2, 0) if by_rows else (0, 2)), *((3, 1) if down else (1, 3))).reshape(-1)


def products_without_a_swizzle(b: Any) -> None:
    """The same bits whichever way the terms go, where eight rows of 16 bytes follow each other."""
    for kind in range(2):
        a, w, _ = factors(kind, 3)
        a, w = np.ascontiguousarray(a[:, :32]), np.ascontiguousarray(w[:32, :64])
        for way in range(3):
            left = b.put(unswizzled(stored(a, kind), way == 1, by_rows=False))
            right = b.put(unswizzled(stored(np.ascontiguousarray(w.T), kind), way < 2, by_rows=True))
            out = b.device.empty((64, 64))
            b.device.kernel(SOURCE, "multiply_unswizzled").bind(1, 128, left, right, out, way, kind).send()
            check_product(out.download(), kind, a, w)


CASES: tuple[Callable[[Any], None], ...] = (
    tiles, tiles_of_fewer_columns, tiles_in_tf32, hand_over, for_both, pieces, warpgroups_multiply, own_tile, boxes_of_pixels,
    terms_go_down_both, products_of_64_columns, products_without_a_swizzle,
)  # fmt: skip
