"""warpladder trains small neural networks at the speed of the hardware, and shows where the speed comes from.

The public names below are imported when they are first used, so that `import warpladder` costs next to nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import data, ladder, nets
    from . import gpu as gpu
    from .bench import climb
    from .config import TrainConfig
    from .data.dataset import Dataset
    from .errors import WarpladderError
    from .netfile import load_net
    from .nets import Conv2d, CrossEntropyLoss, Flatten, Linear, MaxPool2d, MSELoss, Net, ReLU, Upsample2d
    from .optimizers import SGD, Adam, AdamW
    from .schedules import Constant, Cosine, StepDecay
    from .train import Model, Run, load, train
    from .verify import verify

    __version__: str

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Constant",
    "Conv2d",
    "Cosine",
    "CrossEntropyLoss",
    "Dataset",
    "Flatten",
    "Linear",
    "MSELoss",
    "MaxPool2d",
    "Model",
    "Net",
    "ReLU",
    "Run",
    "StepDecay",
    "TrainConfig",
    "Upsample2d",
    "WarpladderError",
    "__version__",
    "climb",
    "data",
    "ladder",
    "load",
    "load_net",
    "nets",
    "train",
    "verify",
]

#: Where each public name that is not a module lives.
_HOMES = {
    "Adam": "optimizers",
    "AdamW": "optimizers",
    "Constant": "schedules",
    "Conv2d": "nets",
    "Cosine": "schedules",
    "CrossEntropyLoss": "nets",
    "Dataset": "data.dataset",
    "Flatten": "nets",
    "Linear": "nets",
    "MSELoss": "nets",
    "MaxPool2d": "nets",
    "Model": "train",
    "Net": "nets",
    "ReLU": "nets",
    "Run": "train",
    "SGD": "optimizers",
    "StepDecay": "schedules",
    "TrainConfig": "config",
    "Upsample2d": "nets",
    "WarpladderError": "errors",
    "climb": "bench",
    "load": "train",
    "load_net": "netfile",
    "train": "train",
    "verify": "verify",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        value: object = version("warpladder")
    elif name in _HOMES:
        value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    elif name in ("data", "ladder", "nets"):
        value = import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """Keeps `warpladder.train` and `warpladder.verify` the functions once the modules of these names are imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in ("train", "verify") and isinstance(value, ModuleType):
            function = getattr(value, name)
            function.__dict__ = vars(value)  # the module's names are the function's too: import warpladder.verify.proof as proof
            value = function
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
