"""`ResidualModule`: residual connection as a PyTorch module, which `from_torch` reads and `to_torch` makes."""

from __future__ import annotations

import torch
from torch import nn


class ResidualModule(nn.Module):
    """PyTorch module of x + layers(x), or projection(x) + layers(x). layers and projection are `nn.Sequential`."""

    def __init__(self, *layers: nn.Module, projection: nn.Module | None = None) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)
        if projection is not None and not isinstance(projection, nn.Sequential):
            projection = nn.Sequential(projection)
        self.projection = projection

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        through = x if self.projection is None else self.projection(x)
        return through + self.layers(x)
