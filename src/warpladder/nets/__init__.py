"""Networks as data: layers, losses, `Net`, and the five nets of the ladder.

Layers carry PyTorch's names, keyword arguments and meaning; input sizes are inferred. What PyTorch would read
otherwise in its place is taken by name alone: `Conv2d(1, 16, 3)` is refused. Shapes leave out the batch: an image
is (channels, height, width), a flat vector is (features,).
One multiply-add counts as two FLOPs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import ClassVar

from ..errors import NetError
from ..errors.arguments import ByName, wanted
from ..show import as_html, as_text, dims

Shape = tuple[int, ...]


def _image(layer: str, in_shape: Shape) -> tuple[int, int, int]:
    if len(in_shape) != 3:
        raise NetError(f"{layer} wants an image (channels, height, width), got {in_shape}")
    return in_shape


class Layer(metaclass=ByName):
    """What every layer can say about itself; a layer is data and holds no weights.

    A frozen dataclass derived from it is a layer that nets, their files and checkpoints know, by the name of the class;
    CONTRIBUTING.md says which files beside the class compute the layer. Settings are whole numbers, other numbers,
    truth values or texts.
    """

    #: Settings that may be given by place, because they stand in the same places in PyTorch.
    by_place: ClassVar[tuple[str, ...]] = ()
    known: ClassVar[dict[str, type[Layer]]] = {}
    #: Whether sums of multiples of a power of two come out without rounding, so that a proof may use data on which
    #: nothing rounds.
    exact: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        if any(
            base.__module__ == __name__ for base in cls.__mro__[1:] if issubclass(base, Layer) and base is not Layer
        ):
            raise NetError(
                f"{cls.__name__} derives from a layer of warpladder's and would be computed as that one: derive it from Layer"
            )
        if cls.__module__ != __name__ and (taken := Layer.known.get(cls.__name__)) and taken.__module__ == __name__:
            raise NetError(f"{cls.__module__}: warpladder has a layer {cls.__name__}: give this one its own name")
        Layer.known[cls.__name__] = cls

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            value, kind = getattr(self, field.name), str(getattr(field.type, "__name__", field.type))
            least = 0 if field.name == "padding" else 1
            told = f"{type(self).__name__}({field.name}={value!r:.40}): wants"
            if value is None and "None" in kind:
                continue
            if kind.startswith("int") and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise NetError(f"{told} a whole number of at least {least}")
            if kind.startswith("float") and (
                isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value)
            ):
                raise NetError(f"{told} a finite number")
            if not isinstance(value, (bool, int, float, str, type(None))):
                raise NetError(f"{told} a number, a truth value or a text, which a checkpoint can keep")

    def __str__(self) -> str:
        """As a reader would write it: the settings that are not the default."""
        settings = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in settings.items())})"

    def out_shape(self, in_shape: Shape) -> Shape:
        """Shape of one sample's output; raises `NetError` where the input does not fit."""
        return in_shape

    def param_shapes(self, in_shape: Shape) -> dict[str, Shape]:
        """Shapes of the layer's parameters in PyTorch's order: weight (outputs, inputs, ...) and bias (outputs,); empty
        for none.
        """
        return {}

    def flops(self, in_shape: Shape) -> int:
        """FLOPs of one sample's forward pass, no more than any way to compute it needs; comparisons and copies count as
        none.
        """
        return 0

    def roundings(self, in_shape: Shape) -> int:
        """Roundings on the longest way from a number that enters to one that leaves, those of sums over a weight aside:
        what the bounds of a proof count.
        """
        return 0


@dataclass(frozen=True, kw_only=True)
class Linear(Layer):
    """y = W x + b with W (out_features, in_features), as `torch.nn.Linear`."""

    exact: ClassVar = True
    out_features: int

    def out_shape(self, in_shape: Shape) -> Shape:
        if len(in_shape) != 1:
            raise NetError(f"Linear wants a flat input (features,), got {in_shape}: put Flatten() before it")
        return (self.out_features,)

    def param_shapes(self, in_shape: Shape) -> dict[str, Shape]:
        return {"weight": (self.out_features, in_shape[0]), "bias": (self.out_features,)}

    def flops(self, in_shape: Shape) -> int:
        return 2 * in_shape[0] * self.out_features


@dataclass(frozen=True, kw_only=True)
class Conv2d(Layer):
    """Cross-correlation with W (out_channels, in_channels, k, k), as `torch.nn.Conv2d`; zero padding, square kernel."""

    exact: ClassVar = True
    out_channels: int
    kernel_size: int
    stride: int = 1
    padding: int = 0

    def out_shape(self, in_shape: Shape) -> Shape:
        _, h, w = _image("Conv2d", in_shape)
        if min(h, w) + 2 * self.padding < self.kernel_size:
            raise NetError(
                f"Conv2d wants at least {self.kernel_size}x{self.kernel_size} pixels (padding included), got {in_shape}"
            )
        oh = (h + 2 * self.padding - self.kernel_size) // self.stride + 1
        ow = (w + 2 * self.padding - self.kernel_size) // self.stride + 1
        return (self.out_channels, oh, ow)

    def param_shapes(self, in_shape: Shape) -> dict[str, Shape]:
        return {
            "weight": (self.out_channels, in_shape[0], self.kernel_size, self.kernel_size),
            "bias": (self.out_channels,),
        }

    def flops(self, in_shape: Shape) -> int:
        return 2 * in_shape[0] * self.kernel_size**2 * math.prod(self.out_shape(in_shape))


@dataclass(frozen=True)
class ReLU(Layer):
    """y = max(x, 0); the derivative at 0 is 0."""

    exact: ClassVar = True


@dataclass(frozen=True)
class MaxPool2d(Layer):
    """Maximum over windows, as `torch.nn.MaxPool2d`: incomplete windows at the far edges are dropped; among equals the
    first wins.
    """

    by_place: ClassVar = ("kernel_size", "stride")
    exact: ClassVar = True
    kernel_size: int
    stride: int | None = None

    def __post_init__(self) -> None:
        if self.stride is None:
            object.__setattr__(self, "stride", self.kernel_size)
        super().__post_init__()

    def out_shape(self, in_shape: Shape) -> Shape:
        c, h, w = _image("MaxPool2d", in_shape)
        if min(h, w) < self.kernel_size:
            raise NetError(f"MaxPool2d wants at least {self.kernel_size}x{self.kernel_size} pixels, got {in_shape}")
        assert self.stride is not None
        return (c, (h - self.kernel_size) // self.stride + 1, (w - self.kernel_size) // self.stride + 1)


@dataclass(frozen=True, kw_only=True)
class Upsample2d(Layer):
    """Nearest-neighbour enlargement by a whole factor, as `torch.nn.Upsample(scale_factor=...)`."""

    exact: ClassVar = True
    scale_factor: int = 2

    def out_shape(self, in_shape: Shape) -> Shape:
        c, h, w = _image("Upsample2d", in_shape)
        return (c, h * self.scale_factor, w * self.scale_factor)


@dataclass(frozen=True)
class Flatten(Layer):
    """(channels, height, width) to (features,), channel by channel, as `torch.nn.Flatten`."""

    exact: ClassVar = True

    def out_shape(self, in_shape: Shape) -> Shape:
        return (math.prod(in_shape),)


@dataclass(frozen=True)
class CrossEntropyLoss:
    """Mean over the batch of -log softmax(x)[label], as `torch.nn.CrossEntropyLoss`."""

    kind: ClassVar[str] = "classes"


@dataclass(frozen=True)
class MSELoss:
    """Mean over the batch and all its elements of (x - target)^2, as `torch.nn.MSELoss`; the target is the input."""

    kind: ClassVar[str] = "images"


Loss = CrossEntropyLoss | MSELoss


@dataclass(frozen=True, repr=False)
class Net:
    """A chain of layers and a loss: data only, checked when it is made.

    Parameters
    ----------
    name : str
        What tables and files call it.
    in_shape : tuple of int
        Shape of one sample, (channels, height, width) or (features,).
    layers : tuple of Layer
    loss : CrossEntropyLoss or MSELoss

    Raises
    ------
    NetError
        Where a layer cannot take what the one before gives; the message names the layer's index,
        its input shape and what it wanted.
    """

    name: str
    in_shape: Shape
    layers: tuple[Layer, ...]
    loss: Loss

    def __post_init__(self) -> None:
        wanted("net's name", self.name, str, "text")
        wanted(f"net {self.name!r}: in_shape", self.in_shape, (tuple, list), "a shape such as (3, 32, 32) or (4,)")
        wanted(f"net {self.name!r}: layers", self.layers, (tuple, list), "a tuple of layers")
        object.__setattr__(self, "in_shape", tuple(self.in_shape))
        object.__setattr__(self, "layers", tuple(self.layers))
        if len(self.in_shape) not in (1, 3) or not all(isinstance(d, int) and d > 0 for d in self.in_shape):
            raise NetError(
                f"net {self.name!r}: in_shape wants (features,) or (channels, height, width) of positive whole numbers, got {self.in_shape}"
            )
        for index, layer in enumerate(self.layers):
            if not isinstance(layer, Layer):
                raise NetError(f"net {self.name!r}, layer {index}: {layer!r} is not a layer")
        if not isinstance(self.loss, (CrossEntropyLoss, MSELoss)):
            raise NetError(f"net {self.name!r}: {self.loss!r} is not a loss")
        shapes = self.shapes
        for index, layer in enumerate(self.layers):
            params = layer.param_shapes(shapes[index])
            weight, bias = params.get("weight", ()), params.get("bias", ())
            if params and not (list(params) == ["weight", "bias"] and len(weight) > 1 and bias == weight[:1]):
                raise NetError(
                    f"net {self.name!r}, layer {index}: {type(layer).__name__} has parameters {params}: "
                    "a layer has none, or a weight (outputs, ...) and a bias (outputs,)"
                )
            if params and not layer.flops(shapes[index]) > 0:
                raise NetError(
                    f"net {self.name!r}, layer {index}: {type(layer).__name__} has parameters, but its flops() says that it computes nothing"
                )
        if not any(layer.param_shapes(s) for layer, s in zip(self.layers, shapes, strict=False)):
            raise NetError(f"net {self.name!r} has no layer with parameters: there is nothing to train")
        if isinstance(self.loss, CrossEntropyLoss) and len(self.out_shape) != 1:
            raise NetError(
                f"net {self.name!r}: CrossEntropyLoss wants logits (classes,), the last layer gives {self.out_shape}: end with Flatten() and Linear()"
            )
        if isinstance(self.loss, MSELoss) and math.prod(self.out_shape) != math.prod(self.in_shape):
            raise NetError(
                f"net {self.name!r}: MSELoss compares the output with the input, but {self.out_shape} and {self.in_shape} differ in size"
            )

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """Per-sample shapes: shapes[i] enters layer i, shapes[-1] leaves the net."""
        shapes = [self.in_shape]
        for index, layer in enumerate(self.layers):
            try:
                shapes.append(layer.out_shape(shapes[-1]))
            except NetError as error:
                raise NetError(f"net {self.name!r}, layer {index}: {error}") from None
        return tuple(shapes)

    def __repr__(self) -> str:
        return as_text(*self._table())

    def _repr_html_(self) -> str:
        return as_html(*self._table())

    def _table(self) -> tuple[str, tuple[str, ...], list[tuple[str, ...]], tuple[str, ...]]:
        """What is shown of a net: title, heads, a row for each layer, and the sums."""
        title = f"Net {self.name!r}: {dims(self.in_shape)} to {dims(self.out_shape)}, {type(self.loss).__name__}"
        rows: list[tuple[str, ...]] = []
        for index, layer in enumerate(self.layers):
            count = sum(map(math.prod, layer.param_shapes(self.shapes[index]).values()))
            rows.append((str(index), str(layer), dims(self.shapes[index + 1]), f"{count:,}" if count else ""))
        return title, ("#", "layer", "output", "parameters"), rows, ("", "total", "", f"{self.param_count:,}")

    @property
    def out_shape(self) -> Shape:
        """Shape of one sample's output."""
        return self.shapes[-1]

    @cached_property
    def param_count(self) -> int:
        """Number of trained numbers."""
        return sum(
            math.prod(shape)
            for layer, s in zip(self.layers, self.shapes, strict=False)
            for shape in layer.param_shapes(s).values()
        )

    @cached_property
    def first_trained(self) -> int:
        """Index of the first layer with parameters; neither it nor any before it needs an input gradient."""
        return next(i for i, layer in enumerate(self.layers) if layer.param_shapes(self.shapes[i]))

    @cached_property
    def flops(self) -> int:
        """FLOPs of one sample's forward pass."""
        return sum(layer.flops(s) for layer, s in zip(self.layers, self.shapes, strict=False))

    @cached_property
    def train_flops(self) -> int:
        """FLOPs of one sample's training: forward, weight gradients, and input gradients where one is needed."""
        total = 0
        for index, (layer, s) in enumerate(zip(self.layers, self.shapes, strict=False)):
            total += layer.flops(s) * (1 + bool(layer.param_shapes(s)) + (index > self.first_trained))
        return total


def softmax(in_shape: Shape = (1, 28, 28), classes: int = 10) -> Net:
    """S5's softmax regression; 7,850 parameters on 28x28 images."""
    return Net("softmax", in_shape, (Flatten(), Linear(out_features=classes)), CrossEntropyLoss())


def mlp(in_shape: Shape = (1, 28, 28), classes: int = 10) -> Net:
    """S2's perceptron with 256 hidden units; 203,530 parameters on 28x28 images."""
    return Net(
        "mlp", in_shape, (Flatten(), Linear(out_features=256), ReLU(), Linear(out_features=classes)), CrossEntropyLoss()
    )


def mlp10(in_shape: Shape = (1, 28, 28), classes: int = 10) -> Net:
    """S3's perceptron with 10 hidden units; 7,960 parameters on 28x28 images."""
    return Net(
        "mlp10",
        in_shape,
        (Flatten(), Linear(out_features=10), ReLU(), Linear(out_features=classes)),
        CrossEntropyLoss(),
    )


def cnn(in_shape: Shape = (1, 28, 28), classes: int = 10) -> Net:
    """S1's convolutional net; 50,890 parameters on 28x28 images."""
    layers = (
        Conv2d(out_channels=16, kernel_size=3),
        ReLU(),
        Conv2d(out_channels=32, kernel_size=3),
        ReLU(),
        MaxPool2d(2),
        Flatten(),
        Linear(out_features=classes),
    )
    return Net("cnn", in_shape, layers, CrossEntropyLoss())


def autoencoder(in_shape: Shape = (3, 32, 32)) -> Net:
    """S4's convolutional autoencoder; 751,875 parameters on 3x32x32 images. Height and width must be multiples of 4."""
    if len(in_shape) == 3 and (in_shape[1] % 4 or in_shape[2] % 4):
        raise NetError(
            f"the autoencoder halves its images twice: height and width must be multiples of 4, got {in_shape}"
        )
    layers = (
        Conv2d(out_channels=256, kernel_size=3, padding=1), ReLU(), MaxPool2d(2),
        Conv2d(out_channels=128, kernel_size=3, padding=1), ReLU(), MaxPool2d(2),
        Conv2d(out_channels=128, kernel_size=3, padding=1), ReLU(), Upsample2d(scale_factor=2),
        Conv2d(out_channels=256, kernel_size=3, padding=1), ReLU(), Upsample2d(scale_factor=2),
        Conv2d(out_channels=in_shape[0], kernel_size=3, padding=1),
    )  # fmt: skip
    return Net("autoencoder", in_shape, layers, MSELoss())


def named(name: str, in_shape: Shape, classes: int = 10) -> Net:
    """The net of this name for samples of this shape; `NetError` lists the names there are."""
    if name == autoencoder.__name__:
        return autoencoder(in_shape)
    if name not in CLASSIFIERS:
        raise NetError(f"there is no net {name!r:.40}; there are {', '.join(make.__name__ for make in ZOO)}")
    return CLASSIFIERS[name](in_shape, classes)


def with_hidden(net: Net, width: int) -> Net:
    """A net whose hidden Linear layers, all but its last, have so many outputs; `NetError` where it has none."""
    hidden = [index for index, layer in enumerate(net.layers) if isinstance(layer, Linear)][:-1]
    if not hidden:
        raise NetError(
            f"net {net.name!r} has no hidden Linear layer whose width could be swept; mlp and mlp10 have one"
        )
    layers = (Linear(out_features=width) if index in hidden else layer for index, layer in enumerate(net.layers))
    return Net(net.name, net.in_shape, tuple(layers), net.loss)


def is_named(net: Net) -> bool:
    """Whether a net is the ladder's net of its name, for its samples and classes."""
    try:
        return net == named(net.name, net.in_shape, net.out_shape[0])
    except NetError:
        return False


CLASSIFIERS: dict[str, Callable[[Shape, int], Net]] = {make.__name__: make for make in (softmax, mlp, mlp10, cnn)}

#: The five nets, in the order of the reports' difficulty.
ZOO = (softmax, mlp, mlp10, cnn, autoencoder)
