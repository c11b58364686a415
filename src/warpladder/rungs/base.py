"""`Rung`: a named way to train, and what it says about itself. Peers use the same type."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ..config import TrainConfig
from ..nets import Net
from ..trainers.base import State, Trainer


def trains_everything(net: Net, config: TrainConfig) -> str | None:
    """For rungs that train any net: there is never a reason against it."""
    return None


#: What a rung that trains by kernels lets its user choose.
KERNEL_OPTIONS = ("device", "feed", "block_size")

#: Settings that only some rungs have.
OPTIONS = (*KERNEL_OPTIONS, "library")


@dataclass(frozen=True)
class Rung:
    """A rung of the ladder, or a peer beside it.

    name : what the command line calls it.
    title : a few words for a table's head.
    idea : the one idea, a sentence.
    build : makes a trainer from (net, config, initial state).
    unsupported : a reason why it cannot train this net with this config, or None. Also says what is not installed.
    deviations : how a peer's training differs from ours where it cannot follow; empty for rungs.
    precision : what it computes products in, a name of `tolerance.PRECISIONS`; it is proven with that format's bounds.
    transforms : whether a library may compute its convolutions in Winograd's or Fourier's form, whose sums of whole numbers round too.
    proof_flops : FLOPs of a step at most on which a climb proves it: a slow rung, whose code takes a batch sample by sample, is proven on cut batches.
    options : settings of `TrainConfig` that only some rungs have and that this one follows, among OPTIONS.
    path : the file that a rung from outside was loaded from, as its user named it; None for those of warpladder.
    """

    name: str
    title: str
    idea: str
    build: Callable[[Net, TrainConfig, State], Trainer]
    unsupported: Callable[[Net, TrainConfig], str | None] = trains_everything
    deviations: tuple[str, ...] = ()
    precision: str = "float32"
    transforms: bool = False
    options: tuple[str, ...] = ()
    proof_flops: float = math.inf
    path: str | None = None
