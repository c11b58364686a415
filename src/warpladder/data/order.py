"""`Order`: the seeded order of the samples in an epoch, computable index by index.

A Feistel network over 2h bits is a bijection for any round function. Repeating it until the value is below n
makes it a bijection of 0..n-1. The same 32-bit integer arithmetic runs on the host and on a GPU, so shuffling needs no
transfer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

ROUNDS = 6
ORDER_WORDS = ROUNDS + 3
#: Most bits in each half for which the whole order is computed and stored.
TABLED = 7
#: 2^32 divided by the golden ratio, which spreads the keys of small numbers.
GOLDEN = 0x9E3779B9
_MASK32 = 0xFFFFFFFF
_FIFTEEN, _SIXTEEN, _FIRST, _SECOND = (np.uint32(x) for x in (15, 16, 0x7FEB352D, 0x846CA68B))


def mix32(x: int) -> int:
    """Hash of a 32-bit integer: `lowbias32` of C. Wellons' hash-prospector (2018)."""
    x &= _MASK32
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & _MASK32
    x = ((x ^ (x >> 15)) * 0x846CA68B) & _MASK32
    return x ^ (x >> 16)


def layer_offset(number: int) -> int:
    """Offset, below 2^32, that layer `number` adds to the epoch's `Order.mask_key`."""
    return GOLDEN * (number + 1) % 2**32


def layer_key(mask_key: int, number: int) -> int:
    """Key (32 bits) of the masks of layer `number`, in the epoch with this `Order.mask_key`."""
    return mix32(mask_key + layer_offset(number))


@dataclass(frozen=True)
class Order:
    """Shuffled order of the samples in one epoch.

    Parameters
    ----------
    seed, epoch : int
        Key of the permutation; both below 2^32.
    n : int
        Number of samples, 1 to 2^31.
    shuffle : bool
        False gives the stored order.
    """

    seed: int
    epoch: int
    n: int
    shuffle: bool = True

    def __post_init__(self) -> None:
        if not (0 < self.n <= 2**31 and 0 <= self.seed < 2**32 and 0 <= self.epoch < 2**32):
            raise ValueError(f"an order wants 0 < n <= 2^31 and 32-bit seed and epoch, got {self}")

    @cached_property
    def half_bits(self) -> int:
        """Number of bits in each half of the Feistel network, 1 to 16: the network spans at most 4n values."""
        return max(1, ((self.n - 1).bit_length() + 1) // 2)

    @cached_property
    def keys(self) -> np.ndarray:
        """Round keys (ROUNDS,) uint32 of the Feistel network."""
        key = mix32(self.seed ^ GOLDEN)
        key = mix32(key ^ self.epoch)
        out = []
        for r in range(ROUNDS):
            key = mix32(key + GOLDEN + r)
            out.append(key)
        return np.array(out, np.uint32)

    @cached_property
    def mask_key(self) -> int:
        """Key (32 bits) of the random masks that layers draw in this epoch: the key after the round keys."""
        return mix32(int(self.keys[-1]) + GOLDEN + ROUNDS)

    @property
    def words(self) -> np.ndarray:
        """Words (ORDER_WORDS,) uint32 from which a device computes this order: the keys, half_bits, n and shuffle."""
        return np.array([*self.keys, self.half_bits, self.n, self.shuffle], np.uint32)

    def indices(self, first: int, last: int) -> np.ndarray:
        """Sample indices (last - first,) int64 at the positions first..last-1."""
        if not 0 <= first <= last <= self.n:
            raise IndexError(f"positions {first}..{last} are outside an order of {self.n}")
        if not self.shuffle:
            return np.arange(first, last)
        if self.half_bits <= TABLED:
            return self._all[first:last].copy()
        out = self._network(np.arange(first, last, dtype=np.uint32))
        while True:
            outside = np.flatnonzero(out >= self.n)
            if not outside.size:
                return out.astype(np.int64)
            out[outside] = self._network(out[outside])

    @cached_property
    def _all(self) -> np.ndarray:
        """Sample indices (n,) int64 at all positions, from a table of the network's values, since many are looked up
        repeatedly.
        """
        table = self._network(np.arange(1 << 2 * self.half_bits, dtype=np.uint32)).astype(np.int64)
        out = table[: self.n].copy()
        while True:
            outside = np.flatnonzero(out >= self.n)
            if not outside.size:
                return out
            out[outside] = table[out[outside]]

    def __getitem__(self, position: int) -> int:
        return int(self.indices(position, position + 1)[0])

    def position(self, sample: int) -> int:
        """Position of a sample index in the order, by the Feistel network run backwards."""
        x = np.array([sample], np.uint32)
        while self.shuffle and (x := self._backwards(x))[0] >= self.n:
            pass
        return int(x[0])

    def _network(self, x: np.ndarray) -> np.ndarray:
        h = np.uint32(self.half_bits)
        mask = np.uint32((1 << self.half_bits) - 1)
        left, right = x >> h, x & mask
        for key in self.keys:
            left, right = right, left ^ (mix32_array(right ^ key) & mask)
        return (left << h) | right

    def _backwards(self, x: np.ndarray) -> np.ndarray:
        h = np.uint32(self.half_bits)
        mask = np.uint32((1 << self.half_bits) - 1)
        left, right = x >> h, x & mask
        for key in self.keys[::-1]:
            left, right = right ^ (mix32_array(left ^ key) & mask), left
        return (left << h) | right


def mix32_array(x: np.ndarray) -> np.ndarray:
    """Hash `mix32` of each number of an array, in place."""
    x ^= x >> _SIXTEEN
    x *= _FIRST
    x ^= x >> _FIFTEEN
    x *= _SECOND
    x ^= x >> _SIXTEEN
    return x
