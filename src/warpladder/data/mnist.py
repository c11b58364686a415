"""MNIST (LeCun, Cortes, Burges 1998) and Fashion-MNIST (Xiao, Rasul, Vollgraf 2017): 70,000 images of 28 x 28 pixels,
published as four IDX files, images and labels of a training and a test part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from ..errors import DataError
from .dataset import Dataset
from .fetch import Remote, fetch_all
from .idx import read_images, read_labels
from .labels import numbered_parts
from .local import archives, find_all
from .reader import opened
from .source import Request, Source

#: Published names of the files; downloads end in .gz.
FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
#: Names of each file, with the spelling of Windows and some archives.
_SPELLINGS = tuple((name, name.replace("-idx", ".idx")) for name in FILES)

#: Usual folders of each set in a data folder, most specific first.
FOLDERS = {
    "mnist": ("mnist", "MNIST/raw", "MNIST", "raw", "."),
    "fashion": ("fashion", "fashion-mnist", "FashionMNIST/raw", "FashionMNIST", "raw", "."),
}

#: sha256 of the 60,000 training labels, one byte each, to distinguish the sets, whose files have the same names.
_LABELS = {
    "mnist": "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
    "fashion": "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7",
}


def remotes(mirrors: Sequence[str], sums: Sequence[str]) -> tuple[Remote, ...]:
    """Downloads of the four .gz files from each mirror (an address that ends in "/"), with their sha256 in the order of
    `FILES`.
    """
    return tuple(
        Remote(f"{name}.gz", sha256, tuple(f"{mirror}{name}.gz" for mirror in mirrors))
        for name, sha256 in zip(FILES, sums, strict=True)
    )


#: Downloads of each set. MNIST's original site is empty. Fashion-MNIST's own bucket serves plain HTTP only, so it comes
#: last; the sums are checked in any case.
REMOTES = {
    "mnist": remotes(
        ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
        (
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    ),
    "fashion": remotes(
        (
            "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        ),
        (
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        ),
    ),
}


def load(name: str, request: Request) -> Dataset:
    """Load a set from local files, else from the cache or a mirror: 60,000 training and 10,000 test images
    (1, 28, 28) uint8.
    """
    paths = find_all(request.root, FOLDERS[name], _SPELLINGS) if request.root else None
    if paths is None and request.root and request.explicit:
        raise DataError(
            f"{request.root}: holds no {name}: {', '.join(FILES)} (plain or .gz) are wanted there "
            f"or in {', '.join(FOLDERS[name][:-1])} below it{archives(request.root)}"
        )
    return read(name, paths or fetch_all(name, REMOTES[name], progress=request.progress))


def found_in(folder: Path) -> str:
    """Name of the set whose four files lie in a folder, or in a usual one below it; "" without them.

    Raises DataError: some of the files are missing or damaged.
    """
    paths = find_all(folder, FOLDERS["mnist"], _SPELLINGS) or find_all(folder, FOLDERS["fashion"], _SPELLINGS)
    if paths is None:
        return ""
    with opened(paths[1]) as reader:
        digest = hashlib.sha256(read_labels(reader).tobytes()).hexdigest()
    return "fashion" if digest == _LABELS["fashion"] else "mnist"


def read(name: str, paths: Sequence[Path]) -> Dataset:
    """Read the four files, in the order of `FILES`, as (images, 1, height, width) uint8 and int32 labels."""
    parts = []
    for images, labels in (paths[:2], paths[2:]):
        with opened(images) as reader:
            x = read_images(reader)
        with opened(labels) as reader:
            y = read_labels(reader)
        if len(x) != len(y):
            raise DataError(
                f"{images}: has {len(x):,} images, but {labels} has {len(y):,} labels: "
                "these files do not belong together"
            )
        parts.append((x[:, np.newaxis], y))
    (train_x, train_y), (test_x, test_y) = parts
    digest = hashlib.sha256(train_y.tobytes()).hexdigest()
    if other := next((other for other, known in _LABELS.items() if other != name and digest == known), None):
        raise DataError(
            f"{paths[1]}: holds the labels of {other}, not of {name}: put each set in a folder of its own name"
        )
    numbers, classes = numbered_parts(name, {"train": train_y, "test": test_y})
    return Dataset(name, train_x, numbers["train"], test_x, numbers["test"], 1 / 255, class_names=classes)


MNIST = Source("mnist", "70,000 handwritten digits, 28 x 28, 10 classes", partial(load, "mnist"), REMOTES["mnist"])
FASHION = Source(
    "fashion",
    "70,000 pictures of clothes, 28 x 28, 10 classes",
    partial(load, "fashion"),
    REMOTES["fashion"],
    label_names=(
        "T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
    ),
)  # fmt: skip
