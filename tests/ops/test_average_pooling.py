"""Average pooling: the reference against finite differences and PyTorch, arrays and loops against the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from warpladder.errors import NetError
from warpladder.nets import AdaptiveAvgPool2d, AvgPool2d, Conv2d, Shape
from warpladder.ops.avgpool2d import reference
from warpladder.ops.engine.base import Buffers
from warpladder.ops.tables import array, loops
from warpladder.proof.tolerance import bound

POOLS = [
    (AvgPool2d(2), (2, 7, 5)), (AvgPool2d(3, 1), (1, 5, 6)), (AvgPool2d(2, 3), (2, 8, 9)), (AvgPool2d(1, 2), (1, 3, 4)),
    (AvgPool2d(5), (2, 5, 5)), (AdaptiveAvgPool2d(1), (3, 5, 7)), (AdaptiveAvgPool2d(1), (2, 1, 1)),
]  # fmt: skip
every_pool = pytest.mark.parametrize(("layer", "shape"), POOLS, ids=str)


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


@every_pool
def test_the_gradient_is_the_slope_and_torch_has_the_same(layer: Any, shape: Shape) -> None:
    x, dy = normal(1, 3, *shape), normal(2, 3, *layer.out_shape(shape))
    (dx,) = reference.backward(layer, x, None, dy)
    for seed in range(3):  # linear: a difference over any step is exact but for rounding
        line = normal(seed + 3, *x.shape)
        rise = ((reference.forward(layer, x + line) - reference.forward(layer, x)) * dy).sum()
        assert abs(rise - (dx * line).sum()) <= 1e-12
    torch = pytest.importorskip("torch")
    given = torch.from_numpy(x).requires_grad_()
    y = getattr(torch.nn, type(layer).__name__)(**vars(layer))(given)
    y.backward(torch.from_numpy(dy))
    assert np.abs(reference.forward(layer, x) - y.detach().numpy()).max() <= 1e-12
    assert np.abs(dx - given.grad.numpy()).max() <= 1e-12


@pytest.mark.parametrize("table", [loops.TABLE, array.TABLE], ids=["loops", "array"])
@every_pool
@pytest.mark.parametrize("want_dx", [True, False])
def test_rungs_on_the_cpu(table: Any, layer: Any, shape: Shape, want_dx: bool) -> None:
    """Rows that are not in use hold NaN and are neither read nor written."""
    x = normal(1, 3, *shape).astype(np.float32)
    dy = normal(2, 3, *layer.out_shape(shape)).astype(np.float32)
    x[2:] = dy[2:] = np.nan
    t = Buffers(x, np.full_like(dy, np.nan), np.full_like(x, np.nan) if want_dx else None, dy)
    op = table.layers[type(layer)](layer, t)
    op.forward(2)
    op.backward(2)
    near = bound("float32", layer.roundings(shape))
    wanted = reference.forward(layer, x[:2].astype(float))
    assert np.linalg.norm(t.y[:2] - wanted) <= near * np.linalg.norm(reference.forward(layer, abs(x[:2].astype(float))))
    assert np.isnan(t.y[2:]).all()
    if t.dx is not None:
        (gradient,) = reference.backward(layer, x[:2].astype(float), None, dy[:2].astype(float))
        assert np.linalg.norm(t.dx[:2] - gradient) <= near * np.linalg.norm(gradient)
        assert np.isnan(t.dx[2:]).all()


def test_what_torch_has_and_this_has_not_is_refused() -> None:
    with pytest.raises(NetError, match=r"output_size=2.*wants 1"):
        AdaptiveAvgPool2d(2)
    with pytest.raises(NetError, match="wants at least 3x3 pixels"):
        AvgPool2d(3).out_shape((1, 2, 5))
    for settings in ({"kernel_size": 4}, {"kernel_size": 3, "stride": 2}):
        with pytest.raises(NetError, match="'same' wants an odd kernel_size and a stride of 1"):
            Conv2d(out_channels=2, padding="same", **settings)  # type: ignore[arg-type]
    with pytest.raises(NetError, match=r"padding='full'.*'same' or 'valid'"):
        Conv2d(out_channels=2, kernel_size=3, padding="full")  # type: ignore[arg-type]
