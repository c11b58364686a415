"""Options of rungs, which choose how a rung computes; `TrainConfig` chooses what is trained.

A rung's options are a frozen dataclass. `option` creates each field, with its possible values and a line of help. A
field that is None is the rung's default.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ..config import TrainConfig
from ..errors import RungError
from ..errors.arguments import shown
from ..machine.precision import ALSO
from ..nets import Net


class Kind(ABC):
    """Kind of option: its possible values. `wanted` describes them in words, `form` in a command's help."""

    wanted: str
    form: str

    @abstractmethod
    def holds(self, value: object) -> bool:
        """True if a value is possible."""

    def read(self, text: str) -> object:
        """Value of a text; the text itself if it is no value."""
        return text

    def write(self, value: Any) -> str:
        """Text of a value, which `read` takes back."""
        return str(value)

    def meant(self, value: Any) -> Any:
        """Canonical value for another spelling, as a tuple for a list of words; the value itself without one."""
        return value


@dataclass(frozen=True)
class Whole(Kind):
    """Kind of option with an integer from `least`, up to `most` if it is set, a multiple of `step`."""

    least: int
    most: int | None = None
    step: int = 1

    @property
    def wanted(self) -> str:  # type: ignore[override]
        what = "a whole number" if self.step == 1 else f"a multiple of {self.step}"
        return f"{what} of at least {self.least}" if self.most is None else f"{what} from {self.least} to {self.most}"

    @property
    def form(self) -> str:  # type: ignore[override]
        return "N" if self.most is None else f"{self.least}..{self.most}"

    def holds(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int):
            return False
        return value >= self.least and value % self.step == 0 and (self.most is None or value <= self.most)

    def read(self, text: str) -> object:
        return int(text) if text.strip().lstrip("-").isdecimal() else text


@dataclass(frozen=True)
class OneOf(Kind):
    """Kind of option with one of the words `choices`."""

    choices: tuple[str, ...]

    @property
    def wanted(self) -> str:  # type: ignore[override]
        return " or ".join(map(repr, self.choices))

    @property
    def form(self) -> str:  # type: ignore[override]
        return "|".join(self.choices)

    def holds(self, value: object) -> bool:
        return isinstance(value, str) and value in self.choices


@dataclass(frozen=True)
class PrecisionOf(OneOf):
    """Kind of option with one of the precisions `choices`; aliases such as "bfloat16" are accepted."""

    def meant(self, value: Any) -> Any:
        return ALSO.get(value, value) if isinstance(value, str) else value


@dataclass(frozen=True)
class SomeOf(Kind):
    """Kind of option with some of the words `choices`, each at most once: a tuple, in text joined by +."""

    choices: tuple[str, ...]

    @property
    def wanted(self) -> str:  # type: ignore[override]
        return f"some of {', '.join(self.choices)}, with + between them"

    @property
    def form(self) -> str:  # type: ignore[override]
        return "+".join(self.choices)

    def holds(self, value: object) -> bool:
        return isinstance(value, tuple) and 0 < len(value) == len(set(value)) and set(value) <= set(self.choices)

    def read(self, text: str) -> object:
        return tuple(text.split("+"))

    def write(self, value: Any) -> str:
        return "+".join(value)

    def meant(self, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(value.split("+"))
        return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True)
class YesNo(Kind):
    """Kind of option that is True or False, in text yes or no."""

    wanted = "yes or no, True or False"
    form = "yes|no"

    def holds(self, value: object) -> bool:
        return isinstance(value, bool)

    def read(self, text: str) -> object:
        return {"yes": True, "no": False}.get(text, text)

    def write(self, value: Any) -> str:
        return "yes" if value else "no"


def option(kind: Kind, help: str) -> Any:
    """Field of a class derived from `Options`: an option, by default None, the rung's default.

    Parameters
    ----------
    kind : Whole, OneOf, PrecisionOf, SomeOf or YesNo
        Possible values.
    help : str
        A line for the user.
    """
    return field(default=None, metadata={"kind": kind, "help": help})


@dataclass(frozen=True)
class Options:
    """Options of a rung: the base of frozen dataclasses with a field for each option. The base itself has none.

    Its text is the list of options that are set, as after a rung's name: "block_size=512:feed=sync".

    Raises
    ------
    RungError
        An option has an impossible value.
    """

    def __post_init__(self) -> None:
        for name, kind, _ in self.known():
            value = kind.meant(getattr(self, name))
            object.__setattr__(self, name, value)
            if value is not None and not kind.holds(value):
                given = kind.write(value) if isinstance(value, tuple) else value
                raise RungError(f"{name} wants {kind.wanted}, got {shown(given)}")

    @classmethod
    def known(cls) -> Iterator[tuple[str, Kind, str]]:
        """Name, kind and help of each option that the class has."""
        for each in fields(cls):
            yield each.name, each.metadata["kind"], each.metadata["help"]

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Names of the options that the class has."""
        return tuple(name for name, _, _ in cls.known())

    def chosen(self) -> dict[str, Any]:
        """Values of the options that are set, by name."""
        return {name: getattr(self, name) for name in self.names() if getattr(self, name) is not None}

    def but(self, **changes: Any) -> Options:
        """Copy with these options set, or reset by None."""
        return replace(self, **changes)

    def __str__(self) -> str:
        kinds = {name: kind for name, kind, _ in self.known()}
        return ":".join(f"{name}={kinds[name].write(value)}" for name, value in self.chosen().items())


#: Where kernels run besides the GPU, and how samples reach it.
DEVICES = ("emulated",)
FEEDS = ("sync", "streamed", "resident")

DEVICE = OneOf(DEVICES), "where the kernels run: the GPU if not given, or the CPU, slowly"
FEED = OneOf(FEEDS), "how samples reach the GPU: copied and waited for, copied while it computes, or stored there"
BLOCK_SIZE = Whole(32, 1024, 32), "threads in a block of kernels that leave the choice"
THREADS = Whole(1), "CPU threads; every core that this process may use if not given"
FP64 = PrecisionOf(("fp32", "fp64")), "of all numbers: parameters, activations, gradients, slots; fp32 if not given"
SUMS = PrecisionOf(("fp32", "fp64")), "in which the gradients of a batch's samples are added; as all else if not given"


@dataclass(frozen=True)
class ThreadOptions(Options):
    """Options of a rung that computes on several cores of a CPU.

    threads : CPU threads, 1 to the number of cores; None takes every core that this process may use.
    """

    threads: int | None = option(*THREADS)


def too_few_cores(net: Net, config: TrainConfig, options: Options = Options()) -> str | None:
    """Reason if more threads are requested than there are cores; None otherwise."""
    from ..machine.facts import cores  # which loads NumPy

    threads = options.chosen().get("threads", 1)
    if threads <= cores():
        return None
    has = f"{cores()} core{'s' * (cores() != 1)}"
    return f"threads is {threads}, and this process may use {has}: give no more, or none for all of them"


@dataclass(frozen=True)
class KernelOptions(Options):
    """Options of a rung that trains layer by layer with CUDA kernels.

    device : "emulated" runs the kernels on the CPU; None is the GPU.
    feed : transfer of samples to the GPU: "sync", copied with a wait; "streamed", copied while it computes; "resident",
    stored on the GPU. None is the rung's default.
    block_size : threads in a block of kernels that allow a choice, a multiple of 32 from 32 to 1,024; None is 256.
    """

    device: str | None = option(*DEVICE)
    feed: str | None = option(*FEED)
    block_size: int | None = option(*BLOCK_SIZE)


@dataclass(frozen=True)
class GraphOptions(Options):
    """Options of a rung that replays CUDA graphs of steps, whose samples are on the device.

    device : "emulated" runs the kernels on the CPU; None is the GPU.
    block_size : threads in a block of kernels that allow a choice, a multiple of 32 from 32 to 1,024; None is 256.
    """

    device: str | None = option(*DEVICE)
    block_size: int | None = option(*BLOCK_SIZE)
