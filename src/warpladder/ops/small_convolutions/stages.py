"""Stages of a chain's first convolutions: each is a convolution, with an activation and a max pool or neither."""

from __future__ import annotations

from dataclasses import dataclass

from ...nets import ACTIVATIONS, Conv2d, Layer, LeakyReLU, MaxPool2d, ReLU, Sigmoid, Tanh
from ..activation.fused import IDENTITY, function
from ..engine.chain import Subgraph

#: Most stages, and the largest side of a window.
MOST, SIDE = 4, 7
#: Activations whose derivative is a function of their output: the input is stored nowhere.
FUNCTIONS: tuple[type[Layer], ...] = (ReLU, Tanh, Sigmoid, LeakyReLU)


@dataclass(frozen=True)
class ConvStage:
    """Convolution of a (c, h, w) sample to (o, high, wide), an activation, and a max pool to (o, rows, columns).

    k, stride, padding : of the convolution. pool : side of the pool's window, 1 without a pool.
    function, slope : number of the activation in activation.cuh, and its slope below 0.
    is_late : True if the activation comes after the pool.
    """

    c: int
    h: int
    w: int
    o: int
    k: int
    stride: int
    padding: int
    has_bias: bool
    pool: int = 1
    function: int = IDENTITY
    slope: float = 0.0
    is_late: bool = False

    @property
    def high(self) -> int:
        return (self.h + 2 * self.padding - self.k) // self.stride + 1

    @property
    def wide(self) -> int:
        return (self.w + 2 * self.padding - self.k) // self.stride + 1

    @property
    def rows(self) -> int:
        return self.high // self.pool

    @property
    def columns(self) -> int:
        return self.wide // self.pool

    @property
    def weights(self) -> int:
        return self.o * self.c * self.k**2

    @property
    def products(self) -> int:
        """Number of multiply-adds of a sample forward."""
        return self.weights * self.high * self.wide


def stages(subgraph: Subgraph) -> tuple[ConvStage, ...] | None:
    """Stages of a segment's nodes; None if they are not the gathering and such stages."""
    if not subgraph.gathers:
        return None
    found: list[tuple[ConvStage, list[Layer]]] = []
    for node, shape in zip(subgraph.nodes[1:], subgraph.shapes[1:], strict=True):
        if isinstance(node, Conv2d):
            c, h, w = shape
            window = node.kernel_size, node.stride, node.padding
            found.append((ConvStage(c, h, w, node.out_channels, *window, node.bias), []))
        elif found and isinstance(node, Layer) and isinstance(node, (MaxPool2d, *FUNCTIONS)):
            found[-1][1].append(node)
        else:
            return None
    finished = [_finished(*each) for each in found]
    known = [stage for stage in finished if stage is not None]
    return tuple(known) if 0 < len(known) == len(finished) <= MOST and _is_supported(known) else None


def _finished(stage: ConvStage, after: list[Layer]) -> ConvStage | None:
    """ConvStage with the layers after its convolution; None if they are more than one activation and one pool."""
    kinds = [type(layer) for layer in after]
    pools = [layer for layer in after if isinstance(layer, MaxPool2d)]
    functions = [layer for layer in after if isinstance(layer, (ReLU, *ACTIVATIONS))]
    if len(pools) > 1 or len(functions) > 1:
        return None
    number, slope = function(tuple(after))
    if slope < 0:  # the output does not have the input's sign
        return None
    pool = pools[0].kernel_size if pools else 1
    changed = {"pool": pool, "function": number, "slope": float(slope), "is_late": kinds[:1] == [MaxPool2d]}
    return ConvStage(**{**vars(stage), **changed})


def _is_supported(found: list[ConvStage]) -> bool:
    """True if windows are small, and each input gradient has a border of zeros or none."""
    return all(stage.k <= SIDE and stage.pool <= SIDE for stage in found) and all(
        stage.padding < stage.k for stage in found[1:]
    )
