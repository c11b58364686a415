"""warpladder trains small neural networks at the speed of the hardware, and shows where the speed comes from.

The public names below are imported when they are first used, so that `import warpladder` is fast.
"""

from __future__ import annotations

import sys
from difflib import get_close_matches
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import data, ladder, nets, sklearn
    from .config import TrainConfig
    from .data.dataset import Dataset
    from .device import gpu as gpu
    from .errors import StopTraining, WarpladderError
    from .nets import (
        GELU,
        AdaptiveAvgPool2d,
        AvgPool2d,
        BatchNorm1d,
        BatchNorm2d,
        BCEWithLogitsLoss,
        Conv2d,
        CrossEntropyLoss,
        Dropout,
        Flatten,
        HuberLoss,
        L1Loss,
        LeakyReLU,
        Linear,
        MaxPool2d,
        MSELoss,
        Net,
        ReLU,
        Residual,
        Sigmoid,
        SiLU,
        Tanh,
        Upsample2d,
    )
    from .nets.file import load_net
    from .optimizers import SGD, Adam, AdamW, RMSprop
    from .optimizers.schedules import Constant, Cosine, OneCycle, StepDecay
    from .proof import verify
    from .timing import climb
    from .train import Model, Run, load, train
    from .train.torch_modules import from_torch, to_torch

    __version__: str

__all__ = [
    "GELU",
    "SGD",
    "Adam",
    "AdamW",
    "AdaptiveAvgPool2d",
    "AvgPool2d",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "Constant",
    "Conv2d",
    "Cosine",
    "CrossEntropyLoss",
    "Dataset",
    "Dropout",
    "Flatten",
    "HuberLoss",
    "L1Loss",
    "LeakyReLU",
    "Linear",
    "MSELoss",
    "MaxPool2d",
    "Model",
    "Net",
    "OneCycle",
    "RMSprop",
    "ReLU",
    "Residual",
    "Run",
    "SiLU",
    "Sigmoid",
    "StepDecay",
    "StopTraining",
    "Tanh",
    "TrainConfig",
    "Upsample2d",
    "WarpladderError",
    "__version__",
    "climb",
    "data",
    "from_torch",
    "ladder",
    "load",
    "load_net",
    "nets",
    "sklearn",
    "to_torch",
    "train",
    "verify",
]

#: Module of each public name that is not a module.
_HOMES = {
    "Adam": "optimizers",
    "AdamW": "optimizers",
    "AdaptiveAvgPool2d": "nets",
    "AvgPool2d": "nets",
    "BatchNorm1d": "nets",
    "BatchNorm2d": "nets",
    "BCEWithLogitsLoss": "nets",
    "Constant": "optimizers.schedules",
    "Conv2d": "nets",
    "Cosine": "optimizers.schedules",
    "CrossEntropyLoss": "nets",
    "Dataset": "data.dataset",
    "Dropout": "nets",
    "Flatten": "nets",
    "GELU": "nets",
    "HuberLoss": "nets",
    "L1Loss": "nets",
    "LeakyReLU": "nets",
    "Linear": "nets",
    "MSELoss": "nets",
    "MaxPool2d": "nets",
    "Model": "train",
    "Net": "nets",
    "OneCycle": "optimizers.schedules",
    "RMSprop": "optimizers",
    "ReLU": "nets",
    "Residual": "nets",
    "Run": "train",
    "SGD": "optimizers",
    "SiLU": "nets",
    "Sigmoid": "nets",
    "StepDecay": "optimizers.schedules",
    "StopTraining": "errors",
    "Tanh": "nets",
    "TrainConfig": "config",
    "Upsample2d": "nets",
    "WarpladderError": "errors",
    "climb": "timing",
    "from_torch": "train.torch_modules",
    "load": "train",
    "load_net": "nets.file",
    "to_torch": "train.torch_modules",
    "train": "train",
    "verify": "proof",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        value: object = version("warpladder")
    elif name in _HOMES:
        value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    elif name in ("data", "ladder", "nets", "sklearn"):
        value = import_module(f".{name}", __name__)
    else:
        raise AttributeError(_unknown(name), name=name)
    globals()[name] = value
    return value


def _unknown(name: str) -> str:
    """Sentence on an unknown name, with the known ones."""
    near = get_close_matches(name, __all__, 2)
    meant = f": did you mean {' or '.join(near)}?" if near else ""
    return f"warpladder has no {name}{meant}; there are {', '.join(each for each in __all__ if each[0] != '_')}"


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """Module class that keeps `warpladder.train` a function after the module of this name is imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if name == "train" and isinstance(value, ModuleType):
            function = getattr(value, name)
            function.__dict__ = vars(
                value
            )  # the module's names are the function's too: import warpladder.train.loop as loop
            value = function
        super().__setattr__(name, value)

    def __reduce__(self) -> tuple[object, tuple[str]]:
        """Pickle the module by its name, like any module: cloudpickle does so only for plain modules."""
        return import_module, (self.__name__,)


sys.modules[__name__].__class__ = _Package
