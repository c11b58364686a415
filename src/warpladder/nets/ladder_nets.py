"""Five nets of the ladder, one from each course report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ..errors import NetError
from ..errors.arguments import called_by_name, shown
from .layers import Conv2d, Flatten, Linear, ReLU, Shape, Upsample2d
from .losses import CrossEntropyLoss, MSELoss
from .net import Net
from .pooling import MaxPool2d


@called_by_name
def softmax(in_shape: Shape = (1, 28, 28), classes: int = 10) -> Net:
    """Softmax regression of report S5; 7,850 parameters on 28x28 images."""
    return Net("softmax", in_shape, (Flatten(), Linear(out_features=classes)), CrossEntropyLoss())


@called_by_name
def mlp(in_shape: Shape = (1, 28, 28), classes: int = 10, hidden: int | Sequence[int] = (256,)) -> Net:
    """Perceptron with 256 hidden units, of report S2; 203,530 parameters on 28x28 images.

    hidden : widths of other hidden layers, each followed by ReLU, or the width of one; the name of
    `mlp(hidden=(512, 256))` is "mlp-512-256".
    """
    widths = _widths(hidden)
    return _perceptron("mlp" if widths == (256,) else _widened("mlp", widths), in_shape, widths, classes)


@called_by_name
def mlp10(in_shape: Shape = (1, 28, 28), classes: int = 10) -> Net:
    """Perceptron with 10 hidden units, of report S3; 7,960 parameters on 28x28 images."""
    return _perceptron("mlp10", in_shape, (10,), classes)


def _perceptron(name: str, in_shape: Shape, hidden: Sequence[int], classes: int) -> Net:
    """Net of Flatten, a Linear and a ReLU for each width, and a Linear for the classes."""
    inner = [layer for width in hidden for layer in (Linear(out_features=width), ReLU())]
    return Net(name, in_shape, (Flatten(), *inner, Linear(out_features=classes)), CrossEntropyLoss())


def _widths(hidden: object) -> tuple[int, ...]:
    """Widths of hidden layers. Raises `NetError` for what is neither a number nor a sequence of numbers."""
    if isinstance(hidden, int):
        return (hidden,)
    if isinstance(hidden, (str, bytes, Mapping)) or not isinstance(hidden, Iterable):
        raise NetError(f"hidden wants the width of each hidden layer, as (512, 256), got {shown(hidden)}")
    return tuple(hidden)


def _widened(name: str, widths: Sequence[int]) -> str:
    """Name of a net with other widths of hidden layers, "mlp-512-256"; of many, the first four and the number left."""
    more = [f"and-{len(widths) - 4}"] if len(widths) > 4 else []
    return "-".join([name, *map(str, widths[:4]), *more])


@called_by_name
def cnn(in_shape: Shape = (1, 28, 28), classes: int = 10) -> Net:
    """Convolutional net of report S1; 50,890 parameters on 28x28 images."""
    layers = (
        Conv2d(out_channels=16, kernel_size=3), ReLU(), Conv2d(out_channels=32, kernel_size=3), ReLU(), MaxPool2d(2),
        Flatten(), Linear(out_features=classes),
    )  # fmt: skip
    return Net("cnn", in_shape, layers, CrossEntropyLoss())


@called_by_name
def autoencoder(in_shape: Shape = (3, 32, 32)) -> Net:
    """Autoencoder of report S4; 751,875 parameters on 3x32x32 images. Height and width must be multiples of 4."""
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
    """Net of the ladder with this name, for samples of this shape. Raises `NetError` with the known names."""
    if name == autoencoder.__name__:
        return autoencoder(in_shape)
    if name not in CLASSIFIERS:
        raise NetError(f"there is no net {shown(name)}; there are {', '.join(make.__name__ for make in ZOO)}")
    return CLASSIFIERS[name](in_shape, classes)


def hidden_widths(net: Net) -> tuple[int, ...]:
    """Widths of a net's hidden Linear layers, all except the last."""
    return tuple(layer.out_features for layer in net.layers if isinstance(layer, Linear))[:-1]


def hidden_option(net: Net) -> str:
    """Option of the command line, and argument in Python, by which another net gets the widths of this one."""
    widths = hidden_widths(net)
    shown = str(widths[0]) if len(widths) == 1 else str(widths)
    return f"--hidden {','.join(map(str, widths))}, in Python wl.nets.with_hidden(net, {shown})"


@called_by_name
def with_hidden(net: Net, widths: int | Sequence[int]) -> Net:
    """Copy of a net with other widths of its hidden Linear layers, all except the last.

    widths : one for all hidden layers, or one for each. A perceptron, of Linear and ReLU alone, may get another number
    of layers: `with_hidden(nets.mlp(), (512, 256))`.
    Raises NetError: the net has no hidden Linear layer, or another number of them.
    """
    sizes = _widths(widths)
    before = hidden_widths(net)
    if not before or not sizes:
        raise NetError(
            f"net {net.name!r} has no hidden Linear layer whose width could be set: take mlp or mlp10, or --hidden "
            "without a net"
            if sizes
            else "hidden wants a width for each hidden layer, as (512, 256): a net without hidden layers is softmax"
        )
    sizes = sizes * len(before) if len(sizes) == 1 else sizes
    if len(sizes) == len(before):
        rest = iter(sizes)
        last = [index for index, layer in enumerate(net.layers) if isinstance(layer, Linear)][-1]
        layers = [
            replace(layer, out_features=next(rest)) if isinstance(layer, Linear) and index < last else layer
            for index, layer in enumerate(net.layers)
        ]
    elif _is_perceptron(net):
        inner = [layer for width in sizes for layer in (Linear(out_features=width), ReLU())]
        flatten = [layer for layer in net.layers if isinstance(layer, Flatten)]
        layers = [*flatten, *inner, net.layers[-1]]
    else:
        raise NetError(
            f"net {net.name!r} has {len(before)} hidden Linear layers, and {len(sizes)} widths are given: give one for "
            "all, or one for each"
        )
    return net if sizes == before else Net(_widened(net.name, sizes), net.in_shape, tuple(layers), net.loss)


def _is_perceptron(net: Net) -> bool:
    """True for alternating Linear and ReLU, ending with Linear, after Flatten if there is one."""
    kinds = [type(layer) for layer in net.layers[isinstance(net.layers[0], Flatten) :]]
    return kinds == [Linear, *[ReLU, Linear] * (len(kinds) // 2)]


def is_net_file(name: str) -> bool:
    """True if a net's name is a file's: it ends in .toml or .py, or has a folder in it."""
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
