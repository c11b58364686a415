"""`TrainConfig`: every setting of a training run, checked when it is made."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import ClassVar

from .arguments import ByName
from .errors import ConfigError

#: Where kernels run besides the GPU, and how samples reach it.
DEVICES = ("emulated",)
FEEDS = ("sync", "streamed", "resident")

#: Operations that cuBLASLt and cuDNN can do for the library rung.
LIBRARY = ("linear", "conv2d", "cross_entropy")


@dataclass(frozen=True)
class TrainConfig(metaclass=ByName):
    """Settings of a training run.

    Parameters
    ----------
    epochs : int
    batch_size : int or None
        None trains on the full training set at each step.
    learning_rate, momentum, weight_decay : float
        As `torch.optim.SGD`: g is clipped, then weight_decay * w is added, then v = momentum * v + g.
    nesterov : bool
        Step along g + momentum * v instead of v.
    clip_value : float or None
        Clip every gradient element to [-clip_value, clip_value] (S4 uses 5).
    seed : int
        Of the initial weights and of the order of the samples.
    shuffle : bool
        A new seeded order every epoch; otherwise the stored order.
    drop_last : bool
        Leave out a partial last batch; by default it is trained with its own mean.
    log_every : int
        Steps between two looks at the loss (progress, not-finite check).
    threads : int or None
        CPU threads of rungs that use several; None takes every core this process may use.
    device : "emulated" or None
        Where the CUDA rungs run: None is the GPU, "emulated" runs their kernels on the CPU.
    feed : "sync", "streamed", "resident" or None
        How a CUDA rung's samples reach the GPU; None is the rung's own way.
    block_size : int or None
        Threads in a block of kernels that leave the choice, a multiple of 32 from 32 to 1024; None is the rung's own.
    library : str or None
        Which operations the library rung gives to cuBLASLt and cuDNN: some of "linear", "conv2d" and "cross_entropy", with commas
        between them. None is all.
    """

    by_place: ClassVar[None] = None
    epochs: int = 5
    batch_size: int | None = 64
    learning_rate: float = 0.01
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    clip_value: float | None = None
    seed: int = 0
    shuffle: bool = True
    drop_last: bool = False
    log_every: int = 100
    threads: int | None = None
    device: str | None = None
    feed: str | None = None
    block_size: int | None = None
    library: str | None = None

    def __post_init__(self) -> None:
        for name, least in (("epochs", 0), ("batch_size", 1), ("seed", 0), ("log_every", 1), ("threads", 1)):
            value = getattr(self, name)
            if value is None and name in ("batch_size", "threads"):
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ConfigError(f"{name} wants a whole number of at least {least}, got {value!r}")
        for name in ("learning_rate", "momentum", "weight_decay", "clip_value"):
            value = getattr(self, name)
            if value is None and name == "clip_value":
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not (math.isfinite(value) and value >= 0):
                raise ConfigError(f"{name} wants a finite number of at least 0, got {value!r}")
        if self.momentum >= 1:
            raise ConfigError(f"momentum wants a number below 1, got {self.momentum:g}: with it every step would be longer than the last")
        for name, choices in (("device", DEVICES), ("feed", FEEDS)):
            value = getattr(self, name)
            if value is not None and value not in choices:
                raise ConfigError(f"{name} wants {' or '.join(map(repr, choices))}, got {value!r}")
        size = self.block_size
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size not in range(32, 1025, 32)):
            raise ConfigError(f"block_size wants a multiple of 32 from 32 to 1024, got {size!r}")
        names = [] if self.library is None else str(self.library).split(",")
        if not set(names) <= set(LIBRARY) or len(set(names)) < len(names):
            raise ConfigError(f"library wants some of {', '.join(LIBRARY)}, with commas between them, got {self.library!r}")
        for name in ("nesterov", "shuffle", "drop_last"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise ConfigError(f"{name} wants True or False, got {value!r}")
        if self.clip_value == 0:
            raise ConfigError("clip_value 0 would stop every update: leave it out for no clipping")
        if self.nesterov and self.momentum == 0:
            raise ConfigError("nesterov needs a momentum above 0")
        if self.seed >= 2**32:
            raise ConfigError(f"seed must be below 2^32, got {self.seed}")

    def batch(self, samples: int) -> int:
        """Samples in a full batch of a training set of this many samples."""
        return samples if self.batch_size is None else min(self.batch_size, samples)

    def steps(self, samples: int) -> int:
        """Steps in one epoch: ceil(samples / batch), or floor with `drop_last`."""
        batch = self.batch(samples)
        return samples // batch if self.drop_last else -(-samples // batch)

    def but(self, **changes: object) -> TrainConfig:
        """A copy with these settings changed."""
        known = {f.name for f in fields(self)}
        for name in changes:
            if name not in known:
                raise ConfigError(f"there is no setting {name!r}; the settings are {', '.join(sorted(known))}")
        return replace(self, **changes)  # type: ignore[arg-type]


#: How each report trains its net: what `train` and `climb` use where nothing else is asked for.
RECIPES = {
    "softmax": TrainConfig(epochs=20, batch_size=128, learning_rate=0.1),
    "mlp": TrainConfig(epochs=10, batch_size=64, learning_rate=0.01),
    "mlp10": TrainConfig(epochs=500, batch_size=None, learning_rate=0.1),
    "cnn": TrainConfig(epochs=5, batch_size=64, learning_rate=0.01),
    "autoencoder": TrainConfig(epochs=20, batch_size=1, learning_rate=0.001, clip_value=5.0),
}
