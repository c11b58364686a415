"""`Rung`: a named implementation of training, and its description. Peers use the same type."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ..config import TrainConfig
from ..errors import RungError
from ..errors.arguments import shown
from ..machine.precision import ALSO
from ..nets import Net
from ..trainers.base import Trainer
from .options import Options


def trains_everything(net: Net, config: TrainConfig, options: Options = Options()) -> str | None:
    """No reason: for rungs that train any net."""
    return None


@dataclass(frozen=True)
class Rung:
    """Rung of the ladder, or a peer, with its options.

    name : in commands, tables, results and checkpoints, options included: "naive", "naive:block_size=512".
    title : a few words for a table's head.
    idea : the one idea, a sentence.
    build : makes a trainer from (net, config, initial state); and from `options`, if the rung has some.
    unsupported : reason why it cannot train this net with this config here, or None; with options as `build`.
    deviations : how a peer's training differs from ours where it cannot follow; empty for rungs.
    precision : of its products, a name of `precision.PRECISIONS`, whose bounds and peak hold for it.
    sums : "fp64" if the gradients of a batch's samples are added in it and products are coarser; then bounds are
    tighter.
    unit : unit of a GPU that multiplies, a name of `peaks`, if it is not the usual one: cores for fp32, else tensor
    cores.
    transforms : True if a library may compute its convolutions in Winograd's or Fourier's form, whose sums of whole
    numbers round too.
    options : how it computes, where it leaves a choice: an object of a class derived from `Options`.
    proof_flops : most FLOPs of a step on which a climb proves it: a slow rung, whose code takes a batch sample by
    sample, is proven on cut batches.
    tunes : True if it chooses by a clock and stores its choice: nothing else may run during its first steps.
    path : file of a rung from outside, as its user named it; None for those of warpladder.
    peer : True for a program of others, with which the ladder's rungs are compared.
    vary : takes the rung and options, and returns the fields that they change, such as title, precision and deviations.
    plain : the rung without its options; None if it has none set.
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
        """A copy of the rung with these options; None resets one to its default. The name lists them.

        Raises
        ------
        RungError
            The rung has no such option, or an option's value is not possible: one line with what is.
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
        """The rung with no option set."""
        return self.plain or self

    @property
    def threaded(self) -> bool:
        """True if the rung has a choice of CPU threads; a peer that trains on a GPU has none."""
        return self.has("threads") and "device" not in self.options.chosen()

    def has(self, option: str) -> bool:
        """True if the rung has an option of this name."""
        return option in self.options.names()
