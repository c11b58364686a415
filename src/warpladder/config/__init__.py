"""`TrainConfig`: every setting of a training run, checked at creation.

It imports nets, optimizers and errors; all training code imports it. Begin with `TrainConfig` below.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ..errors import ConfigError
from ..errors.arguments import ByName, kind_of, listed, meant, shown
from ..nets import Shape
from ..optimizers import SGD, Adam, Optimizer
from ..optimizers.schedules import Constant, Cosine, Schedule

if TYPE_CHECKING:
    import numpy as np

PLAIN, CONSTANT = SGD(), Constant()

#: Settings of SGD that `TrainConfig` takes directly if no optimizer is given.
SHORT = ("learning_rate", "momentum", "nesterov", "weight_decay", "betas", "eps")

#: Rules by which a seed draws initial weights, as in `nets.params.initial`.
INITIAL = ("he", "pytorch", "glorot")


@dataclass(frozen=True, init=False)
class TrainConfig(metaclass=ByName):
    """Settings of a training run, which determine its result. A rung's options determine how it is computed.

    Parameters
    ----------
    epochs : int
        Passes over the training set.
    batch_size : int or None
        None trains on the full training set at each step.
    optimizer : Optimizer
        `SGD(0.01)` if not given.
    schedule : Schedule
        Learning rate of each step; `Constant()` if not given.
    clip_value : float or None
        Clip every gradient element to [-clip_value, clip_value] before the optimizer's step (S4 uses 5).
    clip_norm : float or None
        Scale all gradients of a step by clip_norm / (norm + 1e-6) if this is below 1, norm being their common L2 norm,
        as PyTorch's `clip_grad_norm_` does. Excludes `clip_value`.
    seed : int
        Seed of the initial weights and of the order of the samples.
    shuffle : bool
        True takes a new seeded order every epoch, False the stored order.
    drop_last : bool
        True leaves out a partial last batch; by default it is trained with its own mean.
    log_every : int or None
        Number of steps after which the host reads their losses and waits for them: `train` shows them and checks that
        they are finite, a climb times it. They are read at the end of every epoch too; of epochs with at most half as
        many steps, several are read together. None reads them once an epoch, or less often if epochs are short.
        `train` reads them at least once a second.
    loss_every : int
        Training loss and accuracy are computed in every `loss_every`-th epoch, counted from 1 also in a resumed run. In
        the other epochs only gradients are computed; the weights are the same.
    early_stopping : int or None
        Number of consecutive epochs without a lower validation loss after which `train` ends the run. Its final weights
        are those of the epoch with the lowest validation loss, even if all epochs were trained. The data need a
        validation part.
    initial : str or None
        Rule by which the seed draws initial weights: "he", "pytorch" or "glorot", as `nets.params.initial` has them.
        None takes "pytorch" where samples are rows of features, and "he" where they are images. A run whose weights are
        given draws none.
    learning_rate, momentum, nesterov, weight_decay, betas, eps : optional
        Settings of SGD if no optimizer is given: `TrainConfig(learning_rate=0.1)` trains with `SGD(0.1)`.
    """

    by_place: ClassVar[None] = None
    short: ClassVar[tuple[str, ...]] = SHORT
    epochs: int = 5
    batch_size: int | None = 64
    optimizer: Optimizer = PLAIN
    schedule: Schedule = CONSTANT
    clip_value: float | None = None
    seed: int = 0
    shuffle: bool = True
    drop_last: bool = False
    log_every: int | None = None
    loss_every: int = 1
    early_stopping: int | None = None
    clip_norm: float | None = None
    initial: str | None = None

    def __init__(
        self,
        epochs: int = 5,
        batch_size: int | None = 64,
        optimizer: Optimizer = PLAIN,
        schedule: Schedule = CONSTANT,
        clip_value: float | None = None,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = False,
        log_every: int | None = None,
        loss_every: int = 1,
        early_stopping: int | None = None,
        clip_norm: float | None = None,
        initial: str | None = None,
        *,
        learning_rate: float | None = None,
        momentum: float | None = None,
        nesterov: bool | None = None,
        weight_decay: float | None = None,
        betas: tuple[float, float] | None = None,
        eps: float | None = None,
    ) -> None:
        short = (learning_rate, momentum, nesterov, weight_decay, betas, eps)
        changes = {name: value for name, value in zip(SHORT, short, strict=True) if value is not None}
        if changes and isinstance(optimizer, Optimizer) and optimizer is not PLAIN:
            check_names(type(optimizer), changes)
            form = f"wl.{type(optimizer).__name__}({', '.join(f'{name}={value!r}' for name, value in changes.items())})"
            raise ConfigError(
                f"{listed(changes)} stands next to an optimizer that has its own: write it there, as optimizer={form}"
            )
        values = (
            epochs, batch_size, changed(optimizer, changes), schedule, clip_value, seed, shuffle, drop_last, log_every,
            loss_every, early_stopping, clip_norm, initial,
        )  # fmt: skip
        for field, value in zip(fields(self), values, strict=True):
            object.__setattr__(self, field.name, value)
        self._check()

    def _check(self) -> None:
        least_of = {"epochs": 0, "batch_size": 1, "seed": 0, "log_every": 1, "loss_every": 1, "early_stopping": 1}
        for name, least in least_of.items():
            value = getattr(self, name)
            if value is None and name in ("batch_size", "log_every", "early_stopping"):
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ConfigError(f"{name} wants a whole number of at least {least}, got {value!r}")
        self._check_clipping()
        for name, kind, form in (
            ("optimizer", Optimizer, "wl.Adam(1e-3)"),
            ("schedule", Schedule, "wl.Cosine(warmup=1)"),
        ):
            value = getattr(self, name)
            if not isinstance(value, kind) or type(value) is kind:
                raise ConfigError(
                    f"{name} wants {'an' if kind is Optimizer else 'a'} {kind.__name__}, as {form}, got "
                    f"{kind_of(value)}"
                )
        for name in ("shuffle", "drop_last"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise ConfigError(f"{name} wants True or False, got {value!r}")
        if self.initial is not None and self.initial not in INITIAL:
            raise ConfigError(f"initial wants {', '.join(INITIAL[:-1])} or {INITIAL[-1]}, got {shown(self.initial)}")
        for name, bits in (("seed", 32), ("epochs", 31), ("loss_every", 31)):
            if getattr(self, name) >= 2**bits:
                raise ConfigError(f"{name} must be below 2^{bits}, got {getattr(self, name)}")

    def _check_clipping(self) -> None:
        for name in ("clip_value", "clip_norm"):
            value = getattr(self, name)
            if value is None:
                continue
            if (
                isinstance(value, bool)
                or not isinstance(value, (int, float))
                or not (math.isfinite(value) and value >= 0)
            ):
                raise ConfigError(f"{name} wants a finite number of at least 0, got {value!r}")
            if value == 0:
                raise ConfigError(f"{name} 0 would stop every update: leave it out for no clipping")
        if self.clip_value is not None and self.clip_norm is not None:
            raise ConfigError("clip_value limits each element and clip_norm all gradients together: give one of them")

    @property
    def learning_rate(self) -> float:
        """Learning rate of the optimizer, which the schedule varies."""
        return self.optimizer.learning_rate

    @property
    def steady(self) -> bool:
        """True if all steps use the same learning rate and the same other numbers of the optimizer."""
        return self.optimizer.steady and self.schedule.steady

    def rates(self, first: int, last: int, samples: int) -> np.ndarray:
        """Learning rates (last - first,) float64 of updates first..last-1, counted over all epochs.

        samples : number of training samples.
        """
        return self.schedule.rates(self.learning_rate, first, last, self.steps(samples), self.epochs)

    def numbers(self, first: int, last: int, samples: int) -> np.ndarray:
        """Numbers (last - first, NUMBERS) float64 of updates first..last-1, in the columns of `Optimizer.numbers`."""
        return self.optimizer.numbers(self.rates(first, last, samples), first)

    def batch(self, samples: int) -> int:
        """Number of samples in a full batch of a training set with `samples` samples."""
        return samples if self.batch_size is None else min(self.batch_size, samples)

    def steps(self, samples: int) -> int:
        """Number of steps in one epoch: ceil(samples / batch), or floor with `drop_last`."""
        batch = self.batch(samples)
        return samples // batch if self.drop_last else -(-samples // batch)

    def has_loss(self, epoch: int) -> bool:
        """True if loss and accuracy are computed in an epoch, counted from 0 as in `Order.epoch`."""
        return (epoch + 1) % self.loss_every == 0

    def but(self, **changes: object) -> TrainConfig:
        """Copy of the settings with these changed; settings of the optimizer may be given too."""
        known = [field.name for field in fields(self)]
        for name in changes:
            if name not in known and name not in SHORT:
                names = sorted([*known, *SHORT])
                near = meant(name, names, before="", after=" ")
                raise ConfigError(f"there is no setting {name!r}: {near}there are {', '.join(names)}")
        for name, other in (("clip_value", "clip_norm"), ("clip_norm", "clip_value")):  # each replaces the other
            if changes.get(name) is not None:
                changes.setdefault(other, None)
        own = {name: changes.pop(name) for name in SHORT if name in changes}
        if own and "optimizer" not in changes:
            changes["optimizer"] = changed(self.optimizer, own)
        else:
            changes |= own
        return TrainConfig(**{name: getattr(self, name) for name in known} | changes)

    def as_dict(self) -> dict[str, Any]:
        """Settings as plain values, for JSON; optimizer and schedule are dictionaries with their names. early_stopping,
        clip_norm and initial are left out if None.
        """
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("early_stopping", "clip_norm", "initial"):
            if plain[name] is None:
                del plain[name]
        return plain | {
            name: {"name": type(plain[name]).__name__} | asdict(plain[name]) for name in ("optimizer", "schedule")
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainConfig:
        """Settings from the values of `as_dict`.

        Raises
        ------
        ConfigError
            A setting, optimizer or schedule is unknown, or a value is impossible.
        """
        out = dict(values)
        kinds: tuple[tuple[str, Any], ...] = (("optimizer", Optimizer), ("schedule", Schedule))
        for name, kind in kinds:
            given = out.get(name)
            if isinstance(given, Mapping):
                out[name] = named(
                    kind, str(given.get("name")), {key: value for key, value in given.items() if key != "name"}
                )
        known = [*(field.name for field in fields(cls)), *SHORT]
        if unknown := [name for name in out if name not in known]:
            raise ConfigError(f"there is no setting {shown(unknown[0])}{meant(unknown[0], known)}")
        return cls(**out)


def changed(optimizer: Optimizer, changes: Mapping[str, object]) -> Optimizer:
    """Optimizer with other settings. Raises `ConfigError` if it has no such setting."""
    if not changes or not isinstance(optimizer, Optimizer):
        return optimizer
    check_names(type(optimizer), changes)
    return replace(optimizer, **changes)  # type: ignore[arg-type]


Kind = TypeVar("Kind", Optimizer, Schedule)


def named(kind: type[Kind], name: str, settings: Mapping[str, Any]) -> Kind:
    """Optimizer or schedule of a class name in any case. Raises `ConfigError` for an unknown name, setting or value."""
    found = kind.known.get(name.lower())
    what = kind.__name__.lower()
    if found is None:
        raise ConfigError(f"there is no {what} {shown(name)}; there are {', '.join(sorted(kind.known))}")
    check_names(found, settings)
    return found(**settings)


def check_names(kind: type[Optimizer] | type[Schedule], names: Iterable[str]) -> None:
    """Raise `ConfigError` if an optimizer or a schedule has no setting of one of these names."""
    known = [field.name for field in fields(kind)]
    for name in names:
        if name not in known:
            others = sorted(each.__name__ for each in kind.known.values() if name in [one.name for one in fields(each)])
            theirs = f"; {name} is a setting of {' and '.join(others)}" if others else ""
            raise ConfigError(
                f"{kind.__name__} has no {name if name.isidentifier() else repr(name)}; it has {', '.join(known)}"
                f"{theirs}"
            )


#: Settings of each report for its net: the defaults of `train` and `climb`.
RECIPES = {
    "softmax": TrainConfig(epochs=20, batch_size=128, learning_rate=0.1),
    "mlp": TrainConfig(epochs=10, batch_size=64, learning_rate=0.01),
    "mlp10": TrainConfig(epochs=500, batch_size=None, learning_rate=0.1),
    "cnn": TrainConfig(epochs=5, batch_size=64, learning_rate=0.01),
    "autoencoder": TrainConfig(epochs=20, batch_size=1, learning_rate=0.001, clip_value=5.0),
}


#: Settings for the digits: with the reports' settings, for 60,000 images, their 1,437 samples would be half trained.
#: Other people wrote the test samples, which explains the remaining error.
DIGITS = {
    "softmax": TrainConfig(epochs=40, batch_size=64, optimizer=SGD(0.1, momentum=0.9)),
    "mlp": TrainConfig(epochs=20, batch_size=32, optimizer=SGD(0.2, momentum=0.9)),
    "mlp10": TrainConfig(epochs=60, batch_size=32, optimizer=SGD(0.1)),
    "cnn": TrainConfig(epochs=20, batch_size=16, optimizer=SGD(0.05, momentum=0.9), schedule=Cosine(warmup=1)),
    "autoencoder": TrainConfig(epochs=10, batch_size=16, optimizer=Adam(1e-3), clip_value=5.0),
}


#: Settings of every net where samples are rows of features, as a table's, or images in a user's files.
FEATURES = TrainConfig(epochs=20, batch_size=32, optimizer=Adam(1e-3))

#: Data sets of images with the reports' settings; "" and "arrays" are arrays in memory.
REPORTED = ("", "arrays", "mnist", "fashion", "cifar10", "csv")


def recipe(net: str, data: str = "", in_shape: Shape = ()) -> TrainConfig:
    """Settings for the net of this name: for rows of features and for images in a user's files `FEATURES`, on the
    digits those made for them, else those of its report; for any other net `TrainConfig()`.

    data : name of the data set, or a file or folder. in_shape : shape of one sample, (features,) or that of an image.
    """
    if isinstance(data, str) and data == "digits" and len(in_shape) != 1:
        return DIGITS.get(net, TrainConfig())
    is_own = isinstance(data, str) and data not in REPORTED
    return FEATURES if is_own or len(in_shape) == 1 else RECIPES.get(net, TrainConfig())


def initial_for(in_shape: Shape) -> str:
    """Rule of initial weights that settings without one have: "pytorch" where samples are rows of features, else "he".

    The reports' results on images have He's weights, which fit the noise of a table too soon (docs/notes/tables.md).
    """
    return "pytorch" if len(in_shape) == 1 else "he"
