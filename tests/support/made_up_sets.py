"""Made-up data sets in the files of MNIST, Fashion-MNIST and CIFAR-10: each class is a pattern with noise, so that nets
learn from them.

python tests/support/made_up_sets.py FOLDER [--train N] [--test N]
"""

from __future__ import annotations

import argparse
import struct
from pathlib import Path

import numpy as np

CLASSES = 10


def samples(
    count: int, shape: tuple[int, ...], patterns: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(count, *shape) bytes and their labels: the pattern of the class, and noise."""
    labels = rng.integers(0, CLASSES, count, np.uint8)
    noise = rng.normal(0, 40, (count, *shape))
    return np.clip(patterns[labels] + noise, 0, 255).astype(np.uint8), labels


def write(folder: Path, train: int, test: int) -> None:
    """The three sets in folders mnist, fashion and cifar10."""
    for at, name in enumerate(("mnist", "fashion")):
        rng = np.random.default_rng(at)
        patterns = 255.0 * (rng.random((CLASSES, 28, 28)) < 0.3)
        (folder / name).mkdir(parents=True, exist_ok=True)
        for part, count in (("train", train), ("t10k", test)):
            images, labels = samples(count, (28, 28), patterns, rng)
            for what, values in (("images-idx3", images), ("labels-idx1", labels)):
                head = struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape)
                (folder / name / f"{part}-{what}-ubyte").write_bytes(head + values.tobytes())
    rng = np.random.default_rng(2)
    patterns = 255.0 * np.repeat(np.repeat(rng.random((CLASSES, 3, 8, 8)), 4, 2), 4, 3)
    place = folder / "cifar10" / "cifar-10-batches-bin"
    place.mkdir(parents=True, exist_ok=True)
    for batch, count in [*((f"data_batch_{number}", train // 5) for number in range(1, 6)), ("test_batch", test)]:
        images, labels = samples(count, (3, 32, 32), patterns, rng)
        (place / f"{batch}.bin").write_bytes(np.hstack([labels[:, None], images.reshape(count, -1)]).tobytes())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--train", type=int, default=60_000)
    parser.add_argument("--test", type=int, default=10_000)
    chosen = parser.parse_args()
    write(chosen.folder, chosen.train, chosen.test)
