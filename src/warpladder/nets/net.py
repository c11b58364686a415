"""Net as data: a checked chain of layers and a loss. Shapes omit the batch; a multiply-add is two FLOPs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..errors import NetError
from ..errors.arguments import called_by_name, kind_of, plain, wanted
from ..show import as_html, as_text, dims
from .layers import Layer, Shape
from .losses import CrossEntropyLoss, Loss
from .residual import Residual, Skips, check_sums, flat, names_of, skips_of


def checked_in_shape(what: str, shape: Any) -> Shape:
    """Shape of one sample as a tuple. what : name in messages. Raises `ArgumentError` and `NetError`."""
    wanted(what, shape, (tuple, list), "a shape such as (3, 32, 32) or (4,)")
    shape = plain(tuple(shape))
    if len(shape) not in (1, 3) or not all(isinstance(d, int) and d > 0 for d in shape):
        raise NetError(f"{what} wants (features,) or (channels, height, width) of positive whole numbers, got {shape}")
    return shape


def _made(value: Any, kind: type) -> str:
    """Hint to write an object in place of its class; empty for anything else."""
    return f": write {value.__name__}(...)" if isinstance(value, type) and issubclass(value, kind) else ""


@dataclass(frozen=True, repr=False)
class Net:
    """Chain of layers and a loss: data only, checked when it is made.

    Parameters
    ----------
    name : str
        Name in tables and files.
    in_shape : tuple of int
        Shape of one sample, (channels, height, width) or (features,).
    layers : tuple of Layer or Residual
        A `Residual` is replaced by the layers of its chain: `Branch`, those of f, perhaps `Shortcut` and those of the
        projection, and `Sum`.
    loss : Loss

    Raises
    ------
    NetError
        A layer cannot take the output of the layer before it. The message names the layer's index, its input shape and
        the shape that it needs.
    """

    name: str
    in_shape: Shape
    layers: tuple[Layer, ...]
    loss: Loss

    if TYPE_CHECKING:  # a `Residual` is taken, and replaced

        def __init__(
            self, name: str, in_shape: Sequence[int], layers: Sequence[Layer | Residual], loss: Loss
        ) -> None: ...

    def __post_init__(self) -> None:
        wanted("net's name", self.name, str, "text")
        in_shape = checked_in_shape(f"net {self.name!r}: in_shape", self.in_shape)
        wanted(f"net {self.name!r}: layers", self.layers, (tuple, list), "a tuple of layers")
        object.__setattr__(self, "in_shape", in_shape)
        object.__setattr__(self, "layers", tuple(self.layers))
        try:
            object.__setattr__(self, "layers", tuple(flat(self.layers, self.in_shape)))
        except NetError as error:
            raise NetError(f"net {self.name!r}: {error}") from None
        for index, layer in enumerate(self.layers):
            if not isinstance(layer, Layer):
                raise NetError(
                    f"net {self.name!r}, layer {index}: {kind_of(layer)} is not a layer{_made(layer, Layer)}"
                )
        if not isinstance(self.loss, Loss):
            raise NetError(f"net {self.name!r}: {kind_of(self.loss)} is not a loss{_made(self.loss, Loss)}")
        shapes = self.shapes
        try:
            check_sums(self.layers, shapes, self.skips)
        except NetError as error:
            raise NetError(f"net {self.name!r}, {error}") from None
        for index, layer in enumerate(self.layers):
            params = layer.param_shapes(shapes[index])
            weight = params.get("weight", ())
            wanted_names = (["weight"], ["weight", "bias"])
            is_known = (
                list(params) in wanted_names
                and len(weight) > (not layer.normalizes)
                and params.get("bias", weight[:1]) == weight[:1]
            )
            if params and not is_known:
                raise NetError(
                    f"net {self.name!r}, layer {index}: {type(layer).__name__} has parameters {params}: "
                    "a layer has none, or a weight (outputs, ...) with or without a bias (outputs,)"
                )
            if params and not layer.flops(shapes[index]) > 0:
                raise NetError(
                    f"net {self.name!r}, layer {index}: {type(layer).__name__} has parameters, "
                    "but its flops() returns 0: it must count at least one FLOP"
                )
        if not any(layer.param_shapes(s) for layer, s in zip(self.layers, shapes, strict=False)):
            raise NetError(f"net {self.name!r} has no layer with parameters: there is nothing to train")
        try:
            self.loss.check(math.prod(self.out_shape))
        except NetError as error:
            raise NetError(f"net {self.name!r}: {error}") from None
        if isinstance(self.loss, CrossEntropyLoss) and len(self.out_shape) != 1:
            raise NetError(
                f"net {self.name!r}: CrossEntropyLoss wants logits (classes,), "
                f"the last layer gives {self.out_shape}: end with Flatten() and Linear()"
            )

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """Shapes of a sample: shapes[i] is the input of layer i, shapes[-1] the output of the net."""
        shapes = [self.in_shape]
        for index, layer in enumerate(self.layers):
            try:
                shapes.append(layer.out_shape(shapes[-1]))
            except NetError as error:
                raise NetError(f"net {self.name!r}, layer {index}: {error}") from None
        return tuple(shapes)

    @cached_property
    def skips(self) -> Skips:
        """Second inputs and gradients of residual layers."""
        return skips_of(self.layers)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Name of each layer in the equal PyTorch module, before ".weight": "0", or in a `Residual` "1.layers.0"."""
        return names_of(self.layers)

    def __repr__(self) -> str:
        return as_text(*self._table())

    def _repr_html_(self) -> str:
        return as_html(*self._table())

    def _table(self) -> tuple[str, tuple[str, ...], list[tuple[str, ...]], tuple[str, ...]]:
        """Table that shows the net: title, heads, a row for each layer, and the sums."""
        title = f"Net {self.name!r}: {dims(self.in_shape)} to {dims(self.out_shape)}, {self.loss}"
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
        """Number of parameters."""
        return sum(
            math.prod(shape)
            for layer, s in zip(self.layers, self.shapes, strict=False)
            for shape in layer.param_shapes(s).values()
        )

    @cached_property
    def first_trained(self) -> int:
        """Index of the first layer with parameters; neither it nor an earlier layer needs an input gradient."""
        return next(i for i, layer in enumerate(self.layers) if layer.param_shapes(self.shapes[i]))

    @cached_property
    def is_random(self) -> bool:
        """True if a layer draws random masks in training, so that the gradient depends on the samples' positions."""
        return any(layer.is_random for layer in self.layers)

    @cached_property
    def normalizes(self) -> bool:
        """True if a layer normalises by the statistics of its batch, so that samples depend on each other."""
        return any(layer.normalizes for layer in self.layers)

    @cached_property
    def least_batch(self) -> int:
        """Smallest number of samples in a batch: 2 if a layer normalises a single number of each sample and channel,
        whose variance needs two; else 1.
        """
        alone = any(
            layer.normalizes and math.prod(shape[1:]) == 1
            for layer, shape in zip(self.layers, self.shapes, strict=False)
        )
        return 2 if alone else 1

    @cached_property
    def buffer_count(self) -> int:
        """Number of running means and variances."""
        return sum(
            math.prod(shape)
            for layer, s in zip(self.layers, self.shapes, strict=False)
            for shape in layer.buffer_shapes(s).values()
        )

    @cached_property
    def flops(self) -> int:
        """FLOPs of one sample's forward pass."""
        return sum(layer.flops(s) for layer, s in zip(self.layers, self.shapes, strict=False))

    @cached_property
    def train_flops(self) -> int:
        """FLOPs of one sample's training: forward, weight gradients, and the input gradients that are needed."""
        total = 0
        for index, (layer, s) in enumerate(zip(self.layers, self.shapes, strict=False)):
            total += layer.flops(s) * (1 + bool(layer.param_shapes(s)) + (index > self.first_trained))
        return total


Net.__init__ = called_by_name(Net.__init__)  # type: ignore[method-assign]
