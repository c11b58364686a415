"""The five nets of the ladder, one from each course report."""

from __future__ import annotations

import os
from collections.abc import Callable

from ..errors import NetError
from ..errors.arguments import called_by_name, shown
from .layers import Conv2d, Flatten, Linear, MaxPool2d, ReLU, Shape, Upsample2d
from .net import CrossEntropyLoss, MSELoss, Net


@called_by_name
def softmax(in_shape: Shape = (1, 28, 28), classes: int = 10) -> Net:
    """S5's softmax regression; 7,850 parameters on 28x28 images."""
    return Net("softmax", in_shape, (Flatten(), Linear(out_features=classes)), CrossEntropyLoss())


@called_by_name
def mlp(in_shape: Shape = (1, 28, 28), classes: int = 10) -> Net:
    """S2's perceptron with 256 hidden units; 203,530 parameters on 28x28 images."""
    return Net(
        "mlp", in_shape, (Flatten(), Linear(out_features=256), ReLU(), Linear(out_features=classes)), CrossEntropyLoss()
    )


@called_by_name
def mlp10(in_shape: Shape = (1, 28, 28), classes: int = 10) -> Net:
    """S3's perceptron with 10 hidden units; 7,960 parameters on 28x28 images."""
    return Net(
        "mlp10",
        in_shape,
        (Flatten(), Linear(out_features=10), ReLU(), Linear(out_features=classes)),
        CrossEntropyLoss(),
    )


@called_by_name
def cnn(in_shape: Shape = (1, 28, 28), classes: int = 10) -> Net:
    """S1's convolutional net; 50,890 parameters on 28x28 images."""
    layers = (
        Conv2d(out_channels=16, kernel_size=3), ReLU(), Conv2d(out_channels=32, kernel_size=3), ReLU(), MaxPool2d(2),
        Flatten(), Linear(out_features=classes),
    )  # fmt: skip
    return Net("cnn", in_shape, layers, CrossEntropyLoss())


@called_by_name
def autoencoder(in_shape: Shape = (3, 32, 32)) -> Net:
    """S4's convolutional autoencoder; 751,875 parameters on 3x32x32 images. Height and width must be multiples of 4."""
    if len(in_shape) == 3 and (in_shape[1] % 4 or in_shape[2] % 4):
        raise NetError(f"the autoencoder halves images twice: height and width are multiples of 4, got {in_shape}")
    layers = (
        Conv2d(out_channels=256, kernel_size=3, padding=1), ReLU(), MaxPool2d(2),
        Conv2d(out_channels=128, kernel_size=3, padding=1), ReLU(), MaxPool2d(2),
        Conv2d(out_channels=128, kernel_size=3, padding=1), ReLU(), Upsample2d(scale_factor=2),
        Conv2d(out_channels=256, kernel_size=3, padding=1), ReLU(), Upsample2d(scale_factor=2),
        Conv2d(out_channels=in_shape[0], kernel_size=3, padding=1),
    )  # fmt: skip
    return Net("autoencoder", in_shape, layers, MSELoss())


def named(name: str, in_shape: Shape, classes: int = 10) -> Net:
    """Net of the ladder with this name, for samples of this shape; `NetError` lists the names."""
    if name == autoencoder.__name__:
        return autoencoder(in_shape)
    if name not in CLASSIFIERS:
        raise NetError(f"there is no net {shown(name)}; there are {', '.join(make.__name__ for make in ZOO)}")
    return CLASSIFIERS[name](in_shape, classes)


def with_hidden(net: Net, width: int) -> Net:
    """Copy of a net with another width of its hidden Linear layers, all but the last; `NetError` if it has none."""
    hidden = [index for index, layer in enumerate(net.layers) if isinstance(layer, Linear)][:-1]
    if not hidden:
        raise NetError(f"net {net.name!r} has no hidden Linear layer whose width could be swept: take mlp or mlp10")
    layers = (Linear(out_features=width) if index in hidden else layer for index, layer in enumerate(net.layers))
    return Net(net.name, net.in_shape, tuple(layers), net.loss)


def is_net_file(name: str) -> bool:
    """True if a net's name is that of a file: it ends in .toml or .py, or has a folder in it."""
    return name.endswith((".toml", ".py")) or "/" in name or os.sep in name


def is_named(net: Net) -> bool:
    """True if a net equals the ladder's net of its name, for its samples and classes."""
    try:
        return net == named(net.name, net.in_shape, net.out_shape[0])
    except NetError:
        return False


CLASSIFIERS: dict[str, Callable[[Shape, int], Net]] = {make.__name__: make for make in (softmax, mlp, mlp10, cnn)}

#: The five nets, in the order of the reports' difficulty.
ZOO = (softmax, mlp, mlp10, cnn, autoencoder)
