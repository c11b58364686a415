"""Data sets published as MNIST is: four IDX files, images and labels of a training and a test part."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import DataError
from .dataset import Dataset
from .fetch import Remote, fetch_all
from .idx import read_images, read_labels
from .local import find_all
from .reader import opened
from .source import Request

#: The published names; downloads have .gz after them.
NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
#: For each file the names that it goes by: also as Windows and some archives spell it.
_SPELT = tuple((name, name.replace("-idx", ".idx")) for name in NAMES)

#: sha256 of the 60,000 training labels, one byte each: two sets of the same file names are told apart by it.
_LABELS = {
    "mnist": "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
    "fashion": "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7",
}


def remotes(mirrors: Sequence[str], sums: Sequence[str]) -> tuple[Remote, ...]:
    """The four .gz files at each mirror (an address that ends in "/"), with their sha256 in the order of `NAMES`."""
    return tuple(
        Remote(f"{name}.gz", sha256, tuple(f"{mirror}{name}.gz" for mirror in mirrors))
        for name, sha256 in zip(NAMES, sums, strict=True)
    )


def load(name: str, folders: Sequence[str], remotes: Sequence[Remote], request: Request) -> Dataset:
    """Load from files at hand, or else from the cache or a mirror.

    Parameters
    ----------
    name : str
    folders : sequence of str
        Where the files usually lie below a data folder, most particular first.
    remotes : sequence of Remote
        In the order of `NAMES`.
    request : Request
    """
    paths = find_all(request.root, folders, _SPELT) if request.root else None
    if paths is None and request.root and request.explicit:
        raise DataError(
            f"{request.root}: holds no {name}: {', '.join(NAMES)} (plain or .gz) are wanted there or in {', '.join(folders[:-1])} below it"
        )
    return read(name, paths or fetch_all(name, remotes, progress=request.progress))


def read(name: str, paths: Sequence[Path]) -> Dataset:
    """Read the four files, in the order of `NAMES`, as (images, 1, height, width) uint8 and int32 labels."""
    parts = []
    for images, labels in (paths[:2], paths[2:]):
        with opened(images) as reader:
            x = read_images(reader)
        with opened(labels) as reader:
            y = read_labels(reader)
        if len(x) != len(y):
            raise DataError(
                f"{images}: has {len(x):,} images, but {labels} has {len(y):,} labels: these files do not belong together"
            )
        parts.append((x[:, np.newaxis], y))
    (train_x, train_y), (test_x, test_y) = parts
    _check_identity(name, paths[1], train_y)
    return Dataset(name, train_x, train_y.astype(np.int32), test_x, test_y.astype(np.int32), 1 / 255)


def _check_identity(name: str, path: Path, labels: np.ndarray) -> None:
    digest = hashlib.sha256(labels.tobytes()).hexdigest()
    for other, known in _LABELS.items():
        if other != name and digest == known:
            raise DataError(
                f"{path}: holds the labels of {other}, not of {name}: put each set in a folder of its own name"
            )
