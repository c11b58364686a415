"""Operations that a user's kernel can compute, and the names of their arrays and numbers.

Names match without case and underscores. An array and a number may have the same name: in a convolution the array `w`
is the weight, and the number `w` the width.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from difflib import get_close_matches

import numpy as np

from ...errors import KernelError
from ...nets import ACTIVATIONS, AdaptiveAvgPool2d, AvgPool2d, Conv2d, Layer, Linear, MaxPool2d, ReLU, Upsample2d
from ...optimizers import Optimizer
from ..activation import scalar
from ..engine.base import Buffers

Number = int | float

_KINDS: tuple[type[Layer], ...] = (
    Linear, Conv2d, ReLU, *ACTIVATIONS, MaxPool2d, AvgPool2d, AdaptiveAvgPool2d, Upsample2d,
)  # fmt: skip
#: Layers whose kernels can be replaced, by name.
LAYERS = {kind.__name__.lower(): kind for kind in _KINDS}

#: The optimizer's step: its name as an operation.
UPDATE = "update"

#: Arrays that each pass writes.
PASSES = {"forward": ("y",), "backward": ("dx", "dw", "db")}

ARRAYS = {
    "x": "x input in inp",
    "w": "w weight weights filter filters",
    "b": "b bias biases",
    "y": "y output out",
    "dy": "dy gradoutput gradout grady gradienty outputgradient dout doutput gy",
    "dx": "dx gradinput gradin gradx gradientx inputgradient din dinput gx",
    "dw": "dw gradweight gradweights gradw weightgradient dweight dweights gw",
    "db": "db gradbias gradb biasgradient dbias gb",
}
_LINEAR = {
    "n": "n batch batchsize samples rows",
    "inputs": "inputs infeatures indim inputsize nin",
    "outputs": "outputs outfeatures outdim outputsize nout",
}
_IMAGES = {
    "n": "n batch batchsize samples",
    "c": "c channels inchannels cin",
    "h": "h height inheight hin",
    "w": "w width inwidth win",
    "oh": "oh outheight hout",
    "ow": "ow outwidth wout",
    "k": "k kernel kernelsize ksize",
    "stride": "stride s",
}
_CONV = _IMAGES | {"o": "o f filters outchannels cout", "padding": "padding pad p"}
_ELEMENTS = {"count": "count n size numel length total", "slope": "slope negativeslope alpha"}
UPDATE_ARRAYS = {
    "w": "w weight weights p param params parameters",
    "g": "g grad grads gradient gradients dw",
    "first": "first v velocity momentumbuffer buffer buf m expavg",
    "second": "second expavgsq",
}
UPDATE_NUMBERS = {"count": "count n size numel length total", "limit": "limit clip clipvalue"}


def plain(name: str) -> str:
    """Name without case and underscores."""
    return name.replace("_", "").lower()


class Roles:
    """Names of the arrays and numbers of an operation's kernels, as the parameters of a kernel may spell them.

    arrays, numbers : names by canonical name, separated by blanks.
    """

    def __init__(self, op: str, arrays: Mapping[str, str], numbers: Mapping[str, str]) -> None:
        self.op = op
        self.arrays = {word: name for name, words in arrays.items() for word in words.split()}
        self.numbers = {word: name for name, words in numbers.items() for word in words.split()}

    def of(self, name: str, is_array: bool, where: str) -> str:
        """Canonical name of a parameter. Raises `KernelError` with the known names."""
        known = self.arrays if is_array else self.numbers
        if (found := known.get(plain(name))) is not None:
            return found
        near = get_close_matches(plain(name), known, 1)
        meant = f" (did you mean {known[near[0]]}?)" if near else ""
        there = ", ".join(dict.fromkeys(known.values()))
        raise KernelError(
            f"{where}: no {'array' if is_array else 'number'} of {self.op} is called {name!r}{meant}: it has {there}; "
            "rename it, or name what it takes: // launch: kernel<<<grid, block>>>(x, w, b, y, n, ...)"
        )


def roles(op: str, kind: type[Layer] | None, optimizer: Optimizer | None = None) -> Roles:
    """Roles of a layer's operation; with `kind` None, of the optimizer's update."""
    if kind is None:
        assert optimizer is not None
        return Roles(op, UPDATE_ARRAYS, UPDATE_NUMBERS | {name: plain(name) for name in columns(optimizer)})
    arrays = ARRAYS if kind in (Linear, Conv2d) else {name: ARRAYS[name] for name in ("x", "y", "dy", "dx")}
    if kind is Linear:
        return Roles(op, arrays, _LINEAR)
    if kind is Conv2d:
        return Roles(op, arrays, _CONV)
    if kind in (MaxPool2d, AvgPool2d, AdaptiveAvgPool2d, Upsample2d):
        return Roles(op, arrays, _IMAGES | {"scale": "scale scalefactor"})
    return Roles(op, arrays, _ELEMENTS)


def values(layer: Layer, buffers: Buffers, n: int) -> dict[str, Number]:
    """Numbers by canonical name for a layer's kernels on n samples."""
    x, y = buffers.x.shape[1:], buffers.y.shape[1:]
    if isinstance(layer, Linear):
        return {"n": n, "inputs": x[0], "outputs": y[0]}
    if type(layer) in (ReLU, *ACTIVATIONS):
        return {"count": n * math.prod(x), "slope": scalar.slope(layer)}
    (c, h, w), (o, oh, ow) = x, y
    found: dict[str, Number] = {"n": n, "c": c, "h": h, "w": w, "o": o, "oh": oh, "ow": ow}
    if isinstance(layer, Conv2d):
        assert isinstance(layer.padding, int)
        return found | {"k": layer.kernel_size, "stride": layer.stride, "padding": layer.padding}
    if isinstance(layer, Upsample2d):
        return found | {"scale": layer.scale_factor}
    window = h if isinstance(layer, AdaptiveAvgPool2d) else layer.kernel_size  # type: ignore[attr-defined]
    return found | {"k": window, "stride": getattr(layer, "stride", None) or 1}


def columns(optimizer: Optimizer) -> tuple[str, ...]:
    """Names of the numbers of an optimizer's step, by column; () for an optimizer without names."""
    return COLUMNS.get(optimizer.name, ())


#: Columns of `Optimizer.numbers` by the optimizer's name.
COLUMNS: dict[str, tuple[str, ...]] = {
    "sgd": ("lr", "momentum", "nesterov", "weight_decay"),
    "adam": ("step_size", "beta1", "rest1", "beta2", "rest2", "correction", "eps", "weight_decay"),
    "adamw": ("step_size", "beta1", "rest1", "beta2", "rest2", "correction", "eps", "decay"),
}


def named(op: str) -> tuple[type[Layer] | str, tuple[str, ...]]:
    """Layer class or optimizer name, and the arrays that an operation writes. Raises `KernelError` if unknown."""
    layer, _, part = op.partition(".")
    if op == UPDATE or part == UPDATE:
        if op != UPDATE and layer not in COLUMNS:
            raise KernelError(f"there is no optimizer {layer!r} whose update can be replaced: {', '.join(COLUMNS)}")
        return ("" if op == UPDATE else layer), ("w",)
    if layer not in LAYERS:
        raise KernelError(f"there is no operation {op!r}: {operations(op)}")
    if part and part not in PASSES:
        raise KernelError(f"there is no operation {op!r}: {layer} has {layer}.forward and {layer}.backward")
    outputs = PASSES[part] if part else PASSES["forward"] + PASSES["backward"]
    has_weights = LAYERS[layer] in (Linear, Conv2d)
    return LAYERS[layer], tuple(name for name in outputs if has_weights or name in ("y", "dx"))


def operations(near: str = "") -> str:
    """Line that lists all operations, with the nearest to a name first."""
    close = get_close_matches(near.lower(), [f"{name}.{part}" for name in LAYERS for part in PASSES], 1)
    meant = f"did you mean {close[0]}? " if close else ""
    return f"{meant}there are {', '.join(LAYERS)}, each .forward or .backward, and update (sgd.update, adam.update)"


def number(value: Number, dtype: np.dtype) -> Number:
    """Number converted to a parameter's dtype: float or int."""
    return float(value) if dtype.kind == "f" else int(value)
