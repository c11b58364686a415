"""MNIST: 70,000 handwritten digits of 28 x 28 pixels (LeCun, Cortes, Burges 1998)."""

from __future__ import annotations

from .dataset import Dataset
from .mnist_like import load as load_files
from .mnist_like import remotes
from .source import Request, Source

FOLDERS = ("mnist", "MNIST/raw", "MNIST", "raw", ".")
# The original site is empty.
REMOTES = remotes(
    ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
    (
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
)


def load(request: Request) -> Dataset:
    """60,000 training and 10,000 test images, (1, 28, 28) uint8."""
    return load_files("mnist", FOLDERS, REMOTES, request)


SOURCE = Source("mnist", "70,000 handwritten digits, 28 x 28, 10 classes", load, REMOTES)
