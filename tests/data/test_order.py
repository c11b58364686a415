"""The order of an epoch: a permutation for every key, the same index by index, even over its positions."""

import hashlib

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from warpladder.data.order import ROUNDS, Order, mix32

WORDS = st.integers(0, 2**32 - 1)


@settings(max_examples=200, deadline=None)
@given(WORDS, WORDS, st.integers(1, 6000))
@example(0, 0, 1)
@example(1, 2, 2)
@example(2**32 - 1, 2**32 - 1, 1024)
@example(5, 6, 1025)
def test_every_order_is_a_permutation(seed, epoch, n):
    indices = Order(seed, epoch, n).indices(0, n)
    assert indices.dtype == np.int64
    assert np.array_equal(np.sort(indices), np.arange(n))


def test_it_is_a_permutation_of_a_whole_training_set():
    indices = Order(7, 3, 60_000).indices(0, 60_000)
    assert np.array_equal(np.sort(indices), np.arange(60_000))


@settings(max_examples=100, deadline=None)
@given(WORDS, WORDS, st.integers(1, 500) | st.integers(4000, 5000), st.data())
def test_any_range_can_be_computed_alone(seed, epoch, n, data):
    order = Order(seed, epoch, n)
    first = data.draw(st.integers(0, n))
    last = data.draw(st.integers(first, n))
    whole = order.indices(0, n)
    assert np.array_equal(order.indices(first, last), whole[first:last])
    if first < n:
        assert order[first] == whole[first]


def by_the_definition(seed, epoch, n, position):
    """The order in Python's unbounded integers, one index at a time, as a kernel computes it."""
    half = max(1, ((n - 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1
    key = mix32(mix32(seed ^ 0x9E3779B9) ^ epoch)
    keys = []
    for r in range(ROUNDS):
        key = mix32(key + 0x9E3779B9 + r)
        keys.append(key)
    x = position
    while True:
        left, right = x >> half, x & mask
        for k in keys:
            left, right = right, left ^ (mix32(right ^ k) & mask)
        x = (left << half) | right
        if x < n:
            return x


@settings(max_examples=100, deadline=None)
@given(WORDS, WORDS, st.integers(1, 5000) | st.integers(1, 2**31), st.data())
def test_arrays_and_single_integers_agree(seed, epoch, n, data):
    position = data.draw(st.integers(0, n - 1))
    assert Order(seed, epoch, n)[position] == by_the_definition(seed, epoch, n, position)


def test_the_bits_do_not_change():
    digest = hashlib.sha256()
    for seed, epoch, n in ((0, 0, 60_000), (1, 2, 1437), (2**32 - 1, 499, 59_000)):
        digest.update(Order(seed, epoch, n).indices(0, n).astype("<i8").tobytes())
    assert digest.hexdigest() == "faff41900cb5df49d213daaae7d7efe7f64ca793c64dce4d9a040a28f075d649"


def test_positions_are_even_over_epochs_and_seeds():
    """How often sample i stands at position p, over many keys.

    The counts of permutations add up in rows and columns: (n - 1) / n times the sum of squares is chi-squared with (n -
    1)^2 degrees of freedom. The keys are fixed, so five standard deviations are crossed always or never.
    """
    n, keys = 10, 4000
    counts = np.zeros((n, n))
    for key in range(keys):
        counts[np.arange(n), Order(key % 7, key, n).indices(0, n)] += 1
    expected = keys / n
    chi2 = (n - 1) / n * ((counts - expected) ** 2 / expected).sum()
    freedom = (n - 1) ** 2
    assert abs(chi2 - freedom) <= 5 * np.sqrt(2 * freedom), chi2


def test_epochs_and_seeds_differ_and_repeat():
    orders = {tuple(Order(seed, epoch, 100).indices(0, 100)) for seed in range(10) for epoch in range(10)}
    assert len(orders) == 100
    assert np.array_equal(Order(3, 4, 100).indices(0, 100), Order(3, 4, 100).indices(0, 100))


def test_without_shuffle_it_is_the_stored_order():
    assert np.array_equal(Order(3, 4, 10, shuffle=False).indices(2, 7), np.arange(2, 7))


@pytest.mark.parametrize(
    ("seed", "epoch", "n"), [(-1, 0, 5), (0, -1, 5), (0, 0, 0), (2**32, 0, 5), (0, 2**32, 5), (0, 0, 2**31 + 1)]
)
def test_keys_outside_32_bits_are_refused(seed, epoch, n):
    with pytest.raises(ValueError, match="an order wants"):
        Order(seed, epoch, n)


@pytest.mark.parametrize(("first", "last"), [(-1, 2), (3, 2), (0, 11)])
def test_positions_outside_are_refused(first, last):
    with pytest.raises(IndexError, match="outside an order of 10"):
        Order(0, 0, 10).indices(first, last)


@pytest.mark.parametrize("n", [1, 2, 97, 70_001])
def test_a_sample_is_found_at_its_position(n: int) -> None:
    for order in (Order(7, 3, n), Order(7, 3, n, shuffle=False)):
        for position in {0, n // 2, n - 1}:
            assert order.position(order[position]) == position
