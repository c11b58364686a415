"""`Units`: PyTorch module that scales or standardises samples, as in a net's training, before the net's layers."""

from __future__ import annotations

import torch
from torch import nn


class Units(nn.Module):
    """Input scaling: x * scale, or (x - mean) / std for each feature or channel, rounded to float32. It has no
    parameters.

    element : dtype of the output, equal to the net's weights'.
    """

    def __init__(
        self, scale: float, mean: tuple[float, ...] = (), std: tuple[float, ...] = (),
        element: torch.dtype = torch.float32,
    ) -> None:  # fmt: skip
        super().__init__()
        self.scale, self.mean, self.std, self.element = scale, mean, std, element

    def extra_repr(self) -> str:
        return f"{len(self.mean)} means and deviations" if self.mean else f"scale={self.scale:g}"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.mean:
            return (x.to(torch.float32) * self.scale).to(self.element)
        shape = (-1, *[1] * (x.ndim - 2))
        numbers = (torch.tensor(each, dtype=torch.float64, device=x.device) for each in (self.mean, self.std))
        mean, std = (each.reshape(shape) for each in numbers)
        return ((x.to(torch.float64) - mean) / std).to(torch.float32).to(self.element)
