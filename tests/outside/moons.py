"""A data set from outside of the package: two half moons, points of two classes in a plane."""

from __future__ import annotations

import numpy as np

from warpladder.data import Dataset, Request, Source, arrays


def load(request: Request) -> Dataset:
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, 500)
    angle = np.pi * rng.random(500)
    x = np.stack([np.cos(angle) * (1 - 2 * label) + label, np.sin(angle) * (1 - 2 * label) + 0.5 * label], axis=1)
    x = (x + rng.normal(scale=0.1, size=x.shape)).astype(np.float32)
    return arrays(x[:400], label[:400], x[400:], label[400:])


SOURCE = Source("moons", "500 points in a plane, two half moons; drawn, needs no download", load)
