"""Fashion-MNIST: 70,000 pictures of clothes, 28 x 28 pixels (Xiao, Rasul, Vollgraf 2017)."""

from __future__ import annotations

from .dataset import Dataset
from .mnist_like import load as load_files
from .mnist_like import remotes
from .source import Request, Source

FOLDERS = ("fashion", "fashion-mnist", "FashionMNIST/raw", "FashionMNIST", "raw", ".")
# The publisher's own bucket serves plain HTTP only, so it comes last; the sums are checked either way.
REMOTES = remotes(
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
)


def load(request: Request) -> Dataset:
    """60,000 training and 10,000 test images, (1, 28, 28) uint8."""
    return load_files("fashion", FOLDERS, REMOTES, request)


NAMES = ("T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
SOURCE = Source("fashion", "70,000 pictures of clothes, 28 x 28, 10 classes", load, REMOTES, label_names=NAMES)
