"""Layers as data: Linear, Conv2d, ReLU, Upsample2d, Flatten, and `Layer`, from which a user derives others.

Layers have PyTorch's names, keyword arguments and meaning. Input sizes are inferred, so settings that are positional in
PyTorch are keywords here: `Conv2d(1, 16, 3)` is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from ..errors import NetError
from ..errors.arguments import ByName, shown

#: Shape of one sample: (channels, height, width) of an image, (features,) of a flat vector.
Shape = tuple[int, ...]

#: The package of warpladder's own layers.
OWN = f"{__package__}."


def image(layer: str, in_shape: Shape) -> tuple[int, int, int]:
    """Shape of an image (channels, height, width). Raises `NetError` for a flat vector."""
    if len(in_shape) != 3:
        raise NetError(f"{layer} wants an image (channels, height, width), got {in_shape}")
    return in_shape


def _with_bias(has_bias: bool, weight: Shape) -> dict[str, Shape]:
    """Shapes of a weight (outputs, ...) and, if there is one, a bias (outputs,)."""
    return {"weight": weight, "bias": weight[:1]} if has_bias else {"weight": weight}


class Layer(metaclass=ByName):
    """Base class of layers. A layer is data and holds no weights.

    Nets, their files and checkpoints refer to a derived frozen dataclass by the name of the class. CONTRIBUTING.md
    lists the files next to the class that compute the layer. Settings are integers, floats, booleans or strings.
    """

    #: Settings that may be positional, because they have the same positions in PyTorch.
    by_place: ClassVar[tuple[str, ...]] = ()
    known: ClassVar[dict[str, type[Layer]]] = {}
    #: True if sums of multiples of a power of two are exact, so that a proof may use data on which nothing rounds.
    exact: ClassVar[bool] = False
    #: True if the derivative is computed from the output in place of the input.
    reads_output: ClassVar[bool] = False
    #: True if training multiplies the layer's input by random numbers, which predictions do not.
    is_random: ClassVar[bool] = False
    #: True if an output in training depends on all samples of the batch, and predictions take running statistics.
    normalizes: ClassVar[bool] = False
    #: Folder of ops/ with the files of one of warpladder's layers; empty for the folder of its name in lower case.
    folder: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        if any(
            base.__module__.startswith(OWN) for base in cls.__mro__[1:] if issubclass(base, Layer) and base is not Layer
        ):
            raise NetError(
                f"{cls.__name__} derives from one of warpladder's layers and would be computed as that layer: "
                "derive it from Layer"
            )
        taken = Layer.known.get(cls.__name__)
        if not cls.__module__.startswith(OWN) and taken and taken.__module__.startswith(OWN):
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
            if kind.startswith("bool") and not isinstance(value, bool):
                raise NetError(f"{wrong} True or False")
            if not isinstance(value, (bool, int, float, str, type(None))):
                raise NetError(f"{wrong} a number, a boolean or a text, which a checkpoint can store")

    def __str__(self) -> str:
        """Python expression that makes the layer, with the settings that differ from their defaults."""
        known = fields(self)  # type: ignore[arg-type]
        changed = [field.name for field in known if getattr(self, field.name) != field.default]
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in changed)})"

    def out_shape(self, in_shape: Shape) -> Shape:
        """Shape of one sample's output. Raises `NetError` if the input does not fit."""
        return in_shape

    def param_shapes(self, in_shape: Shape) -> dict[str, Shape]:
        """Shapes of the parameters in PyTorch's order: weight (outputs, inputs, ...) and bias (outputs,), weight
        alone, or none.
        """
        return {}

    def buffer_shapes(self, in_shape: Shape) -> dict[str, Shape]:
        """Shapes of numbers that batches change and no optimizer does, under PyTorch's names; most layers have none."""
        return {}

    def flops(self, in_shape: Shape) -> int:
        """FLOPs of one sample's forward pass, a lower bound for every algorithm; comparisons and copies count 0."""
        return 0

    def roundings(self, in_shape: Shape) -> int:
        """Number of roundings on the longest path from input to output, without sums over a weight; for a proof's
        bounds.
        """
        return 0


@dataclass(frozen=True, kw_only=True)
class Linear(Layer):
    """Layer y = W x + b with W (out_features, in_features), as `torch.nn.Linear`; without b if not `bias`."""

    exact: ClassVar = True
    out_features: int
    bias: bool = True

    def out_shape(self, in_shape: Shape) -> Shape:
        if len(in_shape) != 1:
            raise NetError(f"Linear wants a flat input (features,), got {in_shape}: put Flatten() before it")
        return (self.out_features,)

    def param_shapes(self, in_shape: Shape) -> dict[str, Shape]:
        return _with_bias(self.bias, (self.out_features, in_shape[0]))

    def flops(self, in_shape: Shape) -> int:
        return 2 * in_shape[0] * self.out_features


@dataclass(frozen=True, kw_only=True)
class Conv2d(Layer):
    """Layer of cross-correlation with W (out_channels, in_channels, k, k), as `torch.nn.Conv2d`: zero padding, square
    kernel, no bias if not `bias`. `padding` may be "same" for an odd kernel and a stride of 1, and "valid".
    """

    exact: ClassVar = True
    out_channels: int
    kernel_size: int
    stride: int = 1
    padding: int = 0
    bias: bool = True

    def __post_init__(self) -> None:
        padding: Any = self.padding
        if isinstance(padding, str):
            object.__setattr__(self, "padding", self._padding(padding))
        super().__post_init__()

    def _padding(self, name: str) -> int:
        """Zero padding at each edge for PyTorch's "same" and "valid"."""
        if name not in ("same", "valid"):
            raise NetError(f"Conv2d(padding={shown(name)}): wants a whole number of at least 0, 'same' or 'valid'")
        if name == "same" and not (self.stride == 1 and isinstance(self.kernel_size, int) and self.kernel_size % 2):
            raise NetError(
                f"Conv2d(kernel_size={shown(self.kernel_size)}, stride={shown(self.stride)}, padding='same'): 'same' "
                "wants an odd kernel_size and a stride of 1: give the padding as a number"
            )
        return self.kernel_size // 2 if name == "same" else 0

    def out_shape(self, in_shape: Shape) -> Shape:
        _, h, w = image("Conv2d", in_shape)
        if min(h, w) + 2 * self.padding < self.kernel_size:
            raise NetError(
                f"Conv2d wants at least {self.kernel_size}x{self.kernel_size} pixels (padding included), got {in_shape}"
            )
        oh = (h + 2 * self.padding - self.kernel_size) // self.stride + 1
        ow = (w + 2 * self.padding - self.kernel_size) // self.stride + 1
        return (self.out_channels, oh, ow)

    def param_shapes(self, in_shape: Shape) -> dict[str, Shape]:
        return _with_bias(self.bias, (self.out_channels, in_shape[0], self.kernel_size, self.kernel_size))

    def flops(self, in_shape: Shape) -> int:
        return 2 * in_shape[0] * self.kernel_size**2 * math.prod(self.out_shape(in_shape))


@dataclass(frozen=True)
class ReLU(Layer):
    """Layer y = max(x, 0), as `torch.nn.ReLU`; the derivative at 0 is 0."""

    exact: ClassVar = True


@dataclass(frozen=True, kw_only=True)
class Upsample2d(Layer):
    """Layer of nearest-neighbour upsampling by an integer factor, as `torch.nn.Upsample(scale_factor=...)`."""

    exact: ClassVar = True
    scale_factor: int = 2

    def out_shape(self, in_shape: Shape) -> Shape:
        c, h, w = image("Upsample2d", in_shape)
        return (c, h * self.scale_factor, w * self.scale_factor)


@dataclass(frozen=True)
class Flatten(Layer):
    """Layer that reshapes (channels, height, width) to (features,), channel by channel, as `torch.nn.Flatten`."""

    exact: ClassVar = True

    def out_shape(self, in_shape: Shape) -> Shape:
        return (math.prod(in_shape),)
