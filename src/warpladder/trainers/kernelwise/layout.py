"""Parameters in a device's memory: one flat array in which each tensor is aligned for wide loads."""

from __future__ import annotations

import math
from collections.abc import Collection
from itertools import groupby

import numpy as np

from ...device import Array, Device
from ...nets import Net
from ...nets.params import param_slices

#: Float32 numbers of a cache line, 128 bytes.
ALIGN = 32


class ParameterLayout:
    """Offsets of a net's tensors in a flat float32 device array of `size` numbers; gaps between them are zero."""

    def __init__(self, net: Net) -> None:
        self.net = net
        self.places = param_slices(net)
        self.starts: list[int] = []
        self.size = 0
        for place in self.places:
            self.starts.append(self.size)
            self.size += -(-math.prod(place.shape) // ALIGN) * ALIGN

    def views(self, flat: Array) -> dict[str, Array]:
        """Views of a flat array by tensor name, in the tensors' shapes, as `params.views`."""
        return {
            place.name: flat[start : start + math.prod(place.shape)].reshape(place.shape)
            for place, start in zip(self.places, self.starts, strict=True)
        }

    def span(self, names: Collection[str]) -> slice:
        """Slice of consecutive tensors in the flat array, with the zeros after the last one."""
        at = [number for number, place in enumerate(self.places) if place.name in names]
        stop = self.starts[at[-1] + 1] if at[-1] + 1 < len(self.starts) else self.size
        return slice(self.starts[at[0]], stop)

    def without(self, names: Collection[str]) -> list[list[str]]:
        """Names of all other tensors, in lists of consecutive ones."""
        runs = groupby((place.name for place in self.places), key=lambda name: name in names)
        return [list(run) for among, run in runs if not among]

    def upload(self, flat: Array, host: np.ndarray) -> None:
        """Copy (param_count,) float32 from the host into a flat device array."""
        wide = np.zeros(self.size, np.float32)
        for place, start in zip(self.places, self.starts, strict=True):
            wide[start : start + place.stop - place.start] = host[place.start : place.stop]
        flat.upload(wide)

    def download(self, flat: Array) -> np.ndarray:
        """Copy (param_count,) float32 from a flat device array to the host."""
        wide = flat.download()
        out = np.empty(self.net.param_count, np.float32)
        for place, start in zip(self.places, self.starts, strict=True):
            out[place.start : place.stop] = wide[start : start + place.stop - place.start]
        return out

    def zeros(self, device: Device, what: str) -> Array:
        """Flat device array of zeros; `what` is its name in messages."""
        return device.zeros((max(1, self.size),), np.float32, what)
