"""`Rung`: named implementation of training, and its description. Peers use the same class."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ..config import TrainConfig
from ..data.dataset import Dataset
from ..errors import RungError
from ..errors.arguments import shown
from ..machine.precision import ALSO
from ..nets import Net
from ..trainers.base import Trainer
from .options import Options


def trains_everything(net: Net, config: TrainConfig, options: Options = Options()) -> str | None:
    """Always None, the reason of a rung that can train any net."""
    return None


@dataclass(frozen=True)
class Rung:
    """Rung of the ladder, or a peer, with its options.

    name : name in commands, tables, results and checkpoints, with options: "naive", "naive:block_size=512".
    title : a few words for a table's head.
    idea : the one idea, a sentence.
    build : function from (net, config, initial state), and `options` if the rung has some, to a trainer.
    unsupported : function from (net, config), and `options`, to the reason why the rung cannot train on this machine,
    or None.
    deviations : differences of a peer's training from ours; empty for rungs.
    precision : precision of its products, a name of `precision.PRECISIONS`, with that precision's bounds and peak.
    sums : "fp64" if the gradients of a batch's samples are added in float64 and products are coarser; then bounds are
    tighter.
    unit : unit of a GPU for its products, a name of `peaks`, if it is not the default: cores for fp32, else tensor
    cores.
    transforms : True if a library may compute its convolutions by Winograd's or Fourier's algorithm, whose sums of
    integers round too.
    options : object of a class derived from `Options`, with the rung's choices.
    proof_flops : largest number of FLOPs of a step in a climb's proof: a slow rung, whose code computes a batch sample
    by sample, is proven on cut batches.
    weighs_samples : False if it cannot train a data set whose samples have weights.
    tunes : True if it chooses by a clock and stores its choice: no other program may run during its first steps.
    path : file of a rung from outside, as its user named it; None for the package's rungs.
    peer : True for another project's program, with which the ladder's rungs are compared.
    vary : function from the rung and options to the fields that they change, such as title, precision and deviations.
    plain : the rung without its options; None if none is set.
    """

    name: str
    title: str
    idea: str
    build: Callable[..., Trainer]
    unsupported: Callable[..., str | None] = trains_everything
    deviations: tuple[str, ...] = ()
    precision: str = "fp32"
    sums: str = "fp32"
    unit: str | None = None
    transforms: bool = False
    options: Options = Options()
    proof_flops: float = math.inf
    weighs_samples: bool = True
    tunes: bool = False
    path: str | None = None
    peer: bool = False
    vary: Callable[[Rung, Any], Mapping[str, Any]] | None = field(default=None, repr=False)
    plain: Rung | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in ("precision", "sums"):  # "bfloat16" is understood
            if isinstance(value := getattr(self, name), str):
                object.__setattr__(self, name, ALSO.get(value, value))

    def but(self, **options: Any) -> Rung:
        """Copy of the rung with these options; None resets one to its default. The name lists them.

        Raises
        ------
        RungError
            The rung has no such option, or an option's value is not possible: one line with the possible ones.
        """
        plain = self.base
        for name in options:
            if name not in self.options.names():
                has = f"it has {', '.join(self.options.names())}" if self.options.names() else "it has none"
                raise RungError(f"rung {plain.name!r} has no option {shown(name)}: {has}")
        try:
            chosen = self.options.but(**options)
        except RungError as error:
            raise RungError(f"rung {plain.name!r}: {error}") from None
        if not chosen.chosen():
            return plain
        made = replace(
            plain, name=f"{plain.name}:{chosen}", build=partial(plain.build, options=chosen),
            unsupported=partial(plain.unsupported, options=chosen), options=chosen, plain=plain,
        )  # fmt: skip
        return made if plain.vary is None else replace(made, **plain.vary(plain, chosen))

    @property
    def base(self) -> Rung:
        """Rung with no option set."""
        return self.plain or self

    def unfit(self, data: Dataset) -> str | None:
        """Reason why the rung cannot train a data set that other rungs can train; None if it can."""
        if self.weighs_samples or data.train_weight is None:
            return None
        return f"it has no weights of samples, and {data.name} has some"

    @property
    def threaded(self) -> bool:
        """True if the rung has an option for CPU threads, and does not train on a GPU."""
        return self.has("threads") and "device" not in self.options.chosen()

    def has(self, option: str) -> bool:
        """True if the rung has an option of this name."""
        return option in self.options.names()
