"""Parameters in a device's memory: one flat array in which every tensor starts on a boundary that wide loads need."""

from __future__ import annotations

import math
from collections.abc import Collection
from itertools import groupby

import numpy as np

from ...device import Array, Device
from ...nets import Net
from ...nets.params import param_slices

ALIGN = 32  # float32 numbers: 128 bytes, a line of the cache


class Layout:
    """Where each tensor of a net stands in a flat device array; what lies between them is zero and stays so.

    size : float32 numbers in such an array.
    """

    def __init__(self, net: Net) -> None:
        self.net = net
        self.places = param_slices(net)
        self.starts: list[int] = []
        self.size = 0
        for place in self.places:
            self.starts.append(self.size)
            self.size += -(-math.prod(place.shape) // ALIGN) * ALIGN

    def views(self, flat: Array) -> dict[str, Array]:
        """Named, shaped views, as `params.views`."""
        return {
            place.name: flat[start : start + math.prod(place.shape)].reshape(place.shape)
            for place, start in zip(self.places, self.starts, strict=True)
        }

    def span(self, names: Collection[str]) -> slice:
        """Where consecutive tensors stand, with the zeros behind the last one."""
        at = [number for number, place in enumerate(self.places) if place.name in names]
        stop = self.starts[at[-1] + 1] if at[-1] + 1 < len(self.starts) else self.size
        return slice(self.starts[at[0]], stop)

    def without(self, names: Collection[str]) -> list[list[str]]:
        """The names of all other tensors, those that stand side by side together."""
        runs = groupby((place.name for place in self.places), key=lambda name: name in names)
        return [list(run) for among, run in runs if not among]

    def upload(self, flat: Array, host: np.ndarray) -> None:
        """From (param_count,) on the host."""
        wide = np.zeros(self.size, np.float32)
        for place, start in zip(self.places, self.starts, strict=True):
            wide[start : start + place.stop - place.start] = host[place.start : place.stop]
        flat.upload(wide)

    def download(self, flat: Array) -> np.ndarray:
        """(param_count,) float32 on the host."""
        wide = flat.download()
        out = np.empty(self.net.param_count, np.float32)
        for place, start in zip(self.places, self.starts, strict=True):
            out[place.start : place.stop] = wide[start : start + place.stop - place.start]
        return out

    def zeros(self, device: Device, what: str) -> Array:
        """Such an array."""
        return device.zeros((max(1, self.size),), np.float32, what)
