"""`Places`: what random masks depend on, besides the layer: the epoch's key, and positions in its order."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..data.order import GOLDEN, Order, layer_key, mix32
from ..nets import Dropout, Layer, Net, Shape
from ..ops.dropout import reference as dropout


@dataclass(frozen=True)
class Places:
    """Positions of samples in an epoch's order. key : the order's `mask_key`. at : (n,) int64."""

    key: int
    at: np.ndarray

    def __getitem__(self, some: slice | np.ndarray) -> Places:
        return replace(self, at=self.at[some])

    def mask(self, layer: Layer, number: int, shape: Shape) -> np.ndarray:
        """Masks (n, *shape) float64 that layer `number` draws for these samples."""
        assert isinstance(layer, Dropout)
        return dropout.mask(layer, layer_key(self.key, number), self.at, shape)


def places_in(net: Net, order: Order, first: int, last: int) -> Places | None:
    """Places of positions first..last-1 of an order; None for a net that draws no masks."""
    return Places(order.mask_key, np.arange(first, last)) if net.is_random else None


def in_epoch(order: Order, epoch: int) -> Order:
    """Order of another epoch, and of another seed, with the same keys, and so the same samples and masks."""
    mixed = mix32(order.seed ^ GOLDEN) ^ order.epoch
    return replace(order, seed=_unmix32(mixed ^ epoch) ^ GOLDEN, epoch=epoch)


def _unmix32(x: int) -> int:
    """Number whose `mix32` is x."""
    x = (x ^ (x >> 16)) * pow(0x846CA68B, -1, 2**32) % 2**32
    x = (x ^ (x >> 15) ^ (x >> 30)) * pow(0x7FEB352D, -1, 2**32) % 2**32
    return x ^ (x >> 16)
