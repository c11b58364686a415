"""Dropout: its masks, and its arithmetic against PyTorch's autograd and on the rungs of the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from warpladder.data.order import Order, layer_key, mix32
from warpladder.errors import NetError
from warpladder.nets import Dropout
from warpladder.ops.dropout import reference
from warpladder.ops.engine.base import Buffers, OpTable
from warpladder.ops.tables import array, loops

KEY = layer_key(Order(3, 5, 1000).mask_key, 2)
AT = np.array([0, 1, 4, 70_000, 2**31 - 1])


def test_a_mask_is_the_hash_of_key_position_and_number() -> None:
    layer = Dropout(0.3)
    found = reference.mask(layer, KEY, AT, (2, 3, 4)).reshape(len(AT), -1)
    for row, position in enumerate(AT.tolist()):
        for element in range(24):
            dropped = mix32(mix32(KEY ^ position) ^ element) < round(0.3 * 2**32)
            assert found[row, element] == (0 if dropped else 1 / 0.7)


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_a_share_of_p_is_dropped_in_every_row_and_column(p: float) -> None:
    mask = reference.mask(Dropout(p), KEY, np.arange(2000), (2000,))
    for axis in (0, 1):
        share = np.mean(mask == 0, axis=axis)
        assert np.abs(share - p).max() <= 6 * np.sqrt(p * (1 - p) / 2000)
    assert np.abs(np.mean(mask) - (p < 1)) <= 6 * np.sqrt(p / (1 - p if p < 1 else 1)) / 2000


def test_masks_of_epochs_layers_and_positions_are_unrelated() -> None:
    def drawn(order: Order, number: int, first: int) -> np.ndarray:
        key = layer_key(order.mask_key, number)
        return reference.mask(Dropout(), key, np.arange(first, first + 100), (100,)) > 0

    one = drawn(Order(1, 1, 500), 1, 0)
    others = [(Order(1, 2, 500), 1, 0), (Order(2, 1, 500), 1, 0), (Order(1, 1, 500), 2, 0), (Order(1, 1, 500), 1, 100)]
    for other in others:
        assert abs(np.mean(one == drawn(*other)) - 0.5) <= 0.03
    assert np.array_equal(one, drawn(Order(1, 1, 9, shuffle=False), 1, 0))


def test_torch_has_the_same_values_and_gradients() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    x, dy = rng.normal(size=(5, 3, 4)), rng.normal(size=(5, 3, 4))
    mask = reference.mask(Dropout(0.4), KEY, AT, (3, 4))
    given = torch.from_numpy(x).requires_grad_()
    y = given * torch.from_numpy(mask != 0) / (1 - 0.4)
    y.backward(torch.from_numpy(dy))
    assert np.abs(reference.masked(x, mask) - y.detach().numpy()).max() <= 1e-12
    assert np.abs(reference.masked(dy, mask) - given.grad.numpy()).max() <= 1e-12
    assert np.array_equal(reference.forward(Dropout(0.4), x, None, None), torch.nn.Dropout(0.4).eval()(given).detach())


@pytest.mark.parametrize("table", [array.TABLE, loops.TABLE], ids=["array", "loops"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_rungs_on_the_cpu(table: OpTable, dtype: Any, p: float) -> None:
    """Rows that are not in use hold NaN and are neither read nor written."""
    rng, layer = np.random.default_rng(2), Dropout(p)
    x, dy = (rng.normal(size=(4, 3, 5)).astype(dtype) for _ in range(2))
    x[3:] = dy[3:] = np.nan
    t = Buffers(x, np.full_like(x, np.nan), np.full_like(x, np.nan), dy)
    op = table.op(layer)(layer, t)
    mask = reference.mask(layer, KEY, np.arange(70_000, 70_003), (3, 5)).astype(dtype)
    op.begin(KEY, 70_000)
    op.forward(3)
    op.backward(3)
    assert np.array_equal(t.y[:3], x[:3] * mask) and np.array_equal(t.dx[:3], dy[:3] * mask)
    op.predict(3)
    assert np.array_equal(t.y[:3], x[:3])
    assert np.isnan(t.y[3:]).all() and np.isnan(t.dx[3:]).all()


@pytest.mark.parametrize("p", [-0.1, 1.5, "half", True])
def test_what_is_no_probability_is_refused(p: Any) -> None:
    with pytest.raises(NetError, match=r"Dropout\(p="):
        Dropout(p)
