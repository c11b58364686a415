"""Places of samples in an order, from which masks follow."""

from __future__ import annotations

import numpy as np
import pytest

from warpladder.data.order import Order
from warpladder.proof.places import in_epoch, rests


@pytest.mark.parametrize(
    "order", [Order(7, 3, 100), Order(2**32 - 1, 2**32 - 1, 5), Order(0, 0, 70_000, shuffle=False)]
)
@pytest.mark.parametrize("epoch", [0, 4, 2**32 - 1])
def test_an_order_has_the_same_keys_in_another_epoch(order: Order, epoch: int) -> None:
    other = in_epoch(order, epoch)
    assert other.epoch == epoch and other.mask_key == order.mask_key
    assert np.array_equal(other.indices(0, order.n), order.indices(0, order.n))
    assert in_epoch(other, order.epoch) == order


@pytest.mark.parametrize("batch", [1, 2, 5, 8, 33, 64, 1000])
def test_last_batches_have_each_remainder_of_a_loop_that_takes_four(batch: int) -> None:
    seen = {1, batch, batch * 3 // 5}
    found = rests(batch, seen, np.random.default_rng(0))
    assert found == sorted(set(found) - seen)
    assert all(0 < size < batch for size in found)
    assert len(found) <= 5
    if batch > 5:
        assert {size % 4 for size in (*found, *seen)} == {0, 1, 2, 3}
    if 2 < batch < 257:
        assert batch - 1 in found
