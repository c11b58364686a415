"""The computation of layers that no table lists: files that stand next to the layer's class, as an optimizer's step
stands next to its class.

`reference.py` has the functions `forward(layer, x, w, b)` and `backward(layer, x, w, dy)`, which returns (dx,) or (dx,
dw, db), in float64, and for a layer whose gradient jumps `margin(layer, x)`. `array.py` and `loops.py` name their `Op`
as `OP`, `cuda.py` its `Segment`. `jax.py` has `forward(layer, x)`. A rung for which there is no file says so.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

from ...errors import RungError
from ...files.python import home
from ...nets import Conv2d, Flatten, Layer, Linear, MaxPool2d, Net, ReLU, Upsample2d

OPS = __name__.rpartition(".engine.")[0]

#: The layers that tables, the reference and the compiler of the native rung list by themselves.
LISTED = (Linear, Conv2d, ReLU, MaxPool2d, Upsample2d, Flatten)


def lacks(kind: type[Layer], file: str) -> str | None:
    """A line where no such file, as "array.py", stands next to a layer's class; None where one does."""
    module = sys.modules.get(_package(kind)) or import_module(_package(kind))
    if not hasattr(module, "__path__"):
        lower = kind.__name__.lower()
        return (
            f"layer {kind.__name__} stands alone in {home(kind)}: put it into {lower}/__init__.py, "
            f"and {file} next to it, which says how it is computed here"
        )
    folder = Path(module.__path__[0])
    if (folder / file).is_file():
        return None
    return f"layer {kind.__name__} has no {file} in its folder, {folder}, which says how it is computed here"


def form(kind: type[Layer], file: str) -> ModuleType:
    """A file that stands next to a layer's class, as a module.

    Raises
    ------
    RungError
        There is no such file.
    """
    if reason := lacks(kind, file):
        raise RungError(reason)
    return import_module(f".{file.removesuffix('.py')}", _package(kind))


def missing(net: Net, file: str) -> str | None:
    """The first reason why a net cannot be computed by such files: a layer that no table lists has none. None where
    there is no reason.
    """
    return next((reason for kind in others(net) if (reason := lacks(kind, file))), None)


def others(net: Net) -> list[type[Layer]]:
    """The kinds of layers in a net that no table lists: those from outside of warpladder are among them."""
    return [type(layer) for layer in net.layers if type(layer) not in LISTED]


def _package(kind: type[Layer]) -> str:
    """The package whose files compute a layer: of a class in nets/layers.py, the folder here that has its name."""
    return f"{OPS}.{kind.__name__.lower()}" if kind.__module__ == Layer.__module__ else kind.__module__
