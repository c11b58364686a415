"""Order of an epoch's samples, `Order.indices`, computed by PyTorch on the device."""

from __future__ import annotations

import numpy as np
import torch

from ....data.order import ORDER_WORDS, ROUNDS, Order
from .capture import capture, warm
from .masks import mix

#: Samples in an order at most: the network spans up to four times as many values, of which each takes some sixty bytes
#: meanwhile.
MOST = 1 << 22


def shuffled(words: torch.Tensor, n: int, half_bits: int) -> torch.Tensor:
    """Sample (n,) int64 at each position of a shuffled order; words : (ORDER_WORDS,) int64, its key."""
    values = torch.arange(1 << 2 * half_bits, device=words.device)
    mask = (1 << half_bits) - 1
    left, right = values >> half_bits, values & mask
    for key in words[:ROUNDS]:
        left, right = right, left ^ (mix(right ^ key) & mask)
    sent = (left << half_bits) | right
    # A value of n or more is permuted again. Each round doubles the number of times, by looking up the result
    # of the result.
    end = torch.where(values < n, values, sent)
    for _ in range((len(values) - n).bit_length()):
        end = end[end]
    return end[sent[:n]]


class Shuffle:
    """Order of an epoch's n samples on a device; on a GPU by a graph, since its hundred kernels are all small."""

    def __init__(self, n: int, device: torch.device) -> None:
        self.n, self.device = n, device
        self.half_bits = Order(0, 0, n).half_bits
        self.words = torch.zeros(ORDER_WORDS, dtype=torch.int64, device=device)
        self.order: Order | None = None
        self.graph: torch.cuda.CUDAGraph | None = None
        self.found = self.shuffled = torch.empty(0, dtype=torch.int64)
        if device.type == "cuda" and n <= MOST:
            warm(self._shuffle)
            self.graph = capture(self._shuffle)

    def _shuffle(self) -> None:
        self.shuffled = shuffled(self.words, self.n, self.half_bits)

    def rows(self, order: Order) -> torch.Tensor:
        """Indices (n,) int64 on the device, `order.indices(0, n)`, cached for the next ranges of its epoch."""
        if order != self.order:
            self.found, self.order = self._rows(order), order
        return self.found

    def _rows(self, order: Order) -> torch.Tensor:
        if not order.shuffle:
            return torch.arange(self.n, device=self.device)
        if self.n > MOST:
            return torch.from_numpy(order.indices(0, self.n)).to(self.device)
        self.words.copy_(torch.from_numpy(order.words.astype(np.int64)))
        if self.graph is None:
            self._shuffle()
        else:
            self.graph.replay()
        return self.shuffled
