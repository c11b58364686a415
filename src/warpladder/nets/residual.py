"""Residual connections as data: `Residual`, y = x + f(x), and the three layers that replace it in a chain.

A net stays a chain. A `Residual` in it is replaced by a `Branch`, which stores x, the layers of f, and a `Sum`,
which adds the stored array. With a projection a `Shortcut` and the projection's layers precede the `Sum`: the
`Shortcut` stores f(x), and the projection continues from x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from ..errors import NetError
from ..errors.arguments import shown
from ..show import dims
from .layers import Conv2d, Layer, Linear, Shape


@dataclass(frozen=True, init=False, repr=False)
class Residual:
    """Residual connection y = x + f(x), where f is a chain of layers; or y = p(x) + f(x) with a projection p.

    Parameters
    ----------
    *layers : Layer or Residual
        Layers of f, at least one.
    projection : bool, Layer or sequence of Layer
        Layers of p, needed if f changes the shape of x. True is a 1 x 1 `Conv2d`, whose channels and stride follow from
        both shapes, or for features a `Linear`; both with a bias. By default x itself is added.
    """

    layers: tuple[Layer | Residual, ...]
    projection: Literal[True] | tuple[Layer | Residual, ...]

    def __init__(
        self,
        *layers: Layer | Residual | Sequence[Layer | Residual],
        projection: bool | Layer | Residual | Sequence[Layer | Residual] = False,
    ) -> None:
        given = layers[0] if len(layers) == 1 and isinstance(layers[0], (list, tuple)) else layers
        if not given:
            raise NetError("Residual(): wants the layers of f, whose output is added to x")
        known = Layer, Residual
        through = (projection,) if isinstance(projection, known) else () if projection is False else projection
        if through is not True and not isinstance(through, (list, tuple)):
            raise NetError(f"Residual(projection={shown(projection)}): wants True, a layer or a list of layers")
        for each in (*given, *(() if through is True else through)):
            if not isinstance(each, known):
                raise NetError(f"Residual: {shown(each)} is not a layer")
        object.__setattr__(self, "layers", tuple(given))
        object.__setattr__(self, "projection", through if through is True else tuple(through))

    def __str__(self) -> str:
        inner = [str(each) for each in self.layers]
        through = self.projection if self.projection is True else ", ".join(map(str, self.projection))
        return f"Residual({', '.join([*inner, *([f'projection={through}'] if through else [])])})"

    __repr__ = __str__


@dataclass(frozen=True)
class Branch(Layer):
    """Layer at the beginning of a `Residual`: y = x, and x is stored. Backward both gradients are added."""

    folder: ClassVar = "residual"
    exact: ClassVar = True

    def __str__(self) -> str:
        return "Residual: store x"

    def roundings(self, in_shape: Shape) -> int:
        return 1


@dataclass(frozen=True, kw_only=True)
class Shortcut(Layer):
    """Layer at the end of f in a `Residual` with a projection: y is the `Branch`'s x, and f(x) is stored.

    channels, height, width : shape of the `Branch`'s x; only `channels` for features.
    """

    folder: ClassVar = "residual"
    channels: int
    height: int | None = None
    width: int | None = None

    def __str__(self) -> str:
        return "Residual: store f(x), project x"

    def out_shape(self, in_shape: Shape) -> Shape:
        return tuple(size for size in (self.channels, self.height, self.width) if size is not None)


@dataclass(frozen=True)
class Sum(Layer):
    """Layer at the end of a `Residual`: y = x + the stored array. Backward both get the gradient of y."""

    folder: ClassVar = "residual"

    def __str__(self) -> str:
        return "Residual: add"

    def roundings(self, in_shape: Shape) -> int:
        return 1


#: Layers of a chain that a `Residual` becomes, besides those of f and of the projection.
RESIDUAL_PARTS = (Branch, Shortcut, Sum)


@dataclass(frozen=True)
class Skips:
    """Second inputs and second gradients of a chain's residual layers, by the layer's number.

    stored : for a `Shortcut` or a `Sum`, number of the layer whose input is stored.
    returned : for a `Branch` or a `Shortcut`, number of the layer whose input's gradient is the second one; the chain's
        length for the gradient of its output.
    """

    stored: dict[int, int] = field(default_factory=dict)
    returned: dict[int, int] = field(default_factory=dict)


def skips_of(layers: Sequence[Layer]) -> Skips:
    """Second inputs and gradients of a flat chain; a `Branch` without its `Sum`, in a part of a net, has none.

    Raises NetError: a `Shortcut` or a `Sum` has no `Branch` before it.
    """
    skips, opened = Skips(), list[tuple[int, int | None]]()
    for number, layer in enumerate(layers):
        if isinstance(layer, Branch):
            opened.append((number, None))
        elif isinstance(layer, (Shortcut, Sum)):
            if not opened:
                raise NetError(f"layer {number}: a {type(layer).__name__} without a Branch before it")
            branch, shortcut = opened.pop()
            if isinstance(layer, Shortcut):
                skips.stored[number] = branch
                opened.append((branch, number))
            elif shortcut is None:
                skips.stored[number], skips.returned[branch] = branch, number + 1
            else:
                skips.stored[number] = shortcut
                skips.returned[shortcut], skips.returned[branch] = number + 1, shortcut + 1
    return skips


def flat(layers: Sequence[object], in_shape: Shape) -> list[Layer]:
    """Chain with the layers of each `Residual` in its place; objects that are no layers stay, for `Net` to refuse."""
    out: list[Layer] = []
    _flatten(layers, in_shape, out)
    return out


def _flatten(layers: Sequence[object], shape: Shape | None, out: list[Layer]) -> Shape | None:
    """Append the layers' parts to `out`; returns their output shape, None after a layer that does not fit."""
    for each in layers:
        if not isinstance(each, Residual):
            out.append(each)  # type: ignore[arg-type] # the net refuses it
            try:
                shape = each.out_shape(shape) if isinstance(each, Layer) and shape is not None else None
            except NetError:
                shape = None
            continue
        out.append(Branch())
        end = _flatten(each.layers, shape, out)
        through = each.projection
        if through is True:
            through = () if shape is None or end is None else (_projection(shape, end),)
        if through and shape is not None:
            out.append(Shortcut(**dict(zip(("channels", "height", "width"), shape, strict=False))))
            _flatten(through, shape, out)
        out.append(Sum())
        shape = end
    return shape


def _projection(x: Shape, y: Shape) -> Layer:
    """1 x 1 convolution, or linear layer, from shape x to shape y."""
    if len(x) == len(y) == 1:
        return Linear(out_features=y[0])
    if len(x) == len(y) == 3:
        stride = -(-x[1] // y[1])
        found = Conv2d(out_channels=y[0], kernel_size=1, stride=stride)
        if found.out_shape(x) == y:
            return found
    raise NetError(
        f"Residual(projection=True): no 1 x 1 convolution leads from {dims(x)} to {dims(y)}: give its layers"
    )


def check_sums(layers: Sequence[Layer], shapes: Sequence[Shape], skips: Skips) -> None:
    """Raise `NetError` for a `Sum` of different shapes."""
    for number, stored in skips.stored.items():
        held, own = shapes[stored], shapes[number]
        if isinstance(layers[number], Sum) and held != own:
            both = (held, own) if isinstance(layers[stored], Branch) else (own, held)
            raise NetError(
                f"layer {number}: Residual cannot add {dims(both[0])} and f(x) of {dims(both[1])}: add "
                "projection=True, or change f"
            )
        if isinstance(layers[number], Shortcut) and held != shapes[number + 1]:
            raise NetError(f"layer {number}: {layers[number]!r} is not the shape of its Branch, {held}")


def names_of(layers: Sequence[Layer]) -> tuple[str, ...]:
    """Name of each layer of a flat chain in the equal PyTorch module: "0", and "1.layers.0" or "1.projection.0" for
    layers within a `Residual` with number 1.
    """
    out: list[str] = []
    before, place = [""], [0]
    for layer in layers:
        if isinstance(layer, Branch):
            name = f"{before[-1]}{place[-1]}"
            before.append(f"{name}.layers.")
            place.append(0)
        elif isinstance(layer, Shortcut):
            name = before[-1].removesuffix(".layers.")
            before[-1], place[-1] = f"{name}.projection.", 0
        else:
            if isinstance(layer, Sum):
                before.pop()
                place.pop()
            name = f"{before[-1]}{place[-1]}"
            place[-1] += 1
        out.append(name)
    return tuple(out)
