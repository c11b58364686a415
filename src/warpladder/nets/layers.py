"""Layers as data: Linear, Conv2d, ReLU, MaxPool2d, Upsample2d, Flatten, and `Layer`, from which a user derives others.

Layers have PyTorch's names, keyword arguments and meaning. Input sizes are inferred, so settings that PyTorch takes by
place are taken by name alone: `Conv2d(1, 16, 3)` is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import ClassVar

from ..errors import NetError
from ..errors.arguments import ByName, shown

#: Shape of one sample: (channels, height, width) of an image, (features,) of a flat vector.
Shape = tuple[int, ...]


def _image(layer: str, in_shape: Shape) -> tuple[int, int, int]:
    if len(in_shape) != 3:
        raise NetError(f"{layer} wants an image (channels, height, width), got {in_shape}")
    return in_shape


class Layer(metaclass=ByName):
    """Base class of layers. A layer is data and holds no weights.

    Nets, their files and checkpoints know a derived frozen dataclass by the name of the class. CONTRIBUTING.md lists
    the files next to the class that compute the layer. Settings are integers, floats, booleans or strings.
    """

    #: Settings that may be positional, because they have the same positions in PyTorch.
    by_place: ClassVar[tuple[str, ...]] = ()
    known: ClassVar[dict[str, type[Layer]]] = {}
    #: True if sums of multiples of a power of two are exact, so that a proof may use data on which nothing rounds.
    exact: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        if any(
            base.__module__ == __name__ for base in cls.__mro__[1:] if issubclass(base, Layer) and base is not Layer
        ):
            raise NetError(
                f"{cls.__name__} derives from one of warpladder's layers and would be computed as that layer: "
                "derive it from Layer"
            )
        if cls.__module__ != __name__ and (taken := Layer.known.get(cls.__name__)) and taken.__module__ == __name__:
            raise NetError(f"{cls.__module__}: warpladder has a layer {cls.__name__}: give this one its own name")
        Layer.known[cls.__name__] = cls

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            value, kind = getattr(self, field.name), str(getattr(field.type, "__name__", field.type))
            least = 0 if field.name == "padding" else 1
            wrong = f"{type(self).__name__}({field.name}={shown(value)}): wants"
            if value is None and "None" in kind:
                continue
            if kind.startswith("int") and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise NetError(f"{wrong} a whole number of at least {least}")
            if kind.startswith("float") and (
                isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value)
            ):
                raise NetError(f"{wrong} a finite number")
            if not isinstance(value, (bool, int, float, str, type(None))):
                raise NetError(f"{wrong} a number, a boolean or a text, which a checkpoint can store")

    def __str__(self) -> str:
        """Call that makes the layer, with the settings that differ from their defaults."""
        known = fields(self)  # type: ignore[arg-type]
        changed = [field.name for field in known if getattr(self, field.name) != field.default]
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)}' for name in changed)})"

    def out_shape(self, in_shape: Shape) -> Shape:
        """Shape of one sample's output; `NetError` if the input does not fit."""
        return in_shape

    def param_shapes(self, in_shape: Shape) -> dict[str, Shape]:
        """Shapes of the parameters in PyTorch's order: weight (outputs, inputs, ...) and bias (outputs,), or none."""
        return {}

    def flops(self, in_shape: Shape) -> int:
        """FLOPs of one sample's forward pass, at most what every algorithm needs; comparisons and copies count 0."""
        return 0

    def roundings(self, in_shape: Shape) -> int:
        """Roundings on the longest path from an input to an output, sums over a weight aside; for a proof's bounds."""
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
    """Maximum over windows, as `torch.nn.MaxPool2d`, without incomplete windows; of equal values the first."""

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
    """Nearest-neighbour upsampling by an integer factor, as `torch.nn.Upsample(scale_factor=...)`."""

    exact: ClassVar = True
    scale_factor: int = 2

    def out_shape(self, in_shape: Shape) -> Shape:
        c, h, w = _image("Upsample2d", in_shape)
        return (c, h * self.scale_factor, w * self.scale_factor)


@dataclass(frozen=True)
class Flatten(Layer):
    """Reshape (channels, height, width) to (features,), channel by channel, as `torch.nn.Flatten`."""

    exact: ClassVar = True

    def out_shape(self, in_shape: Shape) -> Shape:
        return (math.prod(in_shape),)
