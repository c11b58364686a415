"""`TrainConfig`: every setting of a training run, checked when it is made."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import ClassVar

from .arguments import ByName
from .errors import ConfigError

#: Former settings of `TrainConfig` by name, and what the option of rungs is called that took the place of each.
MOVED = {"threads": "threads", "device": "device", "feed": "feed", "block_size": "block_size", "library": "operations"}


@dataclass(frozen=True)
class TrainConfig(metaclass=ByName):
    """The settings of a training run, which say what is trained; the options of a rung say how that is computed.

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

    def __post_init__(self) -> None:
        for name, least in (("epochs", 0), ("batch_size", 1), ("seed", 0), ("log_every", 1)):
            value = getattr(self, name)
            if value is None and name == "batch_size":
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

    @classmethod
    def moved(cls, name: str) -> str | None:
        """Where a former setting has gone, in a sentence; None for what never was one."""
        if name not in MOVED:
            return None
        values = {"threads": 2, "device": "emulated", "feed": "streamed", "block_size": 512, "library": "linear"}
        rung = {"threads": "native", "library": "library"}.get(name, "naive")
        option, value = MOVED[name], values[name]
        return f"{name} is an option of the rung, no setting: write '{rung}:{option}={value}' for the rung, or ladder.find({rung!r}, {option}={value!r})"

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
            if told := self.moved(name):
                raise ConfigError(told)
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
