"""Dropout in PyTorch with the masks of the epoch's order, by the hash of `data/order.py`."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from ....data.order import layer_offset
from ....nets import Dropout, Net, Shape

#: int64 holds what uint32 would; a product that is longer loses its upper bits, which are masked away.
BITS32 = 0xFFFFFFFF

#: The epoch's mask key and the position of a batch's first sample, as two numbers or (2,) int64 on the device.
Keys = tuple[int, int] | torch.Tensor


def mix(x: Any) -> Any:
    """Hash `order.mix32` of an int, or of int64 numbers, from 0 to 2^32 - 1."""
    x = (x ^ (x >> 16)) * 0x7FEB352D & BITS32
    x = (x ^ (x >> 15)) * 0x846CA68B & BITS32
    return x ^ (x >> 16)


def masked(layer: Dropout, x: torch.Tensor, keys: Keys, number: int, image: Shape | None = None) -> torch.Tensor:
    """Product x m with the masks of a batch x (n, ...).

    number : the layer's. image : shape (channels, height, width) of an image that x is, flattened with its channels
    last; else None.
    """
    elements = torch.arange(math.prod(x.shape[1:]), device=x.device)
    if image is not None:
        elements = elements.reshape(image).permute(1, 2, 0).reshape(-1)
    key = mix((keys[0] + layer_offset(number)) & BITS32)
    of_sample = mix((torch.arange(len(x), device=x.device) + keys[1]) ^ key)
    kept = (mix(of_sample[:, None] ^ elements) >= layer.threshold).reshape(x.shape)
    return torch.where(kept, x * layer.scale, torch.zeros((), dtype=x.dtype, device=x.device))


class MaskedDropout(nn.Dropout):
    """`nn.Dropout` of a trainer, with the masks of its order; keys : those of the next batch."""

    def __init__(self, layer: Dropout, number: int) -> None:
        super().__init__(layer.p)
        self.layer, self.number = layer, number
        self.keys: Keys = (0, 0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return masked(self.layer, x, self.keys, self.number) if self.training else x


def with_masks(net: Net, model: nn.Module) -> list[MaskedDropout]:
    """Replace each `nn.Dropout` of the net's equal module by one with the order's masks; returns these."""
    numbers = [number for number, layer in enumerate(net.layers) if isinstance(layer, Dropout)]
    places = [name for name, module in model.named_modules() if isinstance(module, nn.Dropout)]
    made = []
    for number, place in zip(numbers, places, strict=True):
        layer = net.layers[number]
        assert isinstance(layer, Dropout)
        before, _, name = place.rpartition(".")
        made.append(MaskedDropout(layer, number))
        setattr(model.get_submodule(before), name, made[-1])
    return made
