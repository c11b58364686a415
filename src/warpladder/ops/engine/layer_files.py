"""Files that implement a layer, in the folder of its class; for the layers of nets/, in the folder of ops/ named after
the layer or its `folder`.

`reference.py`: functions `forward(layer, x, w, b)`, and `backward(layer, x, w, dy)`, which returns (dx,) or (dx, dw,
db), in float64; `margin(layer, x)` if the layer's gradient jumps. `array.py` and `loops.py`: an `Op`, named `OP`.
`cuda.py`: a `Segment`, named `OP`. `jax.py`: `forward(layer, x)`. A rung refuses a layer without its file. Tables name
the files of the layers of nets/, except reference.py.
"""

import sys
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from ... import nets
from ...errors import RungError
from ...files.python import home
from ...nets.layers import OWN

OPS = __name__.rpartition(".engine.")[0]
#: Layers that the tables and the compiler of the native rung list; their files are in ops/.
LISTED: tuple[type[nets.Layer], ...] = (
    nets.Linear,
    nets.Conv2d,
    nets.ReLU,
    *nets.ACTIVATIONS,
    nets.BatchNorm1d,
    nets.BatchNorm2d,
    nets.Dropout,
    nets.MaxPool2d,
    nets.AvgPool2d,
    nets.AdaptiveAvgPool2d,
    nets.Upsample2d,
    nets.Flatten,
    *nets.RESIDUAL_PARTS,
)


def lacks(kind: type[nets.Layer], file: str) -> str | None:
    """Reason why a file such as "array.py" is missing next to a layer's class; None if it exists."""
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


@lru_cache(maxsize=256)  # a proof takes thousands of them; an error is not stored
def form(kind: type[nets.Layer], file: str) -> ModuleType:
    """Module of a file next to a layer's class. Raises `RungError` if there is no such file."""
    if reason := lacks(kind, file):
        raise RungError(reason)
    return import_module(f".{file.removesuffix('.py')}", _package(kind))


def missing(net: nets.Net, file: str) -> str | None:
    """Reason why the first layer that is in no table lacks a file of this name; None if no layer lacks it."""
    return next((reason for kind in others(net) if (reason := lacks(kind, file))), None)


def others(net: nets.Net) -> list[type[nets.Layer]]:
    """Classes of a net's layers that are in no table."""
    return [type(layer) for layer in net.layers if type(layer) not in LISTED]


def _package(kind: type[nets.Layer]) -> str:
    """Package with the files of a layer's class: for a class in nets/, its folder in ops/."""
    return f"{OPS}.{kind.folder or kind.__name__.lower()}" if kind.__module__.startswith(OWN) else kind.__module__
